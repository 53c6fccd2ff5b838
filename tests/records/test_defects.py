"""The older library that was the model of records had fourteen defects.

For each defect, at least one test shows that Stratalog does not have it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from stratalog.backends.aws_access import SessionAccess
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.backends.objectstore import open_object_blobs
from stratalog.clock import Clock
from stratalog.codec import compress
from stratalog.errors import Corrupt, NotFound, OutcomeUnknown, Unavailable, VersionConflict
from stratalog.limits import BODY_PART_BYTES
from stratalog.log.environment import Environment
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index, Item, Write, holds
from stratalog.records import Records
from stratalog.testing.locks import simulated_locks
from stratalog.testing.scheduler import Scheduler, SimulatedClock
from tests.cloud.canned import canned_index, done, refused
from tests.cloud.failing import Reply, failing
from tests.cloud.seaweed import session
from tests.records.helpers import World

Commit = Callable[[], None]
LARGE = random.Random(5).randbytes(50_000)
SLOW_DOWN = Reply(status=503, body=b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>")
STORED = {"Last-Modified": "Sat, 21 Nov 2026 00:00:00 GMT", "ETag": '"tag"', "x-amz-version-id": "v1"}


def lost_after(commit: Commit) -> None:
    commit()
    raise OutcomeUnknown("the answer was lost")


def test_d1_an_update_with_a_body_in_blobs_is_retried_after_a_lost_race(world: World) -> None:
    def overtaken(commit: Commit) -> None:
        world.handle().put("b1", b"theirs")
        commit()

    world.records.put("b1", b"first")
    world.index.script = [overtaken]
    assert world.records.update("b1", lambda body: body + LARGE).version == 3
    assert world.records.get("b1").body == b"theirs" + LARGE


def test_d2_the_latest_version_is_read_consistently(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.records.put("b1", b"1")
    asked: list[bool] = []

    def watch(read: Callable[..., object], *key: str, **options: object) -> object:
        asked.append(bool(options.get("consistent", True)))
        return read(*key, **options)

    for name in ("get", "query"):
        monkeypatch.setattr(world.backend, name, partial(watch, getattr(world.backend, name)))
    for read in (Records.get, Records.stat, lambda records, id: records.get(id, 1)):
        read(world.handle(), "b1")
    world.handle().update("b1", lambda body: body + b"2")
    assert len(asked) >= 5
    assert all(asked)


def test_d3_a_put_whose_expected_version_is_not_the_latest_is_refused(world: World) -> None:
    for body in (b"1", b"2", b"3"):
        world.records.put("b1", body)
    for expected in (0, 1, 5, 9):
        with pytest.raises(VersionConflict):
            world.handle().put("b1", b"shadowed", expected=expected)
    assert [version.version for version in world.records.versions("b1")] == [1, 2, 3]


def test_d4_an_update_of_a_record_with_a_lost_body_raises_corrupt_and_creates_nothing(world: World) -> None:
    world.records.put("b1", LARGE)
    world.lose_blobs()
    with pytest.raises(Corrupt):
        world.handle().update("b1", lambda body: body, create=b"new")
    assert world.handle().put("b1", b"new").version == 2


def test_d5_a_put_that_cannot_read_the_latest_version_writes_nothing(world: World) -> None:
    world.records.put("b1", b"1")
    handle = world.handle()

    def away(*arguments: object, **options: object) -> Iterator[object]:
        raise Unavailable("away")

    world.index.query = away  # type: ignore[method-assign,assignment]
    world.index.calls.clear()
    with pytest.raises(Unavailable):
        handle.put("b1", b"2")
    assert world.index.calls["commit"] == 0


def test_d6_reading_the_latest_version_number_downloads_no_body(world: World) -> None:
    world.records.put("b1", LARGE)
    world.blobs.calls.clear()
    world.handle().put("b1", LARGE + b"2")
    world.handle().stat("b1")
    list(world.handle().versions("b1"))
    assert world.blobs.calls["get"] == 0


@pytest.mark.parametrize("size", [n * BODY_PART_BYTES + over for n in (1, 2, 3) for over in (-1, 0, 1, 8)])
def test_d7_a_body_whose_size_is_near_a_part_boundary_reads_back_complete(world: World, size: int) -> None:
    body = random.Random(size).randbytes(1000) * (size // 1000 + 1)
    pieces = (body[start : min(size, start + 999_983)] for start in range(0, size, 999_983))
    assert world.records.put("b1", pieces, size=size).size == size
    assert b"".join(world.records.open("b1")) == body[:size]


def test_d8_the_collector_deletes_the_blobs_of_a_failed_upload(world: World) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(2 * BODY_PART_BYTES + 1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        world.records.put("b1", broken())
    assert world.blob_keys() != []
    world.pass_seconds()
    world.records.free("b1")
    assert world.blob_keys() == []


def test_d9_a_throttled_request_to_a_bucket_is_retried() -> None:
    """The service refuses the put twice and the get twice, with the answer `503 SlowDown` of S3."""
    body = Reply(body=compress(LARGE), headers=STORED)
    with failing([SLOW_DOWN, SLOW_DOWN, Reply(headers=STORED), SLOW_DOWN, SLOW_DOWN, body]) as service:

        def ends(clock: Clock) -> tuple[Index, Blobs]:
            return MemoryIndex(), open_object_blobs(
                "s3://bucket", clock, endpoint=service.url, access=SessionAccess(session=session())
            )

        world = World(ends=ends)
        begun = world.clock.now_ms
        assert world.records.put("b1", LARGE).version == 1
        assert world.records.get("b1").body == LARGE
        assert [request.method for request in service.requests] == ["PUT"] * 3 + ["GET"] * 3
        assert world.clock.now_ms > begun, "the retries did not wait"
        world.close()


@pytest.mark.parametrize("code", ["ThrottlingException", "ProvisionedThroughputExceededException"])
def test_d9_a_throttled_request_to_a_table_is_retried(code: str) -> None:
    index, endpoint = canned_index(*[refused(code)] * 2, done({"Items": []}), done(), *[refused(code)] * 2, done())
    world = World(ends=lambda clock: (index, MemoryBlobs(clock)))
    assert world.records.put("b1", b"1").version == 1
    assert [operation for operation, _ in endpoint.sent] == ["Query"] * 3 + ["GetItem"] + ["TransactWriteItems"] * 3


def test_d10_repeated_puts_of_the_same_bytes_store_a_single_blob(world: World) -> None:
    world.index.script = [lost_after]
    world.records.put("b1", LARGE)
    with pytest.raises(VersionConflict):
        world.handle().put("b1", LARGE + b"!", expected=0)
    world.records.put("b1", b"small")
    world.records.put("b1", LARGE)
    assert sum(1 for key in world.blob_keys() if world.blobs.get(key) == LARGE) == 1


def test_d11_a_put_returns_the_reference_of_its_body_without_a_read(world: World) -> None:
    world.records.put("b1", b"1")
    world.index.calls.clear()
    stored = world.records.put("b1", LARGE)
    assert stored.ref is not None
    assert world.blobs.get(f"{world.organisation}/records/b1/bodies/{stored.ref.address.hex()}") == LARGE
    assert world.index.calls["read"] == 0


@pytest.mark.parametrize("followed", [False, True])
def test_d12_a_lost_answer_does_not_apply_an_update_twice(world: World, followed: bool) -> None:
    def lost(commit: Commit) -> None:
        commit()
        if followed:
            world.handle().update("b1", lambda body: body + b"-")
        raise OutcomeUnknown("the answer was lost")

    world.records.put("b1", b"1")
    world.index.script = [lost]
    assert world.records.update("b1", lambda body: body + b"+").version == 2
    assert world.records.get("b1").body == (b"1+-" if followed else b"1+")


def test_d13_a_deletion_is_a_version_that_readers_see(world: World) -> None:
    world.records.put("b1", b"1")
    deleted = world.records.delete("b1")
    assert (deleted.version, world.records.stat("b1").deleted) == (2, True)
    with pytest.raises(NotFound) as gone:
        world.records.get("b1")
    assert gone.value.details["version"] == 2


def in_threads(*calls: Callable[[], object]) -> list[object]:
    """Run each call in its own thread. Return, for each call, its result or the VersionConflict that it raised."""

    def answer(call: Callable[[], object]) -> object:
        try:
            return call()
        except VersionConflict as exc:
            return exc

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(answer, calls))


def meet(world: World) -> None:
    """Make the next two commits wait for each other, so that both writers have read the same version."""
    met = threading.Barrier(2, timeout=60)

    def together(commit: Commit) -> None:
        met.wait()
        commit()

    world.index.script = [together, together]


def test_d14_two_concurrent_updates_conflict_once_and_are_both_applied(world: World) -> None:
    world.records.put("b1", b"0")
    meet(world)
    first, second = world.handle(), world.handle()
    in_threads(
        lambda: first.update("b1", lambda body: body + b"+1"), lambda: second.update("b1", lambda body: body + b"+2")
    )
    assert world.handle().get("b1").body in (b"0+1+2", b"0+2+1")
    assert [version.version for version in world.handle().versions("b1")] == [1, 2, 3]
    assert world.environment.counters["conflict"] == 1


@pytest.mark.parametrize("expected", [0, 1])
def test_d14_the_loser_of_two_puts_with_the_same_expected_version_is_refused(world: World, expected: int) -> None:
    for n in range(expected):
        world.records.put("b1", b"%d" % n)
    meet(world)
    first, second = world.handle(), world.handle()
    results = in_threads(
        lambda: first.put("b1", b"mine", expected=expected), lambda: second.put("b1", b"theirs", expected=expected)
    )
    refusals = [answer.details for answer in results if isinstance(answer, VersionConflict)]
    assert refusals == [{"record": "b1", "expected": expected, "actual": expected + 1}]
    assert world.handle().get("b1").body == (b"mine" if isinstance(results[1], VersionConflict) else b"theirs")
    assert world.handle().stat("b1").version == expected + 1


class SwitchingIndex(MemoryIndex):
    """A memory index that switches to another actor after each check of a condition, within a commit."""

    scheduler: Scheduler

    def _holds(self, write: Write, item: Item | None) -> bool:  # type: ignore[override]
        held = holds(write.condition, item)
        self.scheduler.switch()
        return held


@pytest.mark.usefixtures("untraced")
def test_d14_nothing_comes_between_the_conditions_and_the_writes_of_a_commit_in_memory() -> None:
    def add(environment: Environment, n: int) -> None:
        Records(environment, "acme").update("b1", lambda body: body + bytes([n]))

    waits = 0
    for seed in range(20):
        scheduler = Scheduler(seed)
        with simulated_locks(scheduler):
            index, clock = SwitchingIndex(), SimulatedClock(scheduler)
            index.scheduler = scheduler
            environment = Environment(index, MemoryBlobs(clock), clock)
            Records(environment, "acme").put("b1", b"")
            for n in range(3):
                scheduler.spawn(f"{n}", partial(add, environment, n))
            scheduler.run()
        stored = Records(environment, "acme").get("b1")
        assert sorted(stored.body) == [0, 1, 2]
        assert stored.version.version == 4
        waits += scheduler.counts.get("lock waits")
    assert waits, "no actor waited for another actor's lock"
