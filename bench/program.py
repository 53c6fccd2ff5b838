"""The command line of a benchmark program: measure figures, print a table, write JSON, and check the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from bench.figures import Figure, Measured, Result, evaluate, problems, unmeasured
from bench.media import Medium, opened_media
from bench.report import legend, machine, table
from bench.workplace import Scale, Workplace
from stratalog.testing.local_services import exit_on_signals

__all__ = ["Measures", "measure_on", "options_of", "report", "run"]

Measures = Mapping[str, Callable[[Workplace], Measured]]


def options_of(parser: argparse.ArgumentParser, names: Iterable[str]) -> argparse.ArgumentParser:
    """Add the options that all benchmark programs have. ``names`` are the rows to choose from."""
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--only", nargs="+", choices=[*names], help="measure these rows")
    parser.add_argument("--quick", action="store_true", help="use tiny sizes, only to check that the benchmarks run")
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure; default: a temporary folder")
    return parser


def run(options: argparse.Namespace, figures: Sequence[Figure], measures: Measures, scale: Scale) -> int:
    """Measure the figures that the options select, and report them; return the exit code."""
    wanted = [figure for figure in figures if not options.only or figure.name in options.only]
    results = []
    with exit_on_signals(), opened_media(scale, options.folder) as media:
        for result in measure_on(media, wanted, measures):
            results.append(result)
            print(result.name, result.medium or "", result.value, result.unit, "…", file=sys.stderr, flush=True)
    return report(results, wanted, media, options.json)


def measure_on(media: Sequence[Medium], figures: Sequence[Figure], measures: Measures) -> Iterator[Result]:
    """Measure the figures one after another, and yield a row for each, or a row for each medium."""
    for figure in figures:
        for medium in media if figure.on_disk else media[:1]:
            name = medium.name if figure.on_disk else None
            if medium.work is None:
                yield unmeasured(figure, medium.name, medium.reason)
            else:
                yield evaluate(figure, measures[figure.name](medium.work), name, quick=medium.quick)


def report(results: Sequence[Result], wanted: Sequence[Figure], media: Sequence[Medium], path: Path | None) -> int:
    """Print the rows and write them to ``path``; return 1 if a row is missing or incomplete, otherwise 0."""
    facts = [*machine(), *((medium.name, str(medium)) for medium in media)]
    print("\n".join(f"{name}: {value}" for name, value in facts), "\n")
    print(table(results, wanted), "\n")
    print(legend(results, wanted))
    if path:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
    problem_lines = problems(results, [figure.name for figure in wanted])
    for problem in problem_lines:
        print(problem, file=sys.stderr)
    return 1 if problem_lines else 0
