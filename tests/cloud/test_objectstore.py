"""Blobs on object stores: the contract tests on two emulators, and tests of object stores' own rules."""

from __future__ import annotations

import json
from base64 import b64decode

import obstore
import pytest
import zstandard

from stratalog.backends import objectstore
from stratalog.backends.aws_access import SessionAccess
from stratalog.backends.memory import MemoryIndex, MemoryQueue
from stratalog.backends.objectstore import ObjectBlobs, open_object_blobs
from stratalog.backends.s3_versions import FREED, RECOVERY_DAYS, S3Versions, create_bucket
from stratalog.clock import Clock, SystemClock
from stratalog.codec import compress, encode, sha256
from stratalog.documents import verify
from stratalog.errors import Corrupt, Invalid, NotFound, Unavailable, Unsupported
from stratalog.limits import BODY_PART_BYTES, GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import Environment, LogSettings
from stratalog.maintenance.collection import collect_family
from stratalog.ports.blobs import Blobs, BlobStat
from stratalog.store import Store
from stratalog.testing.blobs_contract import BlobsContract, Change
from stratalog.testing.clock import ManualClock
from stratalog.testing.emulators import Emulator
from tests.cloud.seaweed import PLAIN, VERSIONED, blobs_in, client, session
from tests.threads import until

BODY = b"some bytes" * 100
VALUE = {"title": "plan", "numbers": [*range(1000)]}
KEY = f"organisation/document/{sha256(BODY).hex()}"
PUT_MS_MAX = 600_000
"""Far more than a put takes, and less than the difference between two time zones."""


def alter_object(blobs: Blobs, key: str, change: Change) -> bool:
    """Replace the object under a blob's key, as another tool might do, or delete the object."""
    assert isinstance(blobs, ObjectBlobs)
    changed = change(bytes(obstore.get(blobs._store, key).bytes()))
    if changed is None:
        obstore.delete(blobs._store, key)
    else:
        obstore.put(blobs._store, key, changed, use_multipart=False)
    return True


def rename_object(blobs: Blobs, key: str, name: str) -> bool:
    """Copy the object under a blob's key to ``name``, as another tool might do, and delete the original."""
    assert isinstance(blobs, ObjectBlobs)
    obstore.put(blobs._store, name, bytes(obstore.get(blobs._store, key).bytes()), use_multipart=False)
    obstore.delete(blobs._store, key)
    return True


class TestOnSeaweed(BlobsContract):
    @pytest.fixture(autouse=True)
    def _emulator(self, bucket: Emulator) -> None:
        self.emulator = bucket

    def make(self, clock: Clock) -> ObjectBlobs:
        """The object store dates blobs by its own clock and not by ``clock``."""
        return blobs_in(VERSIONED, self.emulator)

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        return alter_object(blobs, key, change)

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        return rename_object(blobs, key, name)

    def test_a_stat_has_the_key_the_size_and_the_age(self) -> None:
        check_stat(self.make(ManualClock()))

    def test_a_second_put_makes_a_new_generation_with_a_new_age(self) -> None:
        check_age(self.make(ManualClock()))

    def test_a_list_continues_after_a_key(self) -> None:
        """A resumed list of SeaweedFS wrongly puts `a/` before `a-b/`. So no folder here has a sibling like `a-b`."""
        blobs = self.make(ManualClock())
        keys = sorted(put_in(blobs, folder) for folder in ("a", "a/b", "a/c", "b"))
        for after in ["", *keys, "a", "a/", "a0", "z"]:
            assert [stat.key for stat in blobs.list("", after=after)] == [key for key in keys if key > after]

    def test_a_delete_at_the_same_time_loses_no_put(self) -> None:
        """SeaweedFS may delete a new version together with the last version of the key.

        So this test does not put in parallel with the delete, but right before the delete of the last version.
        """
        blobs = self.make(ManualClock())
        blobs.put(KEY, BODY)
        seen = stat_of(blobs, KEY)
        versions = blobs._versions
        assert isinstance(versions, S3Versions)
        remove = versions._remove

        def put_first(key: str, version: str) -> None:
            blobs.put(KEY, BODY)
            remove(key, version)

        versions._remove = put_first  # type: ignore[method-assign]
        assert blobs.delete(KEY, seen.stamp)
        assert blobs.get(KEY) == BODY
        assert stat_of(blobs, KEY).stamp != seen.stamp


