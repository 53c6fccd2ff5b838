"""A writer that slept after its puts of blobs writes the blobs again before the commit.

If a blob cannot be put again, the writer does not commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log import Environment, Event, Log, LogSettings, create_log, open_log
from stratalog.log.blob_batch import BlobBatch, BlobsDeferred
from stratalog.log.bodies import read_body
from stratalog.maintenance.collection import OLD_SECONDS, collect_family
from stratalog.ports.blobs import BlobStat, Damaged, ignore
from stratalog.ports.index import Write
from stratalog.testing.clock import ManualClock
from tests.log.helpers import ScriptedIndex, unavailable

LONG = " ".join(map(str, range(1000)))


class SleepyBlobs:
    """A blob store whose next put calls ``sleep`` before its answer. Every put raises ``failure``, if it is set."""

    def __init__(self, backend: MemoryBlobs) -> None:
        self.backend = backend
        self.sleep: Callable[[], object] | None = None
        self.failure: StratalogError | None = None

    def put(self, key: str, body: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        self.backend.put(key, body)
        sleep, self.sleep = self.sleep, None
        if sleep is not None:
            sleep()

    def get(self, key: str) -> bytes:
        return self.backend.get(key)

    def stat(self, key: str) -> BlobStat | None:
        return self.backend.stat(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        return self.backend.list(prefix, after=after, damaged=damaged)

    def delete(self, key: str, stamp: str) -> bool:
        return self.backend.delete(key, stamp)

    def close(self) -> None:
        self.backend.close()


class BlobIndex(ScriptedIndex):
    """An index that stores small blobs with a commit."""

    def __init__(self) -> None:
        super().__init__()
        self.blob_bytes_max = 100


class Sleeper:
    """A log of six entries. After the next put of a blob the writer sleeps longer than the observation rule allows."""

    def __init__(self, failure: StratalogError | None = None) -> None:
        """If ``failure`` is given, every put after the sleep raises ``failure``."""
        self.clock = ManualClock()
        self.index, self.blobs = ScriptedIndex(), SleepyBlobs(MemoryBlobs(self.clock))
        settings = LogSettings(segment_entries_target=4, body_inline_bytes_max=64)
        self.environment = Environment(self.index, self.blobs, self.clock, settings)
        self.log = create_log(self.environment, "acme", "plan", "sheet")
        for number in range(3):
            self.log.append(Event("set", number))
        self.log.save_snapshot(3, [b"base"])
        for number in range(3):
            self.log.append(Event("set", number))
        self.blobs.sleep = lambda: self._sleep(failure)

    def _sleep(self, failure: StratalogError | None) -> None:
        """Sleep until a collection has deleted the new blob. After the writer's next commit, every put fails."""
        self.clock.sleep(OLD_SECONDS + 1)
        assert len(collect_family(self.environment, self.log.record.owner).garbage) == 1
        self.blobs.failure = failure
        self.index.script = [self._commit_and_lose_the_blobs]

    def _commit_and_lose_the_blobs(self, index: ScriptedIndex, writes: Sequence[Write]) -> None:
        index.backend.commit(writes)
        self.blobs.failure = Unavailable("scripted")


def append(log: Log) -> str:
    log.append(Event("set", LONG))
    (entry,) = open_log(log.environment, "acme", "plan").read(6)
    return str(entry.events[0].data)


def save(log: Log) -> str:
    log.save_snapshot(5, [LONG.encode()])
    snapshot = log.app_snapshot(5)
    assert snapshot is not None
    return b"".join(log.read_snapshot(snapshot)).decode()


@pytest.mark.parametrize("act", [append, save])
def test_a_blob_collected_while_its_writer_slept_is_put_again_before_the_commit(
    act: Callable[[Log], str],
) -> None:
    sleeper = Sleeper()
    assert act(sleeper.log) == LONG
    assert sleeper.blobs.failure is not None


@pytest.mark.parametrize("act", [append, save])
@pytest.mark.parametrize("failure", [Unavailable("scripted"), OutcomeUnknown("scripted")])
def test_a_writer_does_not_commit_if_its_collected_blob_cannot_be_put_again(
    act: Callable[[Log], str], failure: StratalogError
) -> None:
    sleeper = Sleeper(failure)
    commits = sleeper.index.calls["commit"]
    with pytest.raises(Unavailable):
        act(sleeper.log)
    assert sleeper.index.calls["commit"] == commits


@pytest.mark.parametrize("deferring", [False, True], ids=["immediate", "deferred"])
def test_after_a_failed_put_the_next_write_of_the_same_bytes_puts_them(deferring: bool) -> None:
    clock = ManualClock()
    blobs = SleepyBlobs(MemoryBlobs(clock))
    batch = BlobBatch(Environment(ScriptedIndex(), blobs, clock, LogSettings()), held_bytes_max=0)
    blobs.failure = Unavailable("scripted")
    if deferring:
        batch.defer()
        batch.write("acme/plan", b"body")
        with pytest.raises(Unavailable):
            batch.put_deferred()
        with pytest.raises(BlobsDeferred):  # so a commit is not sent without the blob
            batch.check_put()
        blobs.failure = None
        batch.put_deferred()
        batch.check_put()
    else:
        with pytest.raises(Unavailable):
            batch.write("acme/plan", b"body")
        blobs.failure = None
    ref = batch.write("acme/plan", b"body")
    assert read_body(blobs, "acme/plan", ref) == b"body"


def test_blobs_that_could_not_be_put_ahead_are_still_held_for_the_commit() -> None:
    clock = ManualClock()
    blobs, index = MemoryBlobs(clock), BlobIndex()
    batch = BlobBatch(Environment(index, blobs, clock, LogSettings()), held_bytes_max=10)
    batch.write("acme/plan", b"first")
    index.script = [unavailable]
    with pytest.raises(Unavailable):
        batch.write("acme/plan", b"second")
    assert list(batch.blobs.values()) == [b"first"]
    assert batch.held_bytes == 5


def test_a_blob_is_put_again_only_after_the_observation_window() -> None:
    clock = ManualClock()
    blobs = MemoryBlobs(clock)
    upload = BlobBatch(Environment(ScriptedIndex(), blobs, clock, LogSettings()))
    assert not upload.refresh()
    upload.write("acme/plan", b"body")
    clock.sleep(OBSERVATION_SECONDS_MAX)
    (before,) = blobs.list("")
    assert not upload.refresh()
    assert list(blobs.list("")) == [before]
    clock.sleep(1)
    assert upload.refresh()
    assert not upload.refresh()
    (after,) = blobs.list("")
    assert after.modified_ms - before.modified_ms == (OBSERVATION_SECONDS_MAX + 1) * 1000
