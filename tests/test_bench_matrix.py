"""The benchmark matrix measures each figure on each medium, with goals for each kind of disk.

These tests assert no speed.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from bench import matrix
from bench.figures import FIGURES, Figure, Measured, evaluate, problems, unmeasured
from bench.media import QUICK_RATE, Medium, opened_media
from bench.program import measure_on
from bench.report import table
from bench.tails import latencies_of
from bench.workplace import QUICK

MATRIX = (*matrix.FIGURES, *matrix.LARGE_FIGURES)
NAMES = [figure.name for figure in MATRIX]
RATE = Figure(name="rate", what="", unit="events/s", goal=0.9, goal_quick=0.85, on_disk=True)


def test_every_figure_of_the_matrix_has_a_unique_name_and_a_function() -> None:
    assert sorted(NAMES) == sorted(set(NAMES)) == sorted(matrix.MEASURES)
    assert not set(NAMES) & {figure.name for figure in FIGURES}


def test_a_figure_of_the_matrix_without_a_goal_has_a_reason() -> None:
    assert [figure.name for figure in MATRIX if figure.goal is None and not figure.reason] == []


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
@pytest.mark.parametrize("figure", MATRIX, ids=NAMES)
def test_every_figure_of_the_matrix_can_be_measured(figure: Figure) -> None:
    with opened_media(QUICK) as media:
        assert problems(measure_on(media, [figure], matrix.MEASURES), [figure.name]) == []


def test_the_program_writes_a_row_for_each_medium(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "matrix.json"
    assert matrix.main(["--quick", "--only", "log-10k-last", "--json", str(path), "--folder", str(tmp_path)]) == 0
    assert [(row["name"], row["medium"]) for row in json.loads(path.read_text())] == [
        ("log-10k-last", "disk"),
        ("log-10k-last", "memory"),
    ]
    assert "plain inserts/s" in capsys.readouterr().out


def test_a_row_without_a_memory_file_system_has_a_reason(tmp_path: Path) -> None:
    with opened_media(QUICK, tmp_path, tmp_path / "missing") as media:
        rows = list(measure_on(media, [RATE], {"rate": lambda work: Measured(1, 2)}))
    assert [(row.medium, row.value is None, bool(row.reason)) for row in rows] == [
        ("disk", False, False),
        ("memory", True, True),
    ]
    assert problems(rows, ["rate"]) == []
    assert "memory" in table(rows, [RATE])


def test_an_incomplete_row_of_one_medium_is_a_problem() -> None:
    complete = evaluate(RATE, Measured(1, 2), "disk")
    empty = msgspec.structs.replace(complete, medium="memory", value=None)
    assert problems([complete, empty], ["rate"]) == ["empty without a reason: rate, value"]
    assert problems([complete, unmeasured(RATE, "memory", "missing")], ["rate"]) == []


@pytest.mark.parametrize(("rate", "quick"), [(QUICK_RATE - 1, False), (QUICK_RATE, True)])
def test_a_disk_is_quick_from_a_minimum_rate_of_plain_inserts(rate: float, quick: bool) -> None:
    assert Medium(name="disk", plain_rate=rate).quick is quick


def test_a_quick_disk_has_a_separate_goal() -> None:
    figure = Figure(name="rate", what="", unit="events/s", goal=2.5, goal_quick=None, reason="said", on_disk=True)
    assert [evaluate(RATE, Measured(0.87, 1), quick=quick).meets for quick in (False, True)] == [False, True]
    assert [evaluate(figure, Measured(1, 1), quick=quick).goal for quick in (False, True)] == [2.5, None]


def test_the_time_above_plain_is_the_extra_time_of_each_operation() -> None:
    assert evaluate(RATE, Measured(10_000, 20_000)).above_us == 50
    assert evaluate(RATE, Measured(10_000, 20_000, 70)).above_us == 70
    figure = msgspec.structs.replace(RATE, unit="times")
    assert evaluate(figure, Measured(3, 2)).above_us is None


def test_percentiles_are_computed_from_single_calls() -> None:
    latencies = latencies_of([lambda: None] * 200)
    assert 0 < latencies.p50 <= latencies.p99 <= latencies.max
    assert latencies.tail == latencies.p99 / latencies.p50
