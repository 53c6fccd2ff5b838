"""Lists and deletes versions of objects in an S3 bucket, and creates the bucket.

The module uses boto3, since obstore has no such requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeVar

from stratalog.backends.boto import RequestRefused, field_of, once
from stratalog.backends.service_request import RequestPolicy, Retryable, send_request, wait_until_ready
from stratalog.clock import Clock
from stratalog.errors import Invalid, Unavailable
from stratalog.ports.blobs import BlobStat, key_hash
from stratalog.ports.meter import Meter

__all__ = ["FREED", "S3Versions", "create_bucket", "no_bucket", "prepare_bucket"]

T = TypeVar("T")

SKEW_SECONDS_MAX = 60
# An object store that does not implement versioning answers GetBucketVersioning with one of these codes.
NO_VERSIONS = frozenset({"MethodNotAllowed", "NotImplemented"})
NULL = "null"
FREED = "!freed/"
"""The prefix of copies of deleted blobs. No organisation's keys begin with it."""
RECOVERY_DAYS = 36
"""The days after which the bucket removes copies of deleted blobs, and versions that are no longer current.

DynamoDB's point-in-time recovery can restore a state of the last 35 days. The blobs of this state stay one day longer.
"""
NO_BUCKET = "NoSuchBucket"
DENIED = "AccessDenied"


class S3Versions:
    """The versions of the objects in ``bucket`` whose key starts with ``base``.

    ``make_client`` returns a boto3 client that tries each request once. `S3Versions` calls ``make_client`` when a
    client is first needed. Few processes list or delete, and a Lambda function must not wait for a client in a cold
    start.

    If the current version is removed, the previous version becomes current. So a delete removes the oldest version
    first and the current version last. If the delete ends midway, a reader sees no change. With ``retains_freed`` a
    delete first copies the object below `FREED`.
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
        """Return whether the bucket has versioning. Later calls repeat the first result and send no request.

        If versioning is suspended later, new puts have the version `NULL`, and `delete` refuses to delete them.
        """
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
        """Return the next page with current versions, and the ``after`` of the following page; "" at the end."""
        marker = {"KeyMarker": self._base + after} if after else {}
        for answer in self._answers(prefix, marker):
            stats = [self._stat(version) for version in answer.get("Versions", []) if version["IsLatest"]]
            if stats:
                return stats, stats[-1].key if answer["IsTruncated"] else ""
        return [], ""

    def delete(self, key: str, stamp: str) -> bool:
        """Delete as `Blobs.delete` does. May also raise OutcomeUnknown: a second call is safe.

        Raises Unavailable for an object with a version `NULL`, and if this machine's clock differs from the store's by
        more than `SKEW_SECONDS_MAX`.
        """
        key_hash(key)
        versions = []
        for answer in self._answers(key, {}):
            self._check_clock(answer)
            versions += [version for version in answer.get("Versions", []) if version["Key"] == self._base + key]
        current = next((version for version in versions if version["IsLatest"]), None)
        if current is None or self._stat(current).stamp != stamp:
            return current is None
        # While versioning is suspended, each put replaces the version `NULL`, and the new version has the same id. So
        # this delete could remove a later put.
        if any(version["VersionId"] == NULL for version in versions):
            raise Unavailable(
                "an object written while versioning was off cannot be distinguished from a later put", key=key
            )
        if self._retains_freed:
            self._copy_freed(key)
        for version in reversed(versions):  # oldest first, so that no older version becomes current
            self._remove(version["Key"], version["VersionId"])
        return True

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        if "_client" in self.__dict__:  # otherwise the property would make a client only to close it
            self._client.close()

    def _answers(self, prefix: str, marker: dict[str, str]) -> Iterator[Any]:
        """Yield responses of at most 1000 versions and delete markers, in order of key, with new versions first."""
        request = {"Bucket": self._bucket, "Prefix": self._base + prefix}
        while True:
            answer = self._request(
                "ListObjectVersions",
                partial(self._client.list_object_versions, **request, **marker),
                field="IsTruncated",
            )
            yield answer
            if not answer["IsTruncated"]:
                return
            marker = {"KeyMarker": answer["NextKeyMarker"], "VersionIdMarker": answer["NextVersionIdMarker"]}

    def _remove(self, key: str, version: str) -> None:
        request = {"Bucket": self._bucket, "Key": key, "VersionId": version}
        self._request("DeleteObject", partial(self._client.delete_object, **request), writes=True)

    def _copy_freed(self, key: str) -> None:
        """Copy the current version below `FREED`: all versions have the same bytes, whose hash ends the key."""
        target, source = f"{FREED}{self._base}{key}", {"Bucket": self._bucket, "Key": self._base + key}
        request = {"Bucket": self._bucket, "Key": target, "CopySource": source}
        try:
            copy = partial(self._client.copy_object, **request)
            self._request("CopyObject", copy, writes=True, field="CopyObjectResult")
        except RequestRefused as exc:
            if exc.reason != "NoSuchKey":  # another collector has copied and deleted the object
                raise

    def _check_clock(self, answer: Any) -> None:
        """Raise Unavailable if this machine's clock differs from the store's by more than `SKEW_SECONDS_MAX`.

        The store dates a blob, and the collector compares the date with its own clock. With a fast clock the collector
        would delete the blob too early.
        """
        from email.utils import parsedate_to_datetime  # slow to import, and few processes list a bucket

        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")
        try:
            theirs = parsedate_to_datetime(date).timestamp()
        except (ValueError, TypeError) as exc:
            raise Unavailable("the response of the object store has no valid date", date=date) from exc
        skew = self._clock.wall_ms() / 1000 - theirs
        if abs(skew) > SKEW_SECONDS_MAX:
            raise Unavailable("this machine's clock differs from the object store's", seconds=round(skew))

    def _stat(self, version: Any) -> BlobStat:
        field = partial(field_of, "the object store", version)
        modified_ms = int(field("LastModified", datetime).timestamp()) * 1000
        key, size, id = field("Key", str).removeprefix(self._base), field("Size", int), field("VersionId", str)
        return BlobStat(key, size, modified_ms, f"{field('ETag', str)}-{modified_ms}" if id == NULL else id)

    def _request(self, operation: str, call: Callable[[], T], *, writes: bool = False, field: str = "") -> T:
        def attempt() -> T:
            self._meter.add(operation, "requests")
            return once("the object store", call, writes=writes, field=field)

        try:
            return send_request(self._clock, self._policy, attempt)
        except RequestRefused as exc:
            if exc.reason == NO_BUCKET:
                raise no_bucket(self._bucket) from exc
            raise


def no_bucket(bucket: str) -> Unavailable:
    """Return the error for a bucket that does not exist."""
    return Unavailable("the bucket does not exist; `stratalog init` creates it", bucket=bucket)


def prepare_bucket(client: Any, bucket: str, clock: Clock) -> bool:
    """Create the bucket, or complete it, unless it is ready. Wait until it is ready. Return False if it existed before.

    A ready bucket has versioning, which `create_bucket` sets last. S3 can need 15 more minutes until it uses versioning
    everywhere (`docs/guides/aws.md`). Raises the errors of `create_bucket`, and Unavailable if S3 denies access.
    """
    made = False

    def is_ready() -> bool:
        nonlocal made
        try:
            if _versioning(client, bucket) == "Enabled":
                return True
        except RequestRefused as exc:
            if exc.reason == DENIED:
                # S3 answers so for a bucket of another account, and for a role without the right.
                text = (
                    "another AWS account may own the bucket, or this role lacks a right; name another bucket: ?bucket="
                )
                raise Unavailable(text, bucket=bucket, explanation=exc.explanation) from exc
            raise
        try:
            made = create_bucket(client, bucket) or made
        except RequestRefused as exc:
            if exc.reason != NO_BUCKET:
                raise
            made = True  # directly after its creation, a request may not find the bucket
            return False
        return _versioning(client, bucket) == "Enabled"

    wait_until_ready(clock, is_ready, "bucket", bucket)
    return made


def _versioning(client: Any, bucket: str) -> str | None:
    """Return the status of the bucket's versioning: "" if it was never set, None if the bucket does not exist."""
    try:
        answer = once("the object store", partial(client.get_bucket_versioning, Bucket=bucket), writes=False)
    except Retryable as exc:
        raise exc.error from exc
    except RequestRefused as exc:
        if exc.reason != NO_BUCKET:
            raise
        return None
    return str(answer.get("Status", ""))


