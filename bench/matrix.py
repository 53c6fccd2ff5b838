"""Measure tails, and growth with the size of documents and logs, on the disk at hand and in memory.

    python -m bench.matrix [--json PATH] [--only NAME …] [--quick] [--large]

With ``--large`` there are also rows of 10,000,000 keys and entries, which take many minutes more to build, and some
gigabytes of disk and of memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from bench import growth, long_logs, tails
from bench.program import Measures, options_of, run
from bench.workplace import FULL, QUICK

__all__ = ["FIGURES", "LARGE_FIGURES", "MEASURES", "main"]

FIGURES = (*tails.FIGURES, *growth.FIGURES, *long_logs.FIGURES)
LARGE_FIGURES = (*growth.LARGE_FIGURES, *long_logs.LARGE_FIGURES)
MEASURES: Measures = {**tails.MEASURES, **growth.MEASURES, **long_logs.MEASURES}
LARGE = msgspec.structs.replace(FULL, keys=10_000_000, log_entries=10_000_000)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.matrix", description="Measure tails and growth.")
    parser.add_argument("--large", action="store_true", help="also measure 10,000,000 keys and entries")
    options = options_of(parser, [figure.name for figure in (*FIGURES, *LARGE_FIGURES)]).parse_args(arguments)
    figures = (*FIGURES, *LARGE_FIGURES) if options.large or options.only else FIGURES
    return run(options, figures, MEASURES, QUICK if options.quick else LARGE if options.large else FULL)


if __name__ == "__main__":
    sys.exit(main())
