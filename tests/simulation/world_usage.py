"""The world of quotas: threads of a server create and delete, while two processes measure the stored amounts.

The clocks of the processes differ by some seconds. A measurement may stop at any point, and either process resumes it.
The server's amounts must not be below the stored amounts. A creation in doubt may take effect after a measurement. The
next measurement then counts the created object. At rest, the server's amounts and the stored amounts must be equal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, ClassVar

import msgspec

from stratalog.documents import Document
from stratalog.errors import Conflict, NotFound, OutcomeUnknown, QuotaExceeded, Unavailable
from stratalog.limits import USAGE_CLOCKS_SECONDS_MAX, USAGE_SLICE_SECONDS
from stratalog.log import LogSettings, create_log, delete_log, open_log
from stratalog.log import admission as admission_module
from stratalog.log.admission import Admission, Reservation
from stratalog.log.directory import LOGS, RECORDS, list_directory
from stratalog.log.usage import Amounts, Quotas
from stratalog.maintenance import usage as usage_module
from stratalog.maintenance.usage import measure_usage
from stratalog.records import Records
from stratalog.testing.checkers import Violation
from stratalog.testing.faults import FAULT_RATES, draw_weather
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns, choose, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS", "UsageWorld"]

ORGANISATION = "acme"
SETTINGS = LogSettings(
    segment_entries_target=3, snapshot_entries_interval=4, body_inline_bytes_max=400, append_seconds_max=1
)
QUOTAS = Quotas(documents_max=9, records_max=7)
THREADS = 3
LOST_FACTOR = 5
SKEW_MS_MAX = USAGE_CLOCKS_SECONDS_MAX * 1000 // 2
STOP_RATE = 0.05
FAILURES = (Unavailable, OutcomeUnknown, Conflict, NotFound, QuotaExceeded)


class _Doubt(msgspec.Struct):
    """A creation in doubt: the time of its request, and the time when a check first found the object, or None."""

    sent_ms: int
    seen_ms: int | None = None


class UsageWorld:
    """One server of three threads that enforces quotas, and two processes that measure."""

    columns: ClassVar[tuple[str, ...]] = (
        "created",
        "deleted",
        "refused",
        "measured",
        "measurements stopped",
        "in doubt",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        weather = draw_weather(scheduler.random)
        # Allow no crashes, because a crashed server forgets the amounts that it admitted, and may exceed quotas
        # without a bug.
        rates = dict.fromkeys((rate for rate in FAULT_RATES if rate.startswith("crash")), 0.0)
        # Retries resolve nearly every lost answer. Lose many answers, so that some creations end in doubt.
        rates |= {name: LOST_FACTOR * getattr(weather, name) for name in ("lost_request", "lost_answer", "late")}
        clocks = {name: min(getattr(weather, name), SKEW_MS_MAX) for name in ("skew_ms_max", "jump_ms_max")}
        self.cluster = Cluster(scheduler, msgspec.structs.replace(weather, **rates, **clocks))
        self.left = Turns({f"thread-{number}": 14 for number in range(THREADS)} | {"measurer-0": 8, "measurer-1": 8})
        self.names: list[str] = []
        self.doubts: dict[str, dict[str, _Doubt]] = {"documents": {}, "records": {}}
        self.admission: Admission | None = None
        self.cluster.start("server", self.serve)
        for number in range(2):
            self.cluster.start(f"measurer-{number}", self.measure)

    def serve(self, process: Process) -> None:
        """Run the server's threads. They share one `Admission`."""
        environment = log_environment(process, SETTINGS)
        self.admission = environment.admission = Admission(process.index, process.clock, lambda name: QUOTAS)
        for number in range(THREADS):
            process.spawn(f"thread-{number}", partial(self.change, process, environment, f"thread-{number}"))

    def change(self, process: Process, environment: Any, thread: str) -> None:
        """Create a document or a record, change or delete a document, and check the server's amounts."""
        records = Records(environment, ORGANISATION)
        while self.left.take(thread):
            process.clock.sleep(40 * process.clock.random())
            draw = process.clock.random()
            if draw < 0.35:
                name = f"{thread}-{self.left[thread]}"
                self._try("created", lambda name=name: self._create(environment, name), "documents", name)
            elif draw < 0.65:
                name = f"{thread}-{self.left[thread]}"
                self._try("created", lambda name=name: records.put(name, b"body" * 200), "records", name)
            elif self.names:
                name = choose(process.clock, self.names)
                if draw < 0.85:
                    self._try("changed", lambda name=name: self._mutate(environment, name, thread))
                else:
                    self._try("deleted", lambda name=name: delete_log(open_log(environment, ORGANISATION, name)))
            self._check_known()

    def measure(self, process: Process) -> None:
        """Measure, with random stops. If either process has stopped a measurement, the next call resumes it."""
        environment = log_environment(process, SETTINGS)
        while self.left.take(process.name):
            process.clock.sleep(60 * process.clock.random())
            stop = lambda: process.clock.random() < STOP_RATE  # noqa: E731
            try:
                measured = measure_usage(environment, ORGANISATION, stop=stop)
            except (Unavailable, OutcomeUnknown, Conflict):
                continue
            self.scheduler.counts.bump("measured" if measured else "measurements stopped")

    def check(self) -> None:
        """Check that at rest a measurement equals the stored amounts, and that the server has the same amounts."""
        assert self.admission is not None
        self.scheduler.now_ms += 10 * 1000 * (USAGE_CLOCKS_SECONDS_MAX + USAGE_SLICE_SECONDS)
        environment = log_environment(self.cluster, SETTINGS)
        # The first measurement may resume a stopped measurement, whose counts from before the stop may be outdated.
        for _ in range(2):
            measured = measure_usage(environment, ORGANISATION)
        assert measured is not None
        truth = _amounts(self._stored())
        amounts = msgspec.structs.replace(measured.amounts, stored_bytes=0, clients=0)
        if amounts != truth:
            raise Violation("measured", "a measurement differs from the stored amounts", measured=amounts, stored=truth)
        stopped = None
        while stopped is None:
            stopped = measure_usage(environment, ORGANISATION, stop=lambda: self.scheduler.random.random() < 0.2)
        if stopped.amounts != measured.amounts:
            raise Violation("bytes", "an interrupted measurement has another result", measured=stopped, other=measured)
        known = self.admission.usage(ORGANISATION)
        if known.amounts != measured.amounts:
            raise Violation("quiet", "the server's amounts differ from the measurement", known=known, measured=measured)

    def _check_known(self) -> None:
        """Check that the server's amounts are not too low, and that no quota is exceeded.

        Allow for creations in doubt.
        """
        assert self.admission is not None
        names = self._stored()
        truth = _amounts(names)
        for _, usage in self.admission.known():
            for kind, stored in names.items():
                doubts = self._find_doubts(kind, stored)
                # A clock is wrong by at most SKEW_MS_MAX. The measurement began at this time or later.
                began_ms = usage.measured.began_ms - SKEW_MS_MAX if usage.measured else 0
                late = [doubt for doubt in doubts if doubt.sent_ms < began_ms < (doubt.seen_ms or 0)]
                if getattr(usage.amounts, kind) + len(late) < len(stored):
                    raise Violation("below", "the server's amounts are too low", known=usage, stored=truth)
                if len(stored) > getattr(QUOTAS, f"{kind}_max") + len(doubts):
                    raise Violation("quota", "the stored amounts exceed the quota", known=usage, stored=truth)

    def _find_doubts(self, kind: str, stored: Collection[str]) -> list[_Doubt]:
        """Return the creations in doubt that took effect, each with the time when a check first found it."""
        doubts = [doubt for name, doubt in self.doubts[kind].items() if name in stored]
        for doubt in doubts:
            doubt.seen_ms = doubt.seen_ms or self.cluster.clock.wall_ms()
        return doubts

    def _stored(self) -> dict[str, set[str]]:
        """Return the names of the documents and records in the directory, to which every creation adds a line."""
        shelves = {"documents": LOGS, "records": RECORDS}
        lines = {kind: list_directory(self.cluster.index, ORGANISATION, shelf) for kind, shelf in shelves.items()}
        return {kind: {line.id for line in each} for kind, each in lines.items()}

    def _create(self, environment: Any, name: str) -> None:
        create_log(environment, ORGANISATION, name, "document")
        self.names.append(name)

    def _mutate(self, environment: Any, name: str, client: str) -> None:
        document = Document(open_log(environment, ORGANISATION, name))
        document.mutate("put", {"key": "k", "value": "x" * 600}, client=client)

    def _try(self, what: str, action: Any, kind: str = "", name: str = "") -> None:
        """Run ``action``.

        ``kind`` and ``name`` identify the object that the action creates. A fault ends this try only.
        """
        sent_ms = self.cluster.clock.wall_ms()
        try:
            action()
        except FAILURES as exc:
            if kind and isinstance(exc, OutcomeUnknown):
                self.doubts[kind][name] = _Doubt(sent_ms)
            self.scheduler.counts.bump("in doubt", isinstance(exc, OutcomeUnknown))
            self.scheduler.counts.bump("refused", isinstance(exc, QuotaExceeded))
        else:
            self.scheduler.counts.bump(what)


