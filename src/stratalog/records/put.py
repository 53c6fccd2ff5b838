"""Putting versions of a record, by the same conditional append as logs.

:func:`plan_put` is pure and plans the writes; :class:`RecordAppend` commits them. For each latest version that it
reads, `RecordAppend` calls the caller's `Decide` to get the next version.
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
    """The latest version of a record as of the observation ``seen``; ``item`` is None if there was no version."""

    item: Item | None
    seen: Observation

    @property
    def version(self) -> int:
        """The version's number; 0 if there was no version."""
        return parse_number(self.item.sort) if self.item else 0


class RecordDraft(msgspec.Struct, frozen=True):
    """The next version, without its number and time."""

    attributes: dict[str, Attribute]
    guards: tuple[Write, ...] = ()
    """Further writes of the same commit, each with a condition."""

    refusal: Callable[[], StratalogError] | None = None
    """Returns the error to raise if a guard does not hold. If this is None, the append asks for another draft."""

    refresh: Callable[[], None] | None = None
    """Called as soon as the commit may exist. Puts the body again if its last put is too old. Raises Unavailable."""

    blobs: Mapping[str, bytes] = NO_BLOBS
    """Blobs that the commit must include."""


Decide = Callable[[Item | None], RecordDraft | Item]
"""Returns a draft of the version after the latest version. If nothing is to be written, returns an existing item.

An error or an existing item is final only if the append has just read the latest version from the index.
"""


