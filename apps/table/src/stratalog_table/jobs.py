"""The job tracker: the state of ingest and compaction jobs, a second model that is derived from the table's log.

The tracker is a document next to the table's document. Each of its entries advances the tracker from one version of the
table to a later version. If another process advanced the tracker first, the mutation is rejected. So each reader can
update the tracker, and no process owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from stratalog import Conflict, Document, Draft, NotFound, Rejected, Rules, Store
from stratalog.codec import encode
from stratalog.errors import VersionForgotten
from stratalog.limits import KEY_BYTES_MAX
from stratalog.struct_types import resolved
from stratalog_table.job_claims import CancelJob
from stratalog_table.queries import TableView
from stratalog_table.references import AddFiles, AssignJobIds, ReplaceFileReferences
from stratalog_table.table_draft import read

__all__ = ["Job", "JobTracker", "events_of"]

SUFFIX = ".jobs"
UPTO = "upto"
TABLE = "table"
"""The field with the incarnation of the table that the tracker follows."""

OUTRUN = "another follower was first"
VERSIONS_PER_ENTRY = 500
EVENTS_BYTES = 4 * 1024 * 1024
"""Once the events of an entry have this size, a further version goes into the next entry."""

REASONS_RETAINED = 10
OUTPUTS_RETAINED = 100
REOPENED_MAX = 3
Event = list[Any]
T = TypeVar("T")


class Job(msgspec.Struct, frozen=True):
    """The state of a job. ``created`` and ``finished`` are versions of the table, or 0 if the event has not happened.

    status: created — references wait for the job. committed — the job's last references were replaced. failed — a
    transaction of the job was refused, and references may still wait for the job. cleared — the table was cleared
    before the job was done, or the versions in which the job ended were forgotten. ingested — the job's files were
    added. cancelled — the job's references were unassigned.
    """

    job: str
    partition: str
    status: str
    created: int = 0
    finished: int = 0
    waiting: int = 0
    """The number of references that wait for the job now."""

    files: int = 0
    rows: int = 0
    outputs: tuple[str, ...] = ()
    """The latest `OUTPUTS_RETAINED` output files. An ingest job may add any number of files."""

    reasons: tuple[tuple[int, str], ...] = ()
    """The latest refusals: version and reason."""


class JobTracker:
    """A follower of one table. Any number of trackers of a table may run at once."""

    def __init__(self, store: Store, table: Document) -> None:
        self._store = store
        self._table = table
        self._name = table.name + SUFFIX
        self._document: Document | None = None

    def catch_up(self, version_min: int | None = None) -> int:
        """Advance to the table's newest version, or to ``version_min`` if given, and return the version reached."""
        return self._reading(lambda document: self._follow(document, version_min))

    def job(self, job: str, partition: str = "", *, version_min: int | None = None) -> Job | None:
        """Return a job at version ``version_min`` or a newer version, or None if the job is unknown.

        Without ``version_min``, the method reads the newest version. Only merge jobs have a partition.
        """

        def query(document: Document) -> Job | None:
            self._follow(document, version_min)
            row = document.get(_key(job, partition))
            return None if row is None else msgspec.convert(row, resolved(Job))

        return self._reading(query)

    def jobs(self, *, version_min: int | None = None) -> Iterator[Job]:
        """Yield all jobs in order of name, at version ``version_min`` or a newer version."""

        def query(document: Document) -> Iterator[Job]:
            self._follow(document, version_min)
            return (msgspec.convert(row, resolved(Job)) for _, row in document.scan("job/"))

        return self._reading(query)

    def waiting(self, *, version_min: int | None = None) -> list[tuple[str, str, int]]:
        """Return the jobs for which references wait, each as (job, partition, number of references).

        `TableView.jobs` yields the same jobs from the table itself.
        """

        def query(document: Document) -> list[tuple[str, str, int]]:
            self._follow(document, version_min)
            view = document.at()
            keys = [key.split("/", 1)[1] for key, _ in view.scan("waiting/")]
            jobs = [msgspec.convert(view.get(f"job/{key}"), resolved(Job)) for key in keys]
            return [(job.job, job.partition, job.waiting) for job in jobs]

        return self._reading(query)

    def rebuild(self) -> int:
        """Delete the model, derive it again from the oldest version of the log, and return the version reached."""
        self._reading(self._store.delete)
        return self.catch_up()

    def delete(self) -> None:
        """Delete the model of this incarnation of the table. The model of another incarnation stays."""
        with suppress(NotFound):
            document = self._existing()
            if self._is_ours(document):
                self._store.delete(document)
        self._document = None

    def _reading(self, query: Callable[[Document], T]) -> T:
        """Query the model. If another process replaced the model meanwhile, query the new model."""
        for _ in range(REOPENED_MAX):
            try:
                return query(self._opened())
            except NotFound:
                self._document = None
        return query(self._opened())

    def _opened(self) -> Document:
        if self._document is None:
            with suppress(Conflict):
                self._store.create(self._table.organisation, self._name)
            document = self._existing()
            if not self._is_ours(document):
                # `head` raises NotFound if this table was deleted. Then the model belongs to a newer table and must
                # stay.
                self._table.log.head()
                self._store.delete(document)
                return self._opened()
            self._document = document
        return self._document

    def _existing(self) -> Document:
        return Document(self._store.log(self._table.organisation, self._name), Rules(mutators=MUTATORS))

    def _is_ours(self, document: Document) -> bool:
        """Return whether a model follows this incarnation. Raises Conflict for a document that is no job tracker."""
        view = document.at()
        if view.get(UPTO) is None:
            # Not `document.version`: another follower may have written the first entry meanwhile.
            if view.version:
                raise Conflict("another document has the name of the table's job tracker", document=document.name)
            return True
        followed = view.get(TABLE)
        if followed is not None:
            return bool(followed == self._table.log.record.incarnation)
        # Older models lack the field. A model that is older than the table belongs to an earlier incarnation.
        return document.log.record.created_ms >= self._table.log.record.created_ms

    def _follow(self, document: Document, version_min: int | None) -> int:
        target = self._table.version if version_min is None else version_min
        while (upto := document.get(UPTO, 0)) < target:
            self._advance(document, upto, min(target, upto + VERSIONS_PER_ENTRY))
        return int(upto)

    def _advance(self, document: Document, after: int, upto: int) -> None:
        """Advance from version ``after`` towards ``upto``: by at least one version, unless another follower was first.

        Raises Conflict if the tracker cannot store the events of the next versions.
        """
        try:
            events, upto = self._events(after, upto)
        except VersionForgotten:
            # The log forgot the next versions. `_skipped` compares the waiting jobs of the model with the waiting jobs
            # at the floor.
            floor = self._table.log.floor()
            events, upto = [["skipped", floor, after, list(TableView(self._table.at(floor)).jobs())]], floor
        table = self._table.log.record.incarnation
        outcome = document.mutate("track", {"after": after, "upto": upto, "events": events, "table": table})
        if outcome.reason not in (None, OUTRUN):
            # Another attempt would be rejected too.
            raise Conflict("the job tracker cannot store the events of a version", after=after, reason=outcome.reason)

    def _events(self, after: int, upto: int) -> tuple[list[Event], int]:
        """Return the events after version ``after``, and the last version that they come from, at most ``upto``.

        The events of one entry of the tracker are limited, because versions of many files have large events.
        """
        events: list[Event] = []
        size = 0
        for version in self._table.versions(after, upto):
            own = list(events_of(version))
            events += own
            size += len(encode(own))
            if size >= EVENTS_BYTES:
                return events, version.version
        return events, upto


