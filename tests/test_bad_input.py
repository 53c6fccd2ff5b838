"""Bad input raises a typed error and writes nothing. The message describes the value, its type or the limit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.client.file import ClientFile
from stratalog.errors import StorageFull, StratalogError, Unsupported
from stratalog.limits import (
    ID_ESCAPED_BYTES_MAX,
    INTEGER_MAX,
    JSON_DEPTH_MAX,
    KEY_BYTES_MAX,
    MUTATIONS_PER_BATCH_MAX,
    VALUE_BYTES_MAX,
)
from stratalog.protocol import Mutation


@pytest.fixture
def store(tmp_path: Path) -> Iterator[stratalog.Store]:
    with stratalog.open(tmp_path / "data") as opened:
        opened.create("acme", "budget").mutate("put", {"key": "cells/C2", "value": 100})
        yield opened


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def put(value: Any, key: str = "cells/C3") -> Callable[[stratalog.Store], object]:
    return lambda store: store.document("acme", "budget").mutate("put", {"key": key, "value": value})


VERSIONED: dict[str, Callable[..., object]] = {
    "a fork at version": lambda store, value: store.document("acme", "budget").fork("fork", at=value),
    "a fork of a log at version": lambda store, value: store.fork_log(store.log("acme", "budget"), "fork", value),
    "a floor at version": lambda store, value: store.document("acme", "budget").forget_below(value),
    "an archive up to version": lambda store, value: store.document("acme", "budget").archive(value),
    "versions up to": lambda store, value: [*store.document("acme", "budget").versions(0, value)],
    "a redaction of version": lambda store, value: store.log("acme", "budget").redact(value),
    "a hash of version": lambda store, value: store.log("acme", "budget").hash_at(value),
    "an app snapshot of version": lambda store, value: store.log("acme", "budget").app_snapshot(value),
    "an append after version": lambda store, value: store.log("acme", "budget").append(
        stratalog.Event("commit", 1), expected=value, write_id="w"
    ),
    "a record's version": lambda store, value: store.records("acme").get("r", value),
    "a record after version": lambda store, value: store.records("acme").put("r", b"", expected=value),
    "a redaction of a record's version": lambda store, value: store.records("acme").redact("r", value),
}
"""Calls that take a version. `REFUSED` has each call with versions that are not whole numbers."""

REFUSED: dict[str, tuple[Callable[[stratalog.Store], object], type[StratalogError], list[object]]] = {
    "an unknown document": (lambda store: store.document("acme", "ledger"), stratalog.NotFound, ["ledger"]),
    "an unknown organisation": (lambda store: store.document("nobody", "budget"), stratalog.NotFound, ["nobody"]),
    "an empty id": (lambda store: store.create("acme", ""), stratalog.Invalid, ["''"]),
    "an id that is no text": (lambda store: store.create("acme", 7), stratalog.Invalid, ["7"]),  # type: ignore[arg-type]
    "an id with a lone surrogate": (lambda store: store.create("acme", "\ud800"), stratalog.Invalid, ["ud800"]),
    "a long id": (lambda store: store.create("acme", "x" * 300), stratalog.LimitExceeded, [300, ID_ESCAPED_BYTES_MAX]),
    "NaN": (put(float("nan")), stratalog.Invalid, ["nan"]),
    "infinity": (put(float("inf")), stratalog.Invalid, ["inf"]),
    "an integer above 2^53 - 1": (put(2**53), stratalog.Invalid, [2**53, INTEGER_MAX]),
    "a lone surrogate": (put("\udfff"), stratalog.Invalid, ["udfff"]),
    "deep nesting": (put(nested(JSON_DEPTH_MAX)), stratalog.LimitExceeded, [JSON_DEPTH_MAX]),
    "a type that JSON cannot say": (put({1, 2}), stratalog.Invalid, ["set"]),
    "an object key that is no text": (put({1: 2}), stratalog.Invalid, ["1"]),
    "an oversize body": (
        lambda store: put("x" * (VALUE_BYTES_MAX + 1))(store),
        stratalog.LimitExceeded,
        [VALUE_BYTES_MAX],
    ),
    "too many mutations": (
        lambda store: store.document("acme", "budget").apply([Mutation(client="a", name="put")] * 1001),
        stratalog.LimitExceeded,
        [1001, MUTATIONS_PER_BATCH_MAX],
    ),
    "a version beyond the head": (
        lambda store: store.document("acme", "budget").get("cells/C2", at=9),
        stratalog.NotFound,
        [9],
    ),
    "a version below zero": (
        lambda store: store.document("acme", "budget").get("cells/C2", at=-1),
        stratalog.Invalid,
        [-1],
    ),
    **{
        f"{where} {value!r}": (partial(call, value=value), stratalog.Invalid, [value])
        for where, call in VERSIONED.items()
        for value in (1.5, "1", True)
    },
    "a body that is text": (lambda store: store.records("acme").put("r", "text"), stratalog.Invalid, ["str"]),  # type: ignore[arg-type]
    "a body with pieces of text": (
        lambda store: store.records("acme").put("r", iter(["te", "xt"])),  # type: ignore[arg-type]
        stratalog.Invalid,
        ["str"],
    ),
    "a body that is nothing": (
        lambda store: store.records("acme").put("r", None),  # type: ignore[arg-type]
        stratalog.Invalid,
        ["NoneType"],
    ),
    "an event that is an object": (
        lambda store: store.log("acme", "budget").append([{"type": "commit"}]),  # type: ignore[list-item]
        stratalog.Invalid,
        ["dict"],
    ),
    "a schema that is text": (
        lambda store: store.log("acme", "budget").append(stratalog.Event("commit", 1, schema="1")),  # type: ignore[arg-type]
        stratalog.Invalid,
        ["'1'"],
    ),
    "a mutation that is an object": (
        lambda store: store.document("acme", "budget").apply([{"name": "put"}]),  # type: ignore[list-item]
        stratalog.Invalid,
        ["dict"],
    ),
    "an author of many digits": (
        lambda store: store.document("acme", "budget").put("a", 1, author=10**5000),  # type: ignore[arg-type]
        stratalog.Invalid,
        ["digits"],
    ),
    "a wrong expected version": (
        lambda store: store.log("acme", "budget").append(stratalog.Event("commit", [[], [], [], None]), expected=7),
        stratalog.VersionConflict,
        [7, 1],
    ),
}


@pytest.mark.parametrize(("url", "advice"), [("", "`.`"), (":memory:", "`memory:`"), ("~", "`~`"), ("~/data", "`~`")])
def test_a_url_that_would_make_a_folder_by_mistake_is_refused_with_advice(
    url: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(stratalog.Invalid, match=advice):
        stratalog.open(url)
    assert list(tmp_path.iterdir()) == []


def test_the_error_for_a_file_that_is_no_database_names_the_file(tmp_path: Path) -> None:
    for path in (tmp_path / "index.sqlite", tmp_path / "ada.sqlite"):
        path.write_text("no database")
    with pytest.raises(stratalog.Corrupt) as caught:
        stratalog.open(tmp_path)
    assert caught.value.details["path"] == str(tmp_path / "index.sqlite")
    with pytest.raises(stratalog.Corrupt) as caught:
        ClientFile(tmp_path / "ada.sqlite")
    assert caught.value.details["path"] == str(tmp_path / "ada.sqlite")


@pytest.mark.parametrize("url", [None, 7, 1.5, True, b"data", []])
def test_a_store_whose_url_is_no_text_is_refused_and_makes_no_folder(
    url: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(stratalog.Invalid, match=type(url).__name__):
        stratalog.open(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_with_the_value_its_type_or_the_limit(store: stratalog.Store, case: str) -> None:
    call, kind, parts = REFUSED[case]
    with pytest.raises(kind) as caught:
        call(store)
    assert type(caught.value) is kind
    assert all(str(part) in str(caught.value) for part in parts), str(caught.value)


@pytest.mark.parametrize("case", REFUSED)
def test_refused_input_writes_nothing(store: stratalog.Store, case: str) -> None:
    with pytest.raises(StratalogError):
        REFUSED[case][0](store)
    document = store.document("acme", "budget")
    assert (document.version, document.log.floor(), document.at().to_dict()) == (1, 0, {"cells/C2": 100})
    assert [line.id for line in store.list("acme")] == ["budget"]
    assert list(store.records("acme").list()) == []


@pytest.mark.parametrize(
    ("key", "limit"), [("", ""), ("\0c/x", ""), ("/x", ""), ("x" * 600, str(KEY_BYTES_MAX)), ("y" * 300 + "/x", "200")]
)
def test_a_mutation_with_a_bad_key_is_rejected_with_a_reason(store: stratalog.Store, key: str, limit: str) -> None:
    outcome = store.document("acme", "budget").mutate("put", {"key": key, "value": 1})
    assert outcome.status == "rejected"
    assert limit in str(outcome.reason)
    assert store.document("acme", "budget").at().to_dict() == {"cells/C2": 100}


def blob_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "data" / "blobs").rglob("*") if path.is_file()]


def test_a_truncated_blob_raises_corrupt_and_other_values_stay_readable(store: stratalog.Store, tmp_path: Path) -> None:
    document = store.document("acme", "budget")
    document.mutate("put", {"key": "notes/a", "value": "long " * 20_000})
    for path in blob_files(tmp_path):
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(stratalog.Corrupt):
        document.get("notes/a")
    assert document.get("cells/C2") == 100


def test_a_missing_blob_raises_corrupt(store: stratalog.Store, tmp_path: Path) -> None:
    document = store.document("acme", "budget")
    document.mutate("put", {"key": "notes/a", "value": "long " * 20_000})
    for path in blob_files(tmp_path):
        path.unlink()
    with pytest.raises(stratalog.Corrupt, match="missing"):
        document.get("notes/a")


def test_a_truncated_database_is_corrupt(tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "data") as store:
        document = store.create("acme", "budget")
        for number in range(200):
            document.mutate("put", {"key": f"cells/{number}", "value": "x" * 200})
    path = tmp_path / "data" / "index.sqlite"
    os.truncate(path, path.stat().st_size // 2 - 100)
    with pytest.raises(stratalog.Corrupt), stratalog.open(tmp_path / "data") as store:
        store.document("acme", "budget").at().to_dict()


def test_a_newer_database_format_is_unsupported(tmp_path: Path) -> None:
    import apsw

    stratalog.open(tmp_path / "data").close()
    connection = apsw.Connection(str(tmp_path / "data" / "index.sqlite"))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(Unsupported, match="99"):
        stratalog.open(tmp_path / "data")


def test_a_newer_event_schema_is_unsupported_and_never_skipped(store: stratalog.Store) -> None:
    store.log("acme", "budget").append(stratalog.Event("commit", {"new": "shape"}, schema=2), expected=1)
    with pytest.raises(Unsupported, match="schema=2"):
        store.document("acme", "budget").get("cells/C2")


def test_a_full_disk_raises_storage_full_and_writes_nothing(tmp_path: Path) -> None:
    from stratalog.backends.files import FileBlobs
    from stratalog.backends.sqlite import SqliteDatabase
    from stratalog.clock import SystemClock
    from stratalog.documents import Document
    from stratalog.log import Environment, create_log

    clock = SystemClock()
    database = SqliteDatabase(tmp_path / "index.sqlite", clock, file_bytes_max=200_000)
    environment = Environment(
        database.index, FileBlobs(tmp_path / "blobs", clock), clock, stratalog.LogSettings(append_seconds_max=0)
    )
    document = Document(create_log(environment, "acme", "budget", "document"))
    written = 0
    full = False
    while not full and written < 10_000:
        try:
            document.mutate("put", {"key": f"cells/{written}", "value": f"{written} " * 100})
            written += 1
        except StorageFull:
            full = True
    assert full
    assert document.version == written
    assert document.get(f"cells/{written}") is None
    database.close()
