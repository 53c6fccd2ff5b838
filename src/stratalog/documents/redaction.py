"""Redaction of a document's version: decided by what the state still needs. `docs/decisions/0028` has the rule."""

from __future__ import annotations

from stratalog.documents.commits import read_commit
from stratalog.documents.document import Document
from stratalog.documents.read_back import require_state
from stratalog.documents.rebuild import verify
from stratalog.documents.snapshots import load_state, roots_of
from stratalog.documents.state import State
from stratalog.errors import ConditionFailed, ContentionError, RedactionRefused, Unavailable, VersionForgotten
from stratalog.keys import number, snapshots_partition
from stratalog.log.names import require_name
from stratalog.log.redaction import check_unpinned, erase_entry, retire_snapshots
from stratalog.log.snapshots import Snapshot, list_snapshots, newest_snapshot
from stratalog.ports.index import Check, Equals
from stratalog.tree.chunks import Chunks

__all__ = ["redact"]

ATTEMPTS_MAX = 5


def redact(document: Document, version: int) -> list[int]:
    """Erase what a version says: its mutations and values, for good. Its time, author and hash stay.

    The newest state must not hold a value of it any more, and no fork may hold the version. A snapshot of the newest
    version is made and proven first. Snapshots that hold a value of the version are deleted, and their versions
    answered. From the version to the next snapshot `Document.at` raises Redacted; so does `Document.history` where it
    meets the version, and `Document.versions` has it without mutations.

    Raises RedactionRefused, with nothing written: the message says what to do. NotFound, VersionForgotten.
    """
    log = document.log
    log.check_redactable(version)
    entry = log.entry(version)
    if entry.redacted:
        # The snapshots went before it.
        return []
    keys = [change.key for change in read_commit(entry).patch if change.value is not None]
    for _ in range(ATTEMPTS_MAX):
        record = require_name(log.environment.index, log.record.organisation, document.name, log.record.incarnation)
        if version <= record.floor:
            raise VersionForgotten("the version was forgotten meanwhile", document=document.name, floor=record.floor)
        check_unpinned(log.environment, record, version)
        base = _proven_base(document, version, keys)
        holding = _holding(document, version, keys, base.version)
        # Before the entry: a crash in between costs snapshots, and the next call comes here again.
        # While the name record is what it was: one of them may have become the base of a floor or of a fork meanwhile.
        try:
            retire_snapshots(log.environment, record, holding)
        except ConditionFailed:
            continue
        check = Check(snapshots_partition(log.record.prefix), number(base.version), Equals("w", base.id))
        try:
            erase_entry(log.environment, log.record, version, [check])
        except ConditionFailed:
            continue
        log.forget_archived()
        return [snapshot.version for snapshot in holding]
    raise ContentionError("the document's snapshots kept changing", document=document.name)


def _proven_base(document: Document, version: int, keys: list[str]) -> Snapshot:
    """A snapshot of the newest version, which does not hold the values, rebuilt from the log and read back."""
    state = document.state()
    if held := [key for key in keys if _holds(state, key, version)]:
        raise RedactionRefused(
            "the document still holds what the version put; delete or overwrite it first",
            document=document.name,
            version=version,
            keys=held,
        )
    at = document.snapshot(max(state.version, version))
    verify(document, at)
    base = newest_snapshot(document.log.environment.index, document.log.record.prefix, at)
    if base is None or base.version < version:
        raise Unavailable("the snapshot that takes the place of the version could not be made", version=at)
    # Past the caches of the handle, which may know chunks that are gone.
    chunks = Chunks(document.log.environment.blobs, document.log.record.owner)
    require_state(chunks, document.values, roots_of(base))
    if any(_holds(load_state(document.log, chunks, base.version), key, version) for key in keys):
        raise Unavailable("the snapshot that was made still holds the values; try again", version=base.version)
    return base


def _holding(document: Document, version: int, keys: list[str], before: int) -> list[Snapshot]:
    """The snapshots from ``version`` on, below ``before``, that hold a value of it."""
    log = document.log
    snapshots = list_snapshots(log.environment.index, log.record.prefix, first=version)
    return [
        snapshot
        for snapshot in snapshots
        if snapshot.version < before
        and any(_holds(load_state(log, document.chunks, snapshot.version), key, version) for key in keys)
    ]


def _holds(state: State, key: str, version: int) -> bool:
    """Whether the value of ``key`` is the one that ``version`` put."""
    slot = state.slot(key)
    return slot is not None and slot.version == version
