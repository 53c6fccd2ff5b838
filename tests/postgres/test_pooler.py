"""A store behind a pooler, such as PgBouncer."""

from __future__ import annotations

from contextlib import closing

import pytest

from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.clock import SystemClock
from stratalog.errors import Invalid
from stratalog.ports.index import Item, Put
from tests.postgres.pooler import pooler


def test_a_pooler_that_gives_each_transaction_another_session_is_refused(postgres: str) -> None:
    with (
        pooler(postgres, per_transaction=True) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
        pytest.raises(Invalid, match="session mode"),
    ):
        store.create()


def test_a_commit_to_a_pooler_that_gives_each_transaction_another_session_is_refused(postgres: str) -> None:
    with closing(PostgresStore(parse_address(postgres), SystemClock())) as direct:
        direct.create()
    with (
        pooler(postgres, per_transaction=True) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
        pytest.raises(Invalid, match="session mode"),
    ):
        store.index.commit([Put(Item("p", "s", {}))])


def test_a_pooler_that_gives_each_client_one_session_is_accepted(postgres: str) -> None:
    with (
        pooler(postgres, per_transaction=False) as url,
        closing(PostgresStore(parse_address(url), SystemClock())) as store,
    ):
        store.create()
        store.index.commit([Put(Item("p", "s", {"a": 1}))])
        assert store.index.get("p", "s") == Item("p", "s", {"a": 1})
