"""Damage the stored objects of a store, directly in the storage. Check that an inspection names each damaged object.

``python -m tests.maintenance.damage_sweep`` sweeps a full store in memory and a full store in a folder. A full store
has objects of every kind. The sweep damages one object at a time. It deletes the object, replaces its bytes with the
bytes of another object, truncates its bytes, or flips a bit. An item in memory has attributes instead of bytes: the
sweep then changes or removes a single attribute. The sweep skips objects that the store no longer needs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Protocol

import apsw
import msgspec

import stratalog
from stratalog.keys import number, parse_number
from stratalog.log.names import read_name
from stratalog.log.segments import list_segments, segment_holding
from stratalog.maintenance.damage import StoredDamage, blob_kind, item_key, item_kind
from stratalog.maintenance.inspection import inspect_history, inspect_store, inspected_histories
from stratalog.maintenance.marks import Marking, Reached
from stratalog.maintenance.shapes import shape_fault
from stratalog.ports.index import Delete, Item, Put
from stratalog.records.floor import read_floor
from stratalog.records.retention import referenced
from stratalog.records.versions import Name, latest_item
from tests.maintenance.full_store import full_store
from tests.maintenance.unnoticed import DELETED, UNNOTICED
from tests.stored import StoredBlob, stored_blobs, stored_items

__all__ = ["Sweep", "inspect_all", "main", "sweep"]

POSITIONS = 6


class Sweep(msgspec.Struct):
    """The results of a sweep, counted by kind of object and kind of damage.

    ``unnoticed`` counts damages that no inspection can notice. The sweep does not plant these damages. ``missed`` has a
    line for each planted damage that no inspection named.
    """

    planted: Counter[str]
    unnoticed: Counter[str]
    missed: list[str]


class StoredObjects(Protocol):
    """Access to the stored objects of a store, without the checks of the store."""

    def objects(self) -> list[StoredObject]:
        """Return all stored objects."""
        ...


class StoredObject(msgspec.Struct, frozen=True):
    """One item or blob.

    ``replace(body)`` stores the bytes ``body`` in place of the object. ``replace(None)`` deletes the object.
    """

    kind: str
    key: str
    item: Item | None
    body: bytes
    replace: Callable[[bytes | None], None]


def inspect_all(store: stratalog.Store) -> tuple[StoredDamage, ...]:
    """Return all damage that inspections find in a store."""
    histories = [damage for name in inspected_histories(store) for damage in inspect_history(store, name).damages]
    return (*histories, *inspect_store(store))


class StoreObjects:
    """An open store, in memory or in PostgreSQL. An item's bytes are the MessagePack of its attributes."""

    def __init__(self, store: stratalog.Store) -> None:
        self._index, self._blobs = store.environment.index, store.environment.blobs

    def objects(self) -> list[StoredObject]:
        """Return all stored objects."""
        items = stored_items(self._index)
        listed = [_item_object(item, msgspec.msgpack.encode(item.attributes), self._put_item(item)) for item in items]
        blobs = stored_blobs(self._blobs)
        return listed + [_blob_object(key, blobs[key], StoredBlob(self._blobs, key).replace) for key in blobs]

    def _put_item(self, item: Item) -> Callable[[bytes | None], None]:
        def replace(body: bytes | None) -> None:
            if body is None:
                self._index.commit([Delete(item.partition, item.sort)])
            else:
                self._index.commit([Put(Item(item.partition, item.sort, msgspec.msgpack.decode(body)))])

        return replace


