"""Inspection: read from storage every object that a history refers to, hash it, and compare objects that must agree.

An inspection writes nothing. Writers may continue meanwhile, so a history with damage is read again. Only damage that
all readings find is reported. Other damage comes from a concurrent write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from stratalog.errors import Closed, Corrupt, NotFound, OutcomeUnknown, Unavailable, VersionForgotten
from stratalog.keys import NAME_SORT, name_partition
from stratalog.limits import VERIFY_ATTEMPTS_MAX
from stratalog.log import Environment, Log, open_log
from stratalog.log.callbacks import Report
from stratalog.log.directory import LOGS, is_listed, list_directory, list_lines, list_organisations
from stratalog.log.names import DOCUMENT_OR_LOG
from stratalog.log.verification import ChainReport
from stratalog.maintenance.damage import DamageList, StoredDamage, item_key
from stratalog.maintenance.document_check import DocumentCheck
from stratalog.maintenance.log_check import LogCheck
from stratalog.maintenance.record_check import check_record
from stratalog.maintenance.recording_ports import RecordingBlobs, RecordingIndex, ScratchFirst
from stratalog.maintenance.store_check import blob_owners, check_organisation, check_queue, unlisted
from stratalog.maintenance.verification import SHELVES, HistoryName, check_history_upto, has_line, live_prefix
from stratalog.ports.scratch import Scratch
from stratalog.records.versions import Name
from stratalog.store import Store

__all__ = ["HistoryInspection", "inspect_history", "inspect_store", "inspected_histories", "look"]

LOOKS_MAX = 4


class HistoryInspection(msgspec.Struct, frozen=True):
    """The result of one history's inspection, with its damages."""

    history: HistoryName
    kind: str
    chain: ChainReport | None
    """None if an error prevented the verification of the chain."""

    snapshots: int = 0
    """The number of intact snapshots. If the state of a snapshot's version was rebuilt, the snapshot equals the
    state."""

    root: str = ""
    digest: str = ""
    """Root and digest of a document's content, rebuilt from its entries; in hex."""

    bytes_read: int = 0
    """Uncompressed bytes of the blobs read."""

    damages: tuple[StoredDamage, ...] = ()


def inspect_history(
    store: Store, history: HistoryName, upto: int | None = None, progress: Report | None = None
) -> HistoryInspection:
    """Read one history, whole or up to a version, and return its damages.

    Raises NotFound and Unavailable. Raises VersionForgotten if ``upto`` is below the floor, or if the floor rose during
    each of `VERIFY_ATTEMPTS_MAX` attempts. Raises Invalid if ``upto`` is a version of a document before its fork point.

    A history with damage is read again, at most `LOOKS_MAX` times, until a reading finds no new damage. ``progress`` is
    called during the first reading, with the number of versions read since its last call.
    """
    report = look(store, history, upto, progress)
    for _ in range(LOOKS_MAX):
        if not report.damages:
            break
        again = look(store, history, upto)
        lasting = _in_both(report.damages, again.damages)
        is_settled = len(lasting) == len(again.damages)
        report = msgspec.structs.replace(again, damages=lasting)
        if is_settled:
            break
    return report


def inspect_store(store: Store) -> tuple[StoredDamage, ...]:
    """Check the items outside logs and records: organisation and directory lines, deleted logs and uploads.

    Also check attempt records, rejected mutations and the queue's dead letters. Raises Unavailable.
    """
    first = _look_around(store)
    return _in_both(first, _look_around(store)) if first else ()


def inspected_histories(store: Store) -> Iterator[HistoryName]:
    """Yield all listed logs and records, and live logs and records that have blobs but no directory line.

    A damaged line lists its log or record too, unless its sort key is damaged.

    `blob_owners` does not find an unlisted record with a shortened key, nor an unlisted fork.
    """
    with _recording(store, DamageList()) as (environment, _):
        for organisation in list_organisations(environment.index):
            for kind, shelf in SHELVES.items():
                for line in list_lines(store.environment.index, organisation, shelf):
                    if line.position is None:
                        yield HistoryName(kind, organisation, line.sort)
        for owner in blob_owners(environment):
            if unlisted(environment, owner) and not has_line(store, owner):
                yield owner


def _in_both(first: tuple[StoredDamage, ...], second: tuple[StoredDamage, ...]) -> tuple[StoredDamage, ...]:
    known = {(damage.kind, damage.key) for damage in first}
    return tuple(damage for damage in second if (damage.kind, damage.key) in known)


