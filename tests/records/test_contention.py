"""Sixty-four concurrent updates of one record over faulty connections each take effect exactly once."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from stratalog.clock import SystemClock
from stratalog.log.environment import Environment, LogSettings
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.records import Records
from stratalog.testing.faults import FaultyBlobs, FaultyIndex, FaultyLine, Weather
from stratalog.testing.scheduler import Scheduler, SimulatedClock
from tests.cloud.rough import RealTime, real_line
from tests.records.helpers import Ends, in_memory

WRITERS = 64
ROUGH = Weather(unavailable=0.04, lost_request=0.08, lost_answer=0.15, late=0.08, storm_calls=10**6, late_ms_max=50)
LOSSES = {"unavailable", "lost request", "lost answer", "late"}
# A body of more than 40 bytes may become a blob. No writer reaches its deadline of an hour.
SETTINGS = LogSettings(body_inline_bytes_max=40, append_seconds_max=3600)

WrittenVersions = dict[str, int]


@pytest.fixture(autouse=True)
def _deep() -> Iterator[None]:
    """Raise the recursion limit.

    Python adds the stack depths of an actor and of the actor that first switched to it.
    """
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(WRITERS * limit)
    yield
    sys.setrecursionlimit(limit)


def add(records: Records, written: WrittenVersions, n: int, *gates: Callable[[], object]) -> None:
    """Append the byte ``n``. After the first read of the record, call each gate once."""
    closed = list(gates)

    def append(body: bytes) -> bytes:
        while closed:
            closed.pop()()
        return body + bytes([n])

    written[f"writer-{n}"] = records.update("b1", append, write_id=f"writer-{n}").version


def check(records: Records, written: WrittenVersions) -> None:
    """Check that each update exists once, at the version that its writer got.

    The body of a version must contain the bytes of all updates up to that version.
    """
    versions = list(records.versions("b1"))
    assert {version.write_id: version.version for version in versions[1:]} == written
    assert [version.version for version in versions] == list(range(1, WRITERS + 2))
    body = b""
    for version in versions[1:]:
        body += bytes([int(version.write_id.removeprefix("writer-"))])
        assert records.get("b1", version.version).body == body
    assert sorted(body) == list(range(WRITERS))


def updates_in_turns(seed: int, ends: Ends) -> Counter[str]:
    """Run the updates as actors in simulated time. A seeded scheduler may switch actors at each call of a port."""
    scheduler = Scheduler(seed)
    clock = SimulatedClock(scheduler)
    index, blobs = ends(clock)
    honest = Records(Environment(index, blobs, clock, SETTINGS), f"turns{seed}")
    honest.put("b1", b"")
    written: WrittenVersions = {}
    for n in range(WRITERS):
        line = FaultyLine(scheduler, ROUGH, lambda: None)
        environment = Environment(FaultyIndex(line, index), FaultyBlobs(line, blobs), clock, SETTINGS)
        scheduler.spawn(f"{n}", partial(add, Records(environment, honest.organisation), written, n))
    scheduler.run()
    check(honest, written)
    close(index, blobs)
    return Counter(scheduler.counts.values)


def updates_by_threads(seed: int, ends: Ends) -> Counter[str]:
    """Run the updates in threads. Every thread reads the first version before any thread continues.

    Each connection has its own seed, so that its first calls always meet the same faults.
    """
    clock = SystemClock()
    index, blobs = ends(clock)
    honest = Records(Environment(index, blobs, clock, SETTINGS), f"threads{seed}")
    honest.put("b1", b"")
    written: WrittenVersions = {}
    lines = [real_line(seed * WRITERS + n, ROUGH) for n in range(WRITERS)]
    environments = [Environment(FaultyIndex(line, index), FaultyBlobs(line, blobs), clock, SETTINGS) for line in lines]
    met = threading.Barrier(WRITERS, timeout=600)
    with ThreadPoolExecutor(WRITERS) as pool:
        handles = [Records(environment, honest.organisation) for environment in environments]
        for done in [pool.submit(add, handle, written, n, met.wait) for n, handle in enumerate(handles)]:
            done.result()
    for line in lines:
        wait_for_late(line)
    check(honest, written)
    close(index, blobs)
    return sum((Counter(line.counts.values) for line in lines), Counter())


def wait_for_late(line: FaultyLine) -> None:
    time = line.scheduler
    assert isinstance(time, RealTime)
    time.wait()


def close(index: Index, blobs: Blobs) -> None:
    index.close()
    blobs.close()


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("run", [updates_in_turns, updates_by_threads])
def test_64_concurrent_updates_over_faulty_connections_are_each_applied_once(
    ends: Ends, run: Callable[[int, Ends], Counter[str]]
) -> None:
    met = run(1, ends)
    assert min(met[loss] for loss in LOSSES) > 0
    assert met["conflicts"] > 0


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("seed", range(2, 12))
def test_64_updates_in_any_order_are_each_applied_once(seed: int) -> None:
    updates_in_turns(seed, in_memory())
