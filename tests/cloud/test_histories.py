"""Processes use one log in DynamoDB and an object store. Checkers compare the processes' records with the log."""

from __future__ import annotations

import pytest

from stratalog.testing.checkers import Answered, Violation
from stratalog.testing.emulators import Emulator
from tests.cloud.historian import MAIN, Forked, Headed, Met, Read, Record, Sent, Was
from tests.cloud.histories import History, Left, judge, run

RECORDS = 500
PROCESSES = 4
PLAN = Left(1, {1: "p1.1", 2: "p2.1", 3: "p1.2"})
FORK = Left(3, {3: "p2.2"}, [(MAIN, 2)])
SEVERED = Left(3, {3: "p2.2"})


@pytest.mark.parametrize("seed", [1, 2])
def test_the_records_of_processes_agree_with_the_log_despite_faults_and_kills(
    aws: Emulator, bucket: Emulator, seed: int
) -> None:
    """Services throttle, delay and refuse requests, answers are lost, and the test kills processes.

    With an odd seed the log stores states. The floor of such a log rises only to a snapshot.
    """
    met = run(aws, bucket, records=RECORDS, processes=PROCESSES, seed=seed)
    for what in ("acknowledged", "entries read", "kills"):
        assert met[what] > 0, what


def judged(*records: Record, fork: Left = FORK) -> None:
    """Check the records of one process against a log with three entries of two processes, and a fork at version 2."""
    judge([History("p1", records)], {MAIN: PLAN, "fork": fork})


def test_a_correct_history_passes() -> None:
    judged(
        Sent(MAIN, "p1.1", 1),
        Was("p1.1", 2, Answered.ACKNOWLEDGED, 1),
        Headed(MAIN, 3, 4, 2),
        Sent(MAIN, "p1.2", 5),
        Read(MAIN, 6, 7, 1, ["p2.1", "p1.2"], whole=True),
        Read("fork", 6, 7, 0, ["p1.1", "p2.1", "p2.2"], whole=True),
        Met("fork"),
    )


@pytest.mark.parametrize(
    ("checker", "records"),
    [
        ("acknowledged", [Sent(MAIN, "p1.9", 1), Was("p1.9", 2, Answered.ACKNOWLEDGED, 3)]),
        ("refused", [Sent(MAIN, "p1.2", 1), Was("p1.2", 2, Answered.REFUSED)]),
        ("read", [Read(MAIN, 1, 2, 0, ["p1.1", "p1.2"], whole=False)]),
        ("read", [Read("fork", 1, 2, 1, ["p2.1", "p1.2"], whole=False)]),
        ("real-time", [Headed(MAIN, 1, 2, 3), Headed(MAIN, 3, 4, 2)]),
        ("real-time", [Headed(MAIN, 1, 2, 3), Read(MAIN, 3, 4, 0, ["p1.1"], whole=True)]),
        ("real-time", [Sent(MAIN, "p1.2", 1), Was("p1.2", 2, Answered.ACKNOWLEDGED, 3), Headed(MAIN, 3, 4, 2)]),
        ("seen", [Met("Corrupt: an entry below the head is missing", violation=True)]),
    ],
)
def test_a_wrong_history_is_detected_by_its_checker(checker: str, records: list[Record]) -> None:
    with pytest.raises(Violation) as caught:
        judged(*records)
    assert caught.value.checker == checker


def test_a_severed_fork_is_checked_against_the_ancestors_recorded_at_its_creation() -> None:
    seen = Read("fork", 6, 7, 0, ["p1.1", "p2.1", "p2.2"], whole=True)
    judged(Forked("fork", [(MAIN, 2)]), seen, fork=SEVERED)
    judged(seen, fork=SEVERED)
    with pytest.raises(Violation):
        judged(Forked("fork", [(MAIN, 1)]), seen, fork=SEVERED)
    with pytest.raises(Violation):
        judged(Read("fork", 6, 7, 2, ["p1.2"], whole=True), fork=SEVERED)


@pytest.mark.parametrize("truth", [{1: "p1.1", 3: "p1.2"}, {1: "p1.1", 2: "p1.1"}, {1: "p1.2", 2: "p1.1"}])
def test_a_log_with_a_gap_a_repetition_or_a_writer_out_of_order_is_a_violation(truth: dict[int, str]) -> None:
    with pytest.raises(Violation):
        judge([], {MAIN: Left(1, truth)})
