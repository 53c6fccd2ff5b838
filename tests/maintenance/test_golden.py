"""The export format is fixed. The library imports the golden export, and the same document gives the same lines."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.documents.commits import Merged
from stratalog.log.directory import LOGS, list_directory
from stratalog.maintenance.document_export import export_document, export_state, import_state
from stratalog.maintenance.document_import import import_document
from stratalog.protocol import Mutation
from stratalog.testing.clock import ManualClock

FOLDER = Path(__file__).parents[2] / "formats/golden"
EXPORT = (FOLDER / "export-v1.jsonl").read_bytes()
STATE = (FOLDER / "export-v1-state.jsonl").read_bytes()
NAME = "plan, branched"
ITEM = {"id": "A1", "value": 1.5, "bytes": b"\x00\xff", "$": {"$bytes": 3}}
RANDOM = {"origin", "write_id", "salt", "hash", "sha256"}
NOTE = "A line separator\u2028ends no line. " * 60


def written() -> stratalog.Document:
    """Return a fork whose export has every kind of line, a rejection, a merge, and large and odd values."""
    clock = ManualClock()
    document = stratalog.open("memory:", clock=clock).create("acme", "plan")
    steps: list[tuple[list[Mutation], dict[str, str]]] = [
        ([put("name", "Plan é 🐈"), put("cells/A1", ITEM), mutation("bob", "nobody's", None)], {"author": "grace"}),
        ([put("cells/B2", {"note": NOTE}, "tab-1"), put("count", 1, "tab-1")], {"owner": "eve"}),
        ([mutation("tab-2", "inc", {"key": "count", "by": 2})], {"group": "tabs", "owner": "eve"}),
        ([mutation("ada", "del", {"key": "cells/A1"})], {}),
    ]
    for mutations, options in steps:
        clock.sleep(1.5)
        document.apply(mutations, **options)
    document.collect_clients(["tab-2"], ["tabs"])
    document.mutate("put", {"key": "name", "value": "not in the branch"})
    clock.sleep(1.5)
    fork = document.fork(NAME, at=5)
    fork.apply([put("cells/A1", None)], author="grace")
    clock.sleep(1.5)
    merged = Merged("replay/abcdefghijklmnop/5", 9, b"qrstuvwxyzabcdef")
    replayed = Mutation(client=merged.client, name="del", args={"key": "cells/B2"}, origin=("ada", 7))
    fork.apply_merge([replayed], lambda state, run: merged)
    return fork


def put(key: str, value: Any, client: str = "ada") -> Mutation:
    return mutation(client, "put", {"key": key, "value": value})


def mutation(client: str, name: str, args: Any) -> Mutation:
    return Mutation(client=client, name=name, args=args)


def exported(document: stratalog.Document) -> bytes:
    file = io.BytesIO()
    export_document(document, file)
    return file.getvalue()


def comparable(export: bytes) -> list[dict[str, Any]]:
    """Return the lines without random fields, and without the hashes that depend on random fields."""
    lines = [json.loads(line) for line in export.split(b"\n")[:-1]]
    return [{name: value for name, value in line.items() if name not in RANDOM} for line in lines]


@pytest.fixture
def imported() -> Iterator[stratalog.Document]:
    with stratalog.open("memory:", clock=ManualClock(wall_ms=1_800_000_000_000, seed=1)) as store:
        yield import_document(store, "acme", NAME, io.BytesIO(EXPORT))


def test_the_golden_export_is_imported_and_exported_byte_for_byte(imported: stratalog.Document) -> None:
    assert exported(imported) == EXPORT


def test_the_same_mutations_still_make_the_same_lines() -> None:
    assert comparable(exported(written())) == comparable(EXPORT)


def test_the_golden_export_still_has_its_content_at_every_version(imported: stratalog.Document) -> None:
    first = {"name": "Plan é 🐈", "cells/A1": ITEM}
    second = {**first, "cells/B2": {"note": NOTE}, "count": 1}
    third = {**second, "count": 3}
    fourth = {"name": "Plan é 🐈", "cells/B2": {"note": NOTE}, "count": 3}
    sixth = {**fourth, "cells/A1": None}
    seventh = {"name": "Plan é 🐈", "count": 3, "cells/A1": None}
    states = [imported.at(version).to_dict() for version in range(8)]
    assert states == [{}, first, second, third, fourth, fourth, sixth, seventh]


def test_the_golden_export_still_has_its_mutations(imported: stratalog.Document) -> None:
    entries = list(imported.versions())
    assert [(mutation.client, mutation.id, mutation.reason) for mutation in entries[0].mutations] == [
        ("ada", 1, None),
        ("ada", 2, None),
        ("bob", 1, "no such mutator: nobody's"),
    ]
    assert [entry.author for entry in entries] == ["grace", "", "", "", "", "grace", ""]
    assert [entry.created_ms - 1_700_000_000_000 for entry in entries] == [1500, 3000, 4500, 6000, 6000, 7500, 9000]
    assert entries[-1].mutations[0].origin == ("ada", 7)


def test_the_imported_golden_export_still_continues_its_mutation_ids(imported: stratalog.Document) -> None:
    outcomes = imported.apply([put("cells/A1", None), put("count", 9)])
    assert [outcome.id for outcome in outcomes] == [2, 3]
    assert [line.id for line in list_directory(imported.log.environment.index, "acme", LOGS)] == [NAME]


def test_the_state_of_the_golden_export_still_equals_the_golden_state(imported: stratalog.Document) -> None:
    file = io.BytesIO()
    export_state(imported, file, at=3)
    assert file.getvalue() == STATE


def test_the_golden_state_is_still_imported(imported: stratalog.Document) -> None:
    with stratalog.open("memory:", clock=ManualClock()) as store:
        target = store.create("acme", "target")
        assert import_state(target, io.BytesIO(STATE)) == 4
        assert target.at().content_digest() == imported.at(3).content_digest()


def test_an_import_keeps_the_history_s_hash() -> None:
    document = written()
    with stratalog.open("memory:", clock=ManualClock(seed=2)) as store:
        again = import_document(store, "acme", "again", io.BytesIO(exported(document)))
        assert again.log.record.origin == document.log.record.origin
        assert again.log.head().hash == document.log.head().hash
        assert stratalog.verify(again).version == 7


def test_an_import_with_different_bodies_is_a_new_history_that_names_the_old_origin() -> None:
    document = written()
    lines = exported(document).splitlines(keepends=True)
    lines[3] = re.sub(rb'"hash":"[0-9a-f]*"', b'"hash":"%s"' % (b"0" * 64), lines[3])  # the hash of other bytes
    last = json.loads(lines.pop())
    last["sha256"] = hashlib.sha256(b"".join(lines)).hexdigest()
    export = b"".join(lines) + json.dumps(last).encode() + b"\n"
    with stratalog.open("memory:", clock=ManualClock(seed=2)) as store:
        again = import_document(store, "acme", "again", io.BytesIO(export))
        assert again.log.record.origin.endswith(f"/{document.log.record.origin}")
        assert again.log.head().hash != document.log.head().hash
        assert again.at().to_dict() == document.at().to_dict()
        assert stratalog.verify(again).version == 7
        assert [listing.id for listing in store.list("acme")] == ["again"]
