"""The fixture `catalogue`: a catalogue in memory, and one in SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.catalogue.tests.helpers import Catalogue, catalogue_in


@pytest.fixture(params=["memory", "sqlite"])
def catalogue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalogue]:
    url = "memory:" if request.param == "memory" else str(tmp_path / "store")
    made = catalogue_in(tmp_path, url)
    yield made
    made.store.close()
