"""Fixtures of the sheet: engines that all tests of a process share, and sheets in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import stratalog
from apps.sheet.tests.helpers import ENGINES
from stratalog import Store
from stratalog_sheet import EnginePool, Sheet, Sheets, SheetSettings
from stratalog_sheet.engine import install_engine

Make = Callable[..., Sheets]


@pytest.fixture(scope="session")
def engines() -> Iterator[EnginePool]:
    install_engine()
    engines = EnginePool(ENGINES)
    yield engines
    engines.close()


@pytest.fixture
def store() -> Iterator[Store]:
    with stratalog.open("memory:") as store:
        yield store


@pytest.fixture
def sheets(store: Store, engines: EnginePool) -> Sheets:
    return Sheets(store, engines)


@pytest.fixture
def short(store: Store, engines: EnginePool) -> Sheets:
    """Return sheets whose undo reaches back five entries, with an app snapshot every four entries."""
    return Sheets(store, engines, SheetSettings(undo_entries=5, snapshot_entries=4))


@pytest.fixture
def sheet(sheets: Sheets) -> Sheet:
    return sheets.create("acme", "plan", title="Plan", author="ann")
