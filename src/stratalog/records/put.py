"""Putting versions of a record, by the conditional append that logs have too.

:func:`plan_put` says what to write, purely; :class:`RecordAppend` writes it. What the next version shall be is asked
anew for every latest version met, from a caller's `Decide`.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from stratalog.clock import Observation, new_id
from stratalog.errors import (
    ConditionFailed,
    Corrupt,
    KeyReused,
    OutcomeUnknown,
    Redacted,
    StratalogError,
    Unavailable,
)
from stratalog.keys import number, parse_number
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log.admission import Reservation
from stratalog.log.chain import SALT_BYTES
from stratalog.log.conditional_append import ConditionalAppend
from stratalog.log.directory import RECORDS, directory_put, organisation_missing
from stratalog.log.environment import Environment
from stratalog.log.usage import Amounts
from stratalog.ports.index import NO_BLOBS, Absent, Attribute, Item, Put, Write
from stratalog.process_fork import close_in_child
from stratalog.records.chain import chained
from stratalog.records.floor import read_floor
from stratalog.records.versions import Name, latest_item

__all__ = ["Decide", "Heads", "Planned", "RecordAppend", "RecordDraft", "RecordHead", "plan_put"]

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

    blobs: Mapping[str, bytes] = NO_BLOBS
    """What the commit takes along."""


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

    def store(self, id: str, head: RecordHead) -> None:
        """Remember ``head``, unless a later version is known."""
        with self._lock:
            known = self._heads.get(id)
            if known is None or known.version <= head.version:
                self._heads[id] = head
            self._heads.move_to_end(id)
            if len(self._heads) > HEADS_MAX:
                self._heads.popitem(last=False)


def plan_put(
    name: Name,
    latest: Item | None,
    draft: RecordDraft,
    now_ms: int,
    salt: bytes,
    origin: str,
    entering: Sequence[Write] = (),
) -> tuple[Put, tuple[Write, ...]]:
    """The put of the version that follows ``latest``, and all writes of its commit: the first also enters the record.

    The first one's history begins with ``origin``. ``entering`` enters its organisation, where that is still to be
    done. The times of a record's versions never go back.
    """
    version = parse_number(latest.sort) + 1 if latest else 1
    created_ms = max(now_ms, int(latest.attributes["c"])) if latest else now_ms
    attributes: dict[str, Attribute] = {"c": created_ms, **draft.attributes, "s": salt}
    if latest is None:
        attributes["og"] = origin
    # From the very item that it follows. Nobody else knows the hash: not the draft, not an earlier try.
    attributes["ch"] = chained(_hash_of(latest), version, attributes)
    put = Put(Item(name.partition, number(version), attributes), Absent())
    writes: list[Write] = [put, *draft.guards]
    if latest is None:
        writes.append(directory_put(name.organisation, RECORDS, name.id, "record", created_ms))
        writes += entering
    return put, tuple(writes)


def _hash_of(latest: Item | None) -> bytes | None:
    """The hash that names the history up to ``latest``. Raises Corrupt."""
    hash = latest.attributes.get("ch") if latest else None
    if latest and not isinstance(hash, bytes):
        raise Corrupt("a version of a record has no hash", partition=latest.partition, sort=latest.sort)
    return hash if isinstance(hash, bytes) else None


class Planned(msgspec.Struct, frozen=True):
    """A put that somebody else is to commit, together with others."""

    head: RecordHead
    draft: RecordDraft
    item: Item
    writes: tuple[Write, ...]

    @property
    def blobs(self) -> Mapping[str, bytes]:
        """What the commit takes along."""
        return self.draft.blobs

    @property
    def version(self) -> int:
        """The number it is to stand under."""
        return self.head.version + 1


class RecordAppend(ConditionalAppend[RecordHead, Planned]):
    """One version on its way. ``wrote`` says whether a version is this put's, or raises KeyReused."""

    what = "a put"
    others = "others kept putting first"

    def __init__(
        self,
        environment: Environment,
        name: Name,
        heads: Heads,
        write_id: str,
        decide: Decide,
        wrote: Callable[[Item], bool],
        *,
        principal: str = "",
        fresh: bool = False,
    ) -> None:
        """With ``fresh`` nothing is decided from a head that was remembered. ``principal`` is who asks."""
        super().__init__(environment)
        self._principal = principal
        self._reserved: Reservation | None = None
        self._name = name
        self._heads = heads
        self._write_id = write_id
        self._decide = decide
        self._wrote = wrote
        self._behind = fresh
        self._salt = environment.clock.random_bytes(SALT_BYTES)
        self._origin = ""
        self._sends: Counter[int] = Counter()
        self._doubts: set[int] = set()
        self._refresh: Callable[[], None] | None = None
        self._answer: Item | StratalogError | None = None

    def write(self) -> Item:
        """The version that stands in the end, written by this call or there already.

        Raises what ``decide`` raised from a fresh head, QuotaExceeded, ContentionError, Unavailable: nothing written.
        OutcomeUnknown.
        """
        self._sent = Observation(self._environment.clock)
        try:
            self.run()
        finally:
            self._settle_reserved()
        if isinstance(self._answer, Item):
            return self._answer
        raise self._answer or OutcomeUnknown("a put ended without an answer", record=self._name.id)

    def plan(self) -> Item | Planned:
        """From one look: what a commit is to write, or the item that is the answer. Nothing is tried again here.

        Whoever commits it says `landed`, or `mark_in_doubt` where the outcome is unknown; or calls `write`.
        """
        self._sent = Observation(self._environment.clock)
        planned = self._planned(self._usable_head(self._in_doubt()))
        if self._reserved is not None:
            # Who commits it may not come to an end. It counts until the next measurement, which knows.
            self._reserved.confirm()
        return planned

    def landed(self, planned: Planned, sent: Observation) -> Item | None:
        """The commit was answered: the version, or None where it came so late that `write` must look. May raise."""
        self._note(planned)
        self._sent = sent
        self._land(planned, planned.head)
        return self._answer if isinstance(self._answer, Item) else None

    def mark_in_doubt(self, planned: Planned) -> None:
        """The commit may stand or may still come to stand: `write` finds out."""
        self._note(planned)
        self._doubts.add(planned.version)

    def _is_settled(self) -> bool:
        return self._answer is not None

    def _in_doubt(self) -> bool:
        return bool(self._doubts)

    def _turn(self) -> AbstractContextManager[bool]:
        return self._environment.index.turn(self._name.partition)

    def _details(self) -> dict[str, Any]:
        return {"record": self._name.id}

    def _try(self) -> None:
        """An error of the decision is final; but where a write may stand it is not known what became of it."""
        try:
            super()._try()
        except (Unavailable, OutcomeUnknown):
            raise
        except StratalogError as exc:
            verdict = self._verdict(exc)
            if verdict is exc:
                raise
            verdict.__cause__ = exc
            self._answer = verdict

    def _known_head(self) -> RecordHead | None:
        return None if self._behind else self._heads.get(self._name.id)

    def _reread(self) -> RecordHead:
        seen = Observation(self._environment.clock)
        head = RecordHead(latest_item(self._environment.index, self._name.partition), seen)
        self._heads.store(self._name.id, head)
        self._fresh, self._behind = True, False
        return head

    def _plan(self, head: RecordHead) -> tuple[Planned, RecordHead] | None:
        planned = self._planned(head)
        if isinstance(planned, Item):
            self._answer = planned
            return None
        self._sent = Observation(self._environment.clock)
        self._note(planned)
        return planned, planned.head

    def _planned(self, head: RecordHead) -> Planned | Item:
        """What follows the head, or one that is read anew where the decision would be final."""
        try:
            decided = self._decided(head)
        except StratalogError:
            if self._fresh:
                raise
            decided = None
        if decided is None or (isinstance(decided, Item) and not self._fresh):
            head = self._reread()
            decided = self._decided(head)
        if isinstance(decided, Item):
            return decided
        entering = organisation_missing(self._environment, self._name.organisation) if head.item is None else ()
        if head.item is None and not self._origin:
            self._origin = new_id(self._environment.clock)
        now_ms = self._environment.clock.wall_ms()
        put, writes = plan_put(self._name, head.item, decided, now_ms, self._salt, self._origin, entering)
        return Planned(head, decided, put.item, writes)

    def _decided(self, head: RecordHead) -> RecordDraft | Item:
        """What follows the head. A new record is reserved once, however often it is tried. Raises QuotaExceeded."""
        decided = self._decide(head.item)
        if head.item is None and not isinstance(decided, Item) and self._reserved is None:
            organisation = self._name.organisation
            self._reserved = self._environment.reserve(organisation, Amounts(records=1), principal=self._principal)
        return decided

    def _settle_reserved(self) -> None:
        """Keep what was reserved where the first version is this put's, or may be."""
        if self._reserved is None:
            return
        answer = self._answer
        if not self._doubts and not (isinstance(answer, Item) and answer.attributes.get("w") == self._write_id):
            self._reserved.release()
        self._reserved.confirm()

    def _note(self, planned: Planned) -> None:
        """The plan is sent."""
        self._refresh = planned.draft.refresh
        self._sends[planned.version] += 1

    def _learn(self, plan: Planned, head: RecordHead, conflict: ConditionFailed) -> bool:
        standing = conflict.items.get(0)
        if standing is not None and standing.attributes.get("w") == self._write_id:
            self._doubts.add(plan.version)
        elif 0 not in conflict.items and plan.draft.refusal is not None:
            raise plan.draft.refusal()
        self._behind = True
        return True

    def _land(self, plan: Planned, head: RecordHead) -> None:
        """Before anything else, which may fail, the body is made sure of."""
        self._mark_in_doubt(plan)
        if head.seen.age_seconds() > OBSERVATION_SECONDS_MAX:
            return
        self._doubts.discard(plan.version)
        self._heads.store(self._name.id, RecordHead(plan.item, self._sent))
        self._answer = plan.item

    def _mark_in_doubt(self, plan: Planned) -> None:
        self._doubts.add(plan.version)
        self._make_sure()

    def _make_sure(self) -> None:
        if self._refresh is not None:
            self._refresh()

    def _resolve_doubts(self, head: RecordHead) -> None:
        for version in sorted(self._doubts):
            if (landed := self._landed(version)) is not None:
                if isinstance(landed, Item):
                    self._make_sure()
                self._answer = landed
                return

    def _landed(self, version: int) -> Item | OutcomeUnknown | None:
        """Our version, if it stands as ``version``. In a place once freed ours is no version, and is left to who frees.

        The head was read after the doubt arose. Where the place is empty a write may still be on its way to it; it
        stays in doubt, and the next put meets it there. OutcomeUnknown where it may have come and gone.
        """
        item = self._environment.index.get(self._name.partition, number(version))
        floor = read_floor(self._environment.index, self._name)
        ours = item is not None and item.attributes.get("w") == self._write_id
        if version >= floor.freeing:
            return None if item is None else self._if_ours(version, item)
        if not ours or version >= floor.freed or self._sends[version] > 1 or not self._is_stored(version):
            return OutcomeUnknown("a put's place was freed before it was answered", record=self._name.id)
        self._doubts.discard(version)
        return None

    def _if_ours(self, version: int, item: Item) -> Item | None:
        """``item``, if this put wrote it; any other leaves no doubt about its place. Raises KeyReused."""
        try:
            ours = self._wrote(item)
        except (KeyReused, Redacted):
            self._doubts.discard(version)
            raise
        if not ours:
            self._doubts.discard(version)
        return item if ours else None

    def _is_stored(self, version: int) -> bool:
        """Whether ours, met in a place below where all is gone, stands there still, so came late.

        Else it was a version when it was met, for all we know, and was freed before the floor was read.
        """
        item = self._environment.index.get(self._name.partition, number(version))
        return item is not None and item.attributes.get("w") == self._write_id
