"""Garbage collection of blobs: mark from the roots, then delete the unreferenced blobs of an organisation or owner.

The order of the steps makes a collection safe while writers run:

1. List the candidates, each with the stamp of its generation. Only a blob that is older than any commit in flight is a
   candidate. A writer that refers to a blob puts it again, which makes the blob young and changes its stamp.
2. Read the references (`marks.py`) and remove every referenced blob from the candidates.
3. Stat each remaining candidate again, and delete it only if its stamp is unchanged.

A collection saves its progress in the index (`progress.py`): the candidates with their stamps, and the position of the
marking. An interrupted collection may resume at any later time, because a blob that was put since has another stamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from stratalog.clock import Observation
from stratalog.errors import Corrupt, Invalid, LimitExceeded, NotFound, OutcomeUnknown, StratalogError, Unavailable
from stratalog.keys import RecordKey, deleted_partition, family_partition, unescape
from stratalog.limits import (
    CLAIM_CHECK_SECONDS_MIN,
    COLLECT_CANDIDATES_MAX,
    GRACE_SECONDS,
    OBSERVATION_SECONDS_MAX,
    UNKNOWN_OWNER_SECONDS_MAX,
)
from stratalog.log.callbacks import Report, Stop, never, quiet
from stratalog.log.directory import LOGS, list_ids
from stratalog.log.environment import Environment
from stratalog.log.names import read_name
from stratalog.maintenance.marks import Marking
from stratalog.maintenance.progress import Candidate, CollectionProgress, drop_work, load_work, save_work
from stratalog.ports.blobs import BlobStat
from stratalog.ports.queue import Queue
from stratalog.records.retention import is_known, referenced
from stratalog.records.versions import Name

__all__ = ["CollectionReport", "MaintenanceFailure", "collect", "collect_family", "owners"]

SAVE_SECONDS = 60
FAILURES_MAX = 3
OLD_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS
# The library's own folders below a family's owner. Only the application has the references to blobs in other folders,
# so the collector never deletes those blobs.
BLOB_FOLDERS = ("app-snapshots", "archive", "arguments", "bodies", "chunks", "collecting", "fields", "items")


class MaintenanceFailure(msgspec.Struct, frozen=True):
    """One part of the maintenance that failed, and the reason. The other parts continued."""

    what: str
    code: str
    reason: str
    key: str = ""
    """The key of the damaged or missing blob; empty if the failure concerns no blob."""

    @classmethod
    def of(cls, what: str, error: Exception) -> MaintenanceFailure:
        """Return the failure of ``what`` by ``error``."""
        code = error.code if isinstance(error, StratalogError) else "error"
        key = error.details.get("key") if isinstance(error, StratalogError) else None
        return cls(what, code, str(error) or type(error).__name__, key if isinstance(key, str) else "")


class CollectionReport(msgspec.Struct, frozen=True):
    """The result of one run of a collection, as numbers of blobs. In a dry run, the result that a run would have.

    The remaining blobs of an owner that the run skipped are not counted.
    """

    scope: str
    retained: int
    """The old blobs that are or may be referenced, or belong to an application."""

    young: int
    """The blobs that are too young to be collected."""

    changed: int
    """The unreferenced blobs that were put again or deleted between the listing and the delete."""

    garbage: tuple[str, ...]
    """The keys of the deleted blobs."""

    garbage_bytes: int
    failures: tuple[MaintenanceFailure, ...] = ()
    is_finished: bool = True
    """False if the run was stopped. The next run resumes at the saved position."""

    @property
    def looked_at(self) -> int:
        """The number of blobs examined."""
        return self.retained + self.young + self.changed + len(self.garbage)


def owners(environment: Environment, organisation: str) -> Iterator[str]:
    """Yield the owner of the blobs of each live log of an organisation, each owner once."""
    seen: set[str] = set()
    for name in list_ids(environment.index, organisation, LOGS):
        record = read_name(environment.index, organisation, name)
        if record is not None and record.owner not in seen:
            seen.add(record.owner)
            yield record.owner


def collect_family(
    environment: Environment, owner: str, *, dry_run: bool = False, stop: Stop = never
) -> CollectionReport:
    """Collect the blobs of one family of logs as `collect` does, but raise the first error instead of reporting it.

    Raises Corrupt, NotFound, Invalid or LimitExceeded if the references cannot be read: nothing of the present batch is
    deleted. An example is a log whose snapshots have an unknown model: the collector cannot find their references.
    """
    return _Collection(environment, owner, dry_run, stop, quiet, is_strict=True).run()


def collect(
    environment: Environment,
    scope: str,
    *,
    dry_run: bool = False,
    stop: Stop = never,
    report: Report = quiet,
    queue: Callable[[], Queue] | None = None,
) -> CollectionReport:
    """Delete the blobs under ``scope`` that nothing refers to. ``scope`` is an escaped organisation or an owner.

    Owners are collected one after the other. If an owner's references cannot be read, its remaining blobs stay, the
    report names the failure, and the run continues with the next owner. A dry run starts at the saved position, and
    writes and deletes nothing. ``stop`` is called between reads and before each delete. ``report`` is called with the
    number of blobs examined since its last call. ``queue`` returns the queue of the store; the run calls it only if
    there is a push whose body is a blob. Without ``queue`` the bodies of the pushes to existing documents stay.

    Raises Unavailable, OutcomeUnknown: the next call resumes from the saved progress.
    """
    return _Collection(environment, scope, dry_run, stop, report, queue).run()


class _Stopped(Exception):
    """``stop`` returned True."""


class _Collection:
    """One run of a collection. A strict run raises an owner's error instead of reporting it."""

    def __init__(
        self,
        environment: Environment,
        scope: str,
        dry_run: bool,
        stop: Stop,
        report: Report,
        queue: Callable[[], Queue] | None = None,
        *,
        is_strict: bool = False,
    ) -> None:
        self._environment = environment
        self._scope = scope
        self._dry_run = dry_run
        self._stop = stop
        self._report = report
        self._queue = queue
        self._is_strict = is_strict
        self._work, self._is_saved = load_work(environment, scope)
        self._saved = Observation(environment.clock)
        self._listing: Iterator[BlobStat] = iter(())
        self._next: BlobStat | None = None
        self._referenced = self._young = self._changed = self._garbage_bytes = 0
        self._garbage: list[str] = []
        self._failures: list[MaintenanceFailure] = []

    def run(self) -> CollectionReport:
        try:
            while self._work.owner or self._take():
                self._settle()
        except _Stopped:
            self._save()
            return self._build_report(False)
        if self._is_saved and not self._dry_run:
            drop_work(self._environment, self._scope)
        return self._build_report(True)

    def _take(self) -> bool:
        """List blobs of the next owner, at most `COLLECT_CANDIDATES_MAX` candidates. Return False at the end."""
        if self._next is None:
            self._seek(self._work.after)
        if self._next is None:
            return False
        work = self._work = CollectionProgress(owner=_owner_of(self._next.key), after=self._work.after)
        now_ms = self._environment.clock.wall_ms()
        while self._next is not None and self._next.key.startswith(f"{work.owner}/"):
            self._list(work, self._next, now_ms)
            self._next = next(self._listing, None)
            if len(work.candidates) >= COLLECT_CANDIDATES_MAX:
                break
            self._step()
        return True

    def _list(self, work: CollectionProgress, stat: BlobStat, now_ms: int) -> None:
        if now_ms - stat.modified_ms <= OLD_SECONDS * 1000:  # a commit in flight may refer to the blob
            work.young += 1
        elif not _is_ours(work.owner, stat.key):
            work.retained += 1
        else:
            work.listed += 1
            name = stat.key.removeprefix(f"{work.owner}/")
            work.candidates[name] = Candidate(stat.stamp, stat.modified_ms, stat.stored_bytes)
        work.upto = stat.key

    def _seek(self, after: str) -> None:
        self._listing = iter(self._environment.blobs.list(f"{self._scope}/", after=after))
        self._next = next(self._listing, None)

    def _settle(self) -> None:
        """Mark the listed blobs and delete the unmarked blobs. Skip an owner whose references cannot be read."""
        work = self._work
        try:
            if not work.is_marked:
                self._mark(work)
                work.retained += work.listed - len(work.candidates)
                work.is_marked = True
            self._delete_unmarked(work)
        except (Unavailable, OutcomeUnknown) as exc:
            self._fail(work, exc)
        except (Corrupt, NotFound, Invalid, LimitExceeded) as exc:
            self._pass_over(work.owner, exc)
        else:
            self._referenced, self._young = self._referenced + work.retained, self._young + work.young
            self._report(work.retained + work.young)
            self._work = CollectionProgress(after=work.upto)

    def _fail(self, work: CollectionProgress, error: StratalogError) -> None:
        """Save the progress and raise the error. After `FAILURES_MAX` failures of the batch, skip the owner."""
        work.failures += 1
        if work.failures >= FAILURES_MAX:
            self._pass_over(work.owner, error)
            return
        with suppress(Unavailable, OutcomeUnknown):
            self._save()
        raise error

    def _pass_over(self, owner: str, error: StratalogError) -> None:
        if self._is_strict:
            raise error
        self._failures.append(MaintenanceFailure.of(owner, error))
        # Continue after every key of the owner: `0` sorts directly after `/`.
        self._work = CollectionProgress(after=f"{owner}0")
        self._next = None

    def _mark(self, work: CollectionProgress) -> None:
        """Remove from the candidates every blob that is, or may be, referenced."""
        if not work.candidates:
            return
        parts = work.owner.split("/")
        kind = _kind_of(work.owner)
        if kind == "family":
            self._mark_family(work, parts)
        elif kind == "record":
            self._mark_record(work, parts)
        else:
            self._mark_queued(work, parts)

    def _mark_family(self, work: CollectionProgress, parts: list[str]) -> None:
        if next(self._environment.index.query(family_partition(work.owner), limit=1), None) is None:
            # A restored log or its ancestor may have the name of another log: only the line for the sweep tells that a
            # restoration is under way. Read the line first, because the end of the restoration replaces it by the name.
            is_listed = self._environment.index.get(deleted_partition(unescape(parts[0])), work.owner) is not None
            is_gone = not is_listed and self._is_gone(*parts)
            self._mark_younger(work, OLD_SECONDS if is_gone else UNKNOWN_OWNER_SECONDS_MAX)
        else:
            Marking(self._environment, work.owner, work.mark, work.reached, work.seen, self._step).run()

    def _mark_record(self, work: CollectionProgress, parts: list[str]) -> None:
        # A long id cannot be recovered from its key. The functions called here use only the key, so any id is correct.
        name = Name(unescape(parts[0]), parts[2], RecordKey(parts[2]))
        if not is_known(self._environment, name):
            self._mark_younger(work, UNKNOWN_OWNER_SECONDS_MAX)
            return
        roots = referenced(self._environment, name, dry_run=self._dry_run)
        for key in list(work.candidates):
            if roots is None or key.rpartition("/")[2] in roots:
                work.mark(key)

    def _mark_queued(self, work: CollectionProgress, parts: list[str]) -> None:
        """Mark the claim checks of messages that the queue may still have. A message is sent after its claim check."""
        if self._is_gone(parts[0], parts[2]):
            self._mark_younger(work, OLD_SECONDS)
        else:
            oldest_ms = self._queue().oldest_ms() if self._queue else 0
            self._mark_since(work, oldest_ms - CLAIM_CHECK_SECONDS_MIN * 1000)

    def _is_gone(self, organisation: str, incarnation: str) -> bool:
        """Return whether the log is known to be deleted: its name record is deleted or names another incarnation.

        A missing name record proves nothing, because a copy writes the blobs before the name.
        """
        log, _, own = incarnation.partition("@")
        record = read_name(self._environment.index, unescape(organisation), unescape(log))
        return record is not None and (record.incarnation != own or bool(record.deleted_ms))

    def _mark_younger(self, work: CollectionProgress, seconds: float) -> None:
        """Mark the blobs younger than ``seconds``, since their references cannot be found or are not written yet."""
        self._mark_since(work, self._environment.clock.wall_ms() - int(seconds * 1000))

    def _mark_since(self, work: CollectionProgress, since_ms: int) -> None:
        for key, candidate in list(work.candidates.items()):
            if candidate.modified_ms >= since_ms:
                work.mark(key)

    def _delete_unmarked(self, work: CollectionProgress) -> None:
        assert work.is_marked, "nothing is deleted before every reference was followed"
        for name, candidate in sorted(work.candidates.items()):
            self._step()
            key = f"{work.owner}/{name}"
            if self._delete(key, candidate.stamp):
                self._garbage.append(key)
                self._garbage_bytes += candidate.stored_bytes
                self._environment.count("collected blob", 0 if self._dry_run else 1)
            else:
                self._changed += 1
            del work.candidates[name]
            self._report(1)

    def _delete(self, key: str, stamp: str) -> bool:
        """Delete the listed generation. Return False if the blob was put again or deleted since."""
        # Stat before the delete: the delete of a missing blob returns True, and a dry run must return the same results.
        again = self._environment.blobs.stat(key)
        if again is None or again.stamp != stamp:
            return False
        return self._dry_run or self._environment.blobs.delete(key, stamp)

    def _step(self) -> None:
        """Raise `_Stopped` when the run must end, and save the progress at most once in `SAVE_SECONDS`."""
        if self._stop():
            raise _Stopped
        if self._saved.age_seconds() > SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        if self._dry_run:
            return
        self._saved = Observation(self._environment.clock)
        save_work(self._environment, self._scope, self._work)
        self._is_saved = True

    def _build_report(self, is_finished: bool) -> CollectionReport:
        return CollectionReport(
            scope=self._scope,
            retained=self._referenced,
            young=self._young,
            changed=self._changed,
            garbage=tuple(self._garbage),
            garbage_bytes=self._garbage_bytes,
            failures=tuple(self._failures),
            is_finished=is_finished,
        )


def _owner_of(key: str) -> str:
    """Return the owner of a blob, a prefix of its key (`formats/keys.md`)."""
    parts = key.split("/")
    depth = {"records": 3, "queue": 4}.get(parts[1], 2)
    return "/".join(parts[:depth])


def _kind_of(owner: str) -> str:
    parts = owner.split("/")
    return {"records": "record", "queue": "queued"}.get(parts[1], "family" if "@" in parts[1] else "")


def _is_ours(owner: str, key: str) -> bool:
    """Return whether the library writes the references to the blob. All other blobs belong to an application."""
    kind = _kind_of(owner)
    folder = key.removeprefix(f"{owner}/").split("/")[0]
    return folder in BLOB_FOLDERS if kind == "family" else bool(kind)
