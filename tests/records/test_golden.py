"""The format is fixed. Stored records stay readable, and the same puts write the same items and blobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stratalog.backends.files import FileBlobs
from stratalog.backends.memory import MemoryIndex
from stratalog.codec import decompress, sha256
from stratalog.errors import KeyReused, NotFound, VersionForgotten
from stratalog.limits import BLOB_BYTES_MAX, BODY_INLINE_BYTES_MAX, BODY_PART_BYTES
from stratalog.log.directory import list_organisations
from stratalog.log.environment import Environment
from stratalog.ports.index import Item, Put
from stratalog.records import Records
from stratalog.records.floor import Floor, Mark, read_floor, store_floor
from stratalog.records.versions import Name
from stratalog.testing.clock import ManualClock

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "formats/golden/records-v1.json").read_text())
NAME = "b 1/é"
REPEATED = b"easy to compress " * 1000
LARGE = b"".join(sha256(number.to_bytes(2, "big")) for number in range(BODY_INLINE_BYTES_MAX // 32 + 1))
FLOOR = Floor(version=9, freeing=7, freed=4, marks=(Mark(8, 1_700_000_000_000), Mark(9, 1_700_000_100_000)))
PARTS = bytes(BODY_PART_BYTES) + b"the second part"


def empty(folder: Path, wall_ms: int = 1_700_000_000_000) -> Records:
    clock = ManualClock(wall_ms=wall_ms)
    return Records(
        Environment(MemoryIndex(), FileBlobs(folder, clock, sync=lambda descriptor: None), clock),
        "acme",
        failures_max=2,
    )


def written(folder: Path) -> Records:
    """Records with every kind of body (inline, compressed, one blob, parts), a deletion, updates, floors, failures."""
    records = empty(folder)
    records.put(NAME, b"forgotten and gone", write_id="w1")
    records.put(NAME, b"forgotten", write_id="w2", source_time_ms=1_600_000_000_000, metadata={"title": "é", "n": 1.5})
    records.prune(NAME, retain=1)
    records.environment.clock.sleep(601)
    records.free(NAME)
    records.put(NAME, REPEATED, write_id="w3", metadata={"title": "é", "n": 1.5}, principal="u-ada")
    records.prune(NAME, retain=1)
    records.put(NAME, LARGE, write_id="w4", source_time_ms=1_600_000_000_000)
    records.put(NAME, amid_upload(records), write_id="w5")
    records.delete(NAME, write_id="w6")
    records.undelete(NAME, write_id="w7")
    records.put_if_newer("b5", b"first", 1_600_000_000_000, write_id="w8")
    records.update("b5", bytes.upper, write_id="w9")
    records.fail(NAME, "no such table", write_id="f1")
    records.fail("b2", "does not parse", body=b"input", pointer="inbox/7", write_id="f2")
    records.fail("b2", "does not parse yet", body=LARGE, pointer="inbox/8", write_id="f3")
    store_floor(records.environment, Name("acme", "b4"), FLOOR)
    return records


def amid_upload(records: Records) -> Iterator[bytes]:
    """Yield a body in parts. Meanwhile store the pin of another upload, as if the process of that upload had died."""
    yield PARTS[: BODY_PART_BYTES + 1]
    index = records.environment.index
    [upload] = index.query("acme/!uploads")
    index.commit([Put(Item("acme/!uploads", f"b3/{upload.sort.rpartition('/')[2]}", upload.attributes))])
    yield PARTS[BODY_PART_BYTES + 1 :]


def file_of(folder: Path, key: str) -> Path:
    """The file of a blob. No golden body is JSON, so all file names have the same ending."""
    return folder / f"{key}.bin.zst"


def stored(folder: Path) -> Records:
    """The golden records, restored from their stored bytes."""
    for key, frame in GOLDEN["blobs"].items():
        path = file_of(folder, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes.fromhex(frame))
    records = empty(folder, GOLDEN["wall_ms"])
    for partition, sort, attributes in GOLDEN["items"]:
        loaded = {name: bytes.fromhex(at["hex"]) if isinstance(at, dict) else at for name, at in attributes.items()}
        records.environment.index.commit([Put(Item(partition, sort, loaded))])
    return records


def golden_of(records: Records, folder: Path) -> dict[str, Any]:
    """The contents of the store, in the form of the golden file."""
    index = records.environment.index
    assert isinstance(index, MemoryIndex)
    items = [
        [item.partition, item.sort, {name: plain(at) for name, at in sorted(item.attributes.items())}]
        for partition in sorted(index._partitions)
        for item in index.query(partition)
    ]
    keys = [stat.key for stat in records.environment.blobs.list("")]
    blobs = {key: file_of(folder, key).read_bytes().hex() for key in keys}
    return {"wall_ms": records.environment.clock.wall_ms(), "items": items, "blobs": blobs}


def plain(value: Any) -> Any:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def comparable(golden: dict[str, Any]) -> tuple[list[Any], dict[str, bytes]]:
    """Return a golden store's content without random values. Decompress bodies, since versions of zstd may differ."""
    items = [
        [
            partition,
            sort.rpartition("/")[0] if is_pin(partition) else sort,
            opened(attributes, is_random(partition, sort)),
        ]
        for partition, sort, attributes in golden["items"]
    ]
    blobs = {key: unpacked(frame) for key, frame in golden["blobs"].items()}
    return items, blobs


