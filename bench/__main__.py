"""Measure every figure, print a table with an explanation of each row, and write JSON.

    python -m bench [--json PATH] [--only NAME …] [--quick]

The exit code is 1 if the report is incomplete. The report shows missed goals, but they do not change the exit code.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from bench import appends, cloud, cold, large, postgres, progress, reads, server, sharing, sheet_engine, turns
from bench.figures import FIGURES, Figure, Measured, Result, evaluate, problems
from bench.report import legend, machine, table
from bench.workplace import FULL, QUICK, Scale, Workplace

MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    **appends.MEASURES,
    **reads.MEASURES,
    **large.MEASURES,
    **server.MEASURES,
    **cloud.MEASURES,
    **cold.MEASURES,
    **sharing.MEASURES,
    **turns.MEASURES,
    **sheet_engine.MEASURES,
    **progress.MEASURES,
    **postgres.MEASURES,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    wanted = [figure for figure in FIGURES if not options.only or figure.name in options.only]
    results = []
    for result in measured(wanted, QUICK if options.quick else FULL, options.folder):
        results.append(result)
        print(f"{result.name} …", file=sys.stderr, flush=True)
    print("\n".join(f"{name}: {value}" for name, value in machine()), "\n")
    print(table(results), "\n")
    print(legend(results))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    problem_lines = problems(results, [figure.name for figure in wanted])
    for problem in problem_lines:
        print(problem, file=sys.stderr)
    return 1 if problem_lines else 0


def measured(figures: Iterable[Figure], scale: Scale, folder: Path | None = None) -> Iterator[Result]:
    """Measure the figures one after another, and yield a row for each."""
    with tempfile.TemporaryDirectory(dir=folder) as workplace_folder:
        work = Workplace(Path(workplace_folder), scale)
        for figure in figures:
            yield evaluate(figure, MEASURES[figure.name](work))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the speed and the size of Stratalog.")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--only", nargs="+", choices=[figure.name for figure in FIGURES], help="measure these figures")
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, only to check that the benchmarks run")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure; default: a temporary folder")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
