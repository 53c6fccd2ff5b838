"""Blobs as objects of a bucket: in Amazon S3, in compatible stores, and in the object stores of Google and Azure.

obstore reads and writes the bytes. obstore cannot list or delete single versions of an object. `s3_versions.py` does
this for S3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import obstore
from obstore import exceptions
from obstore.store import ObjectStore, S3Store, from_url

from stratalog.backends.aws_access import AwsAccess, find_access
from stratalog.backends.billed_units import LIST_KEYS
from stratalog.backends.boto import THROTTLES, aws_client
from stratalog.backends.s3_versions import FREED, S3Versions, no_bucket
from stratalog.backends.service_request import RequestPolicy, Retryable, send_request
from stratalog.clock import Clock
from stratalog.codec import ZSTD, codec_named, compress
from stratalog.errors import Closed, Invalid, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.ports.blob_kinds import kind_of
from stratalog.ports.blobs import BlobStat, Damaged, check_put, ignore, key_hash, sound_keys, unpacked
from stratalog.ports.meter import Meter
from stratalog.urls import split_url

if TYPE_CHECKING:
    from obstore import Attributes, ObjectMeta
    from obstore.store import ClientConfig, RetryConfig

__all__ = ["ObjectBlobs", "Versions", "open_object_blobs"]

T = TypeVar("T")

DIGITS = 64
CONTENT_TYPE, CONTENT_ENCODING = "Content-Type", "Content-Encoding"
CODE = re.compile(r"<Code>(\w+)</Code>")
# After these statuses nothing was done: request timeout, conflict with another request at the key, too many requests.
BUSY = (408, 409, 429)
STATUS = re.compile(r"status code: (\d{3})")
# S3 answers so if the bucket is in another region. obstore then reports no status.
REDIRECTED = "Received redirect without LOCATION"
# The rule for the names of the oldest buckets, which allows more than today's rule. Without this check, obstore panics
# at a name that does not fit in a URL.
BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,254}")


class Versions(Protocol):
    """The operations on versions of a bucket's objects that `ObjectBlobs` needs."""

    def enabled(self) -> bool:
        """Return whether the bucket stores every put as a new version. Raises Unavailable."""
        ...

    def page(self, prefix: str, after: str) -> tuple[list[BlobStat], str]:
        """Return the next blobs of a list after the key ``after``, and the ``after`` of the next page; "" at the end.

        Raises Unavailable.
        """
        ...

    def delete(self, key: str, stamp: str) -> bool:
        """Delete as `Blobs.delete` does. May also raise OutcomeUnknown: a second call is safe."""
        ...

    def close(self) -> None:
        """Close the connections. Closing twice is fine."""
        ...


