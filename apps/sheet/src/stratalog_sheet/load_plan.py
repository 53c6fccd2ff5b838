"""The load plan of a version: a base state and the messages from that state to the version.

An undo refers to an earlier edit, and the engine can execute the undo only if it has received that edit as a message.
So a plan begins before every edit that an undo in the plan or a later undo may refer to. The plan begins

- at least `SheetSettings.undo_entries` entries back, because the server rejects a later undo that reaches farther, and
- before every edit that an undo in the plan refers to;
- or at the newest entry with a complete state (created, imported, restored), because no undo refers to an edit before
  this entry.

If the log has forgotten these entries, a plan begins at the newest kept entry with a complete state. If there is no
such entry, or if the entry is a restore whose state can no longer be computed, the plan begins at the oldest kept app
snapshot that no undo in the plan crosses. `snapshot_versions` chooses the versions of app snapshots so that no undo
crosses the app snapshot at the floor.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from stratalog import Entry, Log
from stratalog.codec import encode
from stratalog.errors import Corrupt, LimitExceeded, VersionForgotten
from stratalog.process_fork import close_in_child
from stratalog.struct_types import resolved
from stratalog_sheet.events import Created, Imported, Restored, Revision, fact_of
from stratalog_sheet.limits import SHEET_LOAD_BYTES_MAX
from stratalog_sheet.state import join_state

__all__ = ["Base", "LoadPlan", "LoadPlans", "revision_in", "with_revision"]

BASES_HELD_MAX = 2


class Base(msgspec.Struct, frozen=True):
    """A complete state: the engine's JSON at a version, and the id of its revision."""

    version: int
    revision: str
    data: bytes


