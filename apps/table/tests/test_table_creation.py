"""An invalid creation of a table leaves nothing. The leftovers of an unfinished creation can be deleted or resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stratalog
from apps.table.tests.helpers import LONG, TWO, system_store
from stratalog import Conflict, Invalid, NotFound, Store
from stratalog.clock import new_id
from stratalog_table import RULES, Column, Schema, Table, ValueColumn, create_table, open_table
from stratalog_table.data_folder import DataFolder
from stratalog_table.folder_register import REGISTER, DataFolderTaken, FolderRegister
from stratalog_table.locations import store_location
from stratalog_table.table import table_handle
from stratalog_table.table_creation import delete_unfinished, is_unfinished

SINGLE_KEY = {"keys": [{"name": "id", "type": "long"}]}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with stratalog.open(tmp_path / "store") as opened:
        yield opened


def test_a_malformed_url_of_data_files_is_refused(store: Store) -> None:
    with pytest.raises(Invalid):
        create_table(store, "acme", "events", LONG, data="s3://[x")
    with pytest.raises(Invalid):
        DataFolder("s3://[x")
    with pytest.raises(NotFound):
        store.log("acme", "events")


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_table_and_its_views_are_shown_by_name_and_version(store: Store) -> None:
    table = create_table(store, "acme", "events", Schema((Column("id", "long"),)))
    assert repr(table) == "<Table acme/events>"
    assert repr(table.at()) == f"<TableView version={table.version}>"


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (LONG, {"retention_days": 36_501}),
        (LONG, {"retention_days": -1}),
        (LONG, {"columns": [ValueColumn("id", "int64")]}),
        (Schema((*LONG.keys, *LONG.keys)), {}),
        (Schema((Column("at", "timestamp"),)), {}),
        (Schema((Column("\ud800", "long"),)), {}),
    ],
)
def test_an_invalid_creation_leaves_nothing(
    store: Store, tmp_path: Path, schema: Schema, options: dict[str, Any]
) -> None:
    data = (tmp_path / "lake").as_uri()
    with pytest.raises(Invalid):
        create_table(store, "acme", "events", schema, data=data, **options)
    assert [*store.list("acme")] == []
    assert not (tmp_path / "lake").exists()
    create_table(store, "acme", "events", LONG, data=data)


def left_by_an_earlier_version(store: Store, folder: Path) -> Table:
    """Make the leftovers of a creation that an earlier version of Stratalog rejected for its too long retention."""
    store.create("acme", "events")
    table = table_handle(store, "acme", "events")
    table.register(DataFolder(folder.as_uri())).enter(is_owner=True)
    location = store_location(store, folder.as_uri())
    wanted = {"schema": SINGLE_KEY, "partitions": [], "data": location, "retention_days": 36_501}
    assert table.document.mutate("create_table", wanted).reason
    return table


def killed(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch, owner: type, step: str) -> Table:
    """Interrupt a creation before the given step, and return its table."""

    def end(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner, step, end)
        with pytest.raises(KeyboardInterrupt):
            create_table(store, "acme", "events", LONG, data=folder.as_uri())
    return table_handle(store, "acme", "events")


def test_the_leftovers_of_a_rejected_creation_can_be_deleted_or_resumed(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    table = left_by_an_earlier_version(store, folder)
    with pytest.raises(NotFound):
        open_table(store, "acme", "events")
    delete_unfinished(table)
    assert [*store.list("acme")] == []
    assert not folder.exists()
    left_by_an_earlier_version(store, folder)
    assert create_table(store, "acme", "events", LONG, data=folder.as_uri()).at().meta.schema == LONG
    with pytest.raises(Conflict):
        create_table(store, "acme", "events", LONG, data=folder.as_uri())


def test_the_leftovers_of_a_killed_creation_can_be_deleted_or_resumed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lake"
    table = killed(store, folder, monkeypatch, Table, "commit")
    delete_unfinished(table, [folder.as_uri()])
    assert [*store.list("acme")] == []
    assert not folder.exists()
    killed(store, folder, monkeypatch, Table, "commit")
    create_table(store, "acme", "events", LONG, data=folder.as_uri())


def test_an_empty_document_without_an_entry_is_resumed_and_not_deleted(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lake"
    table = killed(store, folder, monkeypatch, FolderRegister, "enter")
    with pytest.raises(Conflict, match="no data folder shows"):
        delete_unfinished(table, [folder.as_uri()])
    assert [listing.id for listing in store.list("acme")] == ["events"]
    create_table(store, "acme", "events", LONG, data=folder.as_uri())


@pytest.mark.parametrize("resume", [True, False])
def test_a_partly_written_register_entry_prevents_neither_a_creation_nor_a_deletion(
    store: Store, tmp_path: Path, resume: bool
) -> None:
    store.create("acme", "events")
    table = table_handle(store, "acme", "events")
    register = tmp_path / "lake" / REGISTER
    register.mkdir(parents=True)
    token = new_id(store.environment.clock)
    (register / f"{table.incarnation}.json.{token}.unfinished").write_text("{")
    if resume:
        create_table(store, "acme", "events", LONG, data=(tmp_path / "lake").as_uri())
        assert files_in(register) == [f"{table.incarnation}.json"]
    else:
        delete_unfinished(table, [(tmp_path / "lake").as_uri()])
        assert not (tmp_path / "lake").exists()


def test_foreign_files_in_the_folder_are_not_deleted_as_leftovers(store: Store, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/thesis.txt").write_text("mine")
    store.create("acme", "events")
    with pytest.raises(DataFolderTaken):
        create_table(store, "acme", "events", LONG, data=(tmp_path / "lake").as_uri())
    table = table_handle(store, "acme", "events")
    table.register(DataFolder((tmp_path / "lake").as_uri())).enter()
    delete_unfinished(table, [(tmp_path / "lake").as_uri()])
    assert files_in(tmp_path / "lake") == ["thesis.txt"]


def put(document: Any) -> None:
    document.put("a", 1)


def put_and_delete(document: Any) -> None:
    document.put("a", 1)
    document.delete("a")


def create(document: Any) -> None:
    document.rules = RULES
    partitions = [{"id": "root", "region": [["0000000000000000", None]]}]
    assert document.mutate("create_table", {"schema": SINGLE_KEY, "partitions": partitions}).reason is None


def rejected_among_others(document: Any) -> None:
    put(document)
    document.rules = RULES
    assert document.mutate("create_table", {"schema": SINGLE_KEY, "partitions": []}).reason


@pytest.mark.parametrize("fill", [put, put_and_delete, create, rejected_among_others])
def test_a_used_document_is_not_an_unfinished_creation(fill: Callable[[Any], None]) -> None:
    store = system_store()
    document = store.create("acme", "events")
    assert is_unfinished(document)
    fill(document)
    assert not is_unfinished(document)
    with pytest.raises(Conflict):
        delete_unfinished(table_handle(store, "acme", "events"))
    with pytest.raises(Conflict):
        create_table(store, "acme", "events", TWO)


def test_a_document_without_its_history_is_no_unfinished_creation() -> None:
    document = system_store().create("acme", "events")
    put_and_delete(document)
    document.snapshot()
    document.forget_below(document.version)
    assert not is_unfinished(document)
