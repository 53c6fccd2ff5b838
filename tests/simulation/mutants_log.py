"""Bugs planted in the log. Each bug breaks a rule that the log relies on."""

from __future__ import annotations

from functools import partial
from typing import Any

from stratalog.clock import Observation, new_id
from stratalog.codec import sha256
from stratalog.errors import (
    ConditionFailed,
    ContentionError,
    Corrupt,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.keys import entries_partition, number, parse_number
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import (
    Entry,
    append,
    commit,
    conditional_append,
    directory,
    head,
    lifecycle,
    marks,
    pending_entry,
    plan,
    retention,
)
from stratalog.log.append import Appender, LogAppend
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.bodies import BodyRef, write_body
from stratalog.log.entries import END, SEAL
from stratalog.log.head import Head, follow_head
from stratalog.log.names import NameRecord, read_name, require_name, reread_name
from stratalog.log.pending_entry import PendingEntry, same_request
from stratalog.log.reader import Reader, Run
from stratalog.log.retention import _Raising
from stratalog.ports.index import NO_BLOBS, Delete, Index, Item, Put
from stratalog.testing.faults import FaultyIndex
from tests.simulation import world_log
from tests.simulation.mutants import Mutant, Planting, replaced, together
from tests.simulation.world_log import ORGANISATION, OTHER, LogWorld

__all__ = ["MUTANTS"]

AGES = OBSERVATION_SECONDS_MAX * 10**6


def _landed_unseen(self: Any, pending: PendingEntry, partition: str, version: int, head: Head) -> bool:
    pending.in_doubt.remove((partition, version))
    return False


def _landed_or_absent(self: Any, pending: PendingEntry, partition: str, version: int, head: Head) -> bool:
    landed = _landed(self, pending, partition, version, head)
    if not landed:
        pending.in_doubt.clear()
    return landed


def _write_later(self: Any, prefix: str, body: bytes) -> BodyRef:
    return BodyRef(sha256(body), len(body)) if prefix.endswith("/bodies") else _write(self, prefix, body)


def _append_then_put(self: Any, pending: PendingEntry) -> Entry:
    entry = _append(self, pending)
    if "x" in pending.attributes:
        write_body(self.environment.blobs, f"{self.name.owner}/bodies", pending.body)
    return entry


def _hash_without_time(self: Any, before: bytes, version: int, created_ms: int) -> bytes:
    return _hash_after(self, before, version, 0)


def _lineage_unhashed(index: Index, source: NameRecord, at: int, hash: bytes) -> Any:
    return _lineage(index, source, at, sha256(b""))


def _commit_then_blobs(self: Any, writes: Any, blobs: Any = NO_BLOBS) -> None:
    """Commit the entry first, and its blobs in a second commit."""
    _faulty_commit(self, writes)
    if blobs:
        _faulty_commit(self, (), blobs)


def _append_unheard(self: Any, pending: PendingEntry) -> Entry:
    """Acknowledge an append that failed with any error but NotFound. Return the entry that it would have written."""
    known = self.known_head() or self.head()
    try:
        return _append(self, pending)
    except NotFound:
        raise
    except StratalogError:
        return Entry(known.version + 1, 0, "", pending.write_id, pending.events)


def _walk_next_unread(index: Any, name: Any, segment: int, seen: Any) -> Head | None:
    """Treat the segment after a seal as empty, without reading it."""
    last = _last(index, name, segment)
    if last is not None and last.attributes.get("k") == SEAL:
        version, attributes = parse_number(last.sort), last.attributes
        return Head(version, version, attributes["c"], attributes.get("h", b""), seen)
    return _walk(index, name, segment, seen)


def _walk_past_seals(index: Any, name: Any, segment: int, seen: Any) -> Head | None:
    last = _last(index, name, segment)
    if last is None or last.attributes.get("k") == END:
        return _walk(index, name, segment, seen)
    return Head(parse_number(last.sort), segment, last.attributes["c"], last.attributes.get("h", b""), seen)


def _last(index: Any, name: Any, segment: int) -> Any:
    return next(index.query(entries_partition(name.prefix, segment), reverse=True, limit=1), None)


def _reread_any(index: Any, known: Any) -> Any:
    return require_name(index, known.organisation, known.name)


def _from_index_unbounded(self: Any, segment: int, first: int, last: int, seen: Any) -> Run:
    partition = entries_partition(self._prefix, segment)
    for item in self._environment.index.query(partition, after=number(first - 1)):
        if "k" not in item.attributes:
            yield [self._entry(item)]
    return last


def _append_fresh(self: Any, appender: Appender, batch: list[PendingEntry]) -> None:
    _init(self, appender, batch)
    self._fresh = True


class _Lagging:
    """An index whose queries may return outdated results."""

    def __init__(self, index: Any) -> None:
        self.query = partial(index.query, consistent=False)
        self.get = index.get


def _reread_lagging(self: Any) -> Head:
    appender, cluster = self._appender, self._environment
    known = appender.heads.value or appender.origin.value
    index: Any = _Lagging(cluster.index)
    self._fresh = True
    head: Head = appender.heads.offer(follow_head(index, cluster.clock, appender.name, known))
    return head


def _take_name_of_other(organisation: str, log: str) -> Delete:
    return _take_name(ORGANISATION if organisation == OTHER else OTHER, log)


def _create_then_name(environment: Any, writes: Any, landed: Any) -> None:
    """Put the line in the list of the name's organisations by a separate commit, after the log's creation."""
    lines = [write for write in writes if isinstance(write, Put) and write.item.partition.startswith("!names/")]
    _commit_once(environment, [write for write in writes if write not in lines], landed)
    if lines:
        _commit_once(environment, lines, lambda: False)


def _same_named(stored: Entry, asked: PendingEntry) -> bool:
    return same_request(stored, asked) and stored.author == asked.attributes.get("a", "")


def _pin_unfenced(source: Any, record: Any) -> list[Any]:
    return _pin(source, record)[:-1]


def _delete_head_first(log: Any) -> None:
    """The mutant of `delete_log` that reads the head, waits, and then reads the name record.

    `delete_log` must read the name record first, because the name record fences the deletion against a roll-over.
    """
    environment, record = log.environment, log.record
    for _ in range(20):
        head = log.head()
        environment.clock.sleep(7200 * environment.clock.random())
        record = reread_name(environment.index, record)
        attributes = {"c": head.created_ms, "k": END, "w": new_id(environment.clock)}
        marker = Item(entries_partition(record.prefix, head.segment), number(head.version + 1), attributes)
        try:
            environment.index.commit(lifecycle._deletion(record, marker, environment.clock.wall_ms()))
        except ConditionFailed:
            continue
        return
    raise ContentionError("other writers kept changing the log to delete", log=record.name)


def _commit_without_second_look(environment: Any, writes: Any, landed: Any) -> None:
    """The mutant of `commit_once` that does not check, after a failed condition, whether its own commit landed."""
    retry = environment.retry()
    in_doubt = False
    while not (in_doubt and landed()):
        try:
            environment.index.commit(writes)
            return
        except (OutcomeUnknown, Unavailable) as exc:
            in_doubt = in_doubt or isinstance(exc, OutcomeUnknown)
            if not retry.wait(exc):
                raise OutcomeUnknown("mutant") if in_doubt else exc from exc


def _end_unsure(self: Any, floor: int) -> int:
    """The mutant of `_Raising._end` that raises the error of its last steps, although the floor has already risen."""
    retention._forget_below(self._log.environment, self._log.record.prefix, floor)
    self._log.environment.count("floor")
    return int(self._log.floor())


def _append_patiently(self: Any, pending: PendingEntry) -> Entry:
    """The mutant of `Appender.append` that reads the positions in doubt after a minute, and then reports Unavailable.

    The mutant still raises OutcomeUnknown if it finds the write, if another process may have freed the write, or if the
    name record has changed.
    """
    environment, began = self.environment, Observation(self.environment.clock)
    try:
        return _append(self, pending)
    except OutcomeUnknown:
        environment.clock.sleep(61)
        name = read_name(environment.index, self.name.organisation, self.name.name)
        if not pending.in_doubt or name != self.name or began.age_seconds() > OBSERVATION_SECONDS_MAX:
            raise
        for partition, version in pending.in_doubt:
            item = environment.index.get(partition, number(version))
            if item is not None and item.attributes.get("w") == pending.write_id:
                raise
        raise Unavailable("mutant") from None


def _entry_of_now(self: Reader, item: Any) -> Entry:
    """The mutant of `Reader._entry` that reports an entry with a future time as damaged."""
    entry = _entry(self, item)
    if entry.created_ms > self._environment.clock.wall_ms() + GRACE_SECONDS * 1000:
        raise Corrupt("mutant")
    return entry


_faulty_commit = FaultyIndex.commit
_write = BlobBatch.write
_landed = LogAppend._landed
_hash_after = PendingEntry.hash_after
_lineage = lifecycle._lineage
_init = LogAppend.__init__
_append = Appender.append
_entry = Reader._entry
_walk = head._walk
_pin = lifecycle._pin
_take_name = directory.name_delete
_commit_once = commit.commit_once


def _mutant(name: str, apply: Planting, *caught_by: str) -> Mutant:
    return Mutant(f"log: {name}", LogWorld, apply, caught_by)


MUTANTS = (
    _mutant(
        "condition dropped", replaced(plan, "_ABSENT", None), "acknowledged", "history-changed", "gapless", "chain"
    ),
    _mutant("write id ignored", replaced(LogAppend, "_landed", _landed_unseen), "once", "refused"),
    _mutant(
        "version in doubt dropped while it is free",
        replaced(LogAppend, "_landed", _landed_or_absent),
        "refused",
        "once",
    ),
    _mutant(
        "pointer before blob",
        together(replaced(BlobBatch, "write", _write_later), replaced(Appender, "append", _append_then_put)),
        "dangling",
    ),
    _mutant("blobs committed after the entry", replaced(FaultyIndex, "commit", _commit_then_blobs), "dangling"),
    _mutant(
        "freed immediately",
        replaced(retention, "free_time_reached", lambda clock, marked_ms: True),
        "acknowledged",
        "honest-retry",
        "history-changed",
        "real-time",
        "deleted",
    ),
    _mutant(
        "marks set back by a process that is behind", replaced(marks, "AHEAD_MS_MIN", marks.FREE_AFTER_MS), "deleted"
    ),
    _mutant(
        "observation rule ignored by writers",
        together(
            replaced(append, "OBSERVATION_SECONDS_MAX", AGES),
            replaced(conditional_append, "OBSERVATION_SECONDS_MAX", AGES),
            replaced(head, "OBSERVATION_SECONDS_MAX", AGES),
        ),
        "acknowledged",
        "stale-answer",
        "real-time",
    ),
    _mutant(
        "observation rule ignored when the head is followed",
        replaced(head, "OBSERVATION_SECONDS_MAX", AGES),
        "acknowledged",
        "honest-retry",
        "stale-answer",
        "real-time",
        "gapless",
    ),
    _mutant(
        "seal ignored",
        replaced(head, "_walk", _walk_past_seals),
        "acknowledged",
        "stale-answer",
        "real-time",
        "gapless",
        "dangling",
        "honest-retry",
        "deleted",
    ),
    _mutant(
        "next segment not read",
        replaced(head, "_walk", _walk_next_unread),
        "stale-answer",
        "real-time",
        "honest-retry",
        "chain",
    ),
    _mutant(
        "wrong incarnation",
        together(replaced(head, "reread_name", _reread_any), replaced(append, "reread_name", _reread_any)),
        "acknowledged",
        "stale-answer",
        "real-time",
        "dangling",
        "progress",
    ),
    _mutant("unbounded read", replaced(Reader, "_from_index", _from_index_unbounded), "gapless", "read", "dangling"),
    _mutant(
        "final answer from a stale head", replaced(LogAppend, "__init__", _append_fresh), "stale-answer", "honest-retry"
    ),
    _mutant(
        "head read again from an outdated replica",
        replaced(LogAppend, "_reread", _reread_lagging),
        "stale-answer",
        "dangling",
    ),
    _mutant("hash without the time", replaced(PendingEntry, "hash_after", _hash_without_time), "chain"),
    _mutant("a fork begins another history", replaced(lifecycle, "_lineage", _lineage_unhashed), "chain"),
    _mutant(
        "request of a write id not compared",
        replaced(pending_entry, "same_request", lambda stored, asked: True),
        "key-bound",
    ),
    _mutant(
        "retry under a new display name called a conflict",
        replaced(pending_entry, "same_request", _same_named),
        "honest-retry",
    ),
    _mutant("failed append acknowledged", replaced(Appender, "append", _append_unheard), "acknowledged", "key-bound"),
    _mutant(
        "pins of forks ignored",
        replaced(retention, "lowest_pin", lambda index, prefix: None),
        "fork",
        "dangling",
        "floor",
    ),
    _mutant(
        "deletion takes the other organisation's name", replaced(lifecycle, "name_delete", _take_name_of_other), "names"
    ),
    _mutant("name entered after the creation", replaced(lifecycle, "commit_once", _create_then_name), "names"),
    _mutant("fork not fenced against a raised floor", replaced(lifecycle, "_pin", _pin_unfenced), "fork", "dangling"),
    _mutant("write in doubt called refused after a minute", replaced(Appender, "append", _append_patiently), "refused"),
    _mutant("entry from the future treated as damage", replaced(Reader, "_entry", _entry_of_now), "dangling"),
    _mutant(
        "deletion reads the head before the name", replaced(world_log, "delete_log", _delete_head_first), "deleted"
    ),
    _mutant(
        "commit without its second look",
        replaced(lifecycle, "commit_once", _commit_without_second_look),
        "created",
        "deleted",
    ),
    _mutant("raised floor reported as refused", replaced(_Raising, "_end", _end_unsure), "floor"),
)
