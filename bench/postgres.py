"""Compares a store in PostgreSQL with plain inserts by psycopg, on a new server with its default durability.

The rows ``postgres-standby-…`` use a synchronous standby. The primary acknowledges a commit once the standby has
applied it, `STANDBY_MS` after the commit's own time. So these rows show a database in two zones of a cloud, where a
commit waits for the network and for two disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import count

from bench.appends import appended, appended_together, batch, mutated, rates
from bench.figures import Measured
from bench.measure import alternated
from bench.peer import PostgresPeer
from bench.sharing import BUSY, SELDOM, p99_ms, runs_at
from bench.workplace import Workplace
from stratalog import Store
from stratalog.store import open_store
from stratalog.testing.postgres_server import PostgresServer, postgres_server

__all__ = ["MEASURES"]

TABLE = "CREATE TABLE plain(log bytea, version bytea, body bytea, PRIMARY KEY(log, version))"
STANDBY_MS = 3
SYNCHRONOUS = ("-c synchronous_standby_names=*", "-c synchronous_commit=remote_apply")
INSERT = "INSERT INTO plain VALUES (%s, %s, %s)"


class PlainInserts:
    """One connection of psycopg, which inserts rows of a key and a body, each row in its own transaction."""

    def __init__(self, url: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(TABLE)
        self._versions = count(1)

    def append_each(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._connection.execute(INSERT, (b"bench/log", b"%016d" % next(self._versions), body))

    def close(self) -> None:
        self._connection.close()


def compared(
    sides: Callable[[], AbstractContextManager[tuple[Store, PlainInserts]]],
    measure: Callable[[Workplace, Store, PlainInserts], Measured],
    work: Workplace,
) -> Measured:
    """Measure a store and plain inserts on the servers that ``sides`` starts."""
    with sides() as (store, plain):
        return measure(work, store, plain)


def peer_append(work: Workplace) -> Measured:
    with (
        postgres_server() as server,
        closing(PostgresPeer(server)) as peer,
        closing(PlainInserts(server.url)) as plain,
    ):
        _, bodies = batch(work.scale.commits)
        seconds = alternated(work.scale.rounds, lambda: peer.append_each(bodies), lambda: plain.append_each(bodies))
        return rates(seconds, len(bodies))


def seldom(work: Workplace) -> Measured:
    """The reference is the same writer without another writer."""
    with postgres_server() as server:
        lone = runs_at(f"{server.url}&schema=lone", work, [SELDOM])
        contended = runs_at(server.url, work, [SELDOM, BUSY])
    return Measured(p99_ms(contended[:1]), p99_ms(lone))


def fairness(work: Workplace) -> Measured:
    with postgres_server() as server:
        counts = sorted(len(run.seconds) for run in runs_at(server.url, work, [BUSY, BUSY]))
    return Measured(counts[1] / max(1, counts[0]), 1.0)


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "postgres-append": lambda work: compared(_sides, appended, work),
    "postgres-peer-append": peer_append,
    "postgres-append-32": lambda work: compared(_sides, appended_together, work),
    "postgres-mutate": lambda work: compared(_sides, mutated, work),
    "postgres-standby-append": lambda work: compared(_sides_with_standby, appended, work),
    "postgres-standby-append-32": lambda work: compared(_sides_with_standby, appended_together, work),
    "postgres-standby-mutate": lambda work: compared(_sides_with_standby, mutated, work),
    "postgres-seldom": seldom,
    "postgres-fairness": fairness,
}


@contextmanager
def _sides() -> Iterator[tuple[Store, PlainInserts]]:
    with postgres_server() as server, _open(server) as sides:
        yield sides


@contextmanager
def _sides_with_standby() -> Iterator[tuple[Store, PlainInserts]]:
    delay = f"-c recovery_min_apply_delay={STANDBY_MS}ms"
    with postgres_server(SYNCHRONOUS) as server, postgres_server([delay], server), _open(server) as sides:
        yield sides


@contextmanager
def _open(server: PostgresServer) -> Iterator[tuple[Store, PlainInserts]]:
    with open_store(server.url) as store, closing(PlainInserts(server.url)) as plain:
        yield store, plain
