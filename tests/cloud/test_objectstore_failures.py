"""The blobs handle failures of an object store. No emulator produces these failures, so the replies are canned."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from botocore.exceptions import ClientError
from obstore import exceptions

from stratalog.backends.aws_access import SessionAccess
from stratalog.backends.boto import aws_client, once
from stratalog.backends.objectstore import ObjectBlobs, open_object_blobs
from stratalog.backends.s3_versions import create_bucket
from stratalog.backends.service_request import RequestPolicy
from stratalog.clock import SystemClock
from stratalog.codec import compress, sha256
from stratalog.errors import Corrupt, Invalid, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.testing.clock import ManualClock
from stratalog.testing.emulators import free_ports
from tests.cloud.failing import Failing, Reply, failing
from tests.cloud.seaweed import session
from tests.threads import until

BODY = b"some bytes" * 100
KEY = f"organisation/document/{sha256(BODY).hex()}"

DONE = Reply(headers={"ETag": '"tag"', "x-amz-version-id": "v1"})
LOST = Reply(lost=True)


def refused(status: int, code: str) -> Reply:
    return Reply(status=status, body=f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())


BUSY = refused(503, "SlowDown")
BROKEN = refused(500, "InternalError")
FORBIDDEN = refused(403, "AccessDenied")
NO_BUCKET = refused(404, "NoSuchBucket")
OTHER_REGION = refused(301, "PermanentRedirect")
VERSIONED = Reply(body=b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")


@pytest.fixture
def store() -> Iterator[Callable[..., tuple[ObjectBlobs, Failing, ManualClock]]]:
    """A function that starts a service with the given replies, and returns blobs, the service and the blobs' clock."""
    running = []

    def make(*replies: Reply, policy: RequestPolicy | None = None) -> tuple[ObjectBlobs, Failing, ManualClock]:
        context = failing(replies)
        running.append(context)
        service = context.__enter__()
        clock = ManualClock(SystemClock().wall_ms())
        return blobs_at(service.url, clock, policy), service, clock

    yield make
    for context in running:
        context.__exit__(None, None, None)


def blobs_at(
    url: str, clock: ManualClock, policy: RequestPolicy | None = None, *, retains_freed: bool = False
) -> ObjectBlobs:
    access = SessionAccess(session=session())
    return open_object_blobs(
        "s3://bucket/base", clock, endpoint=url, access=access, policy=policy, retains_freed=retains_freed
    )


def raised(call: Callable[[], object]) -> StratalogError | None:
    try:
        call()
    except StratalogError as exc:
        return exc
    return None


@pytest.mark.parametrize(
    "first", [BUSY, BROKEN, LOST, refused(409, "OperationAborted"), refused(400, "RequestTimeout")]
)
def test_a_put_that_failed_once_is_tried_again(store: Callable, first: Reply) -> None:
    blobs, service, clock = store(first, DONE)
    begun = clock.boot_ms()
    blobs.put(KEY, BODY)
    assert [(request.method, request.path) for request in service.requests] == [("PUT", f"/bucket/base/{KEY}")] * 2
    assert service.requests[0].body == service.requests[1].body == compress(BODY)
    assert clock.boot_ms() - begun <= 50


OUTCOMES: list[tuple[Sequence[Reply], type[StratalogError]]] = [
    ([BUSY], Unavailable),
    ([refused(409, "OperationAborted")], Unavailable),
    ([LOST], OutcomeUnknown),
    ([BROKEN], OutcomeUnknown),
    ([refused(503, "ServiceUnavailable")], OutcomeUnknown),
    ([LOST, BUSY], OutcomeUnknown),
    ([BROKEN, FORBIDDEN], OutcomeUnknown),
    ([BUSY, FORBIDDEN], Unavailable),
]


@pytest.mark.parametrize(("replies", "kind"), OUTCOMES)
def test_a_failed_put_is_outcome_unknown_if_any_attempt_may_have_written(
    store: Callable, replies: Sequence[Reply], kind: type[StratalogError]
) -> None:
    blobs, _, _ = store(*replies)
    assert type(raised(lambda: blobs.put(KEY, BODY))) is kind


def test_a_put_that_is_always_throttled_ends_as_unavailable_within_12_seconds(store: Callable) -> None:
    blobs, service, clock = store(BUSY)
    begun = clock.boot_ms()
    assert isinstance(raised(lambda: blobs.put(KEY, BODY)), Unavailable)
    assert 10_000 <= clock.boot_ms() - begun <= 12_000
    assert 8 <= len(service.requests) <= 40


