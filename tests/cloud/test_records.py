"""The behaviours of records that carry a number in docs/concepts/records.md, on SQLite and on AWS's emulators.

They are those of tests/records, told again with another world; what reaches into memory is left to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import stratalog
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from tests.cloud.helpers import dynamo_index
from tests.cloud.seaweed import VERSIONED, blobs_in
from tests.records import test_bodies, test_lost_answers, test_put, test_read
from tests.records.helpers import World

NUMBERED = re.compile(r"test_(b\d|.*lost)")


BEGUN = {test_lost_answers: [b"1"], test_read: [b"body %d" % n for n in range(1, 6)]}
"""The versions that a module's own world begins with."""


@pytest.fixture(params=["sqlite", "aws"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    index, blobs = _local(tmp_path) if request.param == "sqlite" else _cloud(request)
    made = World(index=index, blobs=blobs)
    for body in next((bodies for of, bodies in BEGUN.items() if of.__name__ == request.function.__module__), ()):
        made.records.put("b1", body)
    made.index.calls.clear()
    yield made
    index.close()


def _local(folder: Path) -> tuple[Index, Blobs]:
    place = stratalog.open(folder / "store").place
    return place.index, place.blobs


def _cloud(request: pytest.FixtureRequest) -> tuple[Index, Blobs]:
    return dynamo_index(request.getfixturevalue("dynamo")), blobs_in(VERSIONED, request.getfixturevalue("bucket"))


def numbered(module: ModuleType) -> dict[str, object]:
    return {name: test for name, test in vars(module).items() if NUMBERED.match(name)}


for _module in (test_put, test_read, test_bodies, test_lost_answers):
    globals().update(numbered(_module))
