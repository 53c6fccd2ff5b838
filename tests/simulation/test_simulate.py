"""The simulation command: its exit code, its output, and the planted bugs that its checkers must catch."""

from __future__ import annotations

import ast
import json
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from stratalog.testing import checkers
from stratalog.testing.scheduler import Scheduler
from tests.simulation import simulate as command
from tests.simulation.first_seeds import FIRST_SEEDS, seeds_of
from tests.simulation.mutants import Mutant, hunt
from tests.simulation.world_index import CounterWorld
from tests.simulation.worlds import run_seed


@pytest.mark.parametrize("name", command.WORLDS)
def test_every_world_passes_some_seeds(name: str) -> None:
    result = command.summary(command.simulate(range(5), world=name))
    assert result.failures == [], "\n".join(command.failure_lines(*failure) for failure in result.failures)


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", command.MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught_by_its_checker(mutant: Mutant) -> None:
    catch = hunt(mutant, seeds_of(mutant))
    assert catch.good, catch


def test_every_first_seed_is_that_of_a_planted_bug() -> None:
    assert set(FIRST_SEEDS) <= {mutant.name for mutant in command.MUTANTS}


def test_every_checker_that_a_planted_bug_names_exists() -> None:
    sources = [*Path(__file__).parent.glob("*.py"), *Path(checkers.__file__).parent.glob("*.py")]
    calls = [node for path in sources for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    reports = [call.args[0] for call in calls if ast.unparse(call.func) in ("Violation", "self._violated")]
    raised = {part.value for report in reports for part in ast.walk(report) if isinstance(part, ast.Constant)}
    named = {checker for mutant in command.MUTANTS for checker in mutant.caught_by}
    assert named - raised == set()


def test_a_planted_bug_is_gone_after_its_planting() -> None:
    before = attributes()
    for mutant in command.MUTANTS:
        with mutant.apply():
            pass
    after = attributes()
    assert [where for where, original in before.items() if after.get(where) is not original] == []


def attributes() -> dict[tuple[str, str], object]:
    """Return every attribute of the loaded modules of `stratalog` and `tests`, and of the classes in these modules.

    Mutants plant bugs only in these modules and classes.
    """
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] in ("stratalog", "tests")]
    classes = [each for module in modules for each in vars(module).values() if isinstance(each, type)]
    owners = [*((module.__name__, module) for module in modules), *((repr(each), each) for each in classes)]
    return {(title, name): value for title, owner in owners for name, value in list(vars(owner).items())}


def test_a_hunt_for_no_bug_finds_none() -> None:
    catch = hunt(Mutant("nothing", CounterWorld, nullcontext, ("once",)), range(5))
    assert (catch.good, catch.checker, catch.seeds) == (False, "", 5)


def test_a_crash_of_the_world_does_not_count_as_a_catch() -> None:
    catch = hunt(Mutant("broken", BrokenWorld, nullcontext, ("once",)), range(5))
    assert (catch.good, catch.checker, catch.seeds) == (False, "crash", 1)


def test_processes_share_the_seeds_and_change_no_outcome() -> None:
    alone = [outcome for _, outcome in command.simulate(range(40))]
    assert [outcome for _, outcome in command.simulate(range(40), processes=2)] == alone


def test_the_command_exits_with_0_and_prints_its_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "40", "--processes", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seeds"] == 40
    assert printed["calls_median"] >= command.CALLS_MEDIAN_MIN
    assert printed["counts"]["index.commit"] > 0


@pytest.mark.parametrize("option", ["--mutants", "--trace"])
def test_the_options_mutants_and_trace_refuse_the_option_processes(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main([option, "--processes", "2", "--world", "index"])
    assert "leave out --processes" in capsys.readouterr().err


def test_a_failing_seed_is_printed_with_its_replay(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "WORLDS", {"broken": command.Listed(BrokenWorld, 1)})
    assert command.main(["--seeds", "1", "--seed", "5", "--processes", "1"]) == 1
    assert "--seed 5 --world broken --trace" in capsys.readouterr().out


def test_a_column_that_stays_zero_fails_a_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "COLUMN_SEEDS_MIN", 3)
    monkeypatch.setattr(command, "WORLDS", {"idle": command.Listed(IdleWorld, 1)})
    result = command.summary(command.simulate(range(3)))
    assert result.zero_columns == ["index.commit"]
    assert "never met: index.commit" in result.checks


def test_a_trace_prints_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seed", "1", "--world", "index", "--trace"]) == 0
    assert capsys.readouterr().out.count("index.") == run_seed(CounterWorld, 1).calls


class IdleWorld:
    """A world that does nothing, so its counts stay zero."""

    columns = ("index.commit",)

    def __init__(self, scheduler: Scheduler) -> None:
        scheduler.spawn("idle", scheduler.switch)

    def check(self) -> None:
        return


class BrokenWorld(IdleWorld):
    """A world whose actor raises an unexpected exception."""

    def __init__(self, scheduler: Scheduler) -> None:
        scheduler.spawn("broken", lambda: [].pop())


def test_a_seed_that_waits_for_a_real_lock_ends_with_a_timeout_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "TICK_SECONDS", 0.01)
    lock = threading.Lock()
    with lock, pytest.raises(TimeoutError, match="a lock of threading"), command._watched():
        lock.acquire()
