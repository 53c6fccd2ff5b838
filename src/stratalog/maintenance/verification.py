"""Verification of a store: a report with findings for each log, document and record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from stratalog.documents import Document, verify
from stratalog.documents.rebuild import Verified
from stratalog.documents.values import as_reference
from stratalog.errors import NotFound, Redacted, StratalogError, Unsupported, VersionForgotten
from stratalog.limits import VERIFY_ATTEMPTS_MAX
from stratalog.log import Environment, Log, open_log
from stratalog.log.callbacks import Report
from stratalog.log.directory import LOGS, RECORDS, is_listed, list_ids
from stratalog.log.listed_items import Damaged, raise_damage
from stratalog.log.names import DOCUMENT_OR_LOG, read_name
from stratalog.log.verification import (
    DAMAGE_ERRORS,
    INTACT_ERRORS,
    ChainReport,
    Finding,
    certain_part,
    check_upto,
    damage_of,
    verify_log,
)
from stratalog.maintenance.marks import stored_values
from stratalog.records.verification import verify_record
from stratalog.records.versions import Name
from stratalog.store import Store

__all__ = [
    "SHELVES",
    "HistoryName",
    "HistoryReport",
    "check_history_upto",
    "has_line",
    "is_deleted",
    "list_histories",
    "live_prefix",
    "verify_history",
]

HistoryKind = Literal["log", "record"]
"""A document is a log, because documents and logs share one space of names."""

SHELVES: Mapping[HistoryKind, str] = {"log": LOGS, "record": RECORDS}
"""Maps each kind to the directory's shelf that lists its histories."""


class HistoryName(msgspec.Struct, frozen=True, order=True):
    """The name of a log or a record."""

    kind: HistoryKind
    organisation: str
    name: str


class HistoryReport(msgspec.Struct, frozen=True):
    """The result of one history's verification."""

    history: HistoryName
    kind: str
    """``document``, ``record``, ``log``, or the kind that an application gave its log."""

    chain: ChainReport
    rebuilt: Verified | None = None
    """The result of rebuilding a document's state; None for a log or record, and if the rebuild failed."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings; empty if the whole history verifies."""
        return self.chain.findings


def list_histories(store: Store, damaged: Damaged = raise_damage) -> Iterator[HistoryName]:
    """Yield all live logs and records of the store, by organisation.

    ``damaged`` is called with the error of each damaged key in the lists. Such a key may hide any history.
    """
    for organisation in store.organisations(damaged=damaged):
        for kind, shelf in SHELVES.items():
            ids = list_ids(store.environment.index, organisation, shelf, damaged=damaged)
            yield from (HistoryName(kind, organisation, id) for id in ids)


def is_deleted(store: Store, history: HistoryName) -> bool:
    """Return whether the log, which was listed but was not found, was deleted meanwhile.

    The commit of a deletion removes the directory line, so a log that is still listed is damaged. Nothing removes a
    record from its directory.
    """
    return history.kind == "log" and not has_line(store, history)


def has_line(store: Store, history: HistoryName) -> bool:
    """Return whether the directory lists the history, also by a damaged line."""
    return is_listed(store.environment.index, history.organisation, SHELVES[history.kind], history.name)


def check_history_upto(environment: Environment, history: HistoryName, upto: int | None) -> None:
    """Raise VersionForgotten or Invalid if no state or chain ends at ``upto``. Ignore damage."""
    if upto is None or history.kind == "record":
        return
    try:
        log = open_log(environment, history.organisation, history.name, noun=DOCUMENT_OR_LOG)
        floor = log.floor()
        first = max(floor, log.first) if log.record.kind == "document" else floor
    except DAMAGE_ERRORS:
        return
    check_upto(log, upto, first)


def verify_history(
    store: Store, history: HistoryName, upto: int | None = None, progress: Report | None = None
) -> HistoryReport:
    """Recompute one history's hash chain and, for a document, rebuild its state.

    A log or document is read up to version ``upto``, if given; a record is always read whole. ``progress`` is
    called with the number of versions verified since its last call. All damage is reported in the
    findings. If damage hides the origin, the report has an empty origin. If the floor rises meanwhile, the report has
    only the findings above the new floor. If no finding is certain, because versions were forgotten before they were
    read, the verification starts again, and passes the versions of the new attempt to ``progress`` too.

    Raises NotFound, Unavailable, and Invalid for a version of a document before its fork point. Raises VersionForgotten
    if ``upto`` is below the floor, or if no attempt of `VERIFY_ATTEMPTS_MAX` was certain.
    """
    check_history_upto(store.environment, history, upto)
    try:
        if history.kind == "record":
            return HistoryReport(history, "record", _verify_record(store, history, progress))
        return _verify_attempts(store, history, upto, progress)
    except INTACT_ERRORS:
        raise
    except DAMAGE_ERRORS as exc:
        if isinstance(exc, NotFound) and not has_line(store, history):
            raise
        finding = _finding(exc)
    chain = ChainReport(origin="", start=0, version=finding.last, hash=b"", findings=(finding,))
    return HistoryReport(history, history.kind, chain)