@pytest.mark.parametrize("reply", [FORBIDDEN, NO_BUCKET, OTHER_REGION, refused(400, "InvalidRequest")])
def test_a_permanently_refused_request_is_not_retried(store: Callable, reply: Reply) -> None:
    blobs, service, _ = store(reply)
    assert type(raised(lambda: blobs.put(KEY, BODY))) is Unavailable
    assert type(raised(lambda: blobs.get(KEY))) is Unavailable
    assert len(service.requests) == 2


def test_a_put_to_an_address_without_a_server_is_unavailable() -> None:
    blobs = blobs_at(f"http://127.0.0.1:{free_ports(1)[0]}", ManualClock())
    assert type(raised(lambda: blobs.put(KEY, BODY))) is Unavailable


def test_an_error_has_the_status_and_the_code_of_the_response(store: Callable) -> None:
    for reply, reason in ((BUSY, "503 SlowDown"), (FORBIDDEN, "403 AccessDenied")):
        error = raised(lambda: store(reply)[0].put(KEY, BODY))  # noqa: B023 - called immediately
        assert error is not None
        assert error.details["reason"] == reason
        assert isinstance(error.__cause__, exceptions.BaseError)


def test_a_refusal_names_the_operation(store: Callable) -> None:
    calls = {
        "PutObject": lambda blobs: blobs.put(KEY, BODY),
        "GetObject": lambda blobs: blobs.get(KEY),
        "GetBucketVersioning": lambda blobs: next(blobs.list("")),
    }
    for operation, call in calls.items():
        error = raised(lambda: call(store(FORBIDDEN)[0]))  # noqa: B023 - called immediately
        assert error is not None
        assert error.message == f"the object store refused {operation}"


def test_a_put_to_a_bucket_of_another_region_is_refused_with_this_reason(store: Callable) -> None:
    blobs, service, _ = store(OTHER_REGION)
    error = raised(lambda: blobs.put(KEY, BODY))
    assert type(error) is Unavailable
    assert error.details == {"reason": "the bucket is in another region"}
    assert len(service.requests) == 1


def test_an_answer_that_takes_too_long_leaves_the_outcome_unknown(store: Callable) -> None:
    policy = RequestPolicy(seconds_max=0, request_seconds_max=0.2)
    blobs, service, _ = store(Reply(late=True), policy=policy)
    assert type(raised(lambda: blobs.put(KEY, BODY))) is OutcomeUnknown
    assert type(raised(lambda: blobs.get(KEY))) is Unavailable
    until(lambda: len(service.requests) == 2)


@pytest.mark.parametrize("reply", [BUSY, BROKEN, LOST])
def test_a_read_that_fails_is_unavailable(store: Callable, reply: Reply) -> None:
    blobs, _, _ = store(reply)
    for call in (lambda: blobs.get(KEY), lambda: blobs.stat(KEY), lambda: list(blobs.list(""))):
        assert type(raised(call)) is Unavailable
    blobs, _, _ = store(reply, Reply(body=compress(BODY), headers=OBJECT))
    assert blobs.get(KEY) == BODY


def test_a_truncated_or_changed_body_is_never_returned(store: Callable) -> None:
    complete = compress(BODY)
    for damaged in (complete[:-1], b"", compress(b"other")):
        blobs, _, _ = store(Reply(body=damaged, headers=OBJECT))
        assert type(raised(lambda: blobs.get(KEY))) is Corrupt  # noqa: B023 - called immediately
    blobs, _, _ = store(
        Reply(body=complete[:-1], headers={**OBJECT, "Content-Length": str(len(complete)), "Connection": "close"})
    )
    assert type(raised(lambda: blobs.get(KEY))) is Unavailable


def test_a_missing_object_is_not_found(store: Callable) -> None:
    blobs, _, _ = store(refused(404, "NoSuchKey"))
    assert type(raised(lambda: blobs.get(KEY))) is NotFound
    assert blobs.stat(KEY) is None


def test_a_put_sends_the_checksum_of_the_stored_bytes(store: Callable) -> None:
    blobs, service, _ = store(DONE)
    blobs.put(KEY, BODY)
    [request] = service.requests
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-amz-checksum-sha256"] == b64encode(sha256(request.body)).decode()


