"""Versions of objects in an S3 bucket: what obstore cannot list or remove, through boto3."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from typing import Any, TypeVar

from stratalog.backends.boto import RequestRefused, once
from stratalog.backends.service_request import RequestPolicy, Retryable, send_request
from stratalog.clock import Clock
from stratalog.errors import Invalid, Unavailable
from stratalog.ports.blobs import BlobStat, key_hash
from stratalog.ports.meter import Meter

__all__ = ["S3Versions", "bucket_is_ready", "create_bucket", "no_bucket"]

T = TypeVar("T")

SKEW_SECONDS_MAX = 60
# Stores that keep no versions refuse even the question.
NO_VERSIONS = frozenset({"MethodNotAllowed", "NotImplemented"})
NULL = "null"
FREED = "!freed/"
"""Where copies of deleted blobs are, by their keys. No organisation's keys begin so."""
FREED_DAYS = 36
"""A day longer than DynamoDB's point-in-time recovery reaches back at most."""
NO_BUCKET = "NoSuchBucket"


class S3Versions:
    """The versions of the objects in ``bucket`` whose key starts with ``base``.

    ``make_client`` makes the client, one that tries each request once, when it is first needed: few processes list or
    delete, and a function that starts cold need not wait for it.

    Removing a version brings the one before it to light, so a delete removes the oldest first and the current one last;
    one that ends midway has changed nothing that a reader sees. With ``retains_freed`` a copy is made below `FREED`.
    """

    def __init__(
        self,
        make_client: Callable[[], Any],
        bucket: str,
        base: str,
        clock: Clock,
        policy: RequestPolicy | None = None,
        meter: Meter | None = None,
        *,
        retains_freed: bool = False,
    ) -> None:
        self._retains_freed = retains_freed
        self._make_client = make_client
        self._bucket = bucket
        self._base = base
        self._clock = clock
        self._policy = policy or RequestPolicy()
        self._meter = meter or Meter()
        self._enabled: bool | None = None

    @cached_property
    def _client(self) -> Any:
        return self._make_client()

    def enabled(self) -> bool:
        """Asked once: a bucket whose versioning is suspended meanwhile gives puts the version `NULL`."""
        if self._enabled is None:
            try:
                answer = self._request(
                    "GetBucketVersioning", lambda: self._client.get_bucket_versioning(Bucket=self._bucket)
                )
                self._enabled = answer.get("Status") == "Enabled"
            except RequestRefused as exc:
                if exc.reason not in NO_VERSIONS:
                    raise
                self._enabled = False
        return self._enabled

    def page(self, prefix: str, after: str) -> tuple[list[BlobStat], str]:
        """The current versions in one answer; in the first with any, where others are all older or markers."""
        marker = {"KeyMarker": self._base + after} if after else {}
        for answer in self._answers(prefix, marker):
            stats = [self._stat(version) for version in answer.get("Versions", []) if version["IsLatest"]]
            if stats:
                return stats, stats[-1].key if answer["IsTruncated"] else ""
        return [], ""

    def delete(self, key: str, stamp: str) -> bool:
        """As the port's. Raises OutcomeUnknown as well: asking again is safe."""
        key_hash(key)
        versions = []
        for answer in self._answers(key, {}):
            self._check_clock(answer)
            versions += [version for version in answer.get("Versions", []) if version["Key"] == self._base + key]
        current = next((version for version in versions if version["IsLatest"]), None)
        if current is None or self._stat(current).stamp != stamp:
            return current is None
        if any(version["VersionId"] == NULL for version in versions):
            raise Unavailable("a version from before the bucket kept versions cannot be told from a put", key=key)
        if self._retains_freed:
            self._copy_freed(key)
        for version in reversed(versions):
            self._remove(version["Key"], version["VersionId"])
        return True

    def close(self) -> None:
        """Let go of connections; closing twice is fine."""
        if "_client" in self.__dict__:
            self._client.close()

    def _answers(self, prefix: str, marker: dict[str, str]) -> Iterator[Any]:
        """Answers of at most 1000 versions and markers, in order of key and then from new to old."""
        request = {"Bucket": self._bucket, "Prefix": self._base + prefix}
        while True:
            answer = self._request(
                "ListObjectVersions", partial(self._client.list_object_versions, **request, **marker)
            )
            yield answer
            if not answer["IsTruncated"]:
                return
            marker = {"KeyMarker": answer["NextKeyMarker"], "VersionIdMarker": answer["NextVersionIdMarker"]}

    def _remove(self, key: str, version: str) -> None:
        request = {"Bucket": self._bucket, "Key": key, "VersionId": version}
        self._request("DeleteObject", partial(self._client.delete_object, **request), writes=True)

    def _copy_freed(self, key: str) -> None:
        """Copy a blob aside. All of its versions have the same bytes, whose hash the key ends in."""
        target, source = f"{FREED}{self._base}{key}", {"Bucket": self._bucket, "Key": self._base + key}
        request = {"Bucket": self._bucket, "Key": target, "CopySource": source}
        try:
            self._request("CopyObject", partial(self._client.copy_object, **request), writes=True)
        except RequestRefused as exc:
            if exc.reason != "NoSuchKey":  # another collector was first, and copied it
                raise

    def _check_clock(self, answer: Any) -> None:
        """The store dates a blob, and who deletes judges its age by a clock of his own: both must agree."""
        theirs = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp()
        skew = self._clock.wall_ms() / 1000 - theirs
        if abs(skew) > SKEW_SECONDS_MAX:
            raise Unavailable("this machine's clock is not the object store's", seconds=round(skew))

    def _stat(self, version: Any) -> BlobStat:
        modified_ms = int(version["LastModified"].timestamp()) * 1000
        key = version["Key"].removeprefix(self._base)
        if version["VersionId"] == NULL:
            return BlobStat(key, version["Size"], modified_ms, f"{version['ETag']}-{modified_ms}")
        return BlobStat(key, version["Size"], modified_ms, version["VersionId"])

    def _request(self, operation: str, call: Callable[[], T], *, writes: bool = False) -> T:
        def attempt() -> T:
            self._meter.add(operation, "requests")
            return once("the object store", call, writes=writes)

        try:
            return send_request(self._clock, self._policy, attempt)
        except RequestRefused as exc:
            if exc.reason == NO_BUCKET:
                raise no_bucket(self._bucket) from exc
            raise


