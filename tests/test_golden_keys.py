"""The format of keys is fixed: the same names give the same keys, and each key in a golden file has a known kind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from stratalog import keys
from stratalog.backends.memory import MemoryBlobs
from stratalog.limits import ID_ESCAPED_BYTES_MAX, VERSION_MAX
from stratalog.log.directory import LOGS, RECORDS, directory_put, name_line_put, organisation_put
from stratalog.log.pins import Pin
from stratalog.ports.index import Item
from stratalog.records.content import body_prefix
from stratalog.records.uploads import pin_put
from stratalog.records.versions import Name
from stratalog.testing.clock import ManualClock
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import EMPTY, chunk_of, decode_node

FOLDER = Path(__file__).parents[1] / "formats/golden"
GOLDEN: dict[str, Any] = json.loads((FOLDER / "keys-v1.json").read_text())
STORES = [json.loads((FOLDER / f"{name}-v1.json").read_text()) for name in ("log", "documents", "records")]

ORGANISATION = "acme & co"
LOG = "plan/é"
INCARNATION = "abcdefghij27"
LONG = "漢" * 333

ID = "(?:[A-Za-z0-9_.\\-\u00a0-\ufffd\U00010000-\U0010ffff]|%[0-9A-F]{2})+"
RECORD = rf"{ID}(?:~[0-9a-f]{{64}})?"
LONE = "[^\0]+"
NUMBER = r"\d{16}"
PREFIX = rf"{ID}/{ID}@[a-z2-7]{{12}}"
INDEX_KEYS = {
    "name record": rf"{ID}/{ID} name",
    "segment record": rf"{PREFIX}/segments {NUMBER}",
    "entry, seal, end marker": rf"{PREFIX}/[1-9]\d* {NUMBER}",
    "snapshot": rf"{PREFIX}/snapshots {NUMBER}",
    "pin": rf"{PREFIX}/forks {NUMBER} {PREFIX}",
    "member": rf"{PREFIX}/family {PREFIX}",
    "line of the directory of logs": rf"{ID}/!logs/00 {LONE}",
    "line under a name": rf"!names/{ID} {LONE}",
    "deleted incarnation": rf"{ID}/!deleted {PREFIX}",
    "organisation": rf"!organisations {LONE}",
    "version of a record": rf"{ID}/!record/{RECORD} {NUMBER}",
    "floor of a record": rf"{ID}/!record/{RECORD} !floor",
    "upload going on": rf"{ID}/!uploads {RECORD}/[a-z2-7]{{16}}",
    "failures of a record": rf"{ID}/!failures {RECORD}",
    "line of the directory of records": rf"{ID}/!records/(0\d|1[0-5]) {LONE}",
    "dead letter": rf"{ID}/!dead-letters {LONE}",
}
HASH = "[0-9a-f]{64}"
BLOB_KEYS = {
    "events": rf"{PREFIX}/bodies/{HASH}",
    "archive": rf"{PREFIX}/archive/{HASH}",
    "chunk": rf"{PREFIX}/chunks/{HASH}",
    "large value": rf"{PREFIX}/(fields|arguments|items/{ID})/{HASH}",
    "body of a record": rf"{ID}/records/{RECORD}/bodies/{HASH}",
}


def golden_keys() -> dict[str, list[str]]:
    """Return a key of each kind in the golden file, for the fixed names of this module.

    For the bodies of a record, return the prefix of their keys. The other golden files have keys of the missing kinds.
    """
    prefix = keys.log_prefix(ORGANISATION, LOG, INCARNATION)
    record, letter = keys.record_partition(ORGANISATION, keys.record_key(LOG)), keys.record_key(LONG)
    return {
        "name record": [keys.name_partition(ORGANISATION, LOG), keys.NAME_SORT],
        "segment record": [keys.segments_partition(prefix), keys.number(10_001)],
        "entry, seal, end marker": [keys.entries_partition(prefix, 10_001), keys.number(10_002)],
        "snapshot": [keys.snapshots_partition(prefix), keys.number(500)],
        "pin": [keys.forks_partition(prefix), Pin(7, prefix).sort],
        "member": [keys.family_partition(prefix), prefix],
        "checkpoint": [keys.checkpoints_partition(prefix), "totals"],
        "waiting mark of a log": [keys.waiting_partition(prefix), keys.MARK_SORT],
        "line of the directory of logs": of(directory_put(ORGANISATION, LOGS, LOG, "document", 1).item),
        "line under a name": of(name_line_put(ORGANISATION, LOG, "document").item),
        "deleted incarnation": [keys.deleted_partition(ORGANISATION), prefix],
        "organisation": of(organisation_put(ORGANISATION).item),
        "version of a record": [record, keys.number(7)],
        "waiting mark of a record": [keys.waiting_partition(record), keys.MARK_SORT],
        "upload going on": of(pin_put(Name(ORGANISATION, LOG), "abcdefghijklm237", 1).item),
        "failures of a record": [keys.failures_partition(ORGANISATION), keys.record_key(LOG)],
        "failures of a record with a long id": [keys.failures_partition(ORGANISATION), letter],
        "version of a record with a long id": [keys.record_partition(ORGANISATION, letter), keys.number(7)],
        "line of the directory of records": of(directory_put(ORGANISATION, RECORDS, LOG, "record", 1).item),
        "dead letter": [keys.dead_letters_partition(ORGANISATION), keys.id_sort(LOG)],
        "bodies of a record": [body_prefix(Name(ORGANISATION, LOG))],
        "chunk": chunk_keys(prefix),
    }


def chunk_keys(owner: str) -> list[str]:
    """Write the empty tree's chunk as a blob, and return its key. A document would store this chunk inline."""
    blobs = MemoryBlobs(ManualClock())
    Chunks(blobs, owner).write(chunk_of(decode_node(EMPTY.inline or b"")))
    return [stat.key for stat in blobs.list("")]


