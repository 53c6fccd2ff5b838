"""The engine, fetched and started once for each process of tests, and a sheet in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import stratalog
from stratalog import Store
from stratalog.apps.sheet import Engine, Sheet, Sheets, SheetSettings
from stratalog.apps.sheet.engine import install_engine

Make = Callable[..., Sheets]


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    install_engine()
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def store() -> Iterator[Store]:
    with stratalog.open("memory:") as store:
        yield store


@pytest.fixture
def sheets(store: Store, engine: Engine) -> Sheets:
    return Sheets(store, engine)


@pytest.fixture
def short(store: Store, engine: Engine) -> Sheets:
    """Sheets whose undo reaches back five entries, and of which every fourth version is kept."""
    return Sheets(store, engine, SheetSettings(undo_entries=5, snapshot_entries=4))


@pytest.fixture
def sheet(sheets: Sheets) -> Sheet:
    return sheets.create("acme", "plan", title="Plan", author="ann")