def events_of(version: Any) -> Iterator[Event]:
    """Yield the events of jobs in a version of a table."""
    for mutation in version.mutations:
        event_reader = _EVENT_READERS.get(mutation.name)
        if event_reader is not None:
            # A transaction whose arguments cannot be decoded was rejected, and names no job.
            with suppress(Rejected):
                events = event_reader(version.version, mutation.args, mutation.reason)
                yield from (event for event in events if _is_storable(event))


def track(draft: Draft, args: Any) -> None:
    """Advance the tracker from one version of the table to a later version.

    Raises Rejected if another follower advanced the tracker first.
    """
    if draft.get(UPTO, 0) != args["after"]:
        raise Rejected(OUTRUN)
    for kind, version, *rest in args["events"]:
        _FOLDS[kind](draft, version, *rest)
    draft.put(UPTO, args["upto"])
    if "table" in args:
        draft.put(TABLE, args["table"])


def _assigned_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    for request in read(args, AssignJobIds).requests:
        if reason is not None:
            yield ["failed", version, request.job, request.partition, reason]
        elif request.filenames:
            yield ["assigned", version, request.job, request.partition, len(request.filenames)]


def _replaced_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    transaction = read(args, ReplaceFileReferences)
    if reason is not None:
        yield ["failed", version, transaction.job, transaction.partition, reason]
    else:
        count, output = len(transaction.inputs), transaction.output
        yield ["committed", version, transaction.job, transaction.partition, count, output.filename, output.rows]


def _added_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    transaction = read(args, AddFiles)
    if transaction.job is None:
        return
    if reason is not None:
        yield ["failed", version, transaction.job, "", reason]
    else:
        rows = sum(reference.rows for file in transaction.files for reference in file.references)
        # The names of all files of a version may be larger than an entry of the tracker.
        outputs = [file.filename for file in transaction.files[-OUTPUTS_RETAINED:]]
        yield ["ingested", version, transaction.job, outputs, rows, len(transaction.files)]


def _cancelled_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    if reason is None:
        cancelled = read(args, CancelJob)
        yield ["cancelled", version, cancelled.job, cancelled.partition]