class LoadPlan(msgspec.Struct, frozen=True):
    """A base state and the entries after it, up to ``version``."""

    version: int
    base: Base
    entries: Sequence[Entry]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages for the engine, in order."""
        return [message for _, message in self.steps]

    @property
    def steps(self) -> list[tuple[int, dict[str, Any]]]:
        """The pairs (version, message) of the messages for the engine, in order."""
        facts = [(entry.version, fact_of(entry)) for entry in self.entries]
        return [(version, fact.message) for version, fact in facts if isinstance(fact, Revision)]


class _Held:
    """Reads the entries of a load, and counts the bytes of their messages. The limit is `SHEET_LOAD_BYTES_MAX`."""

    def __init__(self) -> None:
        self._bytes = 0

    def read(self, log: Log, after: int, upto: int) -> list[Entry]:
        """Return the entries of a range from its last complete state on, or all entries if no entry has such a state.

        Only these entries count for the limit. Raises LimitExceeded.
        """
        entries: list[Entry] = []
        earlier = self._bytes
        for entry in log.read(after, upto):
            fact = fact_of(entry)
            if isinstance(fact, Created | Imported | Restored):
                entries, self._bytes = [], earlier
            elif isinstance(fact, Revision):
                self._bytes += len(encode(fact.message))
            if self._bytes > SHEET_LOAD_BYTES_MAX:
                entries = []  # a complete state may follow, so read on
            else:
                entries.append(entry)
        self._check(self._bytes, upto)
        return entries

    def bounded(self, load_plan: LoadPlan) -> LoadPlan:
        """Return the plan. Raises LimitExceeded if its state and messages exceed the limit."""
        self._check(self._bytes + len(load_plan.base.data), load_plan.version)
        return load_plan

    def _check(self, size: int, version: int) -> None:
        if size > SHEET_LOAD_BYTES_MAX:
            text = "the sheet's state and the messages after it are too large to load; restore an earlier version"
            raise LimitExceeded(text, value=size, limit=SHEET_LOAD_BYTES_MAX, version=version)


class LoadPlans:
    """Makes the load plans of one log. An undo may reach back ``reach`` entries.

    If a `Restored` entry has no snapshot, ``state_at`` computes the state that the entry restored.
    """

    def __init__(self, log: Log, state_at: Callable[[int], bytes], reach: int) -> None:
        self._log = log
        self._reach = reach
        self._state_at = state_at
        self._bases: OrderedDict[int, Base] = OrderedDict()
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def plan(self, at: int) -> LoadPlan:
        """Return the load plan of version ``at``. Raises NotFound, VersionForgotten, Corrupt.

        Raises LimitExceeded if the base state and the messages after it exceed `SHEET_LOAD_BYTES_MAX`. Also raises the
        errors of ``state_at``.
        """
        try:
            return self._complete_plan(at)
        except VersionForgotten:
            return self._retained_plan(at)

    def _complete_plan(self, at: int) -> LoadPlan:
        start = self._snapshot_version(max(at - self._reach, 0))
        held = _Held()
        entries = held.read(self._log, start, at)
        while True:
            if (position := _last_complete(entries)) is not None:
                base = self._complete_base(entries[position])
                return held.bounded(LoadPlan(at, base, entries[position + 1 :]))
            if start == 0:
                raise Corrupt("a sheet's log does not begin with a state", log=self._log.record.name)
            # An undo in the plan may refer to an edit before ``start``. The earlier entries may have further undos.
            lowest = _lowest_target(entries, at + 1)
            if lowest > start:
                return held.bounded(LoadPlan(at, self._snapshot_base(start), entries))
            earlier = self._snapshot_version(lowest - 1)
            entries = [*held.read(self._log, earlier, start), *entries]
            start = earlier

    def _retained_plan(self, at: int) -> LoadPlan:
        """Return the plan of a version after the log has forgotten entries, as the module describes.

        Raises VersionForgotten if no kept base is suitable.
        """
        held = _Held()
        closed: tuple[int, list[Entry]] | None = None
        entries: list[Entry] = []
        start, base = at, self._snapshot_version(at)
        while True:
            try:
                entries = [*held.read(self._log, base, start), *entries]
            except VersionForgotten:
                break
            if (position := _last_complete(entries)) is not None:
                with suppress(VersionForgotten):  # the log may have forgotten the restored version
                    complete = self._complete_base(entries[position])
                    return held.bounded(LoadPlan(at, complete, entries[position + 1 :]))
                break
            if _lowest_target(entries, at + 1) > base:
                closed = base, entries
            if base == 0:
                break
            start, base = base, self._snapshot_version(base - 1)
        if closed is None:
            text = "the version is no longer kept, or an undo or restore before it needs a version below the floor"
            raise VersionForgotten(text, log=self._log.record.name, version=at)
        return held.bounded(LoadPlan(at, self._snapshot_base(closed[0]), closed[1]))

    def revision_at(self, at: int) -> str:
        """Return the revision in the newest snapshot at or below ``at``.

        The caller calls this method only if no message is between the snapshot and ``at``.
        """
        return self._snapshot_base(self._snapshot_version(at)).revision

    def snapshot_state(self, at: int) -> bytes | None:
        """Return the state of version ``at`` if exactly that version has a snapshot, else None."""
        return self._snapshot_base(at).data if self._snapshot_version(at) == at and at else None

    def _snapshot_version(self, at: int) -> int:
        snapshot = self._log.app_snapshot(at)
        return snapshot.version if snapshot else 0

    def _snapshot_base(self, version: int) -> Base:
        with self._lock:
            if version in self._bases:
                self._bases.move_to_end(version)
                return self._bases[version]
        snapshot = self._log.app_snapshot(version)
        if snapshot is None or snapshot.version != version:
            if version < self._log.floor():
                raise VersionForgotten("the version is no longer kept", log=self._log.record.name, version=version)
            raise Corrupt("a saved state is missing", log=self._log.record.name, version=version)
        data = join_state(self._log.read_snapshot(snapshot))
        return self._hold(Base(version, revision_in(data), data))

    def _hold(self, base: Base) -> Base:
        with self._lock:
            self._bases[base.version] = base
            while len(self._bases) > BASES_HELD_MAX:
                self._bases.popitem(last=False)
        return base

    def _complete_base(self, entry: Entry) -> Base:
        """Return the base of an entry with a complete state (created, imported, restored)."""
        with self._lock:
            if entry.version in self._bases:
                return self._bases[entry.version]
        fact = fact_of(entry)
        if isinstance(fact, Created | Imported):
            return self._hold(Base(entry.version, fact.revision, fact.data))
        assert isinstance(fact, Restored)
        if self._snapshot_version(entry.version) == entry.version:
            return self._snapshot_base(entry.version)
        data = with_revision(self._state_at(fact.version), fact.revision)
        return self._hold(Base(entry.version, fact.revision, data))


def revision_in(data: bytes) -> str:
    """Return the revision id in a state."""
    return msgspec.json.decode(data, type=resolved(_Revised)).revisionId


def with_revision(data: bytes, revision: str) -> bytes:
    """Return the same state with another revision id."""
    plain = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    plain["revisionId"] = msgspec.Raw(msgspec.json.encode(revision))
    return msgspec.json.encode(plain)


class _Revised(msgspec.Struct):
    revisionId: str  # noqa: N815 - the engine's own name


def _last_complete(entries: Sequence[Entry]) -> int | None:
    for position in range(len(entries) - 1, -1, -1):
        if isinstance(fact_of(entries[position]), Created | Imported | Restored):
            return position
    return None


def _lowest_target(entries: Sequence[Entry], default: int) -> int:
    """Return the lowest version that an undo or redo among the entries refers to; ``default`` without undo or redo."""
    facts = map(fact_of, entries)
    return min((fact.target for fact in facts if isinstance(fact, Revision) and fact.target), default=default)
