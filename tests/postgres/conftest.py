"""The fixture for a schema in a PostgreSQL server."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.testing.postgres_server import PostgresServer, postgres_server

numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A server that all tests of the process share. It does not sync, since its data need not survive a power cut."""
    # A socket's path has at most 107 bytes, so the folder is not below pytest's own. The server's user must reach it.
    folder = Path(tempfile.mkdtemp(prefix="stratalog-"))
    folder.chmod(0o755)
    try:
        with postgres_server(folder, ["-c fsync=off"]) as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def postgres(server: PostgresServer) -> str:
    """The URL of a store that does not exist yet."""
    return f"{server.url}&schema=store_{next(numbers)}"