def of(item: Item) -> list[str]:
    return [item.partition, item.sort]


def kinds(patterns: dict[str, str], keys: Iterator[str]) -> dict[str, list[str]]:
    """Return for each key the kinds whose pattern the key matches."""
    return {key: [kind for kind, pattern in patterns.items() if re.fullmatch(pattern, key)] for key in keys}


def test_the_same_ids_are_still_escaped_alike() -> None:
    assert {id: keys.escape(id) for id in GOLDEN["escaped"]} == GOLDEN["escaped"]


def test_the_golden_escapes_are_still_unescaped_to_their_ids() -> None:
    assert {keys.unescape(escaped): escaped for escaped in GOLDEN["escaped"].values()} == GOLDEN["escaped"]


def test_the_same_records_still_have_the_same_keys() -> None:
    assert [[text, times, keys.record_key(text * times)] for text, times, _ in GOLDEN["record keys"]] == GOLDEN[
        "record keys"
    ]


def test_the_same_numbers_still_have_the_same_digits() -> None:
    assert {text: keys.number(value) for text, value in numbers()} == GOLDEN["numbers"]
    # `parse_number` refuses VERSION_MAX, which is only a bound of queries: each stored version has a successor.
    parsed = {text: keys.parse_number(digits) for text, digits in GOLDEN["numbers"].items() if int(text) < VERSION_MAX}
    assert parsed == {text: value for text, value in numbers() if value < VERSION_MAX}


def numbers() -> list[tuple[str, int]]:
    return [(text, int(text)) for text in GOLDEN["numbers"]]


def test_the_same_names_still_lead_to_the_same_keys() -> None:
    assert golden_keys() == GOLDEN["keys"]


def test_records_still_have_the_same_shards() -> None:
    shards = {id: directory_put("o", RECORDS, id, "record", 1).item.partition for id in GOLDEN["shards"]}
    assert shards == GOLDEN["shards"]


def test_the_longest_prefix_is_as_long_as_the_page_of_the_format_says() -> None:
    longest = "é" * (ID_ESCAPED_BYTES_MAX // 2)
    assert len(keys.escape(longest).encode()) == ID_ESCAPED_BYTES_MAX
    length = len(keys.log_prefix(longest, longest, INCARNATION).encode())
    assert f"{ID_ESCAPED_BYTES_MAX} bytes each: {length} bytes." in (FOLDER.parent / "keys.md").read_text()


def test_each_golden_item_has_a_key_of_a_single_kind_and_every_kind_occurs() -> None:
    by_kind = kinds(INDEX_KEYS, (f"{partition} {sort}" for store in STORES for partition, sort, _ in store["items"]))
    assert {key: kind for key, kind in by_kind.items() if len(kind) != 1} == {}
    assert {kind for [kind] in by_kind.values()} == set(INDEX_KEYS)


def test_each_golden_blob_has_a_key_of_a_single_kind_and_every_kind_occurs() -> None:
    stored = (key for store in STORES for key in store["blobs"])
    by_kind = kinds(BLOB_KEYS, chain(stored, GOLDEN["keys"]["chunk"]))
    assert {key: kind for key, kind in by_kind.items() if len(kind) != 1} == {}
    assert {kind for [kind] in by_kind.values()} == set(BLOB_KEYS)
