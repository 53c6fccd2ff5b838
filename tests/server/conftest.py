"""Fixtures for tests of the HTTP API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.api import BUDGET, Client, mutation, push, serving


@pytest.fixture
def client() -> Iterator[Client]:
    with serving() as running:
        yield running


@pytest.fixture
def budget(client: Client) -> Client:
    """Return a client of a server with a document of three versions. The last version records a rejection."""
    assert client.put(BUDGET).status_code == 201
    push(client, mutation("ada", 1, key="cells/C2", value=100))
    push(client, mutation("ada", 2, key="cells/C2", value=105), mutation("bob", 1, key="title", value="Budget"))
    push(client, mutation("bob", 2, "inc", key="title"))
    return client