def no_bucket(bucket: str) -> Unavailable:
    """The error for a bucket that is not there."""
    return Unavailable("there is no such bucket; `stratalog init` makes it", bucket=bucket)


def bucket_is_ready(client: Any, bucket: str) -> bool:
    """Whether the bucket stands and keeps versions, which `create_bucket` sets last. Raises Unavailable."""
    try:
        answer = once("the object store", partial(client.get_bucket_versioning, Bucket=bucket), writes=False)
    except Retryable as exc:
        raise exc.error from exc
    except RequestRefused as exc:
        if exc.reason != NO_BUCKET:
            raise
        return False
    return bool(answer.get("Status") == "Enabled")


def create_bucket(client: Any, bucket: str) -> bool:
    """Make the bucket, if it is missing, have old versions and torn uploads expire in a day, and have it keep versions.

    Copies of deleted blobs expire after `FREED_DAYS`.

    False: it was there already. Raises Invalid where somebody else has one of that name; Unavailable, OutcomeUnknown:
    call it again.
    """
    region = client.meta.region_name
    location = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    rules = {"Rules": [EXPIRY, FREED_EXPIRY]}
    steps: list[Callable[[], Any]] = [
        partial(client.create_bucket, Bucket=bucket, **location),
        partial(
            client.put_bucket_lifecycle_configuration,
            Bucket=bucket,
            LifecycleConfiguration=rules,
        ),
        partial(client.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}),
    ]
    made = True
    for step in steps:
        try:
            once("the object store", step, writes=True)
        except Retryable as exc:
            raise exc.error from exc
        except RequestRefused as exc:
            if exc.reason == "BucketAlreadyExists":
                error = Invalid("somebody else has a bucket of that name; name another with ?bucket=", bucket=bucket)
                raise error from exc
            if exc.reason != "BucketAlreadyOwnedByYou":
                raise
            made = False
    return made


EXPIRY = {
    "ID": "stratalog",
    "Status": "Enabled",
    "Filter": {"Prefix": ""},
    "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
    "Expiration": {"ExpiredObjectDeleteMarker": True},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
}
FREED_EXPIRY = {
    "ID": "freed",
    "Status": "Enabled",
    "Filter": {"Prefix": FREED},
    "Expiration": {"Days": FREED_DAYS},
}