class ObjectBlobs:
    """Blobs in ``store``, which several processes may share. ``store`` must not retry requests itself.

    The store's clock measures a blob's age, in whole seconds. Every put writes the whole object again, which restarts
    its age and repairs a damaged object. In a bucket with versioning a put makes a version, whose id is the stamp. In
    other buckets the stamp is ETag and time. Two puts of a blob in the same second then have the same stamp. So
    `delete` removes blobs only with ``versions`` and in a bucket with versioning. In any other bucket the delete of a
    stored generation raises Unavailable.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        versions: Versions | None = None,
        *,
        bucket: str = "",
        policy: RequestPolicy | None = None,
        meter: Meter | None = None,
    ) -> None:
        self.meter = meter or Meter()
        self._store = store
        self._bucket = bucket
        self._clock = clock
        self._versions = versions
        self._policy = policy or RequestPolicy()
        self._closed = False

    def put(self, key: str, body: bytes) -> None:
        self._check_open()
        check_put(key, body)
        data = compress(body)
        headers: Attributes = {CONTENT_TYPE: kind_of(key, body).media_type, CONTENT_ENCODING: ZSTD.encoding}
        # Upload in one request. An aborted upload in parts would leave its parts behind. Also S3 would date the object
        # by the start of such an upload.
        put = partial(obstore.put, self._store, key, data, attributes=headers, use_multipart=False)
        self._request("PutObject", key, put, writes=True)
        self.meter.add("PutObject", "bytes", len(data))

    def get(self, key: str) -> bytes:
        self._check_open()
        key_hash(key)
        data, encoding = self._request("GetObject", key, partial(_get, self._store, key))
        self.meter.add("GetObject", "bytes", len(data))
        return unpacked(key, codec_named(encoding, key), data)

    def stat(self, key: str) -> BlobStat | None:
        self._check_open()
        key_hash(key)
        try:
            return _stat(self._request("HeadObject", key, lambda: obstore.head(self._store, key)))
        except NotFound:
            return None

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        self._check_open()
        page = self._versions.page if self._versions and self._versions.enabled() else self._page
        while True:
            stats, after = page(prefix, after)
            yield from sound_keys(filter(_is_blob, stats), damaged)
            if not after:
                return
            self._check_open()

    def delete(self, key: str, stamp: str) -> bool:
        self._check_open()
        if self._versions and self._versions.enabled():
            return self._versions.delete(key, stamp)
        stat = self.stat(key)
        if stat is None or stat.stamp != stamp:
            return stat is None
        raise Unavailable(
            "a blob can be deleted only in an S3 bucket with versioning, where no delete removes a later put", key=key
        )

    def close(self) -> None:
        self._closed = True
        if self._versions:
            self._versions.close()

    def _page(self, prefix: str, after: str) -> tuple[Sequence[BlobStat], str]:
        """Return one page of a list through obstore, and the ``after`` of the next page.

        obstore lists whole folders, after a given key. The list starts after the larger of ``after`` and ``prefix``
        without its last character. This method drops the listed objects without the prefix.
        """
        folder, offset = prefix.rpartition("/")[0] or None, max(after, prefix[:-1]) or None
        pages = partial(obstore.list, self._store, folder, offset=offset, chunk_size=LIST_KEYS)
        metas = self._request("ListObjectsV2", prefix, lambda: next(iter(pages()), []))
        stats = [_stat(meta) for meta in metas if meta["path"].startswith(prefix) and meta["path"] > after]
        last = metas[-1]["path"] if metas else ""
        return stats, last if last < prefix or last.startswith(prefix) else ""

    def _request(self, operation: str, key: str, call: Callable[[], T], *, writes: bool = False) -> T:
        def attempt() -> T:
            self.meter.add(operation, "requests")
            return _once(operation, self._bucket, key, call, writes)

        return send_request(self._clock, self._policy, attempt)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the blobs are closed")


def open_object_blobs(
    url: str,
    clock: Clock,
    *,
    endpoint: str = "",
    access: AwsAccess | None = None,
    policy: RequestPolicy | None = None,
    meter: Meter | None = None,
    retains_freed: bool = False,
) -> ObjectBlobs:
    """Return the blobs at ``url``: ``s3://bucket/prefix``, ``gs://…`` or ``az://…``. Sends no request to the store.

    ``endpoint`` is the URL of a store compatible with S3, by default the configured endpoint. ``access`` has the
    credentials and the region for S3; other stores find their credentials in the environment. With ``retains_freed``,
    in S3 a copy of each deleted blob stays below `!freed/` until the bucket's lifecycle removes the copy.

    Raises Invalid for a URL or bucket name that no store accepts, and Unavailable if S3's credentials are missing.
    """
    policy, meter = policy or RequestPolicy(), meter or Meter()
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=policy.connect_seconds_max),
        "timeout": timedelta(seconds=policy.request_seconds_max),
    }
    retries: RetryConfig = {"max_retries": 0, "retry_timeout": timedelta(seconds=policy.request_seconds_max)}
    parts = split_url(url)
    if parts.scheme != "s3":
        try:
            other = from_url(url, client_options=options, retry_config=retries)
        except exceptions.BaseError as exc:
            raise Invalid("the URL does not name a supported object store", url=url, reason=_reason(exc)) from exc
        return ObjectBlobs(other, clock, bucket=parts.netloc, policy=policy, meter=meter)
    if not BUCKET.fullmatch(parts.netloc):
        raise Invalid("the name is not a valid name of a bucket", url=url)
    prefix = parts.path.strip("/")
    access = access or find_access()
    endpoint = endpoint or access.endpoint("s3")
    store = S3Store(
        parts.netloc,
        prefix=prefix or None,
        region=access.region or "us-east-1",
        client_options={**options, "allow_http": endpoint.startswith("http:")},
        retry_config=retries,
        checksum_algorithm="SHA256",
        virtual_hosted_style_request=not endpoint,
        **({"endpoint": endpoint} if endpoint else {}),  # type: ignore[arg-type]
        **access.object_store_options(),
    )

    def make_client() -> Any:
        return aws_client("s3", access.session(), endpoint, policy)

    base = f"{prefix}/" if prefix else ""
    versions = S3Versions(make_client, parts.netloc, base, clock, policy, meter, retains_freed=retains_freed)
    return ObjectBlobs(store, clock, versions, bucket=parts.netloc, policy=policy, meter=meter)


def _get(store: ObjectStore, key: str) -> tuple[bytes, str]:
    """Return the bytes of an object and its content encoding.

    The encoding is zstd if the header is missing, since a copy by another tool may have lost the header.
    """
    answer = obstore.get(store, key)
    return bytes(answer.bytes()), answer.attributes.get(CONTENT_ENCODING) or ZSTD.encoding


def _stat(meta: ObjectMeta) -> BlobStat:
    modified_ms = int(meta["last_modified"].timestamp()) * 1000
    version = meta["version"]
    stamp = version if version and version != "null" else f"{meta['e_tag']}-{modified_ms}"
    return BlobStat(meta["path"], meta["size"], modified_ms, stamp)


def _is_blob(stat: BlobStat) -> bool:
    """Return whether an object is a blob: neither a copy of a deleted blob, nor another program's object."""
    return len(stat.key.rpartition("/")[2]) == DIGITS and not stat.key.startswith(FREED)


