"""A maintenance pass does all maintenance work that is due in a store.

A pass first scrubs a part of the blobs. Then the pass measures usage and collects blobs, if this work is due. Then it
maintains each log and record in the order of the directory, sweeps deleted logs and abandoned uploads, and runs the
application's own steps. This last part is called the maintenance below. A pass stops when its time is over. The
maintenance and the collection each save their position, from which the next pass continues. With a time limit, the
scrub ends after at most a quarter of the time, the measurement after two fifths, and the collection after half. If time
is left after the maintenance, the collection continues. The pass reports a failure and continues.

A process may crash during a pass, and several passes may run at once: repeated work is harmless, and the saved position
only avoids it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import msgspec

from stratalog.arguments import check_class
from stratalog.clock import Observation, is_interval_over
from stratalog.codec import is_decimal
from stratalog.errors import Closed, Corrupt, NotFound, Unavailable
from stratalog.keys import MAINTENANCE_PARTITION, escape
from stratalog.log import directory
from stratalog.log.callbacks import Stop, never
from stratalog.log.directory import list_ids
from stratalog.log.environment import Environment
from stratalog.log.listed_items import get_listed
from stratalog.log.names import read_name
from stratalog.log.sweep import sweep_deleted
from stratalog.log.usage import load_measurement
from stratalog.maintenance.collection import MaintenanceFailure, collect
from stratalog.maintenance.log_pass import DAY_MS, maintain_log
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.maintenance.scrub import scrub
from stratalog.maintenance.usage import measure_usage
from stratalog.ports.index import Item, Put
from stratalog.records.floor import read_floor
from stratalog.records.retention import free_versions, prune_versions, remove_waiting_mark
from stratalog.records.uploads import sweep_pins
from stratalog.records.versions import Name
from stratalog.store import Store

__all__ = ["MaintenanceReport", "Step", "maintain"]

FORMAT = 1
POSITION_SORT = "pass"
SAVE_SECONDS = 60
OUTAGES_IN_A_ROW_MAX = 10
HOUR_MS = 3_600_000
LOGS, RECORDS, DELETED, STEPS = range(4)

Step = Callable[[Store], None]


class MaintenanceReport(msgspec.Struct, frozen=True):
    """The result of a pass. All numbers count this run alone.

    In a dry run it is the result that a pass would have, without the application's steps and the measurement of usage.
    """

    logs: int = 0
    records: int = 0
    snapshots: int = 0
    expired_clients: int = 0
    floors: int = 0
    archived_segments: int = 0
    freed_segments: int = 0
    deleted_logs: int = 0
    pruned_records: int = 0
    freed_record_versions: int = 0
    steps: int = 0
    blobs_retained: int = 0
    blobs_young: int = 0
    blobs_changed: int = 0
    blobs_deleted: int = 0
    blob_bytes_freed: int = 0
    measured_organisations: int = 0
    """Organisations whose usage was measured."""

    blobs_scrubbed: int = 0
    """Blobs that the scrub read, including damaged blobs."""

    blob_bytes_scrubbed: int = 0
    garbage: tuple[str, ...] = ()
    """The keys of the deleted blobs; in a dry run, of the blobs that a pass would delete."""

    failures: tuple[MaintenanceFailure, ...] = ()
    is_finished: bool = True
    """False if the time ended before the last part of the pass. The next pass continues."""


class _Position(msgspec.Struct, array_like=True):
    """The saved position: the last part of the maintenance, and the last organisation whose blobs were collected."""

    organisation: str = ""
    shelf: Annotated[int, msgspec.Meta(ge=LOGS, le=STEPS)] = LOGS
    id: str = ""
    collected: str = ""
    is_collecting: bool = False
    collected_ms: int = 0
    """The time at which the last collection of all blobs began."""


def maintain(
    store: Store,
    policy: MaintenancePolicy | None = None,
    *,
    steps: Sequence[Step] = (),
    seconds: float | None = None,
    dry_run: bool = False,
    report: Callable[[str], None] = lambda what: None,
    measures: bool = False,
) -> MaintenanceReport:
    """Run one maintenance pass, for about ``seconds`` or to the end, and return its report.

    ``report`` is called with the name of each log, record or other part before its maintenance, except for the scrub.

    ``steps`` are the application's own steps. They are called after the logs and records, but not in a dry run. If the
    time ends before a step, the next pass continues with it. With ``measures``, and not in a dry run, the pass measures
    the usage of each organisation whose last measurement is at least ``measure_hours`` old. Quotas need this.

    Raises Closed, and Unavailable if the store cannot be reached. Raises the errors of reading the directory, and of
    reading and saving the position. The errors of the parts are among the failures of the report.
    """
    policy = MaintenancePolicy() if policy is None else policy
    check_class(Store, store=store)
    check_class(MaintenancePolicy, policy=policy)
    return _Pass(store, policy, steps, seconds, dry_run, report, measures).run()


class _Pass:
    def __init__(
        self,
        store: Store,
        policy: MaintenancePolicy,
        steps: Sequence[Step],
        seconds: float | None,
        dry_run: bool,
        report: Callable[[str], None],
        measures: bool,
    ) -> None:
        self._measures = measures and not dry_run
        self._store = store
        self._index = store.environment.index
        self._clock = store.environment.clock
        self._policy = policy
        self._steps = steps
        self._dry_run = dry_run
        self._report = report
        self._started = self._saved = Observation(self._clock)
        self._seconds = seconds
        self._position = self._load()
        self._counts: Counter[str] = Counter()
        self._garbage: list[str] = []
        self._failures: list[MaintenanceFailure] = []
        self._outages = 0

    def run(self) -> MaintenanceReport:
        if self._policy.scrub_days is not None:
            self._do("the scrub", partial(self._scrub, self._policy.scrub_days, self._until(0.25)))
        if self._measures and self._policy.measure_hours is not None:
            self._do("the measurement of usage", partial(self._measure, self._policy.measure_hours, self._until(0.4)))
        due = self._is_collection_due()
        # Collection comes first. Maintenance of logs drops references to blobs, so a collection after it would find
        # more garbage than a dry run reports.
        is_collected = not due or self._collect(self._until(0.5))
        is_maintained = self._maintain(self._until(1))
        if is_maintained and not is_collected:
            is_collected = self._collect(self._until(1))
        self._save()
        return MaintenanceReport(
            **self._counts,
            garbage=tuple(self._garbage),
            failures=tuple(self._failures),
            is_finished=is_maintained and is_collected,
        )

    def _until(self, share: float) -> Stop:
        seconds = self._seconds
        if seconds is None:
            return never
        return lambda: self._started.age_seconds() >= seconds * share

    def _maintain(self, stop: Stop) -> bool:
        """Do all parts after the position. Return False if the time ended before the last one."""
        for at, what, act in self._stations(stop):
            if stop():
                return False
            self._report(what)
            self._do(what, act)
            self._position.organisation, self._position.shelf, self._position.id = at
            self._save_now_and_then()
        self._position.organisation, self._position.shelf, self._position.id = "", LOGS, ""
        return True

    def _stations(self, stop: Stop) -> Iterator[tuple[tuple[str, int, str], str, Callable[[], Any]]]:
        """Yield the parts of the pass after the position: the position, name and function of each."""
        start = msgspec.structs.replace(self._position)
        organisations = self._store.organisations(damaged=partial(self._fail_key, "the list of organisations"))
        for organisation in organisations if start.shelf < STEPS else ():
            if organisation < start.organisation:
                continue
            here = start if organisation == start.organisation else _Position()
            # Only the ids are read, so that one damaged directory line does not stop the pass.
            damaged = partial(self._fail_key, f"the directory of {organisation}")
            logs = list_ids(self._index, organisation, directory.LOGS, after=here.id, damaged=damaged)
            for id in logs if here.shelf == LOGS else ():
                what = f"{organisation}/{id}"
                yield (organisation, LOGS, id), what, partial(self._maintain_log, organisation, id, stop)
            after = here.id if here.shelf == RECORDS else ""
            records = list_ids(self._index, organisation, directory.RECORDS, after=after, damaged=damaged)
            for id in records if here.shelf <= RECORDS else ():
                what = f"{organisation}/records/{id}"
                yield (organisation, RECORDS, id), what, partial(self._maintain_record, organisation, id)
            if here.shelf < DELETED:
                what = f"{organisation}, deleted logs and abandoned uploads"
                yield (organisation, DELETED, ""), what, partial(self._sweep, organisation, stop)
        for number, step in enumerate(() if self._dry_run else self._steps):
            if start.shelf < STEPS or number > int(start.id):
                yield ("", STEPS, str(number)), f"step {number + 1} of the application", partial(self._step, step)

    def _fail_key(self, what: str, error: Corrupt) -> None:
        """Report a damaged key: nothing shows which organisation, log or record it was."""
        self._failures.append(MaintenanceFailure.of(what, error))

    def _do(self, what: str, act: Callable[[], Any]) -> None:
        """Call one part of the pass and report its failure.

        Raises Closed, and raises Unavailable when `OUTAGES_IN_A_ROW_MAX` consecutive parts have raised it.
        """
        try:
            act()
        except Closed:
            raise
        except Exception as exc:  # one damaged document or failing application step must not stop the other parts
            self._failures.append(MaintenanceFailure.of(what, exc))
            self._outages = self._outages + 1 if isinstance(exc, Unavailable) else 0
            if self._outages >= OUTAGES_IN_A_ROW_MAX:
                raise
        else:
            self._outages = 0

    def _maintain_log(self, organisation: str, name: str, stop: Stop) -> None:
        self._counts["logs"] += 1
        try:
            log = self._store.log(organisation, name)
            retention = self._policy.retention(organisation, name, log.record.kind)
            maintain_log(
                log,
                self._store.rules,
                retention,
                self._counts,
                snapshots=self._policy.snapshots,
                expire_clients_days=self._policy.expire_clients_days,
                dry_run=self._dry_run,
                stop=stop,
            )
        except NotFound:
            record = read_name(self._index, organisation, name)
            if record is not None and not record.deleted_ms:
                raise

    def _maintain_record(self, organisation: str, id: str) -> None:
        environment, name, policy = self._store.environment, Name(organisation, id), self._policy
        self._counts["records"] += 1
        days = policy.retain_record_days
        before_ms = None if days is None else self._clock.wall_ms() - int(days * DAY_MS)
        count = policy.retain_record_versions
        try:
            if count is not None or before_ms is not None:
                floor = read_floor(environment.index, name).version
                with suppress(NotFound):  # no version was ever put
                    raised = prune_versions(environment, name, retain=count, before_ms=before_ms, dry_run=self._dry_run)
                    self._counts["pruned_records"] += int(raised > floor)
        finally:  # damage of a kept version does not stop the freeing of forgotten versions
            report = partial(self._count, "freed_record_versions")
            free_versions(environment, name, dry_run=self._dry_run, report=report)
            if not self._dry_run:
                remove_waiting_mark(environment, name)

    def _sweep(self, organisation: str, stop: Stop) -> None:
        report = partial(self._count, "deleted_logs")
        try:
            sweep_deleted(self._store.environment, organisation, dry_run=self._dry_run, stop=stop, report=report)
        finally:  # damage among the deleted logs does not stop the sweep of the uploads
            if not self._dry_run:
                sweep_pins(self._store.environment, organisation)

    def _count(self, name: str, count: int) -> None:
        self._counts[name] += count

    def _step(self, step: Step) -> None:
        step(self._store)
        self._counts["steps"] += 1

    def _is_collection_due(self) -> bool:
        position, hours = self._position, self._policy.collect_hours
        return position.is_collecting or is_interval_over(self._clock, position.collected_ms, hours * HOUR_MS)

    def _collect(self, stop: Stop) -> bool:
        """Collect the organisations after the position. Return False if the time ended before the last one."""
        position = self._position
        if not position.is_collecting:
            position.is_collecting, position.collected, position.collected_ms = True, "", self._clock.wall_ms()
        for organisation in self._store.organisations():
            if position.collected and organisation <= position.collected:
                continue
            if stop():
                return False
            self._report(f"{organisation}, blobs")
            finished: list[bool] = []
            self._do(f"{organisation}, blobs", partial(self._collect_organisation, organisation, stop, finished))
            # After a failure `finished` is empty. The report names the failure, and the pass continues.
            if finished == [False]:
                return False
            position.collected = organisation
            self._save_now_and_then()
        position.is_collecting, position.collected = False, ""
        return True

    def _collect_organisation(self, organisation: str, stop: Stop, finished: list[bool]) -> None:
        report = collect(
            self._store.environment,
            escape(organisation),
            dry_run=self._dry_run,
            stop=stop,
            queue=lambda: self._store.queue,
        )
        finished.append(report.is_finished)
        self._garbage += report.garbage
        self._failures += report.failures
        self._counts.update(
            blobs_retained=report.retained,
            blobs_young=report.young,
            blobs_changed=report.changed,
            blobs_deleted=len(report.garbage),
            blob_bytes_freed=report.garbage_bytes,
        )

    def _measure(self, hours: float, stop: Stop) -> None:
        """Measure the organisations that are due. The next pass resumes an interrupted measurement."""
        environment = self._store.environment
        for organisation in self._store.organisations():
            if stop():
                return
            before = load_measurement(self._index, organisation)
            if before is not None and not is_interval_over(self._clock, before.began_ms, hours * HOUR_MS):
                continue
            what = f"{organisation}, usage"
            self._report(what)
            self._do(what, partial(self._measure_organisation, environment, organisation, stop))

    def _measure_organisation(self, environment: Environment, organisation: str, stop: Stop) -> None:
        self._counts["measured_organisations"] += measure_usage(environment, organisation, stop=stop) is not None

    def _scrub(self, days: float, stop: Stop) -> None:
        report = scrub(self._store.environment, days, dry_run=self._dry_run, stop=stop)
        self._failures += report.failures
        self._counts.update(blobs_scrubbed=report.blobs, blob_bytes_scrubbed=report.bytes_read)

    def _load(self) -> _Position:
        """Return the saved position; the beginning if no readable position is saved."""
        item = get_listed(self._index, MAINTENANCE_PARTITION, POSITION_SORT).item
        if item is None or item.attributes.get("f") != FORMAT:
            return _Position()
        try:
            position = _decode_position(item.attributes["b"])  # type: ignore[arg-type]
        except (KeyError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _Position()
        return position if position.shelf < STEPS or is_decimal(position.id) else _Position()

    def _save_now_and_then(self) -> None:
        if self._saved.age_seconds() > SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        self._saved = Observation(self._clock)
        if not self._dry_run:
            body = msgspec.msgpack.encode(self._position)
            self._index.commit([Put(Item(MAINTENANCE_PARTITION, POSITION_SORT, {"f": FORMAT, "b": body}))])


_decode_position = msgspec.msgpack.Decoder(_Position).decode