def versions(*listed: tuple[str, str, bool], more: str = "") -> Reply:
    """Return a reply that lists the versions in ``listed``: each with its key, its id, and True if it is current.

    A service sorts the versions by key, and the versions of one key from the newest to the oldest.

    With ``more`` the list is incomplete. The next page begins after the version ``more``.
    """
    items = "".join(
        f"<Version><Key>base/{key}</Key><VersionId>{version}</VersionId><IsLatest>{str(latest).lower()}</IsLatest>"
        f"<LastModified>2026-11-21T00:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag><Size>5</Size></Version>"
        for key, version, latest in listed
    )
    markers = (
        f"<NextKeyMarker>base/{KEY}</NextKeyMarker><NextVersionIdMarker>{more}</NextVersionIdMarker>" if more else ""
    )
    cut = f"<IsTruncated>{'true' if more else 'false'}</IsTruncated>{markers}"
    return Reply(body=f"<ListVersionsResult>{cut}{items}</ListVersionsResult>".encode())


def deletions(service: Failing) -> list[str]:
    return [request.path.rpartition("versionId=")[2] for request in service.requests if request.method == "DELETE"]


GONE = Reply(status=204)
PAGE = Reply(body=b"<html><body>welcome</body></html>")
COPY_FAILED = Reply(body=b"<Error><Code>InternalError</Code><Message>no</Message></Error>")


def test_a_delete_removes_older_versions_before_the_current_version(store: Callable) -> None:
    blobs, service, _ = store(VERSIONED, versions((KEY, "v3", True), (KEY, "v2", False), (KEY, "v1", False)), GONE)
    assert blobs.delete(KEY, "v3")
    assert deletions(service) == ["v1", "v2", "v3"]


def test_a_delete_also_removes_versions_on_later_pages(store: Callable) -> None:
    page = versions((KEY, "v3", True), more="v3")
    blobs, service, _ = store(VERSIONED, page, versions((KEY, "v2", False)), GONE)
    assert blobs.delete(KEY, "v3")
    assert deletions(service) == ["v2", "v3"]


@pytest.mark.parametrize("first", [BUSY, BROKEN, LOST])
def test_a_delete_that_failed_once_is_tried_again(store: Callable, first: Reply) -> None:
    blobs, service, _ = store(VERSIONED, versions((KEY, "v1", True)), first, GONE)
    assert blobs.delete(KEY, "v1")
    assert deletions(service) == ["v1", "v1"]


@pytest.mark.parametrize("first", [PAGE, Reply()])
def test_a_list_whose_response_is_not_a_list_is_tried_again(store: Callable, first: Reply) -> None:
    blobs, _, _ = store(VERSIONED, first, versions((KEY, "v1", True)))
    assert [stat.key for stat in blobs.list("organisation/")] == [KEY]


@pytest.mark.parametrize(
    ("stated", "malformed"),
    [
        (b"<Size>5</Size>", b"<Size>five</Size>"),
        (b"<Size>5</Size>", b""),
        (b"2026-11-21T00:00:00.000Z", b"yesterday"),
        (b"<LastModified>2026-11-21T00:00:00.000Z</LastModified>", b""),
    ],
)
def test_a_list_with_a_malformed_size_or_time_is_unavailable(store: Callable, stated: bytes, malformed: bytes) -> None:
    reply = versions((KEY, "v1", True))
    assert stated in reply.body
    blobs, _, _ = store(
        VERSIONED, Reply(body=reply.body.replace(stated, malformed)), policy=RequestPolicy(seconds_max=0)
    )
    assert isinstance(raised(lambda: list(blobs.list("organisation/"))), Unavailable)


def test_a_request_that_boto3_cannot_build_is_not_tried_again() -> None:
    client = aws_client("s3", session(), "http://127.0.0.1:9", RequestPolicy())
    with pytest.raises(UnicodeEncodeError):
        once("the object store", partial(client.put_object, Bucket="bucket", Key="\ud800"), writes=True)


def test_a_list_that_is_never_a_list_is_unavailable(store: Callable) -> None:
    blobs, _, _ = store(VERSIONED, PAGE, policy=RequestPolicy(seconds_max=0))
    assert isinstance(raised(lambda: list(blobs.list("organisation/"))), Unavailable)


@pytest.mark.parametrize("copied", [PAGE, Reply(), COPY_FAILED])
def test_a_blob_is_deleted_only_after_its_copy_is_confirmed(copied: Reply) -> None:
    with failing([VERSIONED, versions((KEY, "v1", True)), copied]) as service:
        clock, policy = ManualClock(SystemClock().wall_ms()), RequestPolicy(seconds_max=0)
        blobs = blobs_at(service.url, clock, policy, retains_freed=True)
        assert isinstance(raised(lambda: blobs.delete(KEY, "v1")), OutcomeUnknown)
    assert deletions(service) == []