@contextmanager
def _recording(store: Store, damages: DamageList) -> Iterator[tuple[Environment, RecordingBlobs]]:
    """Yield an environment that records damage and never writes to the store, and the blobs for a rebuilt state."""
    ports, scratch = store.environment, Scratch()
    blobs = RecordingBlobs(ports.blobs, scratch, damages)
    building = ScratchFirst(ports.blobs, scratch, damages)
    try:
        yield Environment(RecordingIndex(ports.index, damages), blobs, ports.clock, ports.settings), building
    finally:
        scratch.close()


def look(
    store: Store,
    history: HistoryName,
    upto: int | None = None,
    progress: Report | None = None,
    then: Callable[[Environment, RecordingBlobs], None] = lambda environment, building: None,
) -> HistoryInspection:
    """Read a history once and return its damages, including those that a concurrent write caused.

    If the floor rises above versions before they are read, read the history again, and drop the damages found before.
    Raises the errors of `inspect_history`.

    ``then`` is called after the reading, with the environment and the blobs of the rebuild. These blobs include the
    rebuilt chunks.
    """
    check_history_upto(store.environment, history, upto)
    for _ in range(VERIFY_ATTEMPTS_MAX):
        damages = DamageList()
        damages.history = f"{history.organisation}/{history.name}"
        prefix = _prefix(store, history)
        with _recording(store, damages) as (environment, building):
            try:
                report = _inspect(environment, building, history, upto, progress, damages)
            except (Unavailable, OutcomeUnknown, Closed):
                raise
            except VersionForgotten:  # the floor rose above versions before they were read
                continue
            except NotFound:
                # The log was deleted during the reading. Another log may have its name now.
                if not len(damages) and _prefix(store, history) == prefix:
                    raise
                if not len(damages):
                    continue
                report = HistoryInspection(history, history.kind, None)
            except Exception as exc:  # code that reads damaged data can raise any error
                if not len(damages) and not isinstance(exc, Corrupt):
                    raise
                if not len(damages):
                    damages.add(history.kind, damages.history, "damaged", str(exc))
                report = HistoryInspection(history, history.kind, None)
            then(environment, building)
            blobs = environment.blobs
            assert isinstance(blobs, RecordingBlobs)
            return msgspec.structs.replace(report, damages=damages.damages(), bytes_read=blobs.bytes_read)
    raise VersionForgotten(f"the floor rose during each attempt to inspect the {history.kind}", name=history.name)


def _prefix(store: Store, history: HistoryName) -> str:
    """Return the prefix of the live log that has the name now; empty for a record or a damaged name record."""
    try:
        return live_prefix(store, history) if history.kind == "log" else ""
    except Corrupt:
        return ""


def _inspect(
    environment: Environment,
    building: RecordingBlobs,
    history: HistoryName,
    upto: int | None,
    progress: Report | None,
    damages: DamageList,
) -> HistoryInspection:
    if history.kind == "record":
        chain = check_record(environment, Name(history.organisation, history.name), damages, progress)
        return HistoryInspection(history, "record", chain)
    log = _open_listed(environment, history, damages)
    return _inspect_log(environment, building, history, log, upto, progress, damages)


def _open_listed(environment: Environment, history: HistoryName, damages: DamageList) -> Log:
    """Open a log. Raises NotFound, and adds a damage if the log is listed."""
    try:
        return open_log(environment, history.organisation, history.name, noun=DOCUMENT_OR_LOG)
    except NotFound:
        if is_listed(environment.index, history.organisation, LOGS, history.name):
            key = item_key(name_partition(history.organisation, history.name), NAME_SORT)
            damages.add("name record", key, "missing", "a listed log has no name record, or a deleted name record")
        raise


def _inspect_log(
    environment: Environment,
    building: RecordingBlobs,
    history: HistoryName,
    log: Log,
    upto: int | None,
    progress: Report | None,
    damages: DamageList,
) -> HistoryInspection:
    check = LogCheck(environment, log, damages, upto)
    if log.record.kind != "document":
        chain = check.run(progress)
        check.check_app_snapshots()
        return HistoryInspection(history, log.record.kind, chain)
    blobs = environment.blobs
    assert isinstance(blobs, RecordingBlobs)
    document = DocumentCheck(environment, log, blobs, building, damages)
    chain = check.run(progress, document.visit)
    document.run(upto, chain.start, chain.version)
    return HistoryInspection(history, "document", chain, document.snapshots, document.root, document.digest)


def _look_around(store: Store) -> tuple[StoredDamage, ...]:
    damages = DamageList()
    with _recording(store, damages) as (environment, _):
        listed = set(list_organisations(environment.index))
        for organisation in sorted(listed | {owner.organisation for owner in blob_owners(environment)}):
            check_organisation(environment, organisation, damages)
            for shelf in SHELVES.values():
                for _listing in list_directory(environment.index, organisation, shelf):
                    pass
        check_queue(environment, store.queue, damages)
    return damages.damages()
