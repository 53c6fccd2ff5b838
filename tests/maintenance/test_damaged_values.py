"""A stored value of another type or out of range: a read raises Corrupt, which names the item and the fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import stratalog
from stratalog.codec import encode
from stratalog.documents.rejections import read_rejection
from stratalog.errors import Corrupt, StratalogError, Unsupported
from stratalog.keys import QUEUE_ATTEMPTS_PARTITION, REJECTED_PARTITION
from stratalog.log import create_log
from stratalog.log.verification import verify_log
from stratalog.maintenance.checkpoint import checkpoints_of
from stratalog.maintenance.damage import item_key, item_kind
from stratalog.maintenance.marks import Marking, Reached, stored_values
from stratalog.maintenance.verification import HistoryName, verify_history
from stratalog.ports.index import Item, Put
from stratalog.worker.attempt_record import read_attempts
from tests.documents.helpers import World
from tests.maintenance.full_store import full_store
from tests.stored import stored_items

DOCUMENTS = ("plan", "draft")
LOGS = (*DOCUMENTS, "second draft", "events", "grid")
READ_ENTIRELY = {
    "name record",
    "name line",
    "record floor",
    "directory line",
    "projection checkpoint",
    "failures",
}
"""The kinds of items of which some read below reads all attributes."""

COMMITS: tuple[Any, ...] = (
    7,
    [7, 7],
    [[[1, 2, 3]], [], [], None],
    [[["ada", "3", "put", b"", None, None, None]], [], [], None],
    [[["ada", 3, "put", b"", None, 7, None]], [], [], None],
    [[], [["k", b"", 0, [0]]], [], None],
    [[], [["k", 7, 0, [0]]], [], None],
    [[], [[7, b"x", 0, [0]]], [], None],
    [[], [["k", b"\xc7\x01\x01\x90", "x", [0]]], [], None],
    [[], [], [[1, 2, 3]], None],
    [[], [], [], "x"],
    [[], [], [["ada", "", 7]], None],
    [[["ada", 3, "put", b"", None, None, None]], [], [], None, ["ada", "x", b""]],
)
"""Data of commits that decode, and have another form."""

OTHERS: tuple[tuple[str, Any], ...] = (
    ("resume", ["group", "ada", [["ada", 1, "x", []]], 0]),
    ("resume", ["group", "ada", [["ada", 1, 2, [[1, "x"]]]], 0]),
    ("resume", ["", 7, [["ada", 1, 2, []]], 0]),
    ("collect", ["ab", []]),
    ("floor", 1.5),
    ("base", [1, "x"]),
)
"""Other events of a document that decode, and have another form."""


def reads(store: stratalog.Store) -> Iterator[Callable[[], object]]:
    """Yield ordinary reads, and verifications, of a full store."""
    records, index = store.records("acme"), store.environment.index

    def document(name: str) -> stratalog.Document:
        store._documents.clear()
        return store.document("acme", name)

    for name in LOGS:
        log = lambda name=name: store.log("acme", name)  # noqa: E731
        yield lambda log=log: list(log().read(log().floor()))
        yield lambda log=log: log().version_at(2000)
        yield lambda log=log: log().hash_at(log().floor())
        yield lambda log=log: log().entry(log().head().version)
        yield lambda name=name: verify_history(store, HistoryName("log", "acme", name))
    yield lambda: list(store.log("acme", "grid").read_snapshot(store.log("acme", "grid").app_snapshot(20)))  # type: ignore[arg-type]
    for name in DOCUMENTS:
        yield lambda name=name: list(document(name).scan())
        yield lambda name=name: list(document(name).versions(document(name).log.floor()))
        yield lambda name=name: list(document(name).history("cells/19-1"))
        yield lambda name=name: document(name).applied_in("ada", 30)
    for name in ("report", "other"):
        yield lambda name=name: records.get(name)
        yield lambda name=name: list(records.versions(name))
        yield lambda name=name: records.failure(name)
        yield lambda name=name: verify_history(store, HistoryName("record", "acme", name))
    yield lambda: records.get("report", 3)
    yield lambda: b"".join(records.open_dead_letter("report"))
    yield lambda: list(records.dead_letters())
    yield lambda: [list(records.versions(name)) for name in ("report", "other")]
    yield lambda: list(records.list())
    yield lambda: list(store.list("acme"))
    yield lambda: [list(store.organisations_of(name)) for name in LOGS]
    yield lambda: checkpoints_of(store)
    yield lambda: stratalog.Projection(store.log("acme", "plan"), "titles", lambda entry: []).checkpoint()
    yield lambda: [read_rejection(item) for item in index.query(REJECTED_PARTITION)]
    yield lambda: [read_attempts(index, item.sort) for item in index.query(QUEUE_ATTEMPTS_PARTITION)]


def errors_of(store: stratalog.Store, item: Item, changed: dict[str, Any]) -> list[Exception]:
    """Return the errors of all reads while ``item`` has other attributes."""
    index = store.environment.index
    index.commit([Put(Item(item.partition, item.sort, {**item.attributes, **changed}))])
    errors: list[Exception] = []
    for read in reads(store):
        try:
            read()
        except Exception as exc:  # noqa: BLE001 - the test is about errors of other types
            errors.append(exc)
    index.commit([Put(item)])
    return errors


def wrong_values(value: object) -> Iterator[Any]:
    yield from (wrong for wrong in (7, "text", b"bytes") if type(wrong) is not type(value))
    if isinstance(value, int):
        yield from (-(2**60), 2**60)


def test_a_value_of_another_type_or_range_raises_only_typed_errors_and_is_named_as_damage() -> None:
    """Only if a read reads all attributes of an item, each wrong value of the item must be named."""
    with full_store("memory:") as store:
        last = {item_kind(item): item for item in stored_items(store.environment.index)}
        for kind, item in last.items():
            for name, value in item.attributes.items():
                for wrong in wrong_values(value):
                    errors = errors_of(store, item, {name: wrong})
                    untyped = [error for error in errors if not isinstance(error, StratalogError)]
                    assert not untyped, (kind, name, wrong)
                    if kind in READ_ENTIRELY:
                        assert item_key(item.partition, item.sort) in map(named_by, errors), (kind, name, wrong)


def named_by(error: Exception) -> str:
    """Return the key of the item that an error names as damaged; empty without such an item."""
    details = error.details if isinstance(error, Corrupt) else {}
    return item_key(details["partition"], details["sort"]) if {"partition", "sort", "reason"} <= details.keys() else ""


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("name record", {"f": "x"}),
        ("name record", {"s": 0}),
        ("name record", {"p": 7}),
        ("segment record", {"m": "x"}),
        ("segment record", {"l": 2**60}),
        ("entry", {"c": "x"}),
        ("entry", {"c": 2**60}),
        ("entry", {"s": "x"}),
        ("entry", {"b": 7}),
        ("entry", {"b": encode([])}),
        ("snapshot", {"h": "x"}),
        ("snapshot", {"b": 7}),
    ],
)
def test_the_error_of_a_read_of_a_log_names_the_item_and_the_fault(kind: str, changed: dict[str, Any]) -> None:
    with full_store("memory:") as store:
        prefix = store.log("acme", "grid").record.prefix
        of_grid = [
            item
            for item in stored_items(store.environment.index)
            if f"{item.partition}/".startswith((prefix, "acme/grid/"))
        ]
        items = [item for item in of_grid if item_kind(item) == kind]
        assert item_key(items[-1].partition, items[-1].sort) in map(named_by, errors_of(store, items[-1], changed))


def is_small(item: Item) -> bool:
    return item_kind(item) == "entry" and "b" in item.attributes


@pytest.mark.parametrize("data", COMMITS)
def test_a_commit_of_another_form_is_damage_of_its_version(data: Any) -> None:
    with full_store("memory:") as store:
        prefix = store.log("acme", "draft").record.prefix
        item = next(
            item
            for item in stored_items(store.environment.index)
            if item.partition.startswith(f"{prefix}/") and is_small(item)
        )
        errors = errors_of(store, item, {"b": msgspec.msgpack.encode([["commit", data, 1]])})
        assert {type(error) for error in errors} >= {Corrupt}
        assert all(isinstance(error, StratalogError) for error in errors)


@pytest.mark.parametrize(("event_type", "data"), OTHERS)
def test_another_event_of_a_document_of_another_form_is_damage(event_type: str, data: Any) -> None:
    with full_store("memory:") as store:
        prefix = store.log("acme", "draft").record.prefix
        item = next(
            item
            for item in stored_items(store.environment.index)
            if item.partition.startswith(f"{prefix}/") and is_small(item)
        )
        errors = errors_of(store, item, {"b": msgspec.msgpack.encode([[event_type, data, 1]])})
        assert Corrupt in map(type, errors)
        assert all(isinstance(error, StratalogError) for error in errors)


@pytest.mark.parametrize(("depth", "expected"), [(300, Unsupported), (900, StratalogError), (100_000, Corrupt)])
def test_an_entry_that_is_nested_too_deeply_is_damage(depth: int, expected: type[StratalogError]) -> None:
    """A decoder raises RecursionError for the deepest value. The chain's hash proves the others to be damage."""
    body = b"\x91\x93\xa4seen" + b"\x91" * depth + b"\xc0\x01"
    with full_store("memory:") as store:
        prefix = store.log("acme", "draft").record.prefix
        item = next(
            item
            for item in stored_items(store.environment.index)
            if item.partition.startswith(f"{prefix}/") and is_small(item)
        )
        errors = errors_of(store, item, {"b": body})
    assert any(isinstance(error, expected) for error in errors)
    assert all(isinstance(error, StratalogError) for error in errors)