class TestOnMinistack(BlobsContract):
    @pytest.fixture(autouse=True)
    def _emulator(self, aws: Emulator) -> None:
        self.emulator = aws
        create_bucket(client(aws), VERSIONED)

    def make(self, clock: Clock) -> ObjectBlobs:
        """The object store dates blobs by its own clock and not by ``clock``."""
        return blobs_in(VERSIONED, self.emulator)

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        return alter_object(blobs, key, change)

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        return rename_object(blobs, key, name)

    def test_a_stat_has_the_key_the_size_and_the_age(self) -> None:
        check_stat(self.make(ManualClock()))

    def test_a_second_put_makes_a_new_generation_with_a_new_age(self) -> None:
        check_age(self.make(ManualClock()))


def check_stat(blobs: ObjectBlobs) -> None:
    blobs.put(KEY, BODY)
    stat = stat_of(blobs, KEY)
    assert abs(stat.modified_ms - SystemClock().wall_ms()) < PUT_MS_MAX
    assert 0 < stat.stored_bytes < len(BODY)
    assert list(blobs.list("")) == [stat]


def check_age(blobs: ObjectBlobs) -> None:
    blobs.put(KEY, BODY)
    before = stat_of(blobs, KEY)
    first = before.modified_ms
    until(lambda: blobs.put(KEY, BODY) or stat_of(blobs, KEY).modified_ms > first)  # the times are whole seconds
    assert stat_of(blobs, KEY).stamp != before.stamp
    assert blobs.get(KEY) == BODY


def test_a_deleted_blob_does_not_come_back_as_its_older_version(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket)
    for _ in range(3):
        blobs.put(KEY, BODY)
    assert blobs.delete(KEY, stat_of(blobs, KEY).stamp)
    assert blobs.stat(KEY) is None
    assert list(blobs.list("")) == []


def test_a_list_shows_every_blob_once_over_many_pages_of_versions(aws: Emulator) -> None:
    blobs = blobs_in(VERSIONED, aws)
    create_bucket(client(aws), VERSIONED)
    keys = sorted(put_in(blobs, f"folder/{number:02d}") for number in range(20))
    for key in keys[5:10]:
        for _ in range(3):
            blobs.put(key, key.rpartition("/")[0].encode())
    versions = blobs._versions
    assert isinstance(versions, S3Versions)
    ask = versions._client.list_object_versions
    versions._client.list_object_versions = lambda **request: ask(**request, MaxKeys=4)
    assert [stat.key for stat in blobs.list("")] == keys
    assert [stat.key for stat in blobs.list("folder/1", after=keys[12])] == keys[13:]


def test_a_bucket_without_versions_holds_blobs_but_deletes_none(bucket: Emulator) -> None:
    blobs = blobs_in(PLAIN, bucket)
    blobs.put(KEY, BODY)
    stat = stat_of(blobs, KEY)
    assert list(blobs.list("organisation/doc")) == [stat]
    with pytest.raises(Unavailable, match="only in an S3 bucket with versioning"):
        blobs.delete(KEY, stat.stamp)
    assert not blobs.delete(KEY, "another")
    assert blobs.get(KEY) == BODY
    assert blobs.delete(f"none/{sha256(b'none').hex()}", "any")


def test_a_list_of_a_bucket_without_versions_supports_any_prefix_and_any_start_key(
    aws: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objectstore, "LIST_KEYS", 2)
    client(aws).create_bucket(Bucket=PLAIN)
    blobs = blobs_in(PLAIN, aws)
    keys = sorted(put_in(blobs, folder) for folder in ("a", "a/b", "a/bc", "a/bd", "b", "b/c"))
    for prefix in ("", "a", "a/", "a/b", "a/b/", "a/bc/", "b", "c", keys[1], keys[1][:-3]):
        assert [stat.key for stat in blobs.list(prefix)] == [key for key in keys if key.startswith(prefix)]
    for after in ["", *keys, "a", "a0", "z"]:
        assert [stat.key for stat in blobs.list("", after=after)] == [key for key in keys if key > after]


