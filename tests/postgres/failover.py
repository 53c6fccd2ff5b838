"""Processes use one log in PostgreSQL. Meanwhile this program kills processes and fails over to the standby repeatedly.

    python -m tests.postgres.failover --records 6000 --processes 5 --failovers 20 --seed 1

Two servers replicate synchronously: the primary acknowledges a commit once its standby has the commit. A failover stops
the primary, promotes the standby, and makes the old primary a standby of the new primary. Checkers compare the
records of the processes with the log. The exit code is 0 if all records agree with the log.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from stratalog.testing.postgres_server import PostgresServer, postgres_server
from tests.cloud.histories import run_in, run_until

__all__ = ["Pair", "main", "replicating_pair", "run"]

STANDBY_SECONDS_MAX = 300
FLUSHED = "SELECT flush_lsn >= pg_current_wal_flush_lsn() FROM pg_stat_replication"
IN_STEP = "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')"


class Pair:
    """A primary and its synchronous standby."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer) -> None:
        self.url = primary.url_with(standby)
        """The URL names both servers. The server that is the primary at the start comes first."""

        self.primary = primary
        self.standby = standby
        self.await_standby()

    def connect(self) -> psycopg.Connection[Any]:
        """Return a session of the primary."""
        return psycopg.connect(self.primary.url, autocommit=True)

    def fail_over(self, mode: str = "immediate") -> None:
        """Stop the primary in the given mode and promote the standby."""
        self.primary.stop(mode)
        self.promote()

    def promote(self) -> None:
        """Promote the standby, and make the old primary its standby. The old primary must have stopped."""
        self.standby.promote()
        self.rejoin()

    def rejoin(self) -> None:
        """Make the stopped primary a standby of the promoted server."""
        self.primary, self.standby = self.standby, self.primary
        self.standby.create(self.primary)
        self.standby.start()
        self.await_standby()

    def make_read_only(self) -> None:
        """Make the primary refuse writes, without ending its sessions."""
        with closing(self.connect()) as connection:
            connection.execute("ALTER SYSTEM SET default_transaction_read_only TO on")
            connection.execute("SELECT pg_reload_conf()")

    def pause_replay(self) -> None:
        """Let the standby receive commits without replaying them."""
        self._on_standby("SELECT pg_wal_replay_pause()")

    def resume_replay(self) -> None:
        self._on_standby("SELECT pg_wal_replay_resume()")

    def await_flush(self) -> None:
        """Wait until the standby has flushed all of the primary's WAL to disk."""
        with closing(self.connect()) as connection:
            await_true(lambda: connection.execute(FLUSHED).fetchall() == [(True,)])

    def _on_standby(self, statement: str) -> None:
        with closing(psycopg.connect(self.standby.url, autocommit=True)) as connection:
            connection.execute(statement)

    def await_standby(self) -> None:
        """Wait until the standby replicates synchronously."""
        with closing(self.connect()) as connection:
            await_true(lambda: connection.execute(IN_STEP).fetchall() == [(1,)])


def await_true(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true. Raises TimeoutError after `STANDBY_SECONDS_MAX`."""
    until = time.monotonic() + STANDBY_SECONDS_MAX
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the standby does not replicate in time")
        time.sleep(0.02)


@contextmanager
def replicating_pair(options: Sequence[str] = ("-c fsync=off",)) -> Iterator[Pair]:
    """Run a primary and its synchronous standby until the end of the block."""
    # Both servers get the setting as an argument. So a promoted server waits for its own standby before it acknowledges
    # a commit.
    synchronous = (*options, "-c synchronous_standby_names=*")
    with postgres_server(synchronous) as primary, postgres_server(synchronous, primary) as standby:
        yield Pair(primary, standby)


def run(*, records: int, processes: int, seed: int, failovers_share: float = 1.0) -> Counter[str]:
    """Run until the processes have made ``records`` records in all. Return the counts of events. Raises Violation.

    The run kills a process after every few hundred records. After each kill, the run fails over to the
    standby with probability ``failovers_share``. About half of the failovers crash the primary. The other failovers
    shut the primary down in the fast mode.
    """
    chance = random.Random(seed)
    failovers = 0
    # A server that syncs each commit would take much longer. Without a sync, a crash of the server's processes still
    # loses no data.
    with replicating_pair() as pair:

        def disturb() -> None:
            nonlocal failovers
            if chance.random() < failovers_share:
                pair.fail_over(chance.choice(["immediate", "fast"]))
                failovers += 1

        met = run_in(pair.url, records=records, processes=processes, seed=seed, disturb=disturb)
    return met + Counter(failovers=failovers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run histories until the given number of failovers has happened. Return 1 if a history failed."""

    def history(records: int, processes: int, seed: int) -> Counter[str]:
        return run(records=records, processes=processes, seed=seed)

    return run_until("failovers", history, arguments, program="python -m tests.postgres.failover", description=__doc__)


if __name__ == "__main__":
    sys.exit(main())
