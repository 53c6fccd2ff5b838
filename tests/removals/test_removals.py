"""The removals fit the source, and each test that guards against a bug has one."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.removals import trials
from tests.removals.collection import REMOVALS
from tests.removals.page import Bug, bugs
from tests.removals.removal import Edit, Removal, RemovalError
from tests.sources import ROOT

ROWS = {bug.name: bug for bug in bugs()}


# Four tests examine all removals, since pytest takes longer for each of 3,000 tests than a removal takes.


def test_every_removal_fits_the_checkout(tmp_path: Path) -> None:
    assert {removal.bug: why for removal in REMOVALS if (why := misfit(removal, tmp_path))} == {}


def test_no_removal_leaves_a_name_without_a_definition(tmp_path: Path) -> None:
    # Such a removal would break the code. Its trial says so, but a run of all trials takes hours.
    for number, removal in enumerate(REMOVALS):
        if removal.raises:
            continue
        for path in {edit.path for edit in removal.edits if edit.path.endswith(".py")}:
            source = tmp_path / f"{number}-{removal.bug}" / Path(path).name
            source.parent.mkdir(exist_ok=True)
            text = (ROOT / path).read_text()
            for edit in removal.edits:
                text = text.replace(edit.fixed, edit.unfixed) if edit.path == path else text
            source.write_text(text)
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--output-format=concise"]
    checked = subprocess.run([*check, "--select=F821", "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout.strip()) == (0, "All checks passed!")


def test_every_removal_names_only_tests_and_worlds_of_its_row() -> None:
    others = {removal.bug: set(removal.fails) - judges_of(ROWS[removal.bug]) for removal in REMOVALS}
    assert {bug: names for bug, names in others.items() if names} == {}


def test_each_test_that_guards_against_a_bug_has_a_removal() -> None:
    tried: dict[str, set[str]] = {name: set() for name in ROWS}
    for removal in REMOVALS:
        tried[removal.bug].update(removal.fails)
    untried = {name: set(bug.tests) - tried[name] for name, bug in ROWS.items()}
    assert {name: tests for name, tests in untried.items() if tests} == {}
    unguarded = (bug for bug in ROWS.values() if not (bug.is_open or bug.tests or bug.mutants))
    assert [bug.name for bug in unguarded if not tried[bug.name] & judges_of(bug)] == []


def test_the_bugs_are_numbered_without_a_gap() -> None:
    assert [*ROWS] == [f"B{number}" for number in range(1, len(ROWS) + 1)]


def test_a_row_is_parsed_completely() -> None:
    (bug,) = bugs("| B7 | a `x` bug | world `log`, seed 1 | mutants `a: b`, `c`; world `log`; `tests/a.py::test_b` |\n")
    assert bug == Bug("B7", "a `x` bug", ("tests/a.py::test_b",), ("a: b", "c"), ("log",), False)


def test_a_row_may_name_one_parameter_of_a_test() -> None:
    (bug,) = bugs("| B7 | bug | reading | `tests/a.py::test_b[aStory]`, `tests/a.py::test_c` |\n")
    assert bug.tests == ("tests/a.py::test_b[aStory]", "tests/a.py::test_c")


def test_a_parameter_of_a_test_runs_alone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_b(story):\n    pass\n")
    assert trials.command_for("test_a.py::test_b[aStory]", tmp_path)[-1] == "test_a.py::test_b[aStory]"


@pytest.mark.parametrize(
    ("status", "expected"), [(0, False), (1, True), (2, False), (4, False), (None, True), (-11, True)]
)
def test_a_test_that_fails_hangs_or_crashes_has_noticed_the_removal(status: int | None, expected: bool) -> None:
    assert trials.is_noticed(status) is expected


def test_an_edit_whose_text_is_missing_or_repeated_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    for text in ("y", "x = 1"):
        with pytest.raises(RemovalError):
            Edit("a.py", text, "").apply(tmp_path)


def test_a_trial_reports_a_test_that_does_not_notice_the_removal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fix.txt").write_text("fixed")
    command = [sys.executable, "-c", "import sys; sys.exit(open('fix.txt').read() != 'fixed')"]
    blind = [sys.executable, "-c", ""]
    monkeypatch.setattr(trials, "command_for", lambda judge, root: command if judge == "sees" else blind)
    removal = Removal("B1", (Edit("fix.txt", "fixed", "broken"),), ("sees", "blind"))
    results = [
        (trial.judge, trial.failed, trial.passes_unchanged) for trial in trials.run_trials(tmp_path, [removal], 1)
    ]
    assert results == [("sees", True, True), ("blind", False, True)]
    assert (tmp_path / "fix.txt").read_text() == "fixed"


@pytest.mark.parametrize(
    ("body", "raises", "noticed"),
    [
        ("assert False", (), True),
        ("None.gone", (), False),
        ("None.gone", ("AttributeError",), True),
        ("import gone.from_here", (), False),
    ],
)
def test_a_removal_that_breaks_the_code_is_distinguished_from_a_failing_test(
    body: str, raises: tuple[str, ...], noticed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The trials start pytest eight times. Without its installed plugins pytest starts three times as fast.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("__init__", "broken_code"):
        (tmp_path / "tests/removals").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests/removals" / f"{name}.py", tmp_path / "tests/removals")
    shutil.copy(ROOT / "tests/__init__.py", tmp_path / "tests")
    (tmp_path / "tests/test_a.py").write_text("def test_a() -> None:\n    assert True\n")
    removal = Removal("B1", (Edit("tests/test_a.py", "assert True", body),), ("tests/test_a.py::test_a",), raises)
    (trial,) = trials.run_trials(tmp_path, [removal], 1)
    assert (trial.passes_unchanged, trial.failed, trial.breaks_code) == (True, noticed, not noticed)


def misfit(removal: Removal, folder: Path) -> str:
    """Return why a removal does not fit the checkout, or an empty text if it fits. Edits are tried in ``folder``."""
    for path in {edit.path for edit in removal.edits}:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    try:
        for edit in removal.edits:
            edit.apply(folder)
            if edit.path.endswith(".py"):
                ast.parse((folder / edit.path).read_text())
    except (RemovalError, SyntaxError) as exc:
        return str(exc)
    return ""


def judges_of(bug: Bug) -> set[str]:
    """Return the tests and worlds that guard against a bug, as a removal names them."""
    return {*bug.tests, *(f"world {name}" for name in bug.worlds)}
