"""The format is fixed: stored items and blobs stay readable, and equal operations write equal keys and event bytes."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.codec import sha256
from stratalog.log import Environment, Event, Log, LogSettings, create_log, delete_log, fork_log, open_log
from stratalog.log.directory import LOGS, NameHolder, list_directory, organisations_of
from stratalog.log.entries import encode_events
from stratalog.log.names import read_name
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.segments import list_segments
from stratalog.log.snapshots import newest_snapshot, put_snapshot
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock

FILE = Path(__file__).parents[2] / "formats/golden/log-v1.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text())
ORGANISATION = "acme"
LARGE = "".join(sha256(bytes([number])).hex() for number in range(256)) * 2


def written() -> Environment:
    """A store with three kinds of bodies, a seal, an archive, a fork, a floor, a snapshot and an end marker."""
    clock = ManualClock()
    environment = Environment(MemoryIndex(), MemoryBlobs(clock), clock, LogSettings(segment_entries_target=2))
    log = create_log(environment, ORGANISATION, "plan")
    _append(log, Event("set", {"cell": "A1", "value": 1.5}), author="ann")
    _append(log, Event("note", "x" * 2000), Event("set", None, schema=2))
    _append(log, Event("note", LARGE))
    for number in range(4, 8):
        _append(log, Event("set", number))
    fork = fork_log(log, "branch é", 5)
    _append(fork, Event("set", "own"))
    raise_floor(log, 3)
    put_snapshot(environment, log.record, 4, log.hash_at(4), b"state", None)
    archive_segments(log, 4)
    clock.sleep(601)
    free_segments(log)
    delete_log(create_log(environment, ORGANISATION, "gone"))
    return environment


def _append(log: Log, *events: Event, author: str = "") -> None:
    log.append(events, author=author)
    log.environment.clock.sleep(1)


def restored() -> Environment:
    """An environment with the items and blobs of the golden file."""
    clock = ManualClock(wall_ms=GOLDEN["wall_ms"])
    environment = Environment(MemoryIndex(), MemoryBlobs(clock), clock)
    for partition, sort, attributes in GOLDEN["items"]:
        environment.index.commit(
            [Put(Item(partition, sort, {name: _loaded(value) for name, value in attributes.items()}))]
        )
    for key, body in GOLDEN["blobs"].items():
        environment.blobs.put(key, base64.b64decode(body))
    return environment


def golden_of(environment: Environment) -> dict[str, Any]:
    """The contents of an environment, in the form of the golden file."""
    assert isinstance(environment.index, MemoryIndex)
    items = [
        [partition, sort, {name: _dumped(value) for name, value in sorted(item.attributes.items())}]
        for partition, rows in sorted(environment.index._partitions.items())
        for sort, item in sorted(rows.items.items())
    ]
    blobs = {
        stat.key: base64.b64encode(environment.blobs.get(stat.key)).decode() for stat in environment.blobs.list("")
    }
    return {"wall_ms": environment.clock.wall_ms(), "items": items, "blobs": blobs}


def _dumped(value: Any) -> Any:
    return {"bytes": value.hex()} if isinstance(value, bytes) else value


def _loaded(value: Any) -> Any:
    return bytes.fromhex(value["bytes"]) if isinstance(value, dict) else value


def shapes(golden: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    """The keys and attribute names. The same text replaces every incarnation in the keys."""
    return sorted(
        (_nameless(partition), _nameless(sort), sorted(attributes)) for partition, sort, attributes in golden["items"]
    )


def _nameless(text: str) -> str:
    return re.sub("@[a-z2-7]{12}", "@", text)


def test_the_same_operations_still_write_the_same_keys_and_names_of_attributes() -> None:
    assert shapes(golden_of(written())) == shapes(GOLDEN)


def test_the_same_events_still_have_the_same_bytes() -> None:
    bodies = [
        attributes["b"] for _, sort, attributes in GOLDEN["items"] if sort == "0000000000000005" and "b" in attributes
    ]
    assert bodies == [_dumped(encode_events([Event("set", 5)]))]


def test_the_golden_log_still_reads() -> None:
    log = open_log(restored(), ORGANISATION, "plan")
    entries = list(log.read(2))
    assert [entry.version for entry in entries] == [3, 4, 5, 6, 7]
    assert [entry.events for entry in entries[1:]] == [(Event("set", number),) for number in range(4, 8)]
    assert entries[0].events == (Event("note", LARGE),)


def test_the_golden_fork_still_reads() -> None:
    fork = open_log(restored(), ORGANISATION, "branch é")
    assert [entry.events[0].data for entry in fork.read(3)] == [4, 5, "own"]


def test_the_golden_log_can_still_be_appended_to() -> None:
    environment = restored()
    assert open_log(environment, ORGANISATION, "plan").append(Event("set")).version == 8


def test_the_golden_snapshot_floor_and_base_are_still_read() -> None:
    environment = restored()
    log = open_log(environment, ORGANISATION, "plan")
    snapshot = newest_snapshot(environment.index, log.record.prefix, 7)
    assert snapshot is not None
    assert (snapshot.version, snapshot.body, log.floor()) == (4, b"state", 3)
    assert [segment.base for segment in list_segments(environment.index, log.record.prefix)] == [3, 0, 0]


def test_the_golden_directory_still_lists() -> None:
    environment = restored()
    assert [line.id for line in list_directory(environment.index, ORGANISATION, LOGS)] == ["branch é", "plan"]
    assert list(organisations_of(environment.index, "plan")) == [NameHolder(ORGANISATION, "log")]
    assert list(organisations_of(environment.index, "gone")) == []


def test_the_golden_deleted_log_is_still_deleted() -> None:
    record = read_name(restored().index, ORGANISATION, "gone")
    assert record is not None
    assert record.deleted_ms > 0
