"""Folders below a thousand missing folders. `os.makedirs` raises RecursionError for such a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import stratalog
from stratalog.backends.files import FileBlobs
from stratalog.codec import sha256
from stratalog.errors import Unavailable
from stratalog.folders import make_folder, make_folders, make_shared_folder
from stratalog.testing.clock import ManualClock
from tests.deep_folders import below_missing_folders


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    with below_missing_folders(tmp_path) as path:
        yield path


@pytest.mark.parametrize("make", [make_folder, make_folders, partial(make_shared_folder, root="/")])
def test_a_folder_below_many_missing_folders_is_made(deep: Path, make: Callable[[str], None]) -> None:
    make(str(deep))
    assert deep.is_dir()


def test_a_folder_of_blobs_below_many_missing_folders_stores_blobs(deep: Path) -> None:
    blobs, key = FileBlobs(deep, ManualClock()), f"acme/{sha256(b'body').hex()}"
    blobs.put(key, b"body")
    assert blobs.get(key) == b"body"


def test_a_store_below_many_missing_folders_raises_unavailable(deep: Path) -> None:
    """The path is too long for SQLite."""
    with pytest.raises(Unavailable):
        stratalog.open(deep)
