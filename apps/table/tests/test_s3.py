"""Data files in an object store that pyarrow opens. In one test, the table's log is in DynamoDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.table.tests.helpers import LONG, collect_now, system_store
from apps.table.tests.soak import site, soak
from apps.table.tests.test_data_files import all_of, numbered, rows_in
from stratalog.testing.emulators import KEY, SECRET, Emulator
from stratalog_table import create_table
from stratalog_table.maintenance import maintain_table
from stratalog_table.rows import data_files_of, ingest
from tests.cloud.seaweed import client


@pytest.fixture(scope="module")
def objects(bucket: Emulator) -> Emulator:
    client(bucket).create_bucket(Bucket="lake")
    return bucket


def test_a_table_in_an_object_store_is_ingested_maintained_and_scanned(
    objects: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": objects.url,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    table = create_table(system_store(), "acme", "events", LONG, data="s3://lake/some/prefix")
    data_files = data_files_of(table)
    assert [*data_files.list()] == []
    for batch in range(4):
        ingest(table, data_files, numbered(batch * 600))
        maintain_table(table, data_files, rows_max=700, files_min=2, age_ms=60_000)
    assert rows_in(table, data_files) == all_of(2400)
    collect_now(table, data_files)
    assert {file.filename for file in data_files.list()} == {file.filename for file in table.at().files(0).files}
    assert rows_in(table, data_files, (5, 6)) == [(number,) for number in range(2400) if number * 37 % 1009 == 5]


@pytest.mark.slow
def test_rows_survive_killed_processes_on_aws_emulators(tmp_path: Path) -> None:
    """Three processes ingest, split, compact, collect and read. The log is in DynamoDB. All files are in S3."""
    with site("aws-local", tmp_path) as at:
        done = soak(rows=24_000, processes=3, seed=5, pause=1.5, at=at, batch_rows=2000)
    assert done["rows"] == 24_000
