"""A migration makes records of the rows of a versioned hybrid store, with payloads of all formats, and can resume."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import stratalog
from apps.catalogue.tests.helpers import Catalogue, interrupt_at
from stratalog import Records, Unavailable
from stratalog.testing.aws_local import aws_environment
from stratalog.testing.emulators import Emulator
from stratalog_catalogue.migration import migrate
from stratalog_catalogue.names import MIGRATIONS
from stratalog_catalogue.redrive import redrive
from stratalog_catalogue.source_rename import rename_source

numbers = itertools.count()
LARGE = bytes(range(256)) * 2000


@pytest.fixture
def emulators(aws: Emulator, bucket: Emulator) -> tuple[Emulator, Emulator]:
    return aws, bucket


class Old:
    """A versioned hybrid store to migrate from."""

    def __init__(self, *, ranged: bool) -> None:
        self.dynamodb: Any = boto3.client("dynamodb")
        self.s3: Any = boto3.client("s3")
        self.table = f"vhs-{next(numbers)}"
        keys = [("id", "HASH", "S"), ("version", "RANGE", "N")][: 2 if ranged else 1]
        self.dynamodb.create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind, _ in keys],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": type_} for name, _, type_ in keys],
        )
        self.s3.create_bucket(Bucket=self.table)

    def row(self, id: str, version: int, payload: dict[str, Any]) -> None:
        item = {"id": {"S": id}, "version": {"N": str(version)}, "payload": payload}
        self.dynamodb.put_item(TableName=self.table, Item=item)

    def pointed(self, id: str, version: int, body: bytes, spelling: tuple[str, str] = ("bucket", "key")) -> None:
        key = f"{id}/{version}.json"
        self.s3.put_object(Bucket=self.table, Key=key, Body=body)
        self.row(id, version, {"M": {spelling[0]: {"S": self.table}, spelling[1]: {"S": key}}})


@pytest.fixture
def catalogue(
    emulators: tuple[Emulator, Emulator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Catalogue]:
    tables, objects = emulators
    for name, value in aws_environment(tables, objects, tables).items():
        monkeypatch.setenv(name, value)
    made = Catalogue(stratalog.open("memory:"), tmp_path)
    made.add("miro", format="json", transformer="plain", id="id", complete=False)
    yield made
    made.store.close()


def run(catalogue: Catalogue, old: Old, name: str = "miro", **options: Any) -> tuple[int, int, int]:
    source = catalogue.add(name, format="json", transformer="plain", id="id", complete=False)
    done = migrate(catalogue.records, source, old.table, dynamodb=old.dynamodb, s3=old.s3, **options)
    return done.new, done.same, done.failed


def body(catalogue: Catalogue, id: str, version: int | None = None, *, source: str = "miro") -> bytes:
    return catalogue.records.get(f"source/{source}/{id}", version).body


def test_rows_with_inline_and_with_referenced_payloads_are_migrated(catalogue: Catalogue) -> None:
    old = Old(ranged=False)
    old.row("text", 3, {"S": '{"title": "a"}'})
    old.row("map", 1, {"M": {"title": {"S": "b"}, "n": {"N": "1.5"}, "l": {"L": [{"BOOL": True}, {"NULL": True}]}}})
    old.pointed("new", 2, LARGE)
    old.pointed("old", 7, b"{}", ("namespace", "path"))
    where = {"namespace": {"S": old.table}, "path": {"S": "old/7.json"}}
    old.row("oldest", 1, {"M": {"typedStoreId": {"M": where}}})
    assert run(catalogue, old) == (5, 0, 0)
    assert body(catalogue, "text") == b'{"title": "a"}'
    assert body(catalogue, "map") == b'{"title":"b","n":1.5,"l":[true,null]}'
    assert (body(catalogue, "new"), body(catalogue, "old"), body(catalogue, "oldest")) == (LARGE, b"{}", b"{}")
    assert catalogue.records.stat("source/miro/text").metadata["version"] == 3
    assert catalogue.scan().failed == 1


def test_versions_are_migrated_in_order_without_gaps(catalogue: Catalogue) -> None:
    old = Old(ranged=True)
    for version in (9, 0, 4):
        old.pointed("b1", version, b"%d" % version)
    old.pointed("b2", 0, b"x")
    assert run(catalogue, old) == (4, 0, 0)
    assert [body(catalogue, "b1", version) for version in (1, 2, 3)] == [b"0", b"4", b"9"]
    versions = catalogue.records.versions("source/miro/b1")
    assert [version.metadata["version"] for version in versions] == [0, 4, 9]


def test_an_interrupted_migration_resumes_and_copies_nothing_twice(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog_catalogue.migration.ROWS_PER_PAGE", 3)
    old = Old(ranged=True)
    for n in range(8):
        for version in range(2):
            old.row(f"b{n}", version, {"S": f"{n} {version}"})
    with pytest.raises(KeyboardInterrupt):
        run(catalogue, old, progress=interrupt_at(7))
    # The second run reads the interrupted page again, which has one copied row, and the later pages.
    assert run(catalogue, old) == (9, 1, 0)
    assert all(catalogue.records.stat(f"source/miro/b{n}").version == 2 for n in range(8))
    assert run(catalogue, old)[0] == 0


@pytest.mark.parametrize("page", [1, 2, 3])
def test_an_id_whose_rows_are_on_several_pages_of_a_scan_is_read_once(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr("stratalog_catalogue.migration.ROWS_PER_PAGE", page)
    old = Old(ranged=True)
    for n, versions in enumerate([4, 1, 5, 2]):
        for version in range(versions):
            old.row(f"b{n}", version, {"S": f"{n} {version}"})
    seen: list[int] = []
    assert run(catalogue, old, progress=seen.append) == (12, 0, 0)
    assert sum(seen) == 12
    assert run(catalogue, old) == (0, 12, 0)


def test_a_migration_ignores_where_a_migration_to_another_source_was_interrupted(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog_catalogue.migration.ROWS_PER_PAGE", 2)
    old = Old(ranged=False)
    for n in range(6):
        old.row(f"b{n}", 1, {"S": "{}"})
    with pytest.raises(KeyboardInterrupt):
        run(catalogue, old, progress=interrupt_at(5))
    assert run(catalogue, old, "other") == (6, 0, 0)
    assert run(catalogue, old) == (1, 1, 0)


def test_a_repeated_migration_copies_no_row_over_what_polls_have_stored_since(catalogue: Catalogue) -> None:
    old = Old(ranged=True)
    for id in ("changed", "deleted"):
        for version in (1, 2):
            old.row(id, version, {"S": f"{id} {version}"})
    assert run(catalogue, old) == (4, 0, 0)
    catalogue.records.put("source/miro/changed", b"polled", metadata={"format": "json"})
    catalogue.records.delete("source/miro/deleted")
    assert run(catalogue, old) == (0, 4, 0)
    assert body(catalogue, "changed") == b"polled"
    assert catalogue.records.stat("source/miro/deleted").deleted


def test_a_migration_reads_each_version_of_a_record_at_most_once(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Old(ranged=True)
    for version in range(10):
        old.row("b", version, {"S": f"{version}"})
    versions, read = Records.versions, [0]

    def counted(records: Records, *given: Any, **options: Any) -> Iterator[Any]:
        for version in versions(records, *given, **options):
            read[0] += 1
            yield version

    monkeypatch.setattr(Records, "versions", counted)
    for new, same, count in ((10, 0, 0), (0, 10, 10)):
        read[0] = 0
        assert (run(catalogue, old), read[0]) == ((new, same, 0), count)


def poll_and_prune(catalogue: Catalogue, id: str, source: str = "miro", *, retain: int) -> None:
    catalogue.records.put(f"source/{source}/{id}", b"polled", metadata={"format": "json"})
    catalogue.records.prune(f"source/{source}/{id}", retain=retain)


@pytest.mark.parametrize(("retain", "same", "failed"), [(1, 0, 2), (2, 2, 0)])
def test_a_repeated_migration_copies_no_row_whose_version_was_pruned(
    catalogue: Catalogue, retain: int, same: int, failed: int
) -> None:
    old = Old(ranged=True)
    for version in (1, 2):
        old.row("b", version, {"S": f"{version}"})
    assert run(catalogue, old) == (2, 0, 0)
    poll_and_prune(catalogue, "b", retain=retain)
    assert run(catalogue, old) == (0, same, failed)
    assert body(catalogue, "b") == b"polled"
    # If no version of a row is left, the migration cannot tell a pruned row from a new one.
    assert ["it is unknown" in letter.reason for letter in catalogue.records.dead_letters()] == [True] * (failed > 0)


def test_a_migration_after_an_interrupted_first_page_copies_no_row_whose_version_was_pruned(
    catalogue: Catalogue,
) -> None:
    old = Old(ranged=False)
    old.row("b", 1, {"S": "1"})
    with pytest.raises(KeyboardInterrupt):
        run(catalogue, old, progress=interrupt_at(1))
    poll_and_prune(catalogue, "b", retain=1)
    assert run(catalogue, old) == (0, 0, 1)


@pytest.mark.parametrize("name", ["miro", "tate"])
@pytest.mark.parametrize("is_earlier_build", [False, True])
def test_a_migration_counts_as_repeated_although_its_source_was_renamed_or_its_table_went_to_another_source_too(
    catalogue: Catalogue, name: str, is_earlier_build: bool
) -> None:
    old = Old(ranged=False)
    old.row("b", 1, {"S": "1"})
    assert run(catalogue, old) == (1, 0, 0)
    if is_earlier_build:
        catalogue.records.put(MIGRATIONS + old.table, b"null", metadata={"source": "miro"})
        catalogue.records.delete(f"{MIGRATIONS}miro/{old.table}")
    if name != "miro":
        rename_source(catalogue.records, "miro", name)
    assert run(catalogue, old, "other") == (1, 0, 0)
    poll_and_prune(catalogue, "b", name, retain=1)
    assert run(catalogue, old, name) == (0, 0, 1)
    assert body(catalogue, "b", source=name) == b"polled"


def test_a_new_source_with_the_former_name_of_a_renamed_source_gets_all_rows(catalogue: Catalogue) -> None:
    old = Old(ranged=True)
    for version in (1, 2):
        old.row("b", version, {"S": f"{version}"})
    assert run(catalogue, old) == (2, 0, 0)
    rename_source(catalogue.records, "miro", "tate")
    assert [run(catalogue, old) for _ in range(2)] == [(2, 0, 0), (0, 2, 0)]
    assert body(catalogue, "b") == b"2"
    rename_source(catalogue.records, "miro", "other")
    rename_source(catalogue.records, "tate", "miro")
    assert run(catalogue, old) == (0, 2, 0)


def test_versions_that_were_pruned_before_a_rename_keep_no_row_from_a_new_source(catalogue: Catalogue) -> None:
    old = Old(ranged=True)
    old.row("b", 1, {"S": "1"})
    catalogue.records.put("source/miro/b", b"older", metadata={"format": "json"})
    poll_and_prune(catalogue, "b", retain=1)
    rename_source(catalogue.records, "miro", "tate")
    catalogue.records.put(f"{MIGRATIONS}miro/{old.table}", b"null", metadata={"source": "miro"})
    assert run(catalogue, old) == (1, 0, 0)


def test_a_rename_keeps_the_newer_of_two_notes_of_a_migration(catalogue: Catalogue) -> None:
    old = Old(ranged=True)
    old.row("b", 1, {"S": "1"})
    assert run(catalogue, old) == (1, 0, 0)
    catalogue.records.put(MIGRATIONS + old.table, b'{"id":"a"}', metadata={"source": "miro"})
    rename_source(catalogue.records, "miro", "tate")
    assert catalogue.records.get(f"{MIGRATIONS}tate/{old.table}").body == b"null"


def test_a_migration_that_failed_before_its_first_row_is_no_earlier_migration(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Old(ranged=False)
    old.row("b", 1, {"S": "1"})
    poll_and_prune(catalogue, "b", retain=1)
    poll_and_prune(catalogue, "b", retain=1)
    scan = old.dynamodb.scan
    monkeypatch.setattr(old.dynamodb, "scan", lambda **given: scan(TableName="none"))
    with pytest.raises(Unavailable):
        run(catalogue, old)
    monkeypatch.setattr(old.dynamodb, "scan", scan)
    assert run(catalogue, old) == (1, 0, 0)


def test_a_first_migration_copies_rows_to_records_of_which_polled_versions_were_pruned(catalogue: Catalogue) -> None:
    old = Old(ranged=True)
    for version in (1, 2):
        old.row("b", version, {"S": f"{version}"})
        poll_and_prune(catalogue, "b", retain=1)
    assert run(catalogue, old) == (2, 0, 0)
    assert body(catalogue, "b") == b"2"


def test_two_migrations_at_once_copy_no_row_twice(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    old = Old(ranged=True)
    for version in (1, 2, 3):
        old.row("b", version, {"S": f"{version}"})
    put, others = Records.put, [True]

    def after_another(records: Records, id: str, *rest: Any, **options: Any) -> Any:
        if id == "source/miro/b" and others and others.pop():
            assert run(catalogue, old) == (3, 0, 0)
        return put(records, id, *rest, **options)

    monkeypatch.setattr(Records, "put", after_another)
    assert sum(run(catalogue, old)) == 3
    assert [body(catalogue, "b", version) for version in (1, 2, 3)] == [b"1", b"2", b"3"]
    assert catalogue.records.stat("source/miro/b").version == 3


def test_the_dead_letter_of_a_row_stays_until_a_migration_copies_the_row(catalogue: Catalogue) -> None:
    old = Old(ranged=False)
    old.row("late", 1, {"M": {"bucket": {"S": old.table}, "key": {"S": "late"}}})
    assert run(catalogue, old) == (0, 0, 1)
    (redriven,) = redrive(catalogue.store, "acme", catalogue.connect)
    assert (redriven.resolved, "run the migration again" in redriven.reason) == (False, True)
    old.s3.put_object(Bucket=old.table, Key="late", Body=b"{}")
    assert run(catalogue, old) == (1, 0, 0)
    assert [*catalogue.records.dead_letters()] == []


def test_a_poll_that_stores_a_file_resolves_no_letter_of_a_row(catalogue: Catalogue) -> None:
    old = Old(ranged=False)
    old.row("b", 1, {"NULL": True})
    source = catalogue.add("miro", format="file", transformer="plain")
    assert migrate(catalogue.records, source, old.table, dynamodb=old.dynamodb, s3=old.s3).failed == 1
    catalogue.write("x", source="miro", name="b")
    assert catalogue.poll().taken.new == 1
    assert [letter.id for letter in catalogue.records.dead_letters()] == ["source/miro/b"]


def test_a_row_stays_a_dead_letter_after_a_later_version_of_it_was_copied(catalogue: Catalogue) -> None:
    old = Old(ranged=True)
    old.row("b", 1, {"M": {"bucket": {"S": old.table}, "key": {"S": "late"}}})
    old.row("b", 2, {"S": "2"})
    assert run(catalogue, old) == (1, 0, 1)
    old.s3.put_object(Bucket=old.table, Key="late", Body=b"{}")
    assert run(catalogue, old) == (0, 1, 1)
    (letter,) = catalogue.records.dead_letters()
    assert "a later version is stored already" in letter.reason
    assert body(catalogue, "b") == b"2"


def test_a_row_that_cannot_be_read_is_a_dead_letter_and_the_rest_is_copied(catalogue: Catalogue) -> None:
    old = Old(ranged=False)
    old.row("good", 1, {"S": "{}"})
    old.row("gone", 1, {"M": {"bucket": {"S": old.table}, "key": {"S": "nothing"}}})
    old.row("away", 1, {"M": {"bucket": {"S": f"{old.table}-none"}, "key": {"S": "nothing"}}})
    assert run(catalogue, old) == (1, 0, 2)
    assert [letter.id for letter in catalogue.records.dead_letters()] == ["source/miro/away", "source/miro/gone"]


def test_a_row_whose_version_is_no_number_is_a_dead_letter(catalogue: Catalogue) -> None:
    old = Old(ranged=False)
    old.row("good", 1, {"S": "{}"})
    for id, version in {"null": {"NULL": True}, "list": {"L": []}, "text": {"S": "x"}}.items():
        item = {"id": {"S": id}, "version": version, "payload": {"S": "{}"}}
        old.dynamodb.put_item(TableName=old.table, Item=item)
    assert run(catalogue, old) == (1, 0, 3)
    letters = [letter.id for letter in catalogue.records.dead_letters()]
    assert letters == ["source/miro/list", "source/miro/null", "source/miro/text"]


def test_the_migration_of_a_missing_table_raises_unavailable(catalogue: Catalogue) -> None:
    old = Old(ranged=False)
    old.table = "none"
    with pytest.raises(Unavailable):
        run(catalogue, old)
