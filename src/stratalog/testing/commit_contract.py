"""The contract suite of an index and a blob store together: commits with blobs. Use it like `IndexContract`.

The last tests append to a log with a snapshot. Such a commit has the most kinds of writes: puts in two partitions,
checks in two others, and blobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from stratalog.clock import Clock
from stratalog.codec import sha256
from stratalog.errors import ConditionFailed, Invalid, LimitExceeded, StratalogError, VersionConflict
from stratalog.keys import number, snapshots_partition
from stratalog.limits import COMMIT_BLOB_BYTES_MAX
from stratalog.log import Environment, Event, Log, LogSettings, create_log, open_log
from stratalog.ports.blobs import Blobs
from stratalog.ports.commit_blobs import commit_with_blobs, put_all, put_first
from stratalog.ports.index import Absent, Delete, Index, Item, Put
from stratalog.testing.clock import ManualClock

__all__ = ["CommitContract"]

HOUR_SECONDS = 3600
SMALL = b"\x00some bytes\xff" * 100
LARGE = bytes(range(256)) * 4096
PUT = Put(Item("p", "s", {"n": 1}), Absent())


class CommitContract(ABC):
    """Tests of an index and its blobs. A subclass implements ``make``."""

    @abstractmethod
    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        """Return a new, empty index, and the empty blob store in which its commits store blobs.

        The store must measure ages by ``clock``. Every test calls `make` once.
        """

    def test_items_and_blobs_of_a_commit_read_back(self) -> None:
        index, blobs = self.make(ManualClock())
        bodies = {_key(body): body for body in (SMALL, LARGE, b"")}
        commit_with_blobs(index, blobs, [PUT], bodies)
        assert index.get("p", "s") == PUT.item
        assert {stat.key: blobs.get(stat.key) for stat in blobs.list("")} == bodies

    def test_a_failed_condition_commits_no_blob(self) -> None:
        index, blobs = self.make(ManualClock())
        index.commit([PUT])
        taken = put_first(index, blobs, {_key(SMALL): SMALL})
        before = list(blobs.list(""))
        assert isinstance(_raised(lambda: index.commit([PUT], taken)), ConditionFailed)
        assert list(blobs.list("")) == before

    def test_a_blob_that_the_commit_stores_is_not_put_first(self) -> None:
        index, blobs = self.make(ManualClock())
        taken = put_first(index, blobs, {_key(SMALL): SMALL})
        assert (blobs.stat(_key(SMALL)) is None) == bool(taken) == (index.blob_bytes_max >= len(SMALL))

    def test_committing_again_makes_a_new_generation_whose_age_starts_at_the_commit(self) -> None:
        clock = ManualClock()
        index, blobs = self.make(clock)
        commit_with_blobs(index, blobs, [PUT], {_key(SMALL): SMALL})
        before = blobs.stat(_key(SMALL))
        clock.sleep(HOUR_SECONDS)
        commit_with_blobs(index, blobs, [Put(Item("p", "t", {}))], {_key(SMALL): SMALL})
        after = blobs.stat(_key(SMALL))
        assert before is not None
        assert after is not None
        assert after.modified_ms - before.modified_ms == HOUR_SECONDS * 1000
        assert after.stamp != before.stamp
        assert not blobs.delete(_key(SMALL), before.stamp)
        assert blobs.get(_key(SMALL)) == SMALL

    def test_a_commit_after_a_delete_brings_the_blob_back(self) -> None:
        index, blobs = self.make(ManualClock())
        commit_with_blobs(index, blobs, [PUT], {_key(SMALL): SMALL})
        before = blobs.stat(_key(SMALL))
        assert before is not None
        assert blobs.delete(_key(SMALL), before.stamp)
        commit_with_blobs(index, blobs, [Put(Item("p", "t", {}))], {_key(SMALL): SMALL})
        assert blobs.get(_key(SMALL)) == SMALL

    def test_many_blobs_are_put_ahead_of_their_commit(self) -> None:
        index, blobs = self.make(ManualClock())
        bodies = {_key(body): body for body in (bytes([number]) * 20_000 for number in range(100))}
        put_all(index, blobs, bodies)
        assert [stat.key for stat in blobs.list("")] == sorted(bodies)

    def test_a_blob_that_the_index_does_not_take_is_refused(self) -> None:
        index, blobs = self.make(ManualClock())
        body = bytes(index.blob_bytes_max + 1)
        error = _raised(lambda: index.commit([PUT], {_key(body): body}))
        assert isinstance(error, LimitExceeded)
        assert (error.details["value"], error.details["limit"]) == (len(body), index.blob_bytes_max)
        assert (index.get("p", "s"), blobs.stat(_key(body))) == (None, None)

    def test_more_blobs_than_a_commit_may_bring_are_refused(self) -> None:
        index, blobs = self.make(ManualClock())
        size = index.blob_bytes_max or COMMIT_BLOB_BYTES_MAX
        count = COMMIT_BLOB_BYTES_MAX // size + 1
        bodies = {_key(body): body for body in (number.to_bytes(4, "big") * (size // 4) for number in range(count))}
        error = _raised(lambda: index.commit([PUT], bodies))
        assert isinstance(error, LimitExceeded)
        assert (error.details["value"], error.details["limit"]) == (count * size, COMMIT_BLOB_BYTES_MAX)
        assert index.get("p", "s") is None
        assert list(blobs.list("")) == []

    def test_a_blob_under_another_hash_is_refused(self) -> None:
        index, blobs = self.make(ManualClock())
        error = _raised(lambda: index.commit([PUT], {_key(b"other"): SMALL}))
        takes_it = index.blob_bytes_max >= len(SMALL)
        assert isinstance(error, Invalid if takes_it else Invalid | LimitExceeded), error
        assert index.get("p", "s") is None
        assert list(blobs.list("")) == []

    def test_an_append_commits_its_entry_and_its_snapshot_together(self) -> None:
        log = self._log(segment_entries_target=1)
        for version in range(1, 5):  # the third and fourth append seal a segment
            prepared = log.prepare_snapshot([SMALL, LARGE, _part(version)])
            assert log.append(Event("set", version), expected=version - 1, snapshot=prepared).version == version
        assert log.head().segment > 2
        fresh = open_log(log.environment, "acme", "plan")
        assert [entry.events[0].data for entry in fresh.read()] == [1, 2, 3, 4]
        for version in range(1, 5):
            assert _parts(fresh, version) == (version, [SMALL, LARGE, _part(version)])

    def test_an_append_that_loses_its_race_commits_no_snapshot(self) -> None:
        log = self._log()
        prepared = log.prepare_snapshot([SMALL])
        open_log(log.environment, "acme", "plan").append(Event("set", "theirs"))
        assert isinstance(
            _raised(lambda: log.append(Event("set", "ours"), expected=0, snapshot=prepared)), VersionConflict
        )
        assert log.app_snapshot(log.head().version) is None
        assert log.append(Event("set", "ours"), expected=1, snapshot=prepared).version == 2
        assert _parts(log, 2) == (2, [SMALL])

    def test_an_append_puts_the_shared_parts_if_the_snapshot_that_has_them_is_deleted_meanwhile(self) -> None:
        log = self._log()
        log.append(Event("set", 1), expected=0, snapshot=log.prepare_snapshot([SMALL, LARGE]))
        prepared = log.prepare_snapshot([SMALL, LARGE])
        log.environment.index.commit([Delete(snapshots_partition(log.record.prefix), number(1))])
        for stat in list(log.environment.blobs.list(f"{log.record.owner}/app-snapshots/")):
            assert log.environment.blobs.delete(stat.key, stat.stamp)
        assert log.append(Event("set", 2), expected=1, snapshot=prepared).version == 2
        assert _parts(log, 2) == (2, [SMALL, LARGE])

    def _log(self, **settings: int) -> Log:
        clock = ManualClock()
        index, blobs = self.make(clock)
        return create_log(Environment(index, blobs, clock, LogSettings(**settings)), "acme", "plan", "model")


def _part(version: int) -> bytes:
    return b"part of version %d" % version * 50


def _parts(log: Log, at: int) -> tuple[int, list[bytes]] | None:
    snapshot = log.app_snapshot(at)
    return (snapshot.version, list(log.read_snapshot(snapshot))) if snapshot is not None else None


def _key(body: bytes) -> str:
    return f"organisation/document/{sha256(body).hex()}"


def _raised(call: Callable[[], object]) -> StratalogError | None:
    try:
        call()
    except StratalogError as exc:
        return exc
    return None
