"""A missing table or bucket is reported as missing, and never looks empty.

An unusable path is reported with the error of the operating system or of SQLite.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.files import FileBlobs
from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.errors import Invalid, Unavailable
from stratalog.log.environment import Environment
from stratalog.records import Records
from stratalog.testing.emulators import Emulator
from tests.cloud.helpers import dynamo_client
from tests.cloud.seaweed import blobs_in
from tests.records.helpers import World

LARGE = random.Random(5).randbytes(50_000)


def check_out_of_reach(records: Records, reason: str) -> None:
    """Check that a put and a read raise Unavailable, with a message that names the missing table or bucket."""
    for call in (lambda: records.put("b1", LARGE[1:]), lambda: records.get("b1")):
        with pytest.raises(Unavailable) as caught:
            call()
        assert reason in str(caught.value)


def test_b46_a_missing_table_is_reported_as_missing(dynamo: Emulator) -> None:
    index = DynamoIndex(dynamo_client(dynamo), "no-such-table")
    world = World(ends=lambda clock: (index, MemoryBlobs(clock)))
    check_out_of_reach(world.records, "the table does not exist")
    world.close()


def test_b38_b46_a_missing_bucket_is_reported_as_missing(bucket: Emulator) -> None:
    """The record's pointer exists, but the bucket is missing.

    A read reports the body as unavailable and not as lost.
    """
    world = World()
    world.records.put("b1", LARGE)
    blobs = blobs_in("no-such-bucket", bucket)
    check_out_of_reach(
        Records(Environment(world.index, blobs, world.clock), world.organisation), "the bucket does not exist"
    )
    blobs.close()


@pytest.mark.parametrize("name", ["", "no bucket", "no:bucket", "a"])
def test_b46_an_invalid_bucket_name_is_refused(bucket: Emulator, name: str) -> None:
    with pytest.raises(Invalid):
        blobs_in(name, bucket)


def test_b46_an_unusable_folder_is_reported_with_the_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file is where the folder should be")
    with pytest.raises(Unavailable) as caught:
        World(ends=lambda clock: (MemoryIndex(), FileBlobs(tmp_path / "blobs", clock)))
    assert "File exists" in str(caught.value)


def test_b46_an_unusable_database_file_is_reported_with_the_error_of_sqlite(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        World(ends=lambda clock: (SqliteDatabase(tmp_path, clock).index, MemoryBlobs(clock)))
    assert "open" in str(caught.value)
