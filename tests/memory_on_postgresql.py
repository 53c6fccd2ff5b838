"""With ``pytest --on-postgresql``, each store that a test opens by the URL ``memory:`` is a new schema in PostgreSQL.

So suites of tests for stores in memory run on PostgreSQL without a change. `make test-postgres` uses this option. Tests
that build the ports themselves, from the classes in `stratalog.backends.memory`, still use memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import stratalog.store
from stratalog.clock import Clock
from stratalog.homes import Ports, open_ports
from stratalog.ports.meter import Meter

__all__ = ["close_schemas", "memory_on_postgresql"]

_numbers = itertools.count()
_opened: list[Ports] = []


@pytest.fixture(scope="session", autouse=True)
def memory_on_postgresql(request: pytest.FixtureRequest) -> Iterator[None]:
    """With ``--on-postgresql``, open a new schema of the tests' server for each ``memory:``."""
    if not request.config.getoption("on_postgresql"):
        yield
        return
    server = request.getfixturevalue("postgres_process")

    def open_or_replace(
        url: str, create: bool, clock: Clock, meter: Meter | None, chunk_cache: str | Path | None
    ) -> Ports:
        if url != "memory:":
            return open_ports(url, create, clock, meter, chunk_cache)
        _opened.append(open_ports(f"{server.url}&schema=memory_{next(_numbers)}", True, clock, meter))
        return _opened[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stratalog.store, "open_ports", open_or_replace)
        yield


@pytest.fixture(autouse=True)
def close_schemas() -> Iterator[None]:
    """Close the ports that the test opened. A store in memory may stay open, but a server allows few connections."""
    before = len(_opened)
    yield
    while len(_opened) > before:
        ports = _opened.pop()
        if ports.announcements is not None:
            ports.announcements.close()
        ports.index.close()