def test_a_version_from_before_versioning_was_on_is_not_deleted(aws: Emulator) -> None:
    s3 = client(aws)
    s3.create_bucket(Bucket="grown")
    before = blobs_in("grown", aws, "prefix")
    before.put(KEY, BODY)
    create_bucket(s3, "grown")
    blobs = blobs_in("grown", aws, "prefix")
    with pytest.raises(Unavailable, match="while versioning was off"):
        blobs.delete(KEY, S3Versions(lambda: s3, "grown", "prefix/", SystemClock()).page("", "")[0][0].stamp)
    assert blobs.get(KEY) == BODY


def test_a_process_whose_clock_differs_from_the_object_store_deletes_nothing(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket, "skew", ManualClock())
    blobs.put(KEY, BODY)
    with pytest.raises(Unavailable, match="clock"):
        blobs.delete(KEY, stat_of(blobs, KEY).stamp)
    assert blobs.get(KEY) == BODY


def test_a_damaged_object_is_corrupt_until_the_next_put_repairs_the_object(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket, "damaged")
    for damage in (compress(b"other bytes"), b"no frame", b""):
        client(bucket).put_object(Bucket=VERSIONED, Key=f"damaged/{KEY}", Body=damage)
        with pytest.raises(Corrupt):
            blobs.get(KEY)
        blobs.put(KEY, BODY)
        assert blobs.get(KEY) == BODY


def test_an_object_is_stored_with_its_checksum_and_without_multipart(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket, "checksum")
    large = SystemClock().random_bytes(BODY_PART_BYTES)
    key = f"bodies/{sha256(large).hex()}"
    blobs.put(key, large)
    head = client(bucket).head_object(Bucket=VERSIONED, Key=f"checksum/{key}", ChecksumMode="ENABLED")
    assert b64decode(head["ChecksumSHA256"]) == sha256(compress(large))
    assert "-" not in head["ETag"]


@pytest.mark.parametrize(
    ("folder", "encoded", "kind"),
    [
        ("acme/records/r/bodies", json.dumps(VALUE).encode(), "application/json"),
        ("acme/plan@abc/items/films", encode(VALUE), "application/msgpack"),
        ("acme/records/r/bodies", BODY, "application/octet-stream"),
    ],
)
def test_an_object_has_headers_for_its_content_type_and_encoding(
    bucket: Emulator, folder: str, encoded: bytes, kind: str
) -> None:
    blobs = blobs_in(VERSIONED, bucket, "headers")
    key = f"{folder}/{sha256(encoded).hex()}"
    blobs.put(key, encoded)
    answer = client(bucket).get_object(Bucket=VERSIONED, Key=f"headers/{key}")
    assert (answer["ContentType"], answer["ContentEncoding"]) == (kind, "zstd")
    assert zstandard.decompress(answer["Body"].read()) == encoded


def test_an_object_is_decoded_according_to_its_content_encoding(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket, "encodings")
    for encoding, stored in (({"ContentEncoding": "identity"}, BODY), ({}, compress(BODY))):
        client(bucket).put_object(Bucket=VERSIONED, Key=f"encodings/{KEY}", Body=stored, **encoding)
        assert blobs.get(KEY) == BODY
    client(bucket).put_object(Bucket=VERSIONED, Key=f"encodings/{KEY}", Body=b"newer", ContentEncoding="br")
    with pytest.raises(Unsupported) as caught:
        blobs.get(KEY)
    assert caught.value.details == {"codec": "br", "key": KEY}


def test_a_key_with_a_parent_folder_is_invalid(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket)
    with pytest.raises(Invalid):
        blobs.put(f"../{sha256(BODY).hex()}", BODY)


def test_creating_an_existing_bucket_succeeds_and_leaves_its_lifecycle_rule(bucket: Emulator) -> None:
    create_bucket(client(bucket), VERSIONED)
    rules = client(bucket).get_bucket_lifecycle_configuration(Bucket=VERSIONED)["Rules"]
    assert rules[0]["NoncurrentVersionExpiration"]["NoncurrentDays"] == RECOVERY_DAYS


