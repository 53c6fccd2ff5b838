"""The store (d) of docs/guides/table.md: PostgreSQL on a new server in a temporary folder, with default durability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from stratalog.testing.postgres_server import postgres_server

__all__ = ["Postgres", "running_postgres"]

SCHEMA = """
create table if not exists partition (tbl text, id text, primary key (tbl, id));
create table if not exists file (tbl text, name text, refs int default 1, primary key (tbl, name));
create table if not exists reference (
    tbl text, name text, part text, n bigint, job text,
    primary key (tbl, part, name), foreign key (tbl, part) references partition, foreign key (tbl, name) references file
);
"""


class Postgres:
    """One connection. A commit is a transaction of a few statements, for any number of files."""

    def __init__(self, url: str, table: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url)
        self._table = table

    @staticmethod
    def create(url: str, tables: Sequence[str]) -> None:
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(SCHEMA)
            for table in tables:
                connection.execute("insert into partition values (%s, 'root')", [table])

    def add(self, names: Sequence[str]) -> None:
        with self._connection.transaction():
            chosen = [self._table, list(names)]
            self._connection.execute("insert into file select %s, unnest(%s::text[])", chosen)
            self._connection.execute("insert into reference select %s, unnest(%s::text[]), 'root', 1000", chosen)

    def assign(self, job: str, names: Sequence[str]) -> None:
        chosen = "tbl = %s and part = 'root' and name = any(%s) and job is null"
        with self._connection.transaction():
            done = self._connection.execute(
                f"update reference set job = %s where {chosen}", [job, self._table, list(names)]
            )
            _expect(done.rowcount, len(names))

    def replace(self, job: str, names: Sequence[str], output: str) -> None:
        chosen = "tbl = %s and part = 'root' and name = any(%s) and job = %s"
        execute, chosen_files = self._connection.execute, [self._table, list(names)]
        with self._connection.transaction():
            done = execute(f"delete from reference where {chosen}", [*chosen_files, job])
            _expect(done.rowcount, len(names))
            execute("update file set refs = refs - 1 where tbl = %s and name = any(%s)", chosen_files)
            execute("insert into file values (%s, %s)", [self._table, output])
            execute("insert into reference values (%s, %s, 'root', %s)", [self._table, output, 1000 * len(names)])

    def settle(self) -> None:
        """Update the statistics of the planner. Otherwise PostgreSQL would update them about a minute later."""
        with self._connection.transaction():
            self._connection.execute("analyze")

    def close(self) -> None:
        self._connection.close()


def _expect(changed: int, wanted: int) -> None:
    if changed != wanted:
        raise ValueError("a reference does not exist or is not the job's")


@contextmanager
def running_postgres() -> Iterator[str | None]:
    """Run a server with its default durability, and yield the URL of its database, or None without PostgreSQL."""
    with ExitStack() as running:
        try:
            server = running.enter_context(postgres_server())
        except RuntimeError:
            yield None
        else:
            yield server.url