def create_bucket(client: Any, bucket: str) -> bool:
    """Create the bucket if it is missing, and set its lifecycle and then its versioning. Return False if it existed.

    Old versions and copies of deleted blobs expire after `RECOVERY_DAYS`. S3 aborts a multipart upload that is not
    complete after a day.

    Raises Invalid if another account owns a bucket of that name. After Unavailable or OutcomeUnknown, call it again.
    """
    region = client.meta.region_name
    location = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    rules = {"Rules": [EXPIRY, FREED_EXPIRY]}
    # Ask first whether the bucket exists. In us-east-1, S3 accepts the creation of a bucket that the account already
    # has, and resets its access control list. For another account's bucket S3 refuses the first request, and the
    # creation then fails with BucketAlreadyExists.
    try:
        made = _versioning(client, bucket) is None
    except RequestRefused:
        made = True
    steps: list[Callable[[], Any]] = [
        *([partial(client.create_bucket, Bucket=bucket, **location)] if made else []),
        partial(
            client.put_bucket_lifecycle_configuration,
            Bucket=bucket,
            LifecycleConfiguration=rules,
        ),
        partial(client.put_bucket_versioning, Bucket=bucket, VersioningConfiguration={"Status": "Enabled"}),
    ]
    for step in steps:
        try:
            once("the object store", step, writes=True)
        except Retryable as exc:
            raise exc.error from exc
        except RequestRefused as exc:
            if exc.reason == "BucketAlreadyExists":
                error = Invalid(
                    "another AWS account owns a bucket of that name; choose another name with ?bucket=", bucket=bucket
                )
                raise error from exc
            if exc.reason != "BucketAlreadyOwnedByYou":
                raise
            made = False
    return made


EXPIRY = {
    "ID": "stratalog",
    "Status": "Enabled",
    "Filter": {"Prefix": ""},
    "NoncurrentVersionExpiration": {"NoncurrentDays": RECOVERY_DAYS},
    "Expiration": {"ExpiredObjectDeleteMarker": True},
    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
}
FREED_EXPIRY = {
    "ID": "freed",
    "Status": "Enabled",
    "Filter": {"Prefix": FREED},
    "Expiration": {"Days": RECOVERY_DAYS},
}
