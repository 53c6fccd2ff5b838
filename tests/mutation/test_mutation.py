"""Mutation testing: the changes of a module, and the mutants that commands notice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutation import campaign
from tests.mutation.__main__ import main
from tests.mutation.campaign import check_unchanged, draw_sample, read_trials, run_campaign
from tests.mutation.plan import commands_for
from tests.mutation.sites import Mutant, count_mutants, mutant_of
from tests.sources import ROOT

MODULE = '''\
"""Not a place."""

LIMIT = 3


def least(values: list[int] | None, floor: int = 0) -> int:
    """Nor is this."""
    found = floor
    for value in values or []:
        if value < found and not value == 7:
            found -= 1
            raise ValueError("never this" + "text")
    return found
'''


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "src" / "stratalog" / "log" / "least.py"
    path.parent.mkdir(parents=True)
    path.write_text(MODULE)
    return path


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    for number in range(count_mutants(path)):
        if (mutant := mutant_of(path, root, number)) is not None:
            yield mutant


def test_each_mutant_has_a_single_change_and_names_its_operator(module: Path, tmp_path: Path) -> None:
    drawn = [(mutant.line, mutant.operator, mutant.after.splitlines()[:1]) for mutant in mutants(module, tmp_path)]
    assert drawn == [
        (9, "loop left out", ["for value in ():"]),
        (9, "and, or", ["for value in values and []:"]),
        (9, "operand left out", ["for value in values:"]),
        (13, "statement left out", []),
        (13, "answer", ["return None"]),
        (10, "condition negated", ["if not (value < found and (not value == 7)):"]),
        (10, "and, or", ["if value < found or not value == 7:"]),
        (10, "operand left out", ["if value < found:"]),
        (10, "comparison", ["if value <= found and (not value == 7):"]),
        (10, "not left out", ["if value < found and (not not value == 7):"]),
        (10, "comparison", ["if value < found and (not value != 7):"]),
        (10, "number", ["if value < found and (not value == 8):"]),
        (11, "statement left out", []),
        (11, "arithmetic", ["found += 1"]),
        (11, "number", ["found -= 2"]),
        (12, "statement left out", []),
    ]


def test_the_source_of_a_mutant_runs_and_leaves_the_constant_unchanged(module: Path, tmp_path: Path) -> None:
    for mutant in mutants(module, tmp_path):
        names: dict[str, object] = {}
        exec(compile(mutant.source, "mutant", "exec"), names)
        assert names["LIMIT"] == 3
        assert mutant.path == "src/stratalog/log/least.py"


def test_a_sample_is_the_same_for_the_same_seed() -> None:
    first, again, other = (draw_sample(ROOT, 6, seed) for seed in (1, 1, 2))
    assert [mutant.name for mutant in first] == [mutant.name for mutant in again] != [mutant.name for mutant in other]
    assert len({mutant.name for mutant in first}) == 6


def test_the_tests_named_after_a_module_run_first() -> None:
    first, part, *_ = commands_for("src/stratalog/documents/state_cache.py", ROOT, 1)
    assert "tests/documents/test_state_cache.py" in first
    assert "tests/documents" in part


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the commands that test a module by two checks of the return value of `least`."""
    judge = "from runpy import run_path; least = run_path('src/stratalog/log/least.py')['least']; "
    checks = ["assert least([5, 6]) == 0", "assert least([], 2) == 2"]
    commands = [[sys.executable, "-c", judge + check] for check in checks]
    monkeypatch.setattr(campaign, "commands_for", lambda *_: iter(commands))


@pytest.mark.usefixtures("judged")
def test_a_mutant_that_no_command_notices_survives_and_a_later_run_resumes(module: Path, tmp_path: Path) -> None:
    drawn, results = list(mutants(module, tmp_path)), tmp_path / "mutation.jsonl"
    check_unchanged(tmp_path, drawn, 1)
    first = list(run_campaign(tmp_path, drawn[:5], results, 2, 1))
    results.write_bytes(results.read_bytes() + b'{"name": "cut sho')
    rest = list(run_campaign(tmp_path, drawn, results, 2, 1))
    assert sorted(trial.name for trial in [*first, *rest]) == sorted(mutant.name for mutant in drawn)
    noticed = {trial.name: trial.noticed_by is not None for trial in [*first, *rest]}
    assert [noticed[mutant.name] for mutant in drawn[:5]] == [False, False, False, True, True]
    assert module.read_text() == MODULE


def test_only_an_incomplete_line_is_cut_off_the_results(tmp_path: Path) -> None:
    results = tmp_path / "mutation.jsonl"
    for before, after in (
        (None, b""),
        (b"", b""),
        (b"cut", b""),
        (b"{ }\n[]\n", b"{ }\n[]\n"),
        (b"{ }\ncut", b"{ }\n"),
    ):
        if before is not None:
            results.write_bytes(before)
        campaign._drop_cut_line(results)
        assert results.read_bytes() == after


@pytest.mark.usefixtures("judged")
def test_a_command_that_fails_on_unchanged_code_is_an_error(module: Path, tmp_path: Path) -> None:
    drawn = list(mutants(module, tmp_path))
    module.write_text(MODULE.replace("return found", "return found + 1"))
    with pytest.raises(RuntimeError, match="without a change"):
        check_unchanged(tmp_path, drawn, 1)


def test_the_command_prints_the_survivors_and_the_number_of_noticed_mutants(
    module: Path, tmp_path: Path, judged: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.mutation.__main__.ROOT", tmp_path)
    results = tmp_path / "mutation.jsonl"
    assert main(["--sample", "16", "--seed", "1", "--results", str(results), "--share", "1"]) == 1
    printed = capsys.readouterr().out
    assert "becomes" in printed
    survived = sum(trial.noticed_by is None for trial in read_trials(results))
    assert f"{16 - survived} of 16 mutants noticed" in printed
    assert main(["--sample", "16", "--seed", "1", "--results", str(results), "--share", "0.1"]) == 0