def is_pin(partition: str) -> bool:
    return partition.endswith("/!uploads")


def is_random(partition: str, sort: str) -> bool:
    return is_pin(partition) or sort == "!floor"


def opened(attributes: dict[str, Any], is_random: bool) -> dict[str, Any]:
    chosen = {"w": "random"} if is_random else {}
    unzipped = {"z": unpacked(attributes["z"]["hex"])} if "z" in attributes else {}
    return {**attributes, **chosen, **unzipped}


def unpacked(frame: str) -> bytes:
    return decompress(bytes.fromhex(frame), BLOB_BYTES_MAX)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return stored(tmp_path)


def test_the_same_puts_still_make_the_same_items_and_blobs(tmp_path: Path) -> None:
    assert comparable(golden_of(written(tmp_path), tmp_path)) == comparable(GOLDEN)


def test_the_golden_bodies_still_read(records: Records) -> None:
    bodies = {3: REPEATED, 4: LARGE, 5: PARTS, 7: PARTS}
    assert {version: records.get(NAME, version).body for version in bodies} == bodies
    with pytest.raises(NotFound, match="deleted"):
        records.get(NAME, 6)
    with pytest.raises(VersionForgotten):
        records.get(NAME, 2)


def test_the_golden_versions_still_have_their_attributes(records: Records) -> None:
    third, fourth, *_, sixth, _ = records.versions(NAME)
    assert (third.write_id, third.metadata, third.source_time_ms) == ("w3", {"title": "é", "n": 1.5}, None)
    assert (third.principal, fourth.principal, len(third.hash)) == ("u-ada", "", 32)
    assert (fourth.size, fourth.digest) == (len(LARGE), sha256(LARGE))
    assert (fourth.metadata, fourth.source_time_ms) == ({}, 1_600_000_000_000)
    assert (sixth.deleted, sixth.size, sixth.digest) == (True, 0, b"")


def test_the_golden_write_ids_are_still_bound_to_their_requests(records: Records) -> None:
    assert records.undelete(NAME, write_id="w7").version == 7
    assert records.update("b5", bytes.lower, write_id="w9").version == 2
    for write in (records.undelete, records.delete):
        with pytest.raises(KeyReused):
            write("b5", write_id="w9")


def test_the_golden_directory_still_lists(records: Records) -> None:
    assert [(line.id, line.kind, line.created_ms) for line in records.list()] == [
        (NAME, "record", 1_700_000_000_000),
        ("b5", "record", 1_700_000_601_000),
    ]
    assert list(list_organisations(records.environment.index)) == ["acme"]


def test_the_golden_failures_and_dead_letters_are_still_read(records: Records) -> None:
    [letter] = records.dead_letters()
    assert (letter.id, letter.failures, letter.reason, letter.pointer) == ("b2", 2, "does not parse yet", "inbox/8")
    assert b"".join(records.open_dead_letter("b2")) == LARGE
    assert records.fail(NAME, "again").failures == 2


def test_the_golden_record_still_accepts_puts(records: Records) -> None:
    assert records.put(NAME, PARTS).version == 7
    assert records.put(NAME, b"next", expected=7).version == 8


def test_the_golden_floor_still_has_its_freeing_progress(records: Records) -> None:
    read = read_floor(records.environment.index, Name("acme", "b4"))
    assert (read.version, read.freeing, read.freed, read.marks) == (9, 7, 4, FLOOR.marks)


def test_only_versions_below_the_golden_floor_are_freed(records: Records) -> None:
    records.prune(NAME, retain=2)
    records.environment.clock.sleep(601)
    assert records.free(NAME) == 4
    assert [version.version for version in records.versions(NAME)] == [6, 7]
    assert records.get(NAME).body == PARTS


def test_the_golden_upload_still_stops_the_collector(records: Records, tmp_path: Path) -> None:
    key = f"acme/records/b3/bodies/{sha256(b'a part').hex()}"
    records.environment.blobs.put(key, b"a part")
    records.environment.clock.sleep(3600)
    records.free("b3")
    assert records.environment.blobs.stat(key) is not None
    records.environment.clock.sleep(24 * 3600)
    records.free("b3")
    assert records.environment.blobs.stat(key) is None