class FolderObjects:
    """A store in a folder: the rows of its database, and its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._database = apsw.Connection(str(folder / "index.sqlite"))

    def objects(self) -> list[StoredObject]:
        """Return all stored objects."""
        listed = []
        for partition, sort, body in self._rows("SELECT partition, sort, body FROM items"):
            item = Item(partition, sort, msgspec.msgpack.decode(body))
            listed.append(_item_object(item, body, self._put_item(item)))
        for key, id, body in self._rows("SELECT key, id, body FROM blobs JOIN blob_bodies USING (id)"):
            listed.append(_blob_object(key, body, self._put_row(key, id)))
        for path in (self._folder / "blobs").rglob("*.zst"):
            key = f"{path.parent.relative_to(self._folder / 'blobs')}/{path.name[:64]}"
            listed.append(_blob_object(key, path.read_bytes(), _put_file(path)))
        return listed

    def _rows(self, statement: str) -> list[Any]:
        return list(self._database.execute(statement))

    def _put_item(self, item: Item) -> Callable[[bytes | None], None]:
        key = item.partition, item.sort

        def replace(body: bytes | None) -> None:
            self._database.execute("DELETE FROM items WHERE partition = ? AND sort = ?", key)
            if body is not None:
                self._database.execute("INSERT INTO items VALUES (?, ?, ?)", (*key, body))

        return replace

    def _put_row(self, key: str, id: int) -> Callable[[bytes | None], None]:
        [row] = self._rows(f"SELECT key, id, bytes, modified_ms, stamp FROM blobs WHERE id = {id}")

        def replace(body: bytes | None) -> None:
            self._database.execute("DELETE FROM blobs WHERE key = ?", (key,))
            self._database.execute("DELETE FROM blob_bodies WHERE id = ?", (id,))
            if body is not None:
                self._database.execute("INSERT INTO blobs VALUES (?, ?, ?, ?, ?)", row)
                self._database.execute("INSERT INTO blob_bodies(id, body) VALUES (?, ?)", (id, body))

        return replace


def _put_file(path: Path) -> Callable[[bytes | None], None]:
    def replace(body: bytes | None) -> None:
        if body is None:
            path.unlink()
        else:
            path.write_bytes(body)

    return replace


def _item_object(item: Item, body: bytes, replace: Callable[[bytes | None], None]) -> StoredObject:
    return StoredObject(item_kind(item), item_key(item.partition, item.sort), item, body, replace)


def _blob_object(key: str, body: bytes, replace: Callable[[bytes | None], None]) -> StoredObject:
    return StoredObject(blob_kind(key), key, None, body, replace)


def sweep(store: stratalog.Store, stored: StoredObjects, draw: Random, per_kind: int | None = None) -> Sweep:
    """Damage the needed objects one at a time, with each kind of damage.

    ``per_kind`` limits the objects of each kind.
    """
    assert inspect_all(store) == ()
    objects = [each for each in stored.objects() if _is_needed(store, each)]
    draw.shuffle(objects)
    result, seen = Sweep(Counter(), Counter(), []), Counter[str]()
    for target in objects:
        seen[target.kind] += 1
        if per_kind is None or seen[target.kind] <= per_kind:
            others = [each for each in objects if each.kind == target.kind and each.body != target.body]
            for way, body in _damages(draw, target, others, by_attribute=isinstance(stored, StoreObjects)):
                _plant(store, target, way, body, result)
    assert inspect_all(store) == ()
    return result


def _plant(store: stratalog.Store, target: StoredObject, way: str, body: bytes | None, result: Sweep) -> None:
    if _cannot_be_noticed(store, target, body):
        result.unnoticed[f"{target.kind}: {way}"] += 1
        return
    target.replace(body)
    result.planted[f"{target.kind}: {way}"] += 1
    try:
        damages = inspect_all(store)
        if target.key not in {damage.key for damage in damages}:
            result.missed.append(f"{target.kind} {target.key}: {way}: {[damage.key for damage in damages]}")
    except Exception as exc:  # noqa: BLE001 - an inspection that raises does not name the damage
        result.missed.append(f"{target.kind} {target.key}: {way}: raised {exc!r}")
    finally:
        target.replace(target.body)


def _damages(
    draw: Random, target: StoredObject, others: list[StoredObject], *, by_attribute: bool
) -> Iterator[tuple[str, bytes | None]]:
    yield "delete", None
    if others:
        yield "swap", draw.choice(others).body
    if by_attribute and target.item is not None:
        for name, value in target.item.attributes.items():
            yield f"flip {name}", msgspec.msgpack.encode({**target.item.attributes, name: _altered(draw, value)})
            shorter = {key: value for key, value in target.item.attributes.items() if key != name}
            yield f"truncate {name}", msgspec.msgpack.encode(shorter)
        return
    if target.body:
        yield "truncate", target.body[: len(target.body) // 2]
        for position in sorted({draw.randrange(len(target.body)) for _ in range(POSITIONS)}):
            yield "flip", _flipped(draw, target.body, position)


def _altered(draw: Random, value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return f"{value[:-1]}{'x' if value[-1:] != 'x' else 'y'}"
    return _flipped(draw, value, draw.randrange(len(value))) if value else b"x"


def _flipped(draw: Random, body: bytes, position: int) -> bytes:
    return body[:position] + bytes([body[position] ^ 1 << draw.randrange(8)]) + body[position + 1 :]


def _cannot_be_noticed(store: stratalog.Store, target: StoredObject, body: bytes | None) -> bool:
    known = UNNOTICED.get(target.kind, {})
    if target.item is None:
        return False
    if body is None:
        return DELETED in known or _is_last(store, target.item) or _is_unreferred(store, target)
    try:
        damaged = msgspec.msgpack.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    attributes = target.item.attributes
    if not isinstance(damaged, dict) or shape_fault(Item(target.item.partition, target.item.sort, damaged)):
        return False
    changed = {name for name in attributes.keys() | damaged.keys() if damaged.get(name) != attributes.get(name)}
    if target.kind == "name record" and "d" in attributes:
        return "d" not in changed  # in the name record of a deleted log, an inspection checks only the deletion mark
    if target.kind == "record floor" and changed == {"g"}:
        return 1 <= damaged["g"] < attributes["g"]  # an interrupted maintenance leaves such a floor too
    return changed <= known.keys()


def _is_last(store: stratalog.Store, item: Item) -> bool:
    """Return True if no inspection can notice the loss of this record version or log entry.

    No other object refers to the newest version of a record. No other object refers to the newest entry of a log,
    unless a snapshot has the same version. An inspection also ignores the loss of an entry that an archive contains.
    """
    kind, index = item_kind(item), store.environment.index
    if kind == "record version":
        return latest_item(index, item.partition) == item
    if kind != "entry":
        return False
    prefix, _, first = item.partition.rpartition("/")
    segment = segment_holding(index, prefix, int(first))
    if segment is not None and segment.marked_ms:
        return True  # the log will free the segment, and the segment's archive contains the entry
    following = index.get(item.partition, number(parse_number(item.sort) + 1))
    is_named = index.get(f"{prefix}/snapshots", item.sort) is not None
    return following is None and not is_named and item.partition.endswith(f"/{_last_segment(store, prefix)}")


def _last_segment(store: stratalog.Store, prefix: str) -> int:
    return [segment.first for segment in list_segments(store.environment.index, prefix)][-1]


def _is_unreferred(store: stratalog.Store, target: StoredObject) -> bool:
    """Return True if no inspection can notice that this object is missing."""
    assert target.item is not None
    partition, sort = target.item.partition, target.item.sort
    organisation = partition.partition("/")[0]
    if target.kind == "snapshot":
        record = _record_of(store, partition)
        return record is None or record.floor != parse_number(sort) or record.kind != "document"
    if target.kind == "failures":
        return not target.item.attributes["d"]
    if target.kind == "directory line":
        blobs = store.environment.blobs
        owner = f"{organisation}/records/{sort}/" if "!records" in partition else f"{organisation}/{sort}@"
        has_family = "!logs" in partition and _is_fork(store, organisation, sort)
        return next(iter(blobs.list(owner)), None) is None and not has_family
    return False


def _is_fork(store: stratalog.Store, organisation: str, log: str) -> bool:
    record = read_name(store.environment.index, organisation, log)
    return record is not None and record.owner != record.prefix


def _record_of(store: stratalog.Store, partition: str) -> Any:
    organisation, _, rest = partition.partition("/")
    return read_name(store.environment.index, organisation, rest.partition("@")[0])


def _is_needed(store: stratalog.Store, target: StoredObject) -> bool:
    """Return whether the store still needs the object.

    The store does not need the objects of a segment that is marked for freeing. But if the segment has an archive, the
    store needs the record and the entries of the segment.
    """
    if target.item is None:
        return target.key in needed_blobs(store)
    item, index = target.item, store.environment.index
    if target.kind == "record version":
        id = item.partition.rpartition("/")[2]
        return parse_number(item.sort) >= read_floor(index, Name("acme", id)).version
    if target.kind in ("entry", "seal", "segment record") and not _lives(store, item.partition):
        return False
    if target.kind in ("entry", "seal"):
        prefix, _, first = item.partition.rpartition("/")
        segment = segment_holding(index, prefix, int(first))
        floor = _record_of(store, item.partition).floor
        if segment is None or (segment.marked_ms and segment.archive is None):
            return False
        return parse_number(item.sort) > floor and (target.kind == "entry" or not segment.marked_ms)
    if target.kind == "segment record":
        return not item.attributes["m"] or "a" in item.attributes
    return target.kind in UNNOTICED or target.kind not in ("maintenance position", "collection progress")


def _lives(store: stratalog.Store, partition: str) -> bool:
    """Return whether an item belongs to a log that is not deleted."""
    record = _record_of(store, partition)
    return record is not None and partition.startswith(f"{record.prefix}/") and not record.deleted_ms


def needed_blobs(store: stratalog.Store) -> set[str]:
    environment = store.environment
    needed: set[str] = set()
    for listing in store.list("acme"):
        owner = store.log("acme", listing.id).record.owner

        def mark(key: str, owner: str = owner) -> None:
            needed.add(f"{owner}/{key}")

        Marking(environment, owner, mark, Reached(), set(), lambda: None).run()
    for listing in store.records("acme").list():
        addresses = referenced(environment, Name("acme", listing.id), dry_run=True)
        for stat in environment.blobs.list(f"acme/records/{listing.id}/"):
            if addresses is None or stat.key.rpartition("/")[2] in addresses:
                needed.add(stat.key)
    return needed


def sweeps(seed: int, per_kind: int | None = None) -> Iterator[tuple[str, Sweep]]:
    """Sweep a store in memory and a store in a folder. Yield the name and the result of each sweep."""
    with full_store("memory:") as store:
        yield "memory", sweep(store, StoreObjects(store), Random(seed), per_kind)
    with tempfile.TemporaryDirectory() as folder, full_store(folder) as store:
        yield "folder", sweep(store, FolderObjects(Path(folder)), Random(seed), per_kind)


def main(arguments: list[str] | None = None) -> int:
    """Print the planted damages and the missed damages. Return 1 if an inspection missed a damage."""
    parser = argparse.ArgumentParser(prog="python -m tests.maintenance.damage_sweep")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-kind", type=int, default=None)
    chosen = parser.parse_args(arguments)
    missed = 0
    for where, result in sweeps(chosen.seed, chosen.per_kind):
        for what, count in sorted(result.planted.items()):
            print(f"{where}: {what}: {count}")
        for line in result.missed:
            print(f"{where}: MISSED {line}")
        detected = result.planted.total() - len(result.missed)
        unnoticed = result.unnoticed.total()
        print(f"{where}: {result.planted.total()} damages planted, {detected} named; {unnoticed} cannot be noticed")
        missed += len(result.missed)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
