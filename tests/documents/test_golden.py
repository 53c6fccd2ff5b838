"""The format is fixed: stored documents stay readable, and the same mutations produce the same entries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.documents import Document, verify
from stratalog.documents.commits import Merged
from stratalog.documents.snapshots import roots_of
from stratalog.log import Log, open_log
from stratalog.log.snapshots import list_snapshots
from stratalog.ports.index import Attribute, Item, Put
from stratalog.protocol import Mutation
from tests.documents.helpers import World, inc, large, put, statuses

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "formats/golden/documents-v1.json").read_text())

MERGED = Merged("replay/abcdefghijklmnop/5", 9, b"qrstuvwxyzabcdef")


def grown(world: World) -> Document:
    """A document whose history has puts, rejections, deletions, collected clients, a raised floor and a merge."""
    document = world.create("p_4567")
    poison = Mutation(client="bob", name="poison", args={"text": "z" * 1500})
    document.apply([put("name", "My project"), put("Collection1/id1", large("id1", 400)), poison], author="ada")
    document.apply([inc("count", client="tab"), put("Collection1/id2", 2, client="tab")], group="g", owner="eve")
    document.mutate("del", {"key": "Collection1/id2"})
    document.mutate("put", {"key": "Collection1/id2", "value": {"id": "id2", "parts": [1.5, None, True, "é"]}})
    document.mutate("del", {"key": "count"})
    document.collect_clients(["tab"], ["g"])
    document.snapshot(5)
    document.forget_below(2)
    replayed = Mutation(client=MERGED.client, name="inc", args={"key": "count"}, origin=("tab", 7))
    document.apply_merge([replayed], lambda state, run: MERGED)
    document.snapshot()
    return document


def stored() -> Document:
    """The golden document, restored from its stored bytes."""
    world = World()
    for partition, sort, attributes in GOLDEN["items"]:
        world.backend.commit([Put(Item(partition, sort, {name: plain(value) for name, value in attributes.items()}))])
    for key, body in GOLDEN["blobs"].items():
        world.blobs.put(key, bytes.fromhex(body))
    return Document(open_log(world.environment, "acme", "p_4567"))


def plain(value: Any) -> Attribute:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value  # type: ignore[no-any-return]


def unfloored(document: Document) -> Document:
    """Return a handle whose record has no floor. So the handle reads the entries that still exist below the floor."""
    record = msgspec.structs.replace(document.log.record, floor=0)
    return Document(Log(document.log.environment, record))


def entries(document: Document) -> list[str]:
    read = unfloored(document).log.read()
    return [encode([[event.type, event.data, event.schema] for event in entry.events]).hex() for entry in read]


def snapshots(document: Document) -> dict[str, str]:
    return {
        str(snapshot.version): encode(roots_of(snapshot)).hex()
        for snapshot in list_snapshots(document.log.environment.index, document.log.record.prefix)
    }


def test_the_golden_document_still_reads() -> None:
    document = stored()
    states = GOLDEN["states"]
    assert {version: document.at(int(version)).to_dict() for version in states} == states
    assert [list(item) for item in document.state().client_ids()] == GOLDEN["clients"]
    assert [item.version for item in document.history("Collection1/id2")] == [4, 3]
    assert document.at().collection_version("Collection1") == 4
    assert verify(document).digest == GOLDEN["digest"]


def test_the_golden_document_still_knows_its_mutations() -> None:
    first, *_, last = unfloored(stored()).versions(0)
    assert [(mutation.client, mutation.id, mutation.args, mutation.reason) for mutation in first.mutations] == [
        ("ada", 1, {"key": "name", "value": "My project"}, None),
        ("ada", 2, {"key": "Collection1/id1", "value": large("id1", 400)}, None),
        ("bob", 1, {"text": "z" * 1500}, "no such mutator: poison"),
    ]
    assert last.mutations[0].origin == ("tab", 7)


def test_the_golden_document_still_has_the_position_of_its_merge() -> None:
    merged = stored().state().client(MERGED.client)
    assert merged is not None
    assert (merged.id, merged.merged) == (1, (MERGED.version, MERGED.hash))


def test_the_golden_document_still_accepts_mutations() -> None:
    document = stored()
    outcomes = document.apply([inc("count", id=2), inc("count", id=3), inc("count", id=5)], owner="")
    assert statuses(outcomes) == ["mismatch", "applied", "gap"]
    assert statuses(document.apply([inc("count", client="tab", id=3)], group="g")) == ["collected"]
    verify(document)


def test_the_same_mutations_still_make_the_same_entries_and_roots() -> None:
    document = grown(World())
    assert entries(document) == GOLDEN["entries"]
    assert snapshots(document) == GOLDEN["snapshots"]