def _cleared_in(version: int, args: Any, reason: str | None) -> Iterator[Event]:
    if reason is None:
        yield ["cleared", version]


_EVENT_READERS: Mapping[str, Callable[[int, Any, str | None], Iterator[Event]]] = {
    "assign_job_ids": _assigned_in,
    "replace_file_references": _replaced_in,
    "add_files": _added_in,
    "cancel_job": _cancelled_in,
    "clear_files": _cleared_in,
    "reinitialise": _cleared_in,
}


def _assigned(draft: Draft, version: int, job: str, partition: str, count: int) -> None:
    record = _find(draft, job, partition, version)
    waiting, files = record.waiting + count, record.files + count
    _put(draft, msgspec.structs.replace(record, status="created", finished=0, waiting=waiting, files=files))


def _committed(draft: Draft, version: int, job: str, partition: str, count: int, output: str, rows: int) -> None:
    record = _find(draft, job, partition, version)
    waiting = max(0, record.waiting - count)
    status, outputs = "created" if waiting else "committed", _latest(record.outputs, output)
    changed = msgspec.structs.replace(record, status=status, waiting=waiting, outputs=outputs, rows=record.rows + rows)
    _put(draft, msgspec.structs.replace(changed, finished=0 if waiting else version))


def _failed(draft: Draft, version: int, job: str, partition: str, reason: str) -> None:
    record = _find(draft, job, partition, version)
    status = "failed" if record.status == "created" else record.status
    reasons = (*record.reasons, (version, reason))[-REASONS_RETAINED:]
    _put(draft, msgspec.structs.replace(record, status=status, reasons=reasons))


def _ingested(draft: Draft, version: int, job: str, filenames: list[str], rows: int, count: int) -> None:
    record = _find(draft, job, "", version)
    files, total, outputs = record.files + count, record.rows + rows, _latest(record.outputs, *filenames)
    changed = msgspec.structs.replace(record, status="ingested", files=files, rows=total, outputs=outputs)
    _put(draft, msgspec.structs.replace(changed, finished=version))


def _cancelled(draft: Draft, version: int, job: str, partition: str) -> None:
    record = _find(draft, job, partition, version)
    _put(draft, msgspec.structs.replace(record, status="cancelled", waiting=0, finished=version))


def _cleared(draft: Draft, version: int, spared: Collection[str] = ()) -> None:
    for key in list(draft.keys("waiting/")):
        name = f"job/{key.split('/', 1)[1]}"
        if name not in spared:
            record = msgspec.convert(draft.get(name), resolved(Job))
            _put(draft, msgspec.structs.replace(record, status="cleared", waiting=0, finished=version))


def _skipped(draft: Draft, version: int, after: int, waiting: Sequence[tuple[str, str, int]]) -> None:
    """Account for the forgotten versions from ``after`` to ``version``.

    ``waiting`` are the jobs for which references wait at ``version``.
    """
    _cleared(draft, after, {_key(job, partition) for job, partition, _ in waiting})
    for job, partition, count in waiting:
        record = _find(draft, job, partition, version)
        if count > record.waiting:
            _assigned(draft, version, job, partition, count - record.waiting)
        else:
            _put(draft, msgspec.structs.replace(record, waiting=count))


_FOLDS: Mapping[str, Callable[..., None]] = {
    "assigned": _assigned,
    "committed": _committed,
    "failed": _failed,
    "ingested": _ingested,
    "cancelled": _cancelled,
    "cleared": _cleared,
    "skipped": _skipped,
}


def _latest(outputs: tuple[str, ...], *added: str) -> tuple[str, ...]:
    return (*outputs, *added)[-OUTPUTS_RETAINED:]


def _find(draft: Draft, job: str, partition: str, version: int) -> Job:
    row = draft.get(_key(job, partition))
    return Job(job, partition, "created", version) if row is None else msgspec.convert(row, resolved(Job))


def _put(draft: Draft, job: Job) -> None:
    key = _key(job.job, job.partition)
    draft.put(key, msgspec.to_builtins(job))
    waiting = _waiting_key(key)
    if job.waiting:
        draft.put(waiting, None)
    else:
        draft.delete(waiting)


def _is_storable(event: Event) -> bool:
    """Return whether both keys of an event's job are short enough to be stored, as they are for valid ids.

    A refused transaction may name any job, and so may an ingest job that an older program accepted.
    """
    kind, _, *names = event
    if kind == "cleared":
        return True
    partition = "" if kind == "ingested" else names[1]
    return len(_waiting_key(_key(names[0], partition)).encode()) <= KEY_BYTES_MAX


def _key(job: str, partition: str) -> str:
    return f"job/{job}\t{partition}"


def _waiting_key(key: str) -> str:
    """Return the longer second key of a job, under which the job is found while references wait for it."""
    return f"waiting/{key.removeprefix('job/')}"


MUTATORS: Mapping[str, Any] = MappingProxyType({"track": track})
