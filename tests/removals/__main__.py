"""Remove the fix of each bug and check that its tests fail: ``python -m tests.removals [B17 B18]``.

Without names this tries all bugs of docs/guarantees.md. It also searches for the planted bugs that the page names. The
exit code is 0 if every named test failed without the fix, and every planted bug was caught.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.removals.collection import REMOVALS
from tests.removals.page import bugs
from tests.removals.trials import Trial, run_trials
from tests.simulation.mutants import Catch, hunt
from tests.simulation.simulate import MUTANTS
from tests.sources import ROOT

SEEDS = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    rows = [bug for bug in bugs() if not chosen.bugs or bug.name in chosen.bugs]
    names = {bug.name for bug in rows}
    failures = count = 0
    for trial in run_trials(ROOT, [removal for removal in REMOVALS if removal.bug in names], chosen.processes):
        good = trial.failed and trial.passes_unchanged
        count, failures = count + 1, failures + (not good)
        print(trial_line(trial), flush=True)
    for catch in hunts(sorted({name for bug in rows for name in bug.mutants}), chosen.processes):
        count, failures = count + 1, failures + (not catch.good)
        print(f"planted bug {catch.mutant}: {'caught' if catch.good else 'NOT CAUGHT'}", flush=True)
    unheld = [bug.name for bug in rows if bug.is_open]
    print(f"{count} tests and planted bugs of {len(rows)} bugs: {failures} did not notice; not held: {unheld}")
    return 1 if failures else 0


def trial_line(trial: Trial) -> str:
    """Return a line for people about a trial."""
    if not trial.passes_unchanged:
        return f"{trial.bug} {trial.judge}: FAILS WITH THE FIX TOO"
    if trial.breaks_code:
        return f"{trial.bug} {trial.judge}: THE REMOVAL BREAKS THE CODE"
    return f"{trial.bug} {trial.judge}: {'fails without the fix' if trial.failed else 'NOT NOTICED'}"


def hunts(names: Sequence[str], processes: int) -> Iterator[Catch]:
    """Search for the planted bugs of those names, and yield the results."""
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(hunt_named, names)


def hunt_named(name: str) -> Catch:
    """Search for one planted bug. Runs in a process of the pool."""
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    return hunt(mutant, range(SEEDS))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.removals", description=__doc__)
    parser.add_argument("bugs", nargs="*", metavar="BUG", help="the bugs to try, such as B17; default: all")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