@pytest.mark.parametrize(("reply", "kind"), [(BUSY, Unavailable), (LOST, OutcomeUnknown), (FORBIDDEN, Unavailable)])
def test_a_failed_delete_is_outcome_unknown_only_if_it_may_have_happened(
    store: Callable, reply: Reply, kind: type[StratalogError]
) -> None:
    blobs, _, _ = store(VERSIONED, versions((KEY, "v1", True)), reply)
    assert isinstance(raised(lambda: blobs.delete(KEY, "v1")), kind)


def test_a_failure_during_the_delete_of_older_versions_leaves_the_current_version(store: Callable) -> None:
    blobs, service, _ = store(VERSIONED, versions((KEY, "v2", True), (KEY, "v1", False)), FORBIDDEN)
    assert isinstance(raised(lambda: blobs.delete(KEY, "v2")), Unavailable)
    assert deletions(service) == ["v1"]


def test_a_delete_leaves_another_generation_and_accepts_a_missing_blob(store: Callable) -> None:
    blobs, service, _ = store(VERSIONED, versions((KEY, "v2", True), (KEY, "v1", False)), versions())
    assert not blobs.delete(KEY, "v1")
    assert blobs.delete(KEY, "v1")
    assert deletions(service) == []


def test_a_null_version_is_never_deleted(store: Callable) -> None:
    """On a bucket with suspended versioning, a put replaces the null version."""
    blobs, service, _ = store(VERSIONED, versions((KEY, "v2", True), (KEY, "null", False)))
    assert type(raised(lambda: blobs.delete(KEY, "v2"))) is Unavailable
    assert deletions(service) == []


def test_an_object_store_without_versions_deletes_nothing(store: Callable) -> None:
    plain = {name: value for name, value in OBJECT.items() if name != "x-amz-version-id"}
    blobs, service, _ = store(refused(501, "NotImplemented"), Reply(headers=plain))
    assert not blobs.delete(KEY, "another")
    stat = blobs.stat(KEY)
    assert stat is not None
    assert type(raised(lambda: blobs.delete(KEY, stat.stamp))) is Unavailable
    assert deletions(service) == []


def test_a_url_with_an_unsupported_scheme_is_invalid() -> None:
    assert isinstance(raised(lambda: open_object_blobs("ftp://host/folder", ManualClock())), Invalid)


OBJECT = {"Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT", "ETag": '"e"', "x-amz-version-id": "v1"}


class BucketClient:
    """A client of the object store in one region. The client records the arguments of `create_bucket`."""

    def __init__(self, region: str, versioning: dict[str, str] | None = None) -> None:
        self.meta = SimpleNamespace(region_name=region)
        self.asked: dict[str, Any] | None = None
        self.versioning = versioning

    def get_bucket_versioning(self, **given: Any) -> dict[str, str]:
        if self.versioning is None:
            self.refuse(404, "NoSuchBucket")
        return self.versioning or {}

    def refuse(self, status: int, code: str) -> NoReturn:
        raise ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "a request")

    def create_bucket(self, **given: Any) -> None:
        self.asked = given

    def put_bucket_lifecycle_configuration(self, **given: Any) -> None:
        pass

    def put_bucket_versioning(self, **given: Any) -> None:
        self.versioning = {"Status": "Enabled"}


@pytest.mark.parametrize(
    ("region", "more"),
    [
        ("us-east-1", {}),
        ("us-east-2", {"CreateBucketConfiguration": {"LocationConstraint": "us-east-2"}}),
        ("eu-west-1", {"CreateBucketConfiguration": {"LocationConstraint": "eu-west-1"}}),
    ],
)
def test_a_bucket_is_created_in_the_client_s_region_which_the_request_omits_for_us_east_1(
    region: str, more: dict[str, Any]
) -> None:
    client = BucketClient(region)
    assert create_bucket(client, "plans")
    assert client.asked == {"Bucket": "plans", **more}


def test_a_bucket_name_that_another_account_owns_is_invalid() -> None:
    class Theirs(BucketClient):
        def get_bucket_versioning(self, **given: Any) -> dict[str, str]:
            self.refuse(403, "AccessDenied")

        def create_bucket(self, **given: Any) -> None:
            self.refuse(409, "BucketAlreadyExists")

    with pytest.raises(Invalid, match="another AWS account owns a bucket of that name"):
        create_bucket(Theirs("eu-west-1"), "plans")


def test_an_existing_bucket_is_not_created_again_but_gets_versioning() -> None:
    client = BucketClient("us-east-1", {})
    assert not create_bucket(client, "plans")
    assert (client.asked, client.versioning) == (None, {"Status": "Enabled"})