def _verify_attempts(store: Store, history: HistoryName, upto: int | None, progress: Report | None) -> HistoryReport:
    """Verify a log. Repeat if another log took its name meanwhile, or if the floor rose and no finding is certain.

    Raises Corrupt for a damaged name record, and VersionForgotten if no attempt was certain.
    """
    for _ in range(VERIFY_ATTEMPTS_MAX):
        prefix = live_prefix(store, history)
        try:
            report = _verify_attempt(store, history, upto, progress)
        except NotFound as exc:
            if isinstance(exc, VersionForgotten) or live_prefix(store, history) == prefix:
                raise
            continue
        if report is not None:
            return report
    raise VersionForgotten("the floor rose during each attempt to verify the log", log=history.name)


def live_prefix(store: Store, history: HistoryName) -> str:
    """Return the prefix of the live log that has the name now; empty without such a log. Raises Corrupt."""
    record = read_name(store.environment.index, history.organisation, history.name)
    return "" if record is None or record.deleted_ms else record.prefix


def _verify_attempt(
    store: Store, history: HistoryName, upto: int | None, progress: Report | None
) -> HistoryReport | None:
    """Verify a log once. Return None if the floor rose meanwhile and no finding is certain."""
    log = store.log(history.organisation, history.name, noun=DOCUMENT_OR_LOG)
    floor = log.floor()
    try:
        report = _verify_log(store, history, log, upto, progress)
    except VersionForgotten:
        if log.floor() == floor:
            raise
        return None
    chain = certain_part(report.chain, floor, log.floor())
    return None if chain is None else msgspec.structs.replace(report, chain=chain)


def _verify_log(
    store: Store, history: HistoryName, log: Log, upto: int | None, progress: Report | None
) -> HistoryReport:
    if log.record.kind == "document":
        return _verify_document(store, history, log, upto, progress)
    return HistoryReport(history, log.record.kind, verify_log(log, upto, progress=progress))


def _verify_record(store: Store, history: HistoryName, progress: Report | None) -> ChainReport:
    """Verify a record. A listed record without a version is damaged: nothing deletes a record's latest version."""
    try:
        return verify_record(store.environment, Name(history.organisation, history.name), progress=progress)
    except NotFound as exc:
        if isinstance(exc, VersionForgotten) or not has_line(store, history):
            raise
        finding = Finding("missing", 1, 1, "the listed record has no version")
    return ChainReport(origin="", start=0, version=0, hash=b"", findings=(finding,))


def _verify_document(
    store: Store, history: HistoryName, log: Log, upto: int | None, progress: Report | None
) -> HistoryReport:
    """Rebuild a document, which also verifies its chain. If the rebuild fails, a second pass finds each fault."""
    document = Document(log, store.rules)
    try:
        last = None if upto is None else min(upto, log.head().version)
        rebuilt = verify(document, last, progress=progress)
        _read_values(document, rebuilt)
    except Unsupported:
        raise
    except DAMAGE_ERRORS as exc:
        chain = verify_log(log, upto)
        if chain.findings:
            return HistoryReport(history, "document", chain)
        if isinstance(exc, Redacted) and upto is not None:
            return HistoryReport(history, "document", chain)
        if isinstance(exc, VersionForgotten):
            raise
        return HistoryReport(history, "document", msgspec.structs.replace(chain, findings=(_finding(exc),)))
    chain = ChainReport(
        origin=log.record.origin,
        start=rebuilt.start,
        version=rebuilt.version,
        hash=rebuilt.hash,
        redacted=rebuilt.redacted,
    )
    return HistoryReport(history, "document", chain, rebuilt)


def _read_values(document: Document, rebuilt: Verified) -> None:
    """Read each large value and argument that the entries refer to. The hash chain covers only the references.

    Raises Corrupt.
    """
    read: set[bytes] = set()
    for entry in document.log.read(rebuilt.start, rebuilt.version):
        for stored in stored_values(entry.events, entry.version):
            if (reference := as_reference(stored)) is not None and reference.content_hash not in read:
                document.stored_values.load(stored)
                read.add(reference.content_hash)


def _finding(error: StratalogError) -> Finding:
    """Return the finding of a fault outside the chain, for example in a snapshot."""
    details = error.details
    version = details.get("version", 0)
    number = version if isinstance(version, int) else 0
    damage = damage_of(number, error)
    return Finding(damage.kind, number, number, str(error) if details and not damage.key else damage.reason, damage.key)
