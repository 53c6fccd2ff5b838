"""Processes use one log and its forks in DynamoDB and an object store. Checkers compare their records with the logs."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from stratalog.testing.checkers import Answered, Violation
from stratalog.testing.emulators import Emulator
from tests.cloud import histories
from tests.cloud.historian import MAIN, Forked, Headed, Met, Read, Record, Sent, Task, Was
from tests.cloud.histories import History, Left, judge, run

RECORDS = 500
PROCESSES = 4
PLAN = Left(1, {1: "p1.1", 2: "p2.1", 3: "p1.2"})
FORK = Left(3, {3: "p2.2"}, [(MAIN, 2)])
WITHOUT_ANCESTORS = Left(3, {3: "p2.2"})
"""The fork after its name record has dropped the ancestors."""


@pytest.mark.parametrize("seed", [1, 2])
def test_the_records_of_processes_agree_with_the_log_despite_faults_and_kills(
    aws: Emulator, bucket: Emulator, seed: int
) -> None:
    """Services throttle, delay and refuse requests, answers are lost, and the test kills processes.

    With an odd seed the log has a state, so its floor rises only to a snapshot.
    """
    met = run(aws, bucket, records=RECORDS, processes=PROCESSES, seed=seed)
    for what in ("acknowledged", "entries read", "kills"):
        assert met[what] > 0, what


class Process:
    """A process that ends once the history has its end, or by a kill."""

    def __init__(self, end: Path) -> None:
        self.returncode: int | None = None
        self._end = end

    def poll(self) -> int | None:
        if self.returncode is None and self._end.exists():
            self.returncode = 0
        return self.returncode

    def kill(self) -> None:
        self.returncode = -signal.SIGKILL

    def wait(self) -> None:
        assert self.returncode is not None


@pytest.mark.parametrize("records", [10, RECORDS])
def test_a_history_has_the_same_kills_however_many_records_are_written_between_two_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    def wait(seconds: float) -> None:
        with (folder / "p1").open("ab") as file:
            file.write(b"\n" * records)

    (folder := tmp_path / "records").mkdir()
    task = Task(folder=str(folder), name="", seed=1, end=str(tmp_path / "end"))
    monkeypatch.setattr(histories, "time", SimpleNamespace(sleep=wait, monotonic=lambda: 0.0))
    monkeypatch.setattr(histories._Crew, "_start", lambda crew: Process(tmp_path / "end"))
    assert histories._Crew(task, PROCESSES, RECORDS).work() == 2


def judged(*records: Record, fork: Left = FORK) -> None:
    """Check the records of one process against a log with three entries of two processes, and a fork at version 2."""
    judge([History("p1", records)], {MAIN: PLAN, "fork": fork})


def test_a_correct_history_passes() -> None:
    judged(
        Sent(MAIN, "p1.1", 1),
        Was("p1.1", 2, Answered.ACKNOWLEDGED, 1),
        Headed(MAIN, 3, 4, 2),
        Sent(MAIN, "p1.2", 5),
        Read(MAIN, 6, 7, 1, ["p2.1", "p1.2"], is_complete=True),
        Read("fork", 6, 7, 0, ["p1.1", "p2.1", "p2.2"], is_complete=True),
        Met("fork"),
    )


@pytest.mark.parametrize(
    ("checker", "records"),
    [
        ("acknowledged", [Sent(MAIN, "p1.9", 1), Was("p1.9", 2, Answered.ACKNOWLEDGED, 3)]),
        ("refused", [Sent(MAIN, "p1.2", 1), Was("p1.2", 2, Answered.REFUSED)]),
        ("read", [Read(MAIN, 1, 2, 0, ["p1.1", "p1.2"], is_complete=False)]),
        ("read", [Read("fork", 1, 2, 1, ["p2.1", "p1.2"], is_complete=False)]),
        ("real-time", [Headed(MAIN, 1, 2, 3), Headed(MAIN, 3, 4, 2)]),
        ("real-time", [Headed(MAIN, 1, 2, 3), Read(MAIN, 3, 4, 0, ["p1.1"], is_complete=True)]),
        ("real-time", [Sent(MAIN, "p1.2", 1), Was("p1.2", 2, Answered.ACKNOWLEDGED, 3), Headed(MAIN, 3, 4, 2)]),
        ("seen", [Met("Corrupt: an entry below the head is missing", violation=True)]),
    ],
)
def test_a_wrong_history_is_detected_by_its_checker(checker: str, records: list[Record]) -> None:
    with pytest.raises(Violation) as caught:
        judged(*records)
    assert caught.value.checker == checker


def test_a_fork_that_has_dropped_its_ancestors_is_checked_against_those_recorded_at_its_creation() -> None:
    seen = Read("fork", 6, 7, 0, ["p1.1", "p2.1", "p2.2"], is_complete=True)
    judged(Forked("fork", [(MAIN, 2)]), seen, fork=WITHOUT_ANCESTORS)
    judged(seen, fork=WITHOUT_ANCESTORS)
    with pytest.raises(Violation):
        judged(Forked("fork", [(MAIN, 1)]), seen, fork=WITHOUT_ANCESTORS)
    with pytest.raises(Violation):
        judged(Read("fork", 6, 7, 2, ["p1.2"], is_complete=True), fork=WITHOUT_ANCESTORS)


@pytest.mark.parametrize("truth", [{1: "p1.1", 3: "p1.2"}, {1: "p1.1", 2: "p1.1"}, {1: "p1.2", 2: "p1.1"}])
def test_a_log_with_a_gap_a_repetition_or_a_writer_out_of_order_is_a_violation(truth: dict[int, str]) -> None:
    with pytest.raises(Violation):
        judge([], {MAIN: Left(1, truth)})
