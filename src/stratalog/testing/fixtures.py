"""Fixtures for pytest. Add ``pytest_plugins = ["stratalog.testing.fixtures"]`` to the conftest.py of your root folder.

Override the fixture ``application`` to test your own application. They need `stratalog[client,server]` and pytest.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stratalog.client import Client, connect
from stratalog.server import Application, create_app
from stratalog.store import Store, open_store
from stratalog.testing.loopback_server import LoopbackServer, serve_on_loopback

__all__ = ["application", "server", "store", "two_clients"]


@pytest.fixture
def application() -> Application:
    """The application under test: the built-in mutators, and no authentication."""
    return Application()


@pytest.fixture
def store(application: Application) -> Iterator[Store]:
    """An empty store in memory, with the application's mutators."""
    with open_store("memory:", rules=application.rules) as opened:
        yield opened


@pytest.fixture
def server(store: Store, application: Application) -> Iterator[LoopbackServer]:
    """A server of the store and the application, on a free port of 127.0.0.1."""
    with serve_on_loopback(create_app(store, application)) as running:
        yield running


@pytest.fixture
def two_clients(server: LoopbackServer, application: Application) -> Iterator[tuple[Client, Client]]:
    """Two started clients of one new document on the server, ``acme/plan``."""
    url = server.document_url()
    with (
        connect(url, mutators=application.mutators, create=True) as ada,
        connect(url, mutators=application.mutators, create=True) as bob,
    ):
        yield ada, bob
