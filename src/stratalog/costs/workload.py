"""The billed units of each operation of a store.

The units are measured: the operation runs in memory, with a meter and a simulated clock. So if a change makes it more
expensive, the next measurement shows the new cost. The exceptions are ``queue-function``, the calls of Lambda functions
and the requests through API Gateway: their units are computed.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.costs.bill import Functions, Units, units_of
from stratalog.documents import Document
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import Environment, Event, LogSettings
from stratalog.log.retention import archive_segments, free_segments
from stratalog.log.tasks import InlineTasks
from stratalog.maintenance.collection import collect_family
from stratalog.maintenance.store_pass import maintain
from stratalog.ports.meter import Meter
from stratalog.protocol.messages import Mutation
from stratalog.store import Store, open_store

__all__ = ["Operation", "StandingClock", "Trial", "measure_maintenance", "measure_operations", "measure_run", "text_of"]

FREE_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1
SEGMENT_ENTRIES = 1000
TAIL_ENTRIES = 100
BATCH = 10


class StandingClock:
    """A clock that moves only when a caller sleeps. Its randomness is a hash of the number of calls.

    So the same work always has exactly the same bill.
    """

    def __init__(self) -> None:
        self._ms = 1_800_000_000_000
        self._asked = itertools.count()

    def wall_ms(self) -> int:
        return self._ms

    def boot_ms(self) -> int:
        return self._ms

    def sleep(self, seconds: float) -> None:
        self._ms += round(seconds * 1000)

    def random(self) -> float:
        return int.from_bytes(self.random_bytes(4), "big") / 2**32

    def random_bytes(self, count: int) -> bytes:
        return hashlib.shake_256(b"%d" % next(self._asked)).digest(count)


class Trial:
    """A temporary store in memory that measures the billed units of work."""

    def __init__(self, settings: LogSettings | None = None) -> None:
        self.clock = StandingClock()
        self.meter = Meter()
        self.store = open_store("memory:", settings=settings, clock=self.clock, meter=self.meter)
        # The new handle runs background tasks at once, so that the meter counts their requests in the same order each
        # time.
        self.store = self.reopened()

    def spent(self, work: Callable[[], object]) -> Units:
        """Return the billed units of one call."""
        before = self.meter.read()
        work()
        return units_of(self.meter.read(), before)

    def reopened(self) -> Store:
        """Return a new handle of the same store without cached data, as of a process that has just started."""
        known = self.store.environment
        environment = Environment(known.index, known.blobs, known.clock, known.settings, background=InlineTasks())
        return Store(environment, self.store.queue)


class Operation(msgspec.Struct, frozen=True):
    """One operation and its billed units."""

    name: str
    what: str
    units: Units


def measure_operations(functions: Functions) -> Iterator[Operation]:
    """Measure every operation in turn. Takes a second or two."""
    yield from _commits()
    yield from _opening()
    yield from _maintenance()
    yield from _records()
    yield from _queue()
    yield Operation("function", "one warm call of a Lambda function", functions.call())
    yield Operation("function-cold", "one cold start of a Lambda function", functions.call(cold=True))
    yield Operation("request", "one request through API Gateway, without its function", Units(http_requests=1))


def measure_run(run: Callable[[Store], object]) -> Units:
    """Return the billed units of ``run`` on an empty store."""
    trial = Trial()
    return trial.spent(lambda: run(trial.store))


def text_of(size: int, number: int = 0) -> str:
    """Return ``size`` hexadecimal digits, the same on every run. Compression halves them, but no more."""
    return hashlib.shake_256(b"text %d" % number).hexdigest(size // 2 + 1)[:size]


def _put(number: int, value: Any) -> Mutation:
    return Mutation(client="ada", name="put", args={"key": f"items/{number % 200:03d}", "value": value})


def _warm(trial: Trial) -> Document:
    """Return a document of 200 items. This process has the document's state in memory."""
    document = trial.store.create("acme", "budget")
    document.apply([_put(number, {"title": f"title {number}"}) for number in range(200)])
    document.snapshot()
    return document


def _commits() -> Iterator[Operation]:
    trial = Trial()
    yield Operation("create", "a new document", trial.spent(lambda: trial.store.create("acme", "other")))
    document = _warm(trial)
    commit = trial.spent(lambda: document.apply([_put(1, {"title": "x" * 500})]))
    yield Operation("commit", "one mutation of at most 1 KB, by a warm process", commit)
    ten = trial.spent(lambda: document.apply([_put(number, {"title": f"new {number}"}) for number in range(BATCH)]))
    yield Operation("commit-10", "ten small mutations as one entry", ten)
    for size in (10, 100):
        body = {"id": "x", "name": "a body", "text": text_of(size * 1024)}
        units = trial.spent(lambda body=body: document.apply([_put(2, body)]))  # type: ignore[misc]
        yield Operation(f"commit-{size}kb", f"one mutation that puts an item of {size} KB", units)
    fork = trial.spent(lambda: document.fork("fork"))
    yield Operation("fork", "a fork of a history of any length", fork)


