"""On emulators of DynamoDB and S3, a catalogue polls its sources and makes its works as on other stores."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

import stratalog
from apps.catalogue.tests.helpers import Catalogue
from stratalog.testing.aws_local import aws_environment
from stratalog.testing.emulators import Emulator
from stratalog_catalogue.queries import search
from stratalog_catalogue.summary import read_stats

numbers = itertools.count()


@pytest.fixture
def catalogue(aws: Emulator, bucket: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalogue]:
    for name, value in aws_environment(aws, bucket).items():
        monkeypatch.setenv(name, value)
    with stratalog.open(f"aws://catalogue-{next(numbers)}") as store:
        yield Catalogue(store, tmp_path)


def test_a_catalogue_polls_and_scans_on_aws(catalogue: Catalogue) -> None:
    catalogue.add()
    catalogue.write_packages({f"p{n:02d}": "1" for n in range(40)})
    assert catalogue.poll().taken.new == 40
    assert catalogue.scan().made == 40
    catalogue.write_packages({f"p{n:02d}": "2" if n < 3 else "1" for n in range(39)}, day=2)
    taken = catalogue.poll().taken
    assert (taken.new, taken.same, taken.deleted) == (3, 36, 1)
    scanned = catalogue.scan()
    assert (scanned.made, scanned.deleted) == (3, 1)
    again = catalogue.scan(everything=True)
    assert (again.made, again.same) == (0, 39)
    assert read_stats(catalogue.records).sources[0].works == 39
    assert [hit.id for hit in search(catalogue.records, "p07")] == ["p07/amd64"]


def test_a_record_larger_than_a_dynamodb_item_is_stored_intact(catalogue: Catalogue) -> None:
    catalogue.add("scans", format="file", transformer="plain", complete=False)
    large = bytes(range(256)) * 4000
    catalogue.write(large, source="scans", name="box.tiff")
    assert catalogue.poll().taken.new == 1
    assert b"".join(catalogue.records.open("source/scans/box.tiff")) == large