def _once(operation: str, bucket: str, key: str, call: Callable[[], T], writes: bool) -> T:
    try:
        return call()
    except FileNotFoundError as exc:
        if writes or "NoSuchBucket" in str(exc):
            raise no_bucket(bucket) from exc
        raise NotFound("blob not found", key=key) from exc
    except (ValueError, exceptions.InvalidPathError) as exc:
        raise Invalid("a blob key has a component that object stores refuse", value=key) from exc
    except exceptions.BaseError as exc:
        _raise_ours(operation, exc, writes)


def _raise_ours(operation: str, exc: Exception, writes: bool) -> NoReturn:
    """Raise Stratalog's error for an error of obstore: Retryable if another try may succeed.

    obstore reports the HTTP status and failed connections only in the error's text. If the text is unknown, the request
    may have taken effect, so the outcome of a write is unknown.
    """
    text = str(exc)
    status_match, code = STATUS.search(text), CODE.search(text)
    status = int(status_match[1]) if status_match else 0
    unreached = status == 0 and "kind: Connect," in text
    if unreached or status in BUSY or (code and code[1] in THROTTLES):
        raise Retryable(Unavailable("the object store cannot serve the request", reason=_reason(exc))) from exc
    if 300 <= status < 500 or isinstance(exc, REFUSALS) or REDIRECTED in text:
        raise Unavailable(f"the object store refused {operation}", reason=_reason(exc)) from exc
    unknown: type[StratalogError] = OutcomeUnknown if writes else Unavailable
    raise Retryable(unknown("the response of the object store was lost", reason=_reason(exc))) from exc


def _reason(exc: Exception) -> str:
    """Return the status and the error code of the response. Without a status, return obstore's message."""
    text = str(exc)
    if REDIRECTED in text:
        return "the bucket is in another region"
    line = text.partition("\n")[0]
    status, code = STATUS.search(text), CODE.search(text)
    parts = [match[1] for match in (status, code) if match]
    return " ".join(parts) or line.partition(" - ")[2] or line


REFUSALS = (
    exceptions.NotSupportedError,
    exceptions.PermissionDeniedError,
    exceptions.UnauthenticatedError,
)
