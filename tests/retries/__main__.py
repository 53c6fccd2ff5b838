"""Run random retries: ``python -m tests.retries --retries 10000 --seed 1``.

The exit code is 0 if no result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

import msgspec

import stratalog
from stratalog.errors import KeyReused, MergeConflict
from stratalog.log import Environment, LogSettings
from stratalog.store import Store
from stratalog.testing.clock import ManualClock
from tests.retries.kinds import KINDS, Check, Used

__all__ = ["Result", "main", "run"]

USES_PER_STORE = 200
SHOWN_MAX = 10


class Result(msgspec.Struct):
    """The numbers of honest retries and hostile uses by kind, and a line for each wrong result."""

    honest: Counter[str]
    hostile: Counter[str]
    wrong: list[str]


def run(retries: int, seed: int) -> Result:
    """Run ``retries`` honest retries and about a third as many hostile uses."""
    result = Result(Counter(), Counter(), [])
    draw = Random(seed)
    names, weights = list(KINDS), [share for _, share in KINDS.values()]
    number = 0
    while result.honest.total() < retries:
        if number % USES_PER_STORE == 0:
            clock = ManualClock()
            store = _store(clock, draw)
        number += 1
        [name] = draw.choices(names, weights)
        honest, hostile = KINDS[name][0](Used(store, clock, draw, number))
        for _ in range(min(draw.randrange(1, 6), retries - result.honest.total())):
            _note(result.honest, result.wrong, f"honest {name}, seed {seed}, use {number}", name, honest)
            if draw.random() < 0.3:
                _note(result.hostile, result.wrong, f"hostile {name}, seed {seed}, use {number}", name, hostile)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.retries", description=__doc__)
    parser.add_argument("--retries", type=int, default=10_000, help="the number of honest retries")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    result = run(options.retries, options.seed)
    for name in KINDS:
        print(f"{name:<26} {result.honest[name]:>8,} honest {result.hostile[name]:>8,} hostile")
    honest, hostile = result.honest.total(), result.hostile.total()
    print(f"{honest:,} honest retries and {hostile:,} hostile uses, {len(result.wrong)} wrong")
    print("\n".join(result.wrong[:SHOWN_MAX]), end="\n" if result.wrong else "")
    return 1 if result.wrong else 0


def _note(counter: Counter[str], wrong: list[str], where: str, name: str, check: Check) -> None:
    counter[name] += 1
    try:
        if not check():
            wrong.append(where)
    except (KeyReused, MergeConflict) as exc:
        wrong.append(f"{where}: {exc}")


def _store(clock: ManualClock, draw: Random) -> Store:
    made = stratalog.open("memory:", clock=clock)
    settings = LogSettings(
        body_inline_bytes_max=draw.choice((0, 64, 8192)),
        segment_entries_target=draw.choice((2, 5, 1000)),
        snapshot_entries_interval=draw.choice((1, 3, 100)),
    )
    ports = made.environment
    return Store(Environment(ports.index, ports.blobs, clock, settings), made.queue, made.rules)


if __name__ == "__main__":
    sys.exit(main())
