"""Random runs: ``python -m apps.sheet.tests.convergence --runs 300 --seed 1``. The exit code is 1 if a run failed."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from apps.sheet.tests.convergence.run import play
from apps.sheet.tests.helpers import ENGINES
from stratalog.errors import StratalogError
from stratalog_sheet import EnginePool
from stratalog_sheet.engine import install_engine


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=250)
    asked = parser.parse_args()
    install_engine(print)
    engines = EnginePool(ENGINES)
    total: Counter[str] = Counter()
    failed = []
    for seed in range(asked.seed, asked.seed + asked.runs):
        try:
            total.update(play(seed, engines, steps=asked.steps))
        except (AssertionError, StratalogError, OSError) as exc:
            failed.append(seed)
            print(f"seed {seed}: {type(exc).__name__}: {exc}", *getattr(exc, "__notes__", ()), sep="\n", flush=True)
    engines.close()
    print(f"{asked.runs} runs, {len(failed)} failed, {dict(total)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