def _amounts(stored: Mapping[str, Collection[str]]) -> Amounts:
    return Amounts(**{kind: len(names) for kind, names in stored.items()})


def _mutant(name: str, owner: Any, attribute: str, replacement: Any, *caught_by: str) -> Mutant:
    return Mutant(f"usage: {name}", UsageWorld, replaced(owner, attribute, replacement), caught_by)


def _forget_all(account: Any, began_ms: int) -> None:
    account._slices.clear()
    account._written = Amounts()


def _resume_anew(progress: Any, prefix: str) -> None:
    progress.log, progress.segment = prefix, 0


def _release_doubt(self: Reservation, kind: object, exc: object, tb: object) -> None:
    (self.confirm if exc is None else self.release)()


_Account = admission_module._Account
MUTANTS = (
    _mutant("a measurement forgets later admissions", _Account, "_forget_before", _forget_all, "below", "quota"),
    _mutant("written amounts not noted", _Account, "note", lambda account, amounts: None, "below", "quota"),
    _mutant("reservations are not released", Reservation, "release", lambda reserved: None, "quiet"),
    _mutant("an answer in doubt is released", Reservation, "__exit__", _release_doubt, "below", "quota"),
    _mutant("a resumed log is counted again", usage_module._Progress, "begin", _resume_anew, "bytes"),
)
