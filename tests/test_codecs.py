"""Each stored body has a tag that names its codec. An unknown tag comes from a newer program, and is not damage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import stratalog
from stratalog.codec import PLAIN, ZSTD, Codec, codec_named, compress, unpack, unpack_item
from stratalog.errors import Unsupported
from stratalog.keys import entries_partition, number, record_key, record_partition, snapshots_partition
from stratalog.log.log import Event
from stratalog.ports.index import Item, Put
from stratalog.protocol import Draft, Mutation
from stratalog.protocol.sync import Push
from stratalog.store import Store, open_store
from stratalog.sync.push import push
from stratalog.worker.dead_letters import list_letters
from stratalog.worker.messages import open_push, read_message, write_message
from tests.server.queue_path import QueuePath, named, put

GOLDEN = Path(__file__).parents[1] / "formats/golden"
WITH_ITEMS = ("log", "documents", "records")
LONG = os.urandom(300).hex() * 3


@pytest.mark.parametrize("codec", [PLAIN, ZSTD])
def test_a_codec_is_known_by_each_of_its_names(codec: Codec) -> None:
    assert all(codec_named(name, "key") is codec for name in codec if name)


def test_each_codec_reads_what_it_stored() -> None:
    assert unpack(PLAIN, b"body", 10) == unpack(ZSTD, compress(b"body"), 10) == b"body"


def test_an_item_names_its_codec_by_an_attribute() -> None:
    assert unpack_item({"c": 1, "b": b""}, 10, "key") == b""
    assert unpack_item({"c": 1, "z": compress(b"body")}, 10, "key") == b"body"
    assert unpack_item({"c": 1, "x": b"pointer", "é": 1}, 10, "key") is None


def replace_body(store: Store, partition: str, sort: str) -> str:
    """Store an item as a newer program would, with its body under the tag of an unknown codec. Return the key."""
    item = store.environment.index.get(partition, sort)
    assert item is not None
    attributes = {name: value for name, value in item.attributes.items() if name not in (PLAIN.tag, ZSTD.tag)}
    store.environment.index.commit([Put(Item(partition, sort, {**attributes, "B": b"newer"}))])
    return f"{partition}/{sort}"


def an_entry(store: Store) -> tuple[str, Callable[[], Any]]:
    log = store.create_log("acme", "events")
    log.append([Event("note", LONG)])
    return replace_body(store, entries_partition(log.record.prefix, 1), number(1)), lambda: log.entry(1)


def a_snapshot(store: Store) -> tuple[str, Callable[[], Any]]:
    document = store.create("acme", "plan")
    document.mutate("put", {"key": "k", "value": 1})
    document.snapshot()
    key = replace_body(store, snapshots_partition(document.log.record.prefix), number(1))
    return key, lambda: document.log.snapshot_at(1)


def a_record(store: Store) -> tuple[str, Callable[[], Any]]:
    store.records("acme").put("r", LONG.encode())
    key = replace_body(store, record_partition("acme", record_key("r")), number(1))
    return key, lambda: store.records("acme").get("r")


@pytest.mark.parametrize("stored", [an_entry, a_snapshot, a_record])
def test_an_item_with_an_unknown_tag_is_unsupported_and_not_damaged(stored: Any) -> None:
    key, read = stored(open_store("memory:"))
    with pytest.raises(Unsupported) as caught:
        read()
    assert caught.value.details == {"codec": "B", "key": key}


def test_a_message_with_an_unknown_tag_is_unsupported() -> None:
    store = open_store("memory:")
    record = store.create("acme", "plan").log.record
    request = Push("g", [Mutation(client="c", id=1, name="put", args={"key": "k", "value": 1})])
    envelope = read_message(write_message(store.environment, record, request, "u", "Ada"))
    newer = msgspec.structs.replace(envelope, codec="B")
    with pytest.raises(Unsupported) as caught:
        open_push(store.environment.blobs, newer)
    assert caught.value.details == {"codec": "B", "key": newer.claim_check_owner}


def test_a_mutation_that_reads_a_value_with_an_unknown_tag_is_not_rejected(tmp_path: Path) -> None:
    """A mutator reads a value that a newer program stored. The store neither commits nor rejects the mutation."""
    with stratalog.open(tmp_path / "store") as store:
        document = store.create("acme", "plan")
        document.mutate("put", {"key": "notes/n", "value": "x" * 5000})
    newer_rows(tmp_path / "store")
    with stratalog.open(tmp_path / "store") as store:
        document = store.document("acme", "plan")
        for _ in range(2):
            with pytest.raises(Unsupported):
                document.get("notes/n")
            with pytest.raises(Unsupported):
                document.mutate("inc", {"key": "notes/n"})
        assert document.version == 1


def newer_rows(folder: Path) -> None:
    connection = apsw.Connection(str(folder / "index.sqlite"))
    connection.execute("UPDATE blob_bodies SET codec = 'B'")
    connection.close()


@pytest.mark.parametrize("name", WITH_ITEMS)
def test_no_attribute_of_an_item_is_an_upper_case_letter(name: str) -> None:
    """Upper-case letters are reserved for the tags of later codecs."""
    items = json.loads((GOLDEN / f"{name}-v1.json").read_text())["items"]
    names = {attribute for _, _, attributes in items for attribute in attributes}
    assert PLAIN.tag in names
    assert not {name for name in names if len(name) == 1 and name.isupper()}


def test_a_push_that_reads_a_value_of_a_newer_program_rejects_no_mutation(tmp_path: Path) -> None:
    """`push` rejects a mutation that is too large for an entry, but not a mutation that reads an unknown codec."""
    with stratalog.open(tmp_path / "store") as store:
        store.create("acme", "plan").mutate("put", {"key": "notes/n", "value": "x" * 5000})
    newer_rows(tmp_path / "store")
    with stratalog.open(tmp_path / "store") as store:
        document = store.document("acme", "plan")
        request = Push("g", [Mutation(client="c", id=1, name="inc", args={"key": "notes/n"})])
        with pytest.raises(Unsupported):
            push(document, request, "u", "Ada")
        assert document.version == 1


def test_a_worker_that_is_too_old_makes_a_dead_letter_and_rejects_no_mutation() -> None:
    def read_newer(draft: Draft, args: Any) -> None:
        raise Unsupported("newer", codec="B", key="k")

    path = QueuePath(read=read_newer)
    path.push(put("ada", 1, "a"), named("ada", 2, "read"))
    path.work_through(2000)
    (letter,) = list_letters(path.store)
    assert (letter.client, letter.receives) == ("", 10)
    assert path.document.last_mutation("ada") == 1