class Heads:
    """The latest versions that one `Records` handle has seen, of the `HEADS_MAX` records that it read or wrote last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._heads: OrderedDict[str, RecordHead] = OrderedDict()

    def get(self, id: str) -> RecordHead | None:
        """Return the head as last seen. Other writers may have committed since."""
        return self._heads.get(id)

    def store(self, id: str, head: RecordHead) -> None:
        """Store ``head``, unless a later version is known."""
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
    """Return the put of the version that follows ``latest``, and all writes of its commit.

    The first version also puts the record's directory item, and begins its history with ``origin``. ``entering`` puts
    the organisation's directory item, if this item is missing. The times of a record's versions never decrease.
    """
    version = parse_number(latest.sort) + 1 if latest else 1
    created_ms = max(now_ms, int(latest.attributes["c"])) if latest else now_ms
    attributes: dict[str, Attribute] = {"c": created_ms, **draft.attributes, "s": salt}
    if latest is None:
        attributes["og"] = origin
    # Compute the hash here, from the item that the version follows: an earlier try may have followed another item.
    attributes["ch"] = chained(_hash_of(latest), version, attributes)
    put = Put(Item(name.partition, number(version), attributes), Absent())
    writes: list[Write] = [put, *draft.guards]
    if latest is None:
        writes.append(directory_put(name.organisation, RECORDS, name.id, "record", created_ms))
        writes += entering
    return put, tuple(writes)


def _hash_of(latest: Item | None) -> bytes | None:
    """Return the hash that names the history up to ``latest``. Raises Corrupt."""
    hash = latest.attributes.get("ch") if latest else None
    if latest and not isinstance(hash, bytes):
        raise Corrupt("a version of a record has no hash", partition=latest.partition, sort=latest.sort)
    return hash if isinstance(hash, bytes) else None


class Planned(msgspec.Struct, frozen=True):
    """A put that the caller commits, alone or together with other puts."""

    head: RecordHead
    draft: RecordDraft
    item: Item
    writes: tuple[Write, ...]

    @property
    def blobs(self) -> Mapping[str, bytes]:
        """Blobs that the commit must include."""
        return self.draft.blobs

    @property
    def version(self) -> int:
        """The number of the version to write."""
        return self.head.version + 1


class RecordAppend(ConditionalAppend[RecordHead, Planned]):
    """The append of one version. ``wrote`` returns whether this put wrote an item, or raises KeyReused or Redacted."""

    what = "a put"
    others = "other writers kept putting versions first"

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
        """With ``fresh`` the append reads the head before the first decision. ``principal`` requests the put."""
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
        self._answer: Item | Exception | None = None

    def write(self) -> Item:
        """Return the resulting version, which this call wrote or which existed already.

        Raises the errors of ``decide`` on a fresh head, QuotaExceeded, ContentionError, Unavailable: nothing is
        written. Raises OutcomeUnknown.
        """
        self._sent = Observation(self._environment.clock)
        try:
            self.run()
        finally:
            self._settle_reserved()
        if isinstance(self._answer, Item):
            return self._answer
        raise self._answer or OutcomeUnknown("a put ended without an outcome", record=self._name.id)

    def plan(self) -> Item | Planned:
        """Return the planned commit, or the resulting item if there is nothing to write. Does not retry.

        The caller commits the plan and then calls `landed`. If the outcome is unknown, the caller calls `mark_in_doubt`
        and then `write`. If the commit failed, the caller calls only `write`.
        """
        self._sent = Observation(self._environment.clock)
        planned = self._planned(self._usable_head(self._in_doubt()))
        if self._reserved is not None:
            # The caller may crash before it settles the put. Keep the reservation until the next measurement, which
            # counts the record itself.
            self._reserved.confirm()
        return planned

    def landed(self, planned: Planned, sent: Observation) -> Item | None:
        """Settle a commit that succeeded; return the version. If the answer came too late, return None: call `write`.

        ``sent`` was taken before the commit was sent. Raises Unavailable if the body cannot be put again.
        """
        self._note(planned)
        self._sent = sent
        self._land(planned, planned.head)
        return self._answer if isinstance(self._answer, Item) else None

    def mark_in_doubt(self, planned: Planned) -> None:
        """Note that the commit may exist or may still arrive. `write` finds out."""
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
        """Try once. An error of the decision is final. While a write is in doubt, OutcomeUnknown replaces the error."""
        try:
            super()._try()
        except (Unavailable, OutcomeUnknown):
            self._behind = True  # the decision may have found that its head is outdated
            raise
        except Exception as exc:
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
        """Return the plan after ``head``. Before a final decision, read the head again unless it is fresh."""
        try:
            decided = self._decided(head)
        except StratalogError:
            if self._fresh:
                raise
            decided = None
        # Only on a fresh head is an error or an existing item final.
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
        """Return the decision for ``head``. Quota for a new record is reserved once per put. Raises QuotaExceeded."""
        decided = self._decide(head.item)
        if head.item is None and not isinstance(decided, Item) and self._reserved is None:
            organisation = self._name.organisation
            self._reserved = self._environment.reserve(organisation, Amounts(records=1), principal=self._principal)
        return decided

    def _settle_reserved(self) -> None:
        """Keep the reservation if this put wrote the first version, or may have written it; otherwise release it."""
        if self._reserved is None:
            return
        if self._doubts or (isinstance(self._answer, Item) and self._answer.attributes.get("w") == self._write_id):
            self._reserved.confirm()
        else:
            self._reserved.release()

    def _note(self, planned: Planned) -> None:
        """Note that the plan is being sent."""
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
        """Settle a commit that succeeded.

        First mark the write in doubt and refresh its body, since the refresh may fail. If the head was read longer than
        `OBSERVATION_SECONDS_MAX` ago, the commit came too late. The write then stays in doubt, and the next try checks
        it.
        """
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
        """Return our item if it is stored as ``version``; OutcomeUnknown if it may have been stored and then freed.

        None means that our item is not stored, or arrived after its position was freed. `free_versions` deletes a late
        item, which is no version. If the position is empty, the write may still arrive, so it stays in doubt.
        """
        item = self._environment.index.get(self._name.partition, number(version))
        floor = read_floor(self._environment.index, self._name)
        ours = item is not None and item.attributes.get("w") == self._write_id
        if version >= floor.freeing:
            return None if item is None else self._if_ours(version, item)
        if not ours or version >= floor.freed or self._sends[version] > 1 or not self._is_stored(version):
            return OutcomeUnknown("a put's position was freed before its outcome was known", record=self._name.id)
        self._doubts.discard(version)
        return None

    def _if_ours(self, version: int, item: Item) -> Item | None:
        """Return ``item`` if this put wrote it. The item of another put ends the doubt. Raises KeyReused, Redacted."""
        try:
            ours = self._wrote(item)
        except (KeyReused, Redacted):
            self._doubts.discard(version)
            raise
        if not ours:
            self._doubts.discard(version)
        return item if ours else None

    def _is_stored(self, version: int) -> bool:
        """Return whether our item, found below the freed floor, is still stored. If so, the item arrived late.

        If the item is gone, it may have been a version at the first read, and freed before the floor was read.
        """
        item = self._environment.index.get(self._name.partition, number(version))
        return item is not None and item.attributes.get("w") == self._write_id