def _opening() -> Iterator[Operation]:
    trial = Trial()
    document = _warm(trial)
    for number in range(TAIL_ENTRIES):
        document.apply([_put(number, {"title": f"title {number}, again"})])
    read = trial.spent(lambda: trial.reopened().document("acme", "budget").get("items/150"))
    yield Operation("open", f"one key, by a cold process, {TAIL_ENTRIES} entries after a snapshot", read)
    write = trial.spent(lambda: trial.reopened().document("acme", "budget").apply([_put(3, {"title": "cold"})]))
    yield Operation("commit-cold", "a mutation by a cold process", write)
    warm = trial.reopened().document("acme", "budget")
    warm.get("items/150")
    yield Operation("look", "one key, read again by a warm process", trial.spent(lambda: warm.get("items/150")))


def _maintenance() -> Iterator[Operation]:
    settings = LogSettings(segment_entries_target=SEGMENT_ENTRIES, snapshot_entries_interval=10**9)
    trial = Trial(settings)
    log = trial.store.create_log("acme", "plan")
    for number in range(SEGMENT_ENTRIES):
        log.append(Event("set", {"cell": f"C{number}", "value": number}))
    roll_over = trial.spent(lambda: log.append(Event("set", {"cell": "C2", "value": 100})))
    small_append = trial.spent(lambda: log.append(Event("set", {"cell": "C2", "value": 1})))
    yield Operation("append", "one small event on a log", small_append)
    yield Operation("roll-over", "the append that begins another segment", roll_over)
    entries = LogSettings().segment_entries_target
    share = (roll_over + small_append.times(-1)).times(1 / entries)
    yield Operation(
        "roll-over-share", f"each append's share of the roll-over, in segments of {entries:,} entries", share
    )
    document = _warm(trial)
    document.apply([_put(number, {"title": f"changed {number}"}) for number in range(200)])
    yield Operation("snapshot", "a snapshot of a document of 200 items, all changed", trial.spent(document.snapshot))
    archive = trial.spent(lambda: archive_segments(log))
    yield Operation("archive", f"moving a segment of {SEGMENT_ENTRIES:,} small entries to S3", archive)
    trial.clock.sleep(FREE_SECONDS)
    yield Operation("free", "deleting the archived entries from the index", trial.spent(lambda: free_segments(log)))
    yield Operation("collect", "collecting 100 orphan blobs beside 100 in use", _collecting())


def _collecting() -> Units:
    trial = Trial()
    document = _warm(trial)
    for number in range(100):
        document.apply([_put(number, {"text": text_of(2000, number)})])
    owner = document.log.record.owner
    for number in range(100):
        body = b"orphan %d" % number
        trial.store.environment.blobs.put(f"{owner}/items/items/{hashlib.sha256(body).hexdigest()}", body)
    trial.clock.sleep(FREE_SECONDS)
    return trial.spent(lambda: collect_family(trial.store.environment, owner))


def _records() -> Iterator[Operation]:
    trial = Trial()
    records = trial.store.records("acme")
    records.put("contract", b"first")
    small = trial.spent(lambda: records.put("contract", text_of(500).encode()))
    yield Operation("record", "a new version of a record of 500 bytes", small)
    large = trial.spent(lambda: records.put("contract", text_of(100 * 1024).encode()))
    yield Operation("record-100kb", "a new version of a record of 100 KB", large)
    read = trial.spent(lambda: records.get("contract"))
    yield Operation("record-read", "the newest version of a record of 100 KB", read)


def _queue() -> Iterator[Operation]:
    """Measure the queue requests of a push, without the requests of its commit."""
    trial = Trial()
    queue = trial.store.queue
    message = encode(["acme", "budget", "incarnation", {"key": "items/001", "value": {"title": "x" * 200}}])

    def alone() -> None:
        queue.send("acme/budget", [message])
        for given in queue.receive():
            queue.acknowledge(given)

    def busy() -> None:
        for _ in range(BATCH):
            queue.send("acme/budget", [message])
        for given in queue.receive(BATCH):
            queue.acknowledge(given)

    yield Operation("queue", "one push through the queue, alone", trial.spent(alone))
    yield Operation("queue-busy", "one push through the queue, in batches of ten", trial.spent(busy).times(1 / BATCH))
    by_function = Units(sqs_requests=1 + 2 / BATCH)
    yield Operation(
        "queue-function", "one push through the queue, received and deleted by Lambda in batches of ten", by_function
    )


def measure_maintenance() -> Units:
    """Return the billed units of a second maintenance pass over ten documents, which has no work to do."""
    trial = Trial()
    for number in range(10):
        trial.store.create("acme", f"plan-{number}").apply([_put(1, number)])
    maintain(trial.store)
    return trial.spent(lambda: maintain(trial.store))
