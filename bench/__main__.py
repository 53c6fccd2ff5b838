"""Measure every figure, print a table with an explanation of each row, and write JSON.

    python -m bench [--json PATH] [--only NAME …] [--quick]

The exit code is 1 if the report is incomplete. The report shows missed goals, but they do not change the exit code.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from bench import appends, cloud, cold, large, postgres, program, progress, reads, server, sharing, sheet_engine, turns
from bench.figures import FIGURES, Measured
from bench.workplace import FULL, QUICK, Workplace

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
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the speed and the size of Stratalog.")
    options = program.options_of(parser, [figure.name for figure in FIGURES]).parse_args(arguments)
    return program.run(options, FIGURES, MEASURES, QUICK if options.quick else FULL)


if __name__ == "__main__":
    sys.exit(main())
