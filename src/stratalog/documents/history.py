"""Queries of the history: versions, changes of a key, differences of two versions, the version that has a mutation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from stratalog.codec import decode
from stratalog.documents.commit_builder import arguments_size, load_arguments
from stratalog.documents.commits import Commit, PatchRow, Recorded, read_commit
from stratalog.documents.snapshots import load_state
from stratalog.documents.state import State, reading_chunks
from stratalog.documents.values import Values, value_size
from stratalog.errors import Corrupt, Redacted, VersionForgotten
from stratalog.log import Entry, Log
from stratalog.log.retained_entries import read_retained
from stratalog.protocol.keys import check_key
from stratalog.tree.diff import diff as tree_diff
from stratalog.tree.nodes import Slot

__all__ = [
    "Applied",
    "Difference",
    "KeyChange",
    "Unread",
    "Version",
    "applied_in",
    "diff",
    "key_changes",
    "reading_entry",
    "versions",
]

T = TypeVar("T")
StateAt = Callable[[int | None], State]


class Applied(msgspec.Struct, frozen=True):
    """A committed mutation. ``reason`` is the reason of its rejection; None if it was applied."""

    client: str
    id: int
    name: str
    args: Any
    reason: str | None
    origin: tuple[str, int] | None


class Version(msgspec.Struct, frozen=True):
    """One version: its time, its author (a name to show) and principal (an id), its mutations in order, and its keys.

    ``changed`` are the keys that the version put, and ``deleted`` are the keys that it deleted.
    """

    version: int
    created_ms: int
    author: str
    principal: str
    mutations: tuple[Applied, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    redacted: bool = False
    """Whether the mutations and keys of the version were erased."""


class KeyChange(msgspec.Struct, frozen=True):
    """One change of one key: the value after the change, and the mutations that made the change."""

    key: str
    version: int
    created_ms: int
    author: str
    principal: str
    value: Any
    deleted: bool
    mutations: tuple[Applied, ...]
    redacted: bool = False
    """Whether the value and the mutations of the version were erased."""


class Difference(msgspec.Struct, frozen=True):
    """A key that differs between two versions.

    ``was`` is True if the first version has the key; if not, ``before`` is None. ``is_now`` is True if the second
    version has the key; if not, ``after`` is None.
    """

    key: str
    before: Any
    after: Any
    was: bool
    is_now: bool


class Unread(msgspec.Struct, Generic[T], frozen=True):
    """A row that is found but not loaded. ``position`` is its version or key. ``load`` reads ``size`` bytes."""

    position: Any
    size: int
    load: Callable[[], T]


@contextmanager
def reading_entry(log: Log, version: int) -> Iterator[None]:
    """Raise VersionForgotten or Redacted if the block lacks a value because the entry was forgotten or redacted.

    The collector deletes the values of such an entry. Otherwise the error of the block, Corrupt, is raised.
    """
    try:
        yield
    except Corrupt as exc:
        if version <= (floor := log.floor()):
            raise VersionForgotten("the version was forgotten while it was read", version=version, floor=floor) from exc
        if log.entry(version).redacted:
            raise Redacted("the version was redacted while it was read", version=version) from exc
        raise


def versions(log: Log, values: Values, after: int | None, upto: int | None) -> Iterator[Unread[Version]]:
    """See `Document.versions`."""
    for entry in read_retained(log, upto) if after is None else log.read(after, upto):
        commit = Commit() if entry.redacted else read_commit(entry)
        size = sum(arguments_size(recorded, commit.patch) for recorded in commit.mutations)
        yield Unread(entry.version, size, partial(_version, log, entry, commit, values))


def key_changes(
    log: Log, values: Values, state_at: StateAt, key: str, at: int | None = None
) -> Iterator[Unread[KeyChange]]:
    """See `Document.history`. ``state_at`` returns the state at a version, or the newest state for None."""
    check_key(key)
    try:
        state = state_at(at)
    except Redacted:
        if at is None:
            raise
        # A redacted change is found only from a later change of the key, so start at the newest state.
        return (row for row in key_changes(log, values, state_at, key) if row.position <= at)
    # An older state has the floor of its time, which may have risen since.
    floor = state.floor if at is None else max(state.floor, log.floor())
    return _changes_down(log, values, state_at, key, abs(state.changed_in(key)), floor)


def _changes_down(
    log: Log, values: Values, state_at: StateAt, key: str, version: int, floor: int
) -> Iterator[Unread[KeyChange]]:
    """Yield the change of ``key`` in ``version``, and follow each change to the preceding change, down to the floor."""
    while version > floor:
        try:
            entry = log.entry(version)
        except VersionForgotten:
            return
        if entry.redacted:
            yield Unread(version, 0, partial(_redacted_change, entry, key))
            version = _change_before(log, state_at, key, version)
            continue
        commit = read_commit(entry)
        change = next((change for change in commit.patch if change.key == key), None)
        # Each version must be lower than the last, or a damaged entry could make this loop endless.
        count = len(commit.mutations)
        if change is None or abs(change.before) >= version or any(not 0 <= position < count for position in change.by):
            raise Corrupt("an entry lacks the change that a later change or a state names", version=version, key=key)
        size = sum(arguments_size(commit.mutations[position], commit.patch) for position in change.by)
        size += value_size(change.value) if change.value else 0
        yield Unread(version, size, partial(_key_change, log, entry, commit, change, values))
        version = abs(change.before)


def _change_before(log: Log, state_at: StateAt, key: str, version: int) -> int:
    """Return the newest version that changed ``key`` below the redacted ``version``; 0 if none is known.

    Between an earlier redacted version and the next snapshot no state can be loaded, so the function reads the entries
    there. It skips that earlier version, since nothing shows whether the version changed the key.
    """
    while version > 0:
        upto = version - 1
        try:
            return abs(state_at(upto).changed_in(key))
        except VersionForgotten:
            return 0
        except Redacted as exc:
            version = exc.details["version"]
        entries = (entry for entry in log.read(version, upto) if not entry.redacted)
        changing = [entry.version for entry in entries if any(row.key == key for row in read_commit(entry).patch)]
        if changing:
            return changing[-1]
    return 0


def diff(values: Values, old: State, new: State, after: str = "") -> Iterator[Unread[Difference]]:
    """See `Document.diff`. Compares only the keys that `_candidates` returns."""
    for key in sorted(key for key in _candidates(old, new) if key > after):
        before, now = old.slot(key), new.slot(key)
        if (before and before.value) == (now and now.value):
            continue
        size = len(key.encode()) + sum(value_size(slot.value) for slot in (before, now) if slot)
        yield Unread(key, size, partial(_difference, key, (old, before), (new, now), values))


def _version(log: Log, entry: Entry, commit: Commit, values: Values) -> Version:
    with reading_entry(log, entry.version):
        mutations = tuple(_applied(recorded, commit.patch, values) for recorded in commit.mutations)
    return Version(
        entry.version,
        entry.created_ms,
        entry.author,
        entry.principal,
        mutations,
        tuple(change.key for change in commit.patch if change.value is not None),
        tuple(change.key for change in commit.patch if change.value is None),
        bool(entry.redacted),
    )


def _key_change(log: Log, entry: Entry, commit: Commit, change: PatchRow, values: Values) -> KeyChange:
    with reading_entry(log, entry.version):
        return KeyChange(
            change.key,
            entry.version,
            entry.created_ms,
            entry.author,
            entry.principal,
            None if change.value is None else decode(values.load(change.value)),
            change.value is None,
            tuple(_applied(commit.mutations[position], commit.patch, values) for position in change.by),
        )


def _redacted_change(entry: Entry, key: str) -> KeyChange:
    head = (key, entry.version, entry.created_ms, entry.author, entry.principal)
    return KeyChange(*head, value=None, deleted=False, mutations=(), redacted=True)


def _difference(
    key: str, source: tuple[State, Slot | None], target: tuple[State, Slot | None], values: Values
) -> Difference:
    before, after = (decode(state.value(slot, values)) if slot else None for state, slot in (source, target))
    return Difference(key, before, after, source[1] is not None, target[1] is not None)


def applied_in(log: Log, newest: State, client: str, id: int) -> int | None:
    """See `Document.applied_in`."""
    if not _reached(newest, client, id):
        return None
    # The search may read a version below a floor that rises meanwhile. The mutation may be above the new floor.
    return log.above_floor(lambda floor: _applied_above(log, newest, max(log.first, floor), client, id))


def _applied_above(log: Log, newest: State, low: int, client: str, id: int) -> int | None:
    """Search the versions above ``low``. First a binary search over states, then a scan of the remaining entries."""
    # A collected client may begin anew and reuse mutation numbers, so compare its binding too. Its first entry may be
    # redacted.
    high, binding, began = newest.version, newest.binding(client), newest.began_in(client)

    def is_same_and_reached(state: State) -> bool:
        return _reached(state, client, id) and state.binding(client) == binding

    if began > low:
        low = began - 1
    # If the oldest state has the mutation, an entry at or below the floor applied it, and that entry may be gone.
    elif low > log.first and is_same_and_reached(load_state(log, newest.chunks, low)):
        raise VersionForgotten("the mutation was applied in a version that is no longer kept", client=client, id=id)
    while high - low > log.environment.settings.snapshot_entries_interval:
        middle = (low + high) // 2
        try:
            reached = is_same_and_reached(load_state(log, newest.chunks, middle))
        except Redacted:
            break  # the version ``middle`` has no state: read each remaining entry
        if reached:
            high = middle
        else:
            low = middle
    applied = redacted = 0
    for entry in log.read(low, high):
        if entry.redacted:
            redacted = entry.version
            continue
        commit = read_commit(entry)
        if any(name == client for name, _, _ in commit.bindings):
            applied = redacted = 0  # the client begins here, or anew
        if any(mutation.client == client and mutation.id == id for mutation in commit.mutations):
            applied = entry.version
    if applied:
        return applied
    if redacted:
        raise Redacted("the version that applied the mutation is redacted", client=client, id=id)
    return None


def _applied(recorded: Recorded, patch: Sequence[PatchRow], values: Values) -> Applied:
    args = load_arguments(recorded, patch, values)
    return Applied(recorded.client, recorded.id, recorded.name, args, recorded.reason, recorded.origin)


def _reached(state: State, client: str, id: int) -> bool:
    newest = state.client(client)
    return newest is not None and newest.id >= id


def _candidates(old: State, new: State) -> set[str]:
    """Return the keys that may differ: keys that differ between the snapshots' trees, or changed after a snapshot."""
    with reading_chunks(old, new):
        keys = {key for key, _, _ in tree_diff(old.chunks, old.roots.content, new.roots.content)}
    return keys.union(old.content.changes(), new.content.changes())
