"""PostgreSQL on this machine, for one program: ``python -m stratalog.testing.postgres_local COMMAND …``.

A new server listens on a socket in a temporary folder. The command deletes the folder when the program ends. The
program finds the server by environment variables: ``postgresql:///postgres`` is the server's database, and
``STRATALOG_STORE`` has this URL.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stratalog.testing.local_services import run_with_services
from stratalog.testing.postgres_server import postgres_server

__all__ = ["main", "postgres_local"]

STORE = "postgresql:///postgres"


@contextmanager
def postgres_local() -> Iterator[dict[str, str]]:
    """Run a server until the end of the block; yield the variables for clients. Raises `postgres_server`'s errors."""
    with postgres_server() as server:
        yield server.environment


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server and, with its variables, the command in ``arguments``. Return its exit code."""
    return run_with_services("postgres_local", "the processes of PostgreSQL", postgres_local(), STORE, arguments)


if __name__ == "__main__":
    sys.exit(main())
