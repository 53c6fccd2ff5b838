"""Try a sample of mutants: ``python -m tests.mutation --sample 300 --seed 1 --results mutation.jsonl``.

The same command resumes an interrupted run. The exit code is 0 if tests noticed at least ``--share`` of the mutants.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutation.campaign import Trial, check_unchanged, draw_sample, read_trials, run_campaign

ROOT = Path(__file__).parents[2]
LINES_MAX = 6


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = parser().parse_args(arguments)
    mutants = draw_sample(ROOT, chosen.sample, chosen.seed)
    names = {mutant.name for mutant in mutants}
    if not chosen.trust:
        check_unchanged(ROOT, mutants, chosen.seed)
    count = len(names & {trial.name for trial in read_trials(chosen.results)})
    for trial in run_campaign(ROOT, mutants, chosen.results, chosen.processes, chosen.seed):
        count += 1
        print(f"{count}/{len(mutants)} {trial.name} {trial.how}, {trial.seconds} s", flush=True)
    trials = [trial for trial in read_trials(chosen.results) if trial.name in names]
    survivors = [trial for trial in trials if trial.noticed_by is None]
    for trial in survivors:
        print(shown(trial))
    caught = len(trials) - len(survivors)
    print(f"{caught} of {len(trials)} mutants noticed ({caught / len(trials):.1%}), {len(survivors)} survived")
    return 0 if caught >= chosen.share * len(trials) else 1


def shown(trial: Trial) -> str:
    """Return a text that shows a surviving mutant to a person."""
    before, after = (
        "\n".join(f"  {line}" for line in text.splitlines()[:LINES_MAX]) for text in (trial.before, trial.after)
    )
    return f"\n{trial.name} in {trial.function}: {trial.operator}\n{before}\n  becomes\n{after}"


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=300, help="the number of mutants to draw")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the sample and of random tests")
    parser.add_argument("--results", type=Path, default=Path("mutation.jsonl"), help="results file to write or resume")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trust", action="store_true", help="skip the check that the tests pass without a change")
    parser.add_argument("--share", type=float, default=0.9, help="the share of mutants that the tests must notice")
    return parser


if __name__ == "__main__":
    sys.exit(main())
