"""Redaction of a document's version, if the newest state no longer needs it. `docs/decisions/0028` states the rule."""

from __future__ import annotations

from stratalog.arguments import check_class
from stratalog.documents.commits import read_commit
from stratalog.documents.document import Document
from stratalog.documents.read_back import require_state
from stratalog.documents.rebuild import verify_and_put
from stratalog.documents.snapshots import load_state, roots_of
from stratalog.documents.state import State
from stratalog.errors import ConditionFailed, ContentionError, RedactionRefused, Unavailable, VersionForgotten
from stratalog.log.names import reread_name
from stratalog.log.redaction import check_unpinned, erase_entry, retire_snapshots
from stratalog.log.snapshots import Snapshot, list_snapshots, newest_snapshot, snapshot_check
from stratalog.tree.chunks import Chunks

__all__ = ["redact"]

ATTEMPTS_MAX = 5


def redact(document: Document, version: int) -> list[int]:
    """Erase the mutations and values of a version for good; return the versions whose snapshots were deleted.

    The version's time, author and hash stay. The newest state must no longer hold a value of the version, and no fork
    may hold the version. The function first makes a snapshot of the newest version, and compares it with the log and
    with storage. Then it deletes the snapshots that hold a value of the version. From the version to the next snapshot
    `Document.at` raises Redacted. `Document.history` yields the version's change of a key without its value.
    `Document.versions` yields the version without mutations.

    Raises RedactionRefused: the entry is unchanged, and the message names the remedy. Raises NotFound,
    VersionForgotten. Raises Corrupt if the log or the new snapshot is damaged: the entry is unchanged. Raises
    ContentionError, Unavailable or OutcomeUnknown: snapshots may be deleted already, and the next call resumes.
    """
    check_class(Document, document=document)
    log = document.log
    log.check_redactable(version)
    entry = log.entry(version)
    if entry.redacted:
        # The snapshots were deleted before the entry was erased: nothing is left to do.
        return []
    keys = [change.key for change in read_commit(entry).patch if change.value is not None]
    retired: set[int] = set()
    retry = log.environment.retry()
    while True:
        record = reread_name(log.environment.index, log.record)
        if version <= record.floor:
            raise VersionForgotten("the version was forgotten meanwhile", document=document.name, floor=record.floor)
        check_unpinned(log.environment, record, version)
        base = _proven_base(document, version, keys)
        holding = _holding(document, version, keys, base.version)
        # Delete the snapshots before the entry is erased: after a crash in between, the next call finds the remaining
        # snapshots and resumes. The deletion is conditional on the name record, since a snapshot may meanwhile have
        # become the base of a floor or of a fork.
        try:
            retire_snapshots(log.environment, record, holding, retired)
            erase_entry(log.environment, log.record, version, [snapshot_check(base)])
        except ConditionFailed as exc:
            # A try proves a state, which can take longer than the time budget of a write. So count the tries, not the
            # time.
            wait_seconds = retry.next_seconds()
            if retry.attempts == ATTEMPTS_MAX:
                raise ContentionError("the document's snapshots kept changing", document=document.name) from exc
            log.environment.clock.sleep(wait_seconds)
            continue
        return sorted(retired)


def _proven_base(document: Document, version: int, keys: list[str]) -> Snapshot:
    """Make a snapshot of the newest version, and prove it. The snapshot holds no value of ``version``.

    The proof rebuilds the state from the log and reads the snapshot back from storage. Raises RedactionRefused if
    the document still holds a value of ``version``, Corrupt, Unavailable.
    """
    state = document.state()
    if held := [key for key in keys if _holds(state, key, version)]:
        raise RedactionRefused(
            "the document still holds values that the version put; delete or overwrite them first",
            document=document.name,
            version=version,
            keys=held,
        )
    at = document.snapshot(max(state.version, version))
    verify_and_put(document, at)
    base = newest_snapshot(document.log.environment.index, document.log.record.prefix, at)
    if base is None or base.version < version:
        raise Unavailable("the snapshot that replaces the version could not be made", version=at)
    # Bypass the caches of the handle, which may hold chunks that storage no longer has.
    chunks = Chunks(document.log.environment.blobs, document.log.record.owner)
    require_state(chunks, document.stored_values, roots_of(base))
    if any(_holds(load_state(document.log, chunks, base.version), key, version) for key in keys):
        raise Unavailable("the new snapshot still holds the values; try again", version=base.version)
    return base


def _holding(document: Document, version: int, keys: list[str], before: int) -> list[Snapshot]:
    """Return the snapshots at or above ``version`` and below ``before`` that hold a value of ``version``."""
    log = document.log
    snapshots = list_snapshots(log.environment.index, log.record.prefix, first=version)
    return [
        snapshot
        for snapshot in snapshots
        if snapshot.version < before
        and any(_holds(load_state(log, document.chunks, snapshot.version), key, version) for key in keys)
    ]


def _holds(state: State, key: str, version: int) -> bool:
    """Return whether ``version`` put the value of ``key``."""
    slot = state.slot(key)
    return slot is not None and slot.version == version
