"""The contract suite of a blob store: tests of the port's contract. Use it like `IndexContract`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from stratalog.clock import Clock
from stratalog.codec import sha256
from stratalog.errors import Closed, Corrupt, Invalid, LimitExceeded, NotFound, StratalogError
from stratalog.limits import BLOB_BYTES_MAX
from stratalog.ports.blobs import Blobs, BlobStat
from stratalog.testing.clock import ManualClock

__all__ = ["BlobsContract"]

Change = Callable[[bytes], bytes | None]

HOUR_SECONDS = 3600
SOME_BYTES = b"\x00some bytes\xff" * 100


def _flipped(stored: bytes) -> bytes:
    return stored[:-1] + bytes([stored[-1] ^ 1])


def _halved(stored: bytes) -> bytes:
    return stored[: len(stored) // 2]


def _emptied(stored: bytes) -> bytes:
    return b""


def _lost(stored: bytes) -> None:
    return None


CHANGES: tuple[Change, ...] = (_flipped, _halved, _emptied, _lost)


class BlobsContract(ABC):
    """Tests of a blob store. A subclass implements ``make``, and may override ``alter`` and ``rename``."""

    @abstractmethod
    def make(self, clock: Clock) -> Blobs:
        """Return a new, empty blob store that measures ages by ``clock``. Every test calls `make` once."""

    def alter(self, blobs: Blobs, key: str, change: Change) -> bool:
        """Replace a blob's stored bytes by the result of ``change``, without a call to the store, and return True.

        ``change`` returns None to remove the blob. The default changes nothing and returns False, for a store whose
        bytes a test cannot reach. The tests of damage then prove nothing.
        """
        return False

    def rename(self, blobs: Blobs, key: str, name: str) -> bool:
        """Replace a blob's stored key by ``name``, without a call to the store, and return True.

        The default changes nothing and returns False. The test of damaged keys then proves nothing.
        """
        return False

    def test_a_blob_reads_back_as_it_was_put(self) -> None:
        blobs = self.make(ManualClock())
        for body in (SOME_BYTES, b"", bytes(range(256)) * 4096):
            blobs.put(_key(body), body)
            assert blobs.get(_key(body)) == body

    def test_the_largest_blob_fits_and_one_byte_more_does_not(self) -> None:
        blobs = self.make(ManualClock())
        largest = bytes(BLOB_BYTES_MAX)
        blobs.put(_key(largest), largest)
        assert blobs.get(_key(largest)) == largest
        larger = bytes(BLOB_BYTES_MAX + 1)
        assert isinstance(_raised(lambda: blobs.put(_key(larger), larger)), LimitExceeded)
        assert [stat.key for stat in blobs.list("")] == [_key(largest)]

    def test_a_blob_that_is_not_there_is_not_found(self) -> None:
        blobs = self.make(ManualClock())
        assert isinstance(_raised(lambda: blobs.get(_key(b"none"))), NotFound)
        assert blobs.stat(_key(b"none")) is None

    def test_content_of_any_kind_is_one_blob_under_its_key(self) -> None:
        blobs = self.make(ManualClock())
        contents = [
            (folder, body)
            for folder in ("acme/records/r/bodies", "acme/plan@abc/items/films", "acme/plan@abc/app-snapshots")
            for body in (b'{"a": [1, 2]}', b"\x93\x01\x02\x03", SOME_BYTES, b"")
        ]
        for folder, body in 2 * contents:
            blobs.put(f"{folder}/{sha256(body).hex()}", body)
        keys = sorted(f"{folder}/{sha256(body).hex()}" for folder, body in contents)
        assert [stat.key for stat in blobs.list("")] == keys
        for folder, body in contents:
            key = f"{folder}/{sha256(body).hex()}"
            assert blobs.get(key) == body
            assert [*blobs.list(key)] == [blobs.stat(key)]

    def test_a_key_must_end_in_the_hash_of_the_bytes(self) -> None:
        blobs = self.make(ManualClock())
        keys = [_key(b"other"), "owner/blob", f"/{_key(b'body')}", f"owner//{sha256(b'body').hex()}", ""]
        for key in keys:
            assert isinstance(_raised(partial(blobs.put, key, b"body")), Invalid), key
        assert list(blobs.list("")) == []

    def test_a_key_that_is_too_long_is_refused(self) -> None:
        blobs = self.make(ManualClock())
        key = "/".join(["folder"] * 200) + "/" + sha256(b"body").hex()
        assert isinstance(_raised(lambda: blobs.put(key, b"body")), LimitExceeded)

    def test_a_stat_has_the_key_the_size_and_the_age(self) -> None:
        clock = ManualClock()
        blobs = self.make(clock)
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        stat = _stat(blobs, SOME_BYTES)
        assert (stat.key, stat.modified_ms) == (_key(SOME_BYTES), clock.wall_ms())
        assert stat.stored_bytes > 0
        assert blobs.stat(_key(SOME_BYTES)) == stat

    def test_a_second_put_makes_a_new_generation_with_a_new_age(self) -> None:
        clock = ManualClock()
        blobs = self.make(clock)
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        before = _stat(blobs, SOME_BYTES)
        clock.sleep(HOUR_SECONDS)
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        after = _stat(blobs, SOME_BYTES)
        assert after.modified_ms - before.modified_ms == HOUR_SECONDS * 1000
        assert after.stamp != before.stamp
        assert blobs.get(_key(SOME_BYTES)) == SOME_BYTES

    def test_putting_again_in_the_same_millisecond_is_another_generation(self) -> None:
        blobs = self.make(ManualClock())
        stamps = set()
        for _ in range(20):
            blobs.put(_key(SOME_BYTES), SOME_BYTES)
            stamps.add(_stat(blobs, SOME_BYTES).stamp)
        assert len(stamps) == 20

    def test_a_put_restores_what_was_damaged_or_lost(self) -> None:
        blobs = self.make(ManualClock())
        for body in (SOME_BYTES, bytes(range(256)) * 4096):
            for change in CHANGES:
                blobs.put(_key(body), body)
                blobs.put(_key(body), body)
                if not self.alter(blobs, _key(body), change):
                    return
                assert isinstance(_raised(partial(blobs.get, _key(body))), Corrupt | NotFound), change
                blobs.put(_key(body), body)
                assert blobs.get(_key(body)) == body, change

    def test_a_delete_removes_the_generation_it_names(self) -> None:
        blobs = self.make(ManualClock())
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        assert blobs.delete(_key(SOME_BYTES), _stat(blobs, SOME_BYTES).stamp)
        assert blobs.stat(_key(SOME_BYTES)) is None
        assert isinstance(_raised(lambda: blobs.get(_key(SOME_BYTES))), NotFound)
        assert list(blobs.list("")) == []

    def test_a_delete_leaves_another_generation_alone(self) -> None:
        blobs = self.make(ManualClock())
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        seen = _stat(blobs, SOME_BYTES)
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        refreshed = _stat(blobs, SOME_BYTES)
        assert not blobs.delete(_key(SOME_BYTES), seen.stamp)
        assert _stat(blobs, SOME_BYTES) == refreshed
        assert blobs.get(_key(SOME_BYTES)) == SOME_BYTES

    def test_a_stamp_of_a_removed_generation_does_not_fit_its_successor(self) -> None:
        blobs = self.make(ManualClock())
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        seen = _stat(blobs, SOME_BYTES)
        blobs.delete(_key(SOME_BYTES), seen.stamp)
        blobs.put(_key(SOME_BYTES), SOME_BYTES)
        assert not blobs.delete(_key(SOME_BYTES), seen.stamp)
        assert blobs.get(_key(SOME_BYTES)) == SOME_BYTES

    def test_deleting_a_missing_blob_returns_true(self) -> None:
        blobs = self.make(ManualClock())
        assert blobs.delete(_key(b"none"), "any")

    def test_a_list_is_in_order_of_key(self) -> None:
        blobs = self.make(ManualClock())
        keys = _put_in_folders(blobs, ["a", "a-b", "a/b", "a.b", "a/b/c", "b", "a0", "%C3%A9", "é/計画", "\U0001f408"])
        assert [stat.key for stat in blobs.list("")] == sorted(keys)
        assert all(blobs.stat(stat.key) == stat for stat in blobs.list(""))

    def test_keys_of_any_script_read_back(self) -> None:
        blobs = self.make(ManualClock())
        parts = ["漢" * 66, "é\u00a0\u2028\ufffd", "\U0001f408" * 50, "e\u0301", "é", "Ω%2F"]
        keys = [f"{part}/{'字' * 60}/{sha256(SOME_BYTES).hex()}" for part in parts]
        for key in keys:
            blobs.put(key, SOME_BYTES)
        assert [stat.key for stat in blobs.list("")] == sorted(keys)
        for key in keys:
            assert blobs.get(key) == SOME_BYTES
            assert [stat.key for stat in blobs.list(key[: key.rindex("/") + 1])] == [key]

    def test_a_list_takes_any_prefix(self) -> None:
        blobs = self.make(ManualClock())
        keys = sorted(_put_in_folders(blobs, ["a", "a-b", "a/b", "a/bc", "b"]))
        for prefix in ("a", "a/", "a/b", "a/b/", "a/bc/", "b", "c", keys[0], keys[1][:-3]):
            assert [stat.key for stat in blobs.list(prefix)] == [key for key in keys if key.startswith(prefix)]

    def test_a_list_names_a_damaged_key_and_has_all_other_blobs(self) -> None:
        blobs = self.make(ManualClock())
        keys = sorted(_put_in_folders(blobs, ["a", "b", "c"]))
        damaged = f"{keys[1][:-1]}g"
        if not self.rename(blobs, keys[1], damaged):
            return
        for prefix, after in (("", ""), ("", keys[0]), ("b/", ""), ("c/", "")):
            named = set[str]()
            listed = [stat.key for stat in blobs.list(prefix, after=after, damaged=named.add)]
            assert listed == [key for key in (keys[0], keys[2]) if key.startswith(prefix) and key > after]
            assert named == {key for key in [damaged] if key.startswith(prefix)}

    def test_a_list_continues_after_a_key(self) -> None:
        blobs = self.make(ManualClock())
        keys = sorted(_put_in_folders(blobs, ["a", "a-b", "a/b", "b"]))
        for after in ["", *keys, "a", "a/", "a0", "z"]:
            assert [stat.key for stat in blobs.list("", after=after)] == [key for key in keys if key > after]

    def test_a_delete_at_the_same_time_loses_no_put(self) -> None:
        blobs = self.make(ManualClock())
        with ThreadPoolExecutor(1) as threads:
            for _ in range(50):
                blobs.put(_key(SOME_BYTES), SOME_BYTES)
                seen = _stat(blobs, SOME_BYTES)
                deleting = threads.submit(blobs.delete, _key(SOME_BYTES), seen.stamp)
                blobs.put(_key(SOME_BYTES), SOME_BYTES)
                deleting.result()  # raises the error of the thread
                assert blobs.get(_key(SOME_BYTES)) == SOME_BYTES

    def test_all_deletes_of_one_generation_at_once_return_true(self) -> None:
        blobs = self.make(ManualClock())
        with ThreadPoolExecutor(4) as threads:
            for _ in range(50):
                blobs.put(_key(SOME_BYTES), SOME_BYTES)
                seen = _stat(blobs, SOME_BYTES)
                deleting = [threads.submit(blobs.delete, _key(SOME_BYTES), seen.stamp) for _ in range(4)]
                assert [deleted.result() for deleted in deleting] == [True] * 4
                assert blobs.stat(_key(SOME_BYTES)) is None

    def test_threads_may_put_one_blob_at_once(self) -> None:
        blobs = self.make(ManualClock())
        with ThreadPoolExecutor(8) as threads:
            putting = [threads.submit(blobs.put, _key(SOME_BYTES), SOME_BYTES) for _ in range(8)]
        for put in putting:
            put.result()  # raises the error of the thread
        assert blobs.get(_key(SOME_BYTES)) == SOME_BYTES
        assert [stat.key for stat in blobs.list("")] == [_key(SOME_BYTES)]

    def test_calls_after_closing_raise_closed(self) -> None:
        blobs = self.make(ManualClock())
        key = _key(SOME_BYTES)
        blobs.close()
        blobs.close()
        calls: list[Callable[[], object]] = [
            lambda: blobs.put(key, SOME_BYTES),
            lambda: blobs.get(key),
            lambda: blobs.stat(key),
            lambda: list(blobs.list("")),
            lambda: blobs.delete(key, "any"),
        ]
        for call in calls:
            assert isinstance(_raised(call), Closed)


def _key(body: bytes, folder: str = "organisation/document") -> str:
    return f"{folder}/{sha256(body).hex()}"


def _put_in_folders(blobs: Blobs, folders: list[str]) -> list[str]:
    keys = [_key(folder.encode(), folder) for folder in folders]
    for key, folder in zip(keys, folders, strict=True):
        blobs.put(key, folder.encode())
    return keys


def _stat(blobs: Blobs, body: bytes) -> BlobStat:
    stat = blobs.stat(_key(body))
    assert stat is not None
    return stat


def _raised(call: Callable[[], object]) -> StratalogError | None:
    try:
        call()
    except StratalogError as exc:
        return exc
    return None
