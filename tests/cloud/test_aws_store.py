"""A URL opens a store on AWS and creates missing resources. With ``create=False`` an error names them instead."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest
from botocore.session import Session

import stratalog
from stratalog.backends import aws_store as backend
from stratalog.backends.aws_access import configured_endpoint
from stratalog.backends.aws_store import Address, AwsStore, parse_address
from stratalog.clock import SystemClock
from stratalog.errors import Closed, Invalid, Unavailable
from stratalog.homes import make_store
from stratalog.ports.meter import Meter
from stratalog.testing.emulators import Emulator
from tests.cloud.seaweed import client
from tests.threads import SECONDS_MAX, run_together


@pytest.fixture(autouse=True)
def url(aws_store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return aws_store


@pytest.fixture
def made(url: str) -> str:
    make_store(url)
    return url


def test_opening_a_url_creates_a_store_that_can_be_reopened(url: str) -> None:
    with stratalog.open(url) as store:
        store.create("acme", "plan").mutate("put", {"key": "notes/large", "value": "x" * 200_000})
        store.queue.send("acme/plan", [b"hint"])
    with stratalog.open(url, create=False) as store:
        assert len(store.document("acme", "plan").get("notes/large")) == 200_000
        assert [message.body for message in store.queue.receive()] == [b"hint"]


def test_make_store_returns_the_resources_that_it_created(url: str) -> None:
    name = url.removeprefix("aws://")
    assert make_store(url) == [f"table {name}", f"bucket {name}", f"queue {name}.fifo", f"queue {name}-dead.fifo"]
    assert make_store(url) == []


def test_make_store_enables_versioning_of_an_incompletely_created_bucket(url: str, bucket: Emulator) -> None:
    name = url.removeprefix("aws://")
    client(bucket).create_bucket(Bucket=name)
    assert f"bucket {name}" not in make_store(url)
    assert client(bucket).get_bucket_versioning(Bucket=name)["Status"] == "Enabled"


def test_concurrent_opens_of_a_missing_store_all_succeed(url: str) -> None:
    failures: list[Exception] = []
    start = threading.Barrier(4)

    def open_and_write(writer: int) -> None:
        start.wait(SECONDS_MAX)
        try:
            with stratalog.open(url) as store:
                store.create("acme", f"plan-{writer}").mutate("put", {"key": "notes/large", "value": "x" * 20_000})
                store.queue.send(f"plan-{writer}", [b"hint"])
        except Exception as exc:  # noqa: BLE001 - the test reports any error
            failures.append(exc)

    run_together(partial(open_and_write, writer) for writer in range(4))
    assert failures == []
    with stratalog.open(url, create=False) as store:
        assert [line.id for line in store.list("acme")] == [f"plan-{writer}" for writer in range(4)]
        assert len(store.queue.receive()) == 4


def test_stores_may_share_a_bucket_and_a_queue(made: str) -> None:
    name = made.removeprefix("aws://")
    other = f"aws://{name}-other?bucket={name}&queue={name}&prefix=other/blobs"
    with stratalog.open(other) as store:
        store.create("acme", "plan").mutate("put", {"key": "notes/large", "value": "x" * 20_000})
        keys = [stat.key for stat in store.environment.blobs.list("")]
        assert keys
    with stratalog.open(made) as store:
        assert [f"other/blobs/{key}" for key in keys] == [stat.key for stat in store.environment.blobs.list("")]


def test_without_create_an_error_names_the_missing_table_or_queue(url: str) -> None:
    name = url.removeprefix("aws://")
    with stratalog.open(url, create=False) as store:
        with pytest.raises(Unavailable, match=f"the table does not exist; `stratalog init` creates it table='{name}'"):
            store.create("acme", "plan")
        with pytest.raises(
            Unavailable, match=f"the queue does not exist; `stratalog init` creates it queue='{name}.fifo'"
        ):
            store.queue.receive()


def test_a_missing_bucket_is_named_when_a_blob_is_put_read_or_listed(made: str) -> None:
    with stratalog.open(f"{made}?bucket=no-such-bucket", create=False) as store:
        document = store.create("acme", "plan")
        missing = "the bucket does not exist; `stratalog init` creates it bucket='no-such-bucket'"
        with pytest.raises(Unavailable, match=missing):
            document.mutate("put", {"key": "notes/large", "value": "x" * 200_000})
        with pytest.raises(Unavailable, match=missing):
            store.environment.blobs.get(f"acme/{'0' * 64}")
        with pytest.raises(Unavailable, match=missing):
            list(store.environment.blobs.list(""))


def test_direct_mutations_and_reads_need_no_queue(made: str) -> None:
    meter = Meter()
    with stratalog.open(f"{made}?queue=no-such-queue", create=False, meter=meter) as store:
        store.create("acme", "plan").mutate("put", {"key": "name", "value": "Plan"})
        assert store.document("acme", "plan").get("name") == "Plan"


def test_a_single_meter_counts_table_bucket_and_queue(made: str) -> None:
    meter = Meter()
    with stratalog.open(made, create=False, meter=meter) as store:
        store.create("acme", "plan").mutate("put", {"key": "notes/large", "value": "x" * 200_000})
        store.queue.receive()
    assert store.meter is meter
    assert {"TransactWriteItems", "PutItem", "PutObject", "ReceiveMessage"} <= {name for name, _ in meter.read()}


def test_a_closed_store_opens_no_queue(made: str) -> None:
    store = stratalog.open(made, create=False)
    store.close()
    store.close()
    with pytest.raises(Closed):
        store.queue.receive()
    with pytest.raises(Closed):
        store.create("acme", "plan")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("aws://acme", Address("acme", "acme", "acme")),
        ("aws://acme/", Address("acme", "acme", "acme")),
        (
            "aws://Acme_1?bucket=b.example&queue=q&region=eu-west-1&prefix=a/b",
            Address("Acme_1", "b.example", "q", "eu-west-1", "a/b"),
        ),
    ],
)
def test_an_address_names_the_table_and_optionally_bucket_queue_region_and_prefix(url: str, address: Address) -> None:
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "aws://",
        "aws://ab",
        "aws://Acme",
        "aws://acme_1",
        "aws://acme/folder",
        "aws://acme#part",
        "aws://acme?buckets=b",
        "aws://acme?bucket=",
        "aws://acme?bucket=b1c&bucket=b2c",
        "aws://acme?table=other",
        "aws://acme?queue=a.fifo",
        "aws://acme?region=EU",
        "aws://acme?prefix=a//b",
        "aws://acme?prefix=../b",
        "aws://user@acme",
    ],
)
def test_a_malformed_address_is_invalid(url: str) -> None:
    with pytest.raises(Invalid):
        stratalog.open(url)


PROFILE = """
[default]
endpoint_url = http://profile
services = local
[services local]
s3 =
  endpoint_url = http://profile-s3
