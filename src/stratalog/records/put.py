"""Putting: version n + 1 is written by one conditional put that succeeds only where no version n + 1 stands.

:func:`plan_put` says what to write, purely; :class:`Attempts` writes it, learns from every answer and tries again. What
the next version shall be is asked anew for every latest version met, from a caller's `Decide`.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec

from stratalog.clock import Observation
from stratalog.errors import (
    ConditionFailed,
    ContentionError,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
)
from stratalog.keys import number, parse_number
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log.directory import RECORDS, directory_put, organisation_put
from stratalog.log.environment import Environment
from stratalog.ports.index import Absent, Attribute, Item, Put, Write
from stratalog.process_fork import close_in_child
from stratalog.records.floor import read_floor
from stratalog.records.versions import Name, latest_item

__all__ = ["Attempts", "Decide", "Heads", "Planned", "RecordDraft", "RecordHead", "plan_put"]

HEADS_MAX = 1024


class RecordHead(msgspec.Struct, frozen=True):
    """The latest version of a record as it was when ``seen`` was taken; None where there was none."""

    item: Item | None
    seen: Observation

    @property
    def version(self) -> int:
        """Its number; 0 where there was none."""
        return parse_number(self.item.sort) if self.item else 0


class RecordDraft(msgspec.Struct, frozen=True):
    """What the next version shall be, but for its number and its time."""

    attributes: dict[str, Attribute]
    guards: tuple[Write, ...] = ()
    """Other writes of the same commit, each with a condition."""

    refusal: Callable[[], StratalogError] | None = None
    """What to raise where a guard does not hold; without it the draft is made anew."""

    refresh: Callable[[], None] | None = None
    """Called once the commit may stand: puts a body again that a collector may have looked at. Raises Unavailable."""


Decide = Callable[[Item | None], RecordDraft | Item]
"""From the latest version to the next one, or to the one that is the answer, with nothing to write.

What it raises, or answers for good, counts only when it was given a latest version read during the call.
"""


class Heads:
    """The latest versions that a process has seen of the records it used last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._heads: OrderedDict[str, RecordHead] = OrderedDict()

    def get(self, id: str) -> RecordHead | None:
        """The head as last seen, which others may have left behind."""
        return self._heads.get(id)

    def keep(self, id: str, head: RecordHead) -> None:
        """Remember ``head``, unless a later version is known."""
        with self._lock:
            known = self._heads.get(id)
            if known is None or known.version <= head.version:
                self._heads[id] = head
            self._heads.move_to_end(id)
            if len(self._heads) > HEADS_MAX:
                self._heads.popitem(last=False)


def plan_put(name: Name, latest: Item | None, draft: RecordDraft, now_ms: int) -> tuple[Put, tuple[Write, ...]]:
    """The put of the version that follows ``latest``, and all writes of its commit: the first also enters the record.

    The times of a record's versions never go back.
    """
    version = parse_number(latest.sort) + 1 if latest else 1
    created_ms = max(now_ms, int(latest.attributes["c"])) if latest else now_ms
    put = Put(Item(name.partition, number(version), {"c": created_ms, **draft.attributes}), Absent())
    writes: list[Write] = [put, *draft.guards]
    if latest is None:
        writes.append(directory_put(name.organisation, RECORDS, name.id, "record", created_ms))
        writes.append(organisation_put(name.organisation))
    return put, tuple(writes)


class Planned(msgspec.Struct, frozen=True):
    """A put that somebody else is to commit, together with others."""

    head: RecordHead
    draft: RecordDraft
    item: Item
    writes: tuple[Write, ...]

    @property
    def version(self) -> int:
        """The number it is to stand under."""
        return self.head.version + 1


