"""The fixture `catalogue`: a catalogue in memory, in SQLite, and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.catalogue.tests.helpers import Catalogue, catalogue_in


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def catalogue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalogue]:
    urls = {"memory": "memory:", "sqlite": str(tmp_path / "store")}
    url = urls.get(request.param) or request.getfixturevalue("postgres")
    made = catalogue_in(tmp_path, url)
    yield made
    made.store.close()