"""


@pytest.mark.parametrize(
    ("set_here", "expected"),
    [
        ({"AWS_ENDPOINT_URL_S3": "http://s3", "AWS_ENDPOINT_URL": "http://all"}, "http://s3"),
        ({"AWS_ENDPOINT_URL": "http://all"}, "http://all"),
        ({}, "http://profile-s3"),
        ({"AWS_ENDPOINT_URL": "http://all", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, ""),
    ],
)
def test_the_configured_endpoint_is_the_endpoint_that_boto3_uses(
    set_here: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(PROFILE)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    for name, value in set_here.items():
        monkeypatch.setenv(name, value)
    session = Session()
    assert configured_endpoint(session, "s3") == expected
    assert session.create_client("s3").meta.endpoint_url == (expected or "https://s3.amazonaws.com")


@pytest.mark.parametrize("missing", ["AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"])
def test_opening_without_a_region_or_credentials_is_invalid(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(missing)
    with pytest.raises(Invalid):
        stratalog.open("aws://acme")
    if missing == "AWS_DEFAULT_REGION":
        stratalog.open("aws://acme?region=eu-west-1", create=False).close()


def test_a_search_for_the_queue_that_is_interrupted_leaves_no_client_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Client:
        closed = False

        def close(self) -> None:
            self.closed = True

    def interrupt(client: Client, name: str) -> None:
        raise KeyboardInterrupt

    client = Client()
    store = AwsStore(parse_address(url), SystemClock())
    monkeypatch.setattr(store, "_service", lambda name: client)
    monkeypatch.setattr(backend, "find_queues", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.open_queue()
    assert client.closed
    store.close()