class Attempts:
    """One put on its way, from the first try to the last. ``write_id`` proves a version to be this put's."""

    def __init__(
        self, environment: Environment, name: Name, heads: Heads, write_id: str, decide: Decide, *, fresh: bool = False
    ) -> None:
        self._environment = environment
        self._name = name
        self._heads = heads
        self._write_id = write_id
        self._decide = decide
        self._head: RecordHead | None = None
        self._remembers = not fresh
        self._fresh = False
        self._retry = environment.retry()
        self._sends: Counter[int] = Counter()
        self._doubts: set[int] = set()
        self._refresh: Callable[[], None] | None = None
        self._setback: StratalogError | None = None
        self._left_behind = False

    def run(self) -> Item:
        """The version that stands in the end, written by this call or there already.

        Raises what ``decide`` raised from a fresh head, ContentionError, Unavailable: nothing written. OutcomeUnknown.
        """
        while True:
            setback, self._setback = self._setback, None
            if (found := self._try_after(setback)) is not None:
                return found

    def plan(self) -> Item | Planned:
        """From one look: what a commit is to write, or the item that is the answer. Nothing is tried again here.

        Whoever commits it says `landed`, or `doubt` where the outcome is not known; or just calls `run` instead.
        """
        decided = self._decided(self._look())
        if isinstance(decided, Item) or self._head is None:
            return decided  # type: ignore[return-value]
        put, writes = plan_put(self._name, self._head.item, decided, self._environment.clock.wall_ms())
        return Planned(self._head, decided, put.item, writes)

    def landed(self, planned: Planned, sent: Observation) -> Item | None:
        """The commit was answered: the version, or None where it came so late that `run` must look. May raise."""
        self._refresh = planned.draft.refresh
        self._sends[planned.version] += 1
        return self._land(planned.head, planned.item, sent)

    def doubt(self, planned: Planned) -> None:
        """The commit may stand or may still come to stand: `run` finds out."""
        self._refresh = planned.draft.refresh
        self._sends[planned.version] += 1
        self._doubts.add(planned.version)

    def _try_after(self, setback: StratalogError | None) -> Item | None:
        """The next try. After a lost race it reads and commits inside the turn, so that no busy writer comes between.

        Any other wait is outside the turn: others would wait for it.
        """
        if isinstance(setback, ConditionFailed):
            with self._environment.index.turn(self._name.partition) as has_turn:
                self._wait(setback, has_turn=has_turn)
                return self._try_once()
        if setback is not None:
            self._wait(setback)
        return self._try_once()

    def _try_once(self) -> Item | None:
        try:
            return self._try()
        except Unavailable as exc:
            self._setback = exc
        except StratalogError as exc:
            if (verdict := self._verdict(exc)) is exc:
                raise
            raise verdict from exc
        return None

    def _try(self) -> Item | None:
        head = self._look()
        for version in sorted(self._doubts):
            if (landed := self._landed(version)) is not None:
                self._make_sure()
                return landed
        decided = self._decided(head)
        return decided if isinstance(decided, Item) else self._commit(self._head or head, decided)

    def _look(self) -> RecordHead:
        """The head as remembered, or read anew where it is unknown or was seen too long ago to be relied on."""
        known = self._heads.get(self._name.id)
        if known is None or self._doubts or self._left_behind or not (self._remembers or self._fresh):
            return self._reread()
        if known.seen.age_seconds() > OBSERVATION_SECONDS_MAX / 2:
            return self._reread()
        self._head = known
        return known

    def _reread(self) -> RecordHead:
        """Read the head consistently: from now on final answers may be given from it."""
        seen = Observation(self._environment.clock)
        self._head = RecordHead(latest_item(self._environment.index, self._name.partition), seen)
        self._heads.keep(self._name.id, self._head)
        self._fresh, self._left_behind = True, False
        return self._head

    def _decided(self, head: RecordHead) -> RecordDraft | Item:
        try:
            decided = self._decide(head.item)
            if self._fresh or isinstance(decided, RecordDraft):
                return decided
        except StratalogError:
            if self._fresh:
                raise
        return self._decide(self._reread().item)

    def _commit(self, head: RecordHead, draft: RecordDraft) -> Item | None:
        put, writes = plan_put(self._name, head.item, draft, self._environment.clock.wall_ms())
        version = head.version + 1
        sent = Observation(self._environment.clock)
        self._sends[version] += 1
        self._refresh = draft.refresh
        try:
            self._environment.index.commit(writes)
        except ConditionFailed as exc:
            self._learn(version, draft, exc)
        except OutcomeUnknown as exc:
            self._doubts.add(version)
            self._make_sure()
            self._setback = exc
        else:
            return self._land(head, put.item, sent)
        return None

    def _learn(self, version: int, draft: RecordDraft, conflict: ConditionFailed) -> None:
        """Somebody stands where we wanted to be — perhaps ourselves, when an earlier answer was lost."""
        self._environment.counters["conflict"] += 1
        standing = conflict.items.get(0)
        if standing is not None and standing.attributes.get("w") == self._write_id:
            self._doubts.add(version)
        elif 0 not in conflict.items and draft.refusal is not None:
            raise draft.refusal()
        self._setback, self._left_behind = conflict, True

    def _land(self, head: RecordHead, item: Item, sent: Observation) -> Item | None:
        """The commit was answered: done, unless the answer came too late to rely on the place having been free.

        Before anything else, which may fail, its body is made sure of.
        """
        self._doubts.add(head.version + 1)
        self._make_sure()
        if head.seen.age_seconds() > OBSERVATION_SECONDS_MAX:
            return None
        self._doubts.discard(head.version + 1)
        self._heads.keep(self._name.id, RecordHead(item, sent))
        return item

    def _make_sure(self) -> None:
        if self._refresh is not None:
            self._refresh()

    def _landed(self, version: int) -> Item | None:
        """Our version, if it stands as ``version``. In a place once freed ours is no version, and is left to who frees.

        The head was read after the doubt arose. Where the place is empty a write may still be on its way to it; it
        stays in doubt, and the next put meets it there. Raises OutcomeUnknown where it may have come and gone.
        """
        item = self._environment.index.get(self._name.partition, number(version))
        floor = read_floor(self._environment.index, self._name)
        ours = item is not None and item.attributes.get("w") == self._write_id
        if version >= floor.freeing:
            if item is not None and not ours:
                self._doubts.discard(version)
            return item if ours else None
        if not ours or version >= floor.freed or self._sends[version] > 1 or not self._stands(version):
            raise OutcomeUnknown("a put's place was freed before it was answered", record=self._name.id)
        self._doubts.discard(version)
        return None

    def _stands(self, version: int) -> bool:
        """Whether ours, met in a place below where all is gone, stands there still, so came late.

        Else it was a version when it was met, for all we know, and was freed before the floor was read.
        """
        item = self._environment.index.get(self._name.partition, number(version))
        return item is not None and item.attributes.get("w") == self._write_id

    def _wait(self, cause: StratalogError, *, has_turn: bool = False) -> None:
        """Back off before the next try. Raises when the time budget is used up."""
        if self._retry.wait(cause, has_turn=has_turn):
            return
        if isinstance(cause, ConditionFailed):
            attempts = self._retry.attempts
            contention = ContentionError("others kept putting first", record=self._name.id, attempts=attempts)
            raise self._verdict(contention) from cause
        if (verdict := self._verdict(cause)) is cause:
            raise cause
        raise verdict from cause

    def _verdict(self, cause: StratalogError) -> StratalogError:
        """``cause``, or OutcomeUnknown where an earlier try may stand or may still come to stand."""
        if not self._doubts or isinstance(cause, OutcomeUnknown):
            return cause
        return OutcomeUnknown("a put was not answered in time", record=self._name.id)