@pytest.mark.parametrize("pointer", [7, "text", b"", b"bytes", encode(7), encode([b"address", 1, 2])])
def test_a_damaged_pointer_of_an_entry_is_damage_for_a_marking(pointer: Any) -> None:
    with full_store("memory:") as store:
        item = next(
            item
            for item in stored_items(store.environment.index)
            if item_kind(item) == "entry" and "x" in item.attributes
        )
        damaged = Item(item.partition, item.sort, {**item.attributes, "x": pointer})
        failures: list[StratalogError] = []
        owner = store.log("acme", "events").record.owner
        marking = Marking(store.environment, owner, lambda key: None, Reached(), set(), lambda: None, failures.append)
        marking.mark_item(damaged)
        assert [named_by(failure) for failure in failures] == [item_key(item.partition, item.sort)]


def test_arguments_that_are_nested_too_deeply_are_damage() -> None:
    recorded = ["ada", 3, "put", b"\x91" * 100_000 + b"\xc0", None, b"hash", None]
    with pytest.raises(Corrupt, match="nested too deeply"):
        list(stored_values([stratalog.Event("commit", [[recorded], [], [], None])], 1))


def test_an_error_of_the_code_that_visits_an_entry_is_no_damage() -> None:
    log = create_log(World().environment, "acme", "events")
    log.append(stratalog.Event("seen", 1))

    def visit(entry: stratalog.Entry) -> None:
        raise TypeError("a fault of the visitor")

    with pytest.raises(TypeError, match="a fault of the visitor"):
        verify_log(log, visit=visit)


def test_an_error_of_an_upcaster_is_no_damage() -> None:
    world = World()
    create_log(world.environment, "acme", "events").append(stratalog.Event("seen", {}))
    upcast = {("seen", 1): lambda data: data["missing"]}
    log = stratalog.log.open_log(world.environment, "acme", "events", upcasters=upcast)
    with pytest.raises(KeyError, match="missing"):
        log.entry(1)
