"""The job tracker: what became of ingest and compaction jobs, as a second model fed from the table's own log.

It is a document beside the table's. Each of its entries takes it from one version of the table to a later one, and is
rejected where another follower was first; so whoever reads it brings it up to date first, and nobody owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from stratalog import Conflict, Document, Draft, NotFound, Rejected, Rules, Store
from stratalog.errors import VersionForgotten
from stratalog_table.queries import TableView
from stratalog_table.references import AddFiles, AssignJobIds, ReplaceFileReferences
from stratalog_table.table_draft import read

__all__ = ["Job", "JobTracker", "events_of"]

SUFFIX = ".jobs"
UPTO = "upto"
VERSIONS_PER_ENTRY = 500
REASONS_KEPT = 10
REOPENED_MAX = 3
Event = list[Any]
T = TypeVar("T")


class Job(msgspec.Struct, frozen=True):
    """What became of a job. Versions are the table's; 0 for what has not come to pass.

    status: created — references wait for it. committed — its last ones were replaced. failed — a commit of it was
    refused, and references may wait still. cleared — the table forgot its files first. ingested — its files were added.
    """

    job: str
    partition: str
    status: str
    created: int = 0
    finished: int = 0
    waiting: int = 0
    """References that wait for it now."""

    files: int = 0
    rows: int = 0
    outputs: tuple[str, ...] = ()
    reasons: tuple[tuple[int, str], ...] = ()
    """Why it was refused, and in which version; the latest ones."""


class JobTracker:
    """Follows one table. Any number of trackers of it may run at once."""

    def __init__(self, store: Store, table: Document) -> None:
        self._store = store
        self._table = table
        self._name = table.name + SUFFIX
        self._document: Document | None = None

    def catch_up(self, at_least: int | None = None) -> int:
        """Follow the table to its newest version, or to ``at_least`` where that is enough; how far it is now."""
        return self._reading(lambda document: self._follow(document, at_least))

    def job(self, job: str, partition: str = "", *, at_least: int | None = None) -> Job | None:
        """What became of a job on a partition; an ingest job has none. As new as the table, or as ``at_least``."""

        def look(document: Document) -> Job | None:
            self._follow(document, at_least)
            row = document.get(_key(job, partition))
            return None if row is None else msgspec.convert(row, Job)

        return self._reading(look)

    def jobs(self, *, at_least: int | None = None) -> Iterator[Job]:
        """All jobs, in order of name."""

        def look(document: Document) -> Iterator[Job]:
            self._follow(document, at_least)
            return (msgspec.convert(row, Job) for _, row in document.scan("job/"))

        return self._reading(look)

    def waiting(self, *, at_least: int | None = None) -> list[tuple[str, str, int]]:
        """Jobs that references wait for, as the tracker has them: what `TableView.jobs` says of the state."""

        def look(document: Document) -> list[tuple[str, str, int]]:
            self._follow(document, at_least)
            view = document.at()
            keys = [key.split("/", 1)[1] for key, _ in view.scan("waiting/")]
            jobs = [msgspec.convert(view.get(f"job/{key}"), Job) for key in keys]
            return [(job.job, job.partition, job.waiting) for job in jobs]

        return self._reading(look)

    def rebuild(self) -> int:
        """Throw the model away and follow the log again from the first version kept; how far it is then."""
        self._reading(Document.delete)
        return self.catch_up()

    def _reading(self, look: Callable[[Document], T]) -> T:
        """Look at the model; where another process threw it away meanwhile, at the one in its place."""
        for _ in range(REOPENED_MAX):
            try:
                return look(self._opened())
            except NotFound:
                self._document = None
        return look(self._opened())

    def _opened(self) -> Document:
        if self._document is None:
            with suppress(Conflict):
                self._store.create(self._table.organisation, self._name)
            log = self._store.log(self._table.organisation, self._name)
            self._document = Document(log, Rules(mutators=MUTATORS))
        return self._document

    def _follow(self, document: Document, at_least: int | None) -> int:
        target = self._table.version if at_least is None else at_least
        while (upto := document.get(UPTO, 0)) < target:
            self._advance(document, upto, min(target, upto + VERSIONS_PER_ENTRY))
        return int(upto)

    def _advance(self, document: Document, after: int, upto: int) -> None:
        try:
            events = [event for version in self._table.versions(after, upto) for event in events_of(version)]
        except VersionForgotten:
            floor = self._table.log.floor()
            events, upto = [["cleared", after], *_standing(TableView(self._table.at(floor)))], floor
        document.mutate("track", {"after": after, "upto": upto, "events": events})


def events_of(version: Any) -> Iterator[Event]:
    """What a version of a table says of jobs."""
    for one in version.mutations:
        tell = _TELLERS.get(one.name)
        if tell is not None:
            # A transaction that cannot be read was rejected, and names no job.
            with suppress(Rejected):
                yield from tell(version.version, one.args, one.reason)


def track(draft: Draft, args: Any) -> None:
    """Take the tracker from one version of the table to another."""
    if draft.get(UPTO, 0) != args["after"]:
        raise Rejected("another follower was first")
    for kind, version, *rest in args["events"]:
        _FOLDS[kind](draft, version, *rest)
    draft.put(UPTO, args["upto"])


def _assigned_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    for request in read(args, AssignJobIds).requests:
        if reason is not None:
            yield ["failed", version, request.job, request.partition, reason]
        elif request.filenames:
            yield ["assigned", version, request.job, request.partition, len(request.filenames)]


def _replaced_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    one = read(args, ReplaceFileReferences)
    if reason is not None:
        yield ["failed", version, one.job, one.partition, reason]
    else:
        yield ["committed", version, one.job, one.partition, len(one.inputs), one.output.filename, one.output.rows]


def _added_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    one = read(args, AddFiles)
    if one.job is None:
        return
    if reason is not None:
        yield ["failed", version, one.job, "", reason]
    else:
        rows = sum(reference.rows for file in one.files for reference in file.references)
        yield ["ingested", version, one.job, [file.filename for file in one.files], rows]


def _cleared_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    if reason is None:
        yield ["cleared", version]


_TELLERS: Mapping[str, Callable[[int, Any, str | None], Iterator[Event]]] = {
    "assign_job_ids": _assigned_in,
    "replace_file_references": _replaced_in,
    "add_files": _added_in,
    "clear_files": _cleared_in,
    "reinitialise": _cleared_in,
}


def _standing(view: TableView) -> Iterable[Event]:
    """The jobs under way at a version before which nothing is kept."""
    return (["assigned", view.version, *job] for job in view.jobs())


def _assigned(draft: Draft, version: int, job: str, partition: str, count: int) -> None:
    found = _find(draft, job, partition, version)
    waiting = found.waiting + count
    _put(draft, msgspec.structs.replace(found, status="created", waiting=waiting, files=found.files + count))


def _committed(draft: Draft, version: int, job: str, partition: str, count: int, output: str, rows: int) -> None:
    found = _find(draft, job, partition, version)
    waiting = max(0, found.waiting - count)
    status, outputs = "created" if waiting else "committed", (*found.outputs, output)
    changed = msgspec.structs.replace(found, status=status, waiting=waiting, outputs=outputs, rows=found.rows + rows)
    _put(draft, msgspec.structs.replace(changed, finished=0 if waiting else version))


def _failed(draft: Draft, version: int, job: str, partition: str, reason: str) -> None:
    found = _find(draft, job, partition, version)
    status = "failed" if found.status == "created" else found.status
    reasons = (*found.reasons, (version, reason))[-REASONS_KEPT:]
    _put(draft, msgspec.structs.replace(found, status=status, reasons=reasons))


def _ingested(draft: Draft, version: int, job: str, filenames: list[str], rows: int) -> None:
    found = _find(draft, job, "", version)
    files, total, outputs = found.files + len(filenames), found.rows + rows, (*found.outputs, *filenames)
    changed = msgspec.structs.replace(found, status="ingested", files=files, rows=total, outputs=outputs)
    _put(draft, msgspec.structs.replace(changed, finished=version))


def _cleared(draft: Draft, version: int) -> None:
    for key in list(draft.keys("waiting/")):
        found = msgspec.convert(draft.get(f"job/{key.split('/', 1)[1]}"), Job)
        _put(draft, msgspec.structs.replace(found, status="cleared", waiting=0, finished=version))


_FOLDS: Mapping[str, Callable[..., None]] = {
    "assigned": _assigned,
    "committed": _committed,
    "failed": _failed,
    "ingested": _ingested,
    "cleared": _cleared,
}


def _find(draft: Draft, job: str, partition: str, version: int) -> Job:
    row = draft.get(_key(job, partition))
    return Job(job, partition, "created", version) if row is None else msgspec.convert(row, Job)


def _put(draft: Draft, job: Job) -> None:
    key = _key(job.job, job.partition)
    draft.put(key, msgspec.to_builtins(job))
    waiting = "waiting/" + key.split("/", 1)[1]
    if job.waiting:
        draft.put(waiting, None)
    else:
        draft.delete(waiting)


def _key(job: str, partition: str) -> str:
    return f"job/{job}\t{partition}"


MUTATORS: Mapping[str, Any] = MappingProxyType({"track": track})