def test_a_deleted_blob_can_be_restored_from_its_retained_copy(bucket: Emulator) -> None:
    """A copy of the object below `!freed/`, with headers and bytes, restores the blob."""
    s3 = client(bucket)
    url = f"s3://{VERSIONED}/freed"
    blobs = open_object_blobs(
        url, SystemClock(), endpoint=bucket.url, access=SessionAccess(session=session()), retains_freed=True
    )
    blobs.put(KEY, BODY)
    blobs.put(KEY, BODY)
    assert blobs.delete(KEY, stat_of(blobs, KEY).stamp)
    assert blobs.stat(KEY) is None
    assert list(blobs.list("")) == []
    source = {"Bucket": VERSIONED, "Key": f"{FREED}freed/{KEY}"}
    s3.copy_object(Bucket=VERSIONED, Key=f"freed/{KEY}", CopySource=source)
    assert blobs.get(KEY) == BODY
    assert blobs.delete(f"none/{sha256(b'none').hex()}", "any")


def test_a_list_of_a_bucket_without_a_prefix_has_no_retained_copies(bucket: Emulator) -> None:
    blobs = open_object_blobs(
        f"s3://{VERSIONED}",
        SystemClock(),
        endpoint=bucket.url,
        access=SessionAccess(session=session()),
        retains_freed=True,
    )
    blobs.put(KEY, BODY)
    assert blobs.delete(KEY, stat_of(blobs, KEY).stamp)
    assert client(bucket).head_object(Bucket=VERSIONED, Key=f"{FREED}{KEY}")
    assert not [stat.key for stat in blobs.list("") if stat.key.startswith(FREED)]


def test_a_list_leaves_out_the_objects_of_other_programs(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket, "shared")
    for name in ("README.txt", "folder/read me", f"folder/{'g' * 64}"):
        client(bucket).put_object(Bucket=VERSIONED, Key=f"shared/{name}", Body=b"notes")
    blobs.put(KEY, BODY)
    assert [stat.key for stat in blobs.list("")] == [KEY]


def test_a_document_with_large_values_works_on_a_bucket_and_its_garbage_is_collected(bucket: Emulator) -> None:
    """The index is in memory, the blobs are in the bucket. The workload has bodies in parts, snapshots and deletes."""
    index = MemoryIndex()
    blobs = blobs_in(VERSIONED, bucket)
    settings = LogSettings(snapshot_entries_interval=2)
    store = Store(Environment(index, blobs, SystemClock(), settings), MemoryQueue(SystemClock()))
    document = store.create("acme", "plan")
    large = "large " * (BODY_PART_BYTES // 5)
    for number in range(5):
        assert document.mutate("put", {"key": f"notes/{number}", "value": f"{number} {large}"}).status == "applied"
    orphan = put_in(blobs, f"{document.log.record.owner}/bodies")
    assert store.document("acme", "plan").get("notes/3") == f"3 {large}"

    later = ManualClock(SystemClock().wall_ms() + (OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 60) * 1000)
    environment = Environment(index, blobs, later, settings)
    report = collect_family(environment, document.log.record.owner)
    assert (report.garbage, report.young) == ((orphan,), 0)
    assert report.retained > 10
    with pytest.raises(NotFound):
        blobs.get(orphan)
    assert verify(Store(environment, MemoryQueue(later)).document("acme", "plan")).version == document.version


def test_requests_are_counted(bucket: Emulator) -> None:
    blobs = blobs_in(VERSIONED, bucket)
    blobs.put(KEY, BODY)
    blobs.get(KEY)
    blobs.delete(KEY, stat_of(blobs, KEY).stamp)
    assert {name: amount for (name, unit), amount in blobs.meter.read().items() if unit == "requests"} == {
        "PutObject": 1,
        "GetObject": 1,
        "HeadObject": 1,
        "GetBucketVersioning": 1,
        "ListObjectVersions": 1,
        "DeleteObject": 1,
    }


def put_in(blobs: ObjectBlobs, folder: str) -> str:
    key = f"{folder}/{sha256(folder.encode()).hex()}"
    blobs.put(key, folder.encode())
    return key


def stat_of(blobs: ObjectBlobs, key: str) -> BlobStat:
    stat = blobs.stat(key)
    assert stat is not None
    return stat
