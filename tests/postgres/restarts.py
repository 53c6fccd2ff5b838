"""Processes use one log in PostgreSQL. Meanwhile this program kills processes and restarts the server repeatedly.

    python -m tests.postgres.restarts --records 20000 --processes 6 --restarts 50 --seed 1

Checkers compare the records of the processes with the log. The exit code is 0 if all records agree with the log.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence

from stratalog.testing.postgres_server import postgres_server
from tests.cloud.histories import run_in, run_until

__all__ = ["main", "run"]


def run(*, records: int, processes: int, seed: int, restarts_share: float = 0.5) -> Counter[str]:
    """Run until the processes have made ``records`` records in all. Return the counts of events. Raises Violation.

    The run kills a process after every few hundred records. After each kill, the run restarts the
    server with probability ``restarts_share``. About half of the restarts crash the server. The other restarts shut
    the server down in the fast mode.
    """
    chance = random.Random(seed)
    restarts = 0
    with postgres_server() as server:

        def disturb() -> None:
            nonlocal restarts
            if chance.random() < restarts_share:
                server.stop(chance.choice(["immediate", "fast"]))
                server.start()
                restarts += 1

        met = run_in(server.url, records=records, processes=processes, seed=seed, disturb=disturb)
    return met + Counter(restarts=restarts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run histories until the given number of restarts has happened. Return 1 if a history failed."""

    def history(records: int, processes: int, seed: int) -> Counter[str]:
        return run(records=records, processes=processes, seed=seed, restarts_share=1.0)

    return run_until("restarts", history, arguments, program="python -m tests.postgres.restarts", description=__doc__)


if __name__ == "__main__":
    sys.exit(main())
