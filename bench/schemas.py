"""Other published schemas for the same documents in the same services, to count their billed units.

Each schema is small, and correct with one writer. If the article about a schema leaves a choice, the schema uses the
cheapest option:

- Maps have the size of MessagePack, which is never larger than the size of DynamoDB's own maps. Hashes are 32 raw
  bytes.
- No schema pays for a secondary index or for a retry. A processor reads each item that the article names only once.
- If S3 already has the value of a mutation, the mutation's own item has only the hash of the value.
- Bodies are in S3 under the hash of their content. The meter counts their compressed size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from stratalog.codec import compress, decode, decompress, encode, sha256
from stratalog.costs.workload import Trial
from stratalog.documents import Document
from stratalog.log import LogSettings
from stratalog.ports.index import Absent, Attribute, Delete, Item, Put, Write
from stratalog.protocol.messages import Mutation

__all__ = ["SCHEMAS", "Change", "Ours", "Schema", "collection_of"]

PROJECT = "p_4567"
SCALARS: dict[str, Attribute] = {"name": "My project (edited)", "description": "What this project is about. " * 7}
TRANSACTION_ITEMS = 100
RECORD_BYTES_MAX = 400 * 1024
EXTERNAL_BYTES = 16 * 1024
PACKED_BYTES_MAX = 64 * 1024 * 1024
SNAPSHOT_EVERY = 500


class Change(msgspec.Struct, frozen=True):
    """One mutation: a client puts a value at a key."""

    client: str
    id: int
    key: str
    value: dict[str, Any]


class Schema(Protocol):
    """A schema for a project. `change` is one commit of any number of changes."""

    trial: Trial

    def create(self, items: Mapping[str, dict[str, Any]]) -> None:
        """Create a project with these items."""
        ...

    def change(self, changes: Sequence[Change]) -> None:
        """Apply a batch."""
        ...


class Ours:
    """Stratalog's document. With ``cold`` a new process applies each batch."""

    def __init__(self, *, cold: bool = False, settings: LogSettings | None = None) -> None:
        self.trial = Trial(settings)
        self._cold = cold
        self._document: Document | None = None

    def create(self, items: Mapping[str, dict[str, Any]]) -> None:
        self._document = self.trial.store.create("o_123", PROJECT)
        for key, value in {**SCALARS, **items}.items():
            self._document.apply([Mutation(client="c_first", name="put", args={"key": key, "value": value})])
        self._document.snapshot()

    def change(self, changes: Sequence[Change]) -> None:
        document = self.trial.reopened().document("o_123", PROJECT) if self._cold else self._document
        assert document is not None
        batch = [
            Mutation(client=change.client, name="put", args={"key": change.key, "value": change.value}, id=change.id)
            for change in changes
        ]
        outcomes = document.apply(batch)
        assert all(outcome.status == "applied" for outcome in outcomes), outcomes[0]


class Versions:
    """The sync backend's own schema: items for versions of the project, versions of each collection, and mutations.

    A version of a collection contains the entire map of the collection.
    """

    def __init__(self) -> None:
        self.trial = Trial()
        self._environment = self.trial.store.environment

    def create(self, items: Mapping[str, dict[str, Any]]) -> None:
        collections: dict[str, dict[str, list[Any]]] = {"Collection1": {}, "Collection2": {}}
        for key, value in items.items():
            collections[collection_of(key)][_id(key)] = [_put_body(self.trial, key, value), value["name"]]
        organisation = Item("Organization#o_123", f"Project#{PROJECT}", {})
        self._environment.index.commit(
            [Put(organisation), self._project(1, {"Collection1": 1, "Collection2": 1}, [])]
            + [self._collection(name, 1, entries) for name, entries in collections.items()]
        )

    def change(self, changes: Sequence[Change]) -> None:
        index = self._environment.index
        new = [change for change in changes if index.get(_mutation_partition(change), f"Project#{PROJECT}") is None]
        (project,) = index.query(f"Project#{PROJECT}", after="ProjectVersion#", before="Q", reverse=True, limit=1)
        numbers = {name: int(str(project.attributes[f"{name}Version"])[-6:]) for name in ("Collection1", "Collection2")}
        version = int(project.sort[-6:]) + 1
        maps: dict[str, dict[str, list[Any]]] = {}
        for change in new:
            name = collection_of(change.key)
            if name not in maps:
                maps[name] = self._read_map(name, numbers[name])
                numbers[name] += 1
            maps[name][_id(change.key)] = [_put_body(self.trial, change.key, change.value), change.value["name"]]
        applied = [[change.client, change.id] for change in new]
        writes: list[Write] = [self._project(version, numbers, applied)]
        writes += [self._collection(name, numbers[name], entries) for name, entries in maps.items()]
        writes += [
            self._mutation(change, version, maps[collection_of(change.key)][_id(change.key)][0]) for change in new
        ]
        index.commit(writes)

    def _read_map(self, name: str, number: int) -> dict[str, list[Any]]:
        (item,) = self._environment.index.query(
            f"Project#{PROJECT}", after=f"{name}#v_{number:06d}#", before=f"{name}#v_{number:06d}$"
        )
        entries: dict[str, list[Any]] = decode(bytes(item.attributes["items"]))  # type: ignore[arg-type]
        return entries

    def _project(self, version: int, numbers: Mapping[str, int], applied: list[list[Any]]) -> Put:
        pointers = {f"{name}Version": f"v_{number:06d}" for name, number in numbers.items()}
        attributes: dict[str, Attribute] = {**SCALARS, **pointers, "mutations": encode(applied)}
        return Put(Item(f"Project#{PROJECT}", f"ProjectVersion#pv_{version:06d}", attributes), Absent())

    def _collection(self, name: str, number: int, entries: Mapping[str, list[Any]]) -> Put:
        return Put(Item(f"Project#{PROJECT}", f"{name}#v_{number:06d}#0", {"items": encode(entries)}), Absent())

    def _mutation(self, change: Change, version: int, content: bytes) -> Put:
        attributes: dict[str, Attribute] = {"version": version, "name": "put", "args": encode([change.key, content])}
        return Put(Item(_mutation_partition(change), f"Project#{PROJECT}", attributes), Absent())


class Relational:
    """The sync backend's first simple approach: each version rewrites every row of the project, in transactions.

    Rows have names and hashes. Rows with bodies would cost a hundred times as much. A project of more than 99 items
    needs several transactions, so its commit is not atomic.
    """

    def __init__(self) -> None:
        self.trial = Trial()
        self._environment = self.trial.store.environment

    def create(self, items: Mapping[str, dict[str, Any]]) -> None:
        rows = {key: [_put_body(self.trial, key, value), value["name"]] for key, value in items.items()}
        self._write(1, rows, [])

    def change(self, changes: Sequence[Change]) -> None:
        index = self._environment.index
        (project,) = index.query(f"Project#{PROJECT}", reverse=True, limit=1)
        version = int(project.sort) + 1
        rows = {
            item.sort: [item.attributes["hash"], item.attributes["name"]]
            for item in index.query(f"Rows#{PROJECT}#{version - 1:06d}")
        }
        for change in changes:
            rows[change.key] = [_put_body(self.trial, change.key, change.value), change.value["name"]]
        self._write(version, rows, [[change.client, change.id] for change in changes])

    def _write(self, version: int, rows: Mapping[str, list[Any]], applied: list[list[Any]]) -> None:
        writes: list[Write] = [
            Put(Item(f"Rows#{PROJECT}#{version:06d}", key, {"hash": row[0], "name": row[1]}))
            for key, row in rows.items()
        ]
        attributes: dict[str, Attribute] = {**SCALARS, "mutations": encode(applied)}
        writes.append(Put(Item(f"Project#{PROJECT}", f"{version:06d}", attributes), Absent()))
        for start in range(0, len(writes), TRANSACTION_ITEMS):
            self._environment.index.commit(writes[start : start + TRANSACTION_ITEMS])


class SingleRecord:
    """The sync backend's second simple approach: one record with the project and all bodies.

    A record that is too large for DynamoDB is in S3. A commit takes a lock, reads the record, writes a new record, and
    releases the lock. The record may be larger than our blobs allow, so the class itself counts the requests to S3.
    """

    def __init__(self) -> None:
        self.trial = Trial()
        self._environment = self.trial.store.environment
        self._packed = b""

    def create(self, items: Mapping[str, dict[str, Any]]) -> None:
        self._write(1, {**SCALARS, **items}, [])

    def change(self, changes: Sequence[Change]) -> None:
        index = self._environment.index
        index.commit([Put(Item(f"Lock#{PROJECT}", "lock", {"until": 1_800_000_000_000}), Absent())])
        (latest,) = index.query(f"Project#{PROJECT}", reverse=True, limit=1)
        packed = latest.attributes.get("whole")
        if packed is None:
            self.trial.meter.add("GetObject", "requests")
        items = decode(decompress(self._packed if packed is None else packed, PACKED_BYTES_MAX))  # type: ignore[arg-type]
        for change in changes:
            items[change.key] = change.value
        self._write(int(latest.sort) + 1, items, [[change.client, change.id] for change in changes])
        index.commit([Delete(f"Lock#{PROJECT}", "lock")])

    def _write(self, version: int, items: Mapping[str, Any], applied: list[list[Any]]) -> None:
        packed = compress(encode(items))
        attributes: dict[str, Attribute] = {"mutations": encode(applied)}
        if len(packed) <= RECORD_BYTES_MAX - 1024:
            attributes["whole"] = packed
        else:
            self._packed = packed
            attributes["key"] = f"o_123/projects/{PROJECT}/{sha256(packed).hex()}"
            self.trial.meter.add("PutObject", "requests")
            self.trial.meter.add("PutObject", "bytes", len(packed))
        self._environment.index.commit([Put(Item(f"Project#{PROJECT}", f"{version:06d}", attributes), Absent())])


class EventLog:
    """The spreadsheet event log's schema: an entry for each commit, in segments, with large bodies in S3.

    A processor that has the number of the segment reads only the newest entry. The processor has no record of a
    client's earlier mutations. A snapshot is one object with names and hashes. The schema makes as many snapshots as
    Stratalog with its default settings.
    """

    def __init__(self) -> None:
        self.trial = Trial()
        self._environment = self.trial.store.environment
        self._items: dict[str, list[Any]] = {}
        self._entries = 0

    def create(self, items: Mapping[str, dict[str, Any]]) -> None:
        writes: list[Write] = [
            Put(Item(f"{PROJECT}/segments", "000000", {"C": 1_800_000_000}), Absent()),
            Put(Item(f"{PROJECT}/000000", f"{0:08d}", {"C": 1_800_000_000, "T": "Snapshot", "V": 1}), Absent()),
        ]
        self._environment.index.commit(writes)
        for key, value in items.items():
            self._items[key] = [_put_body(self.trial, key, value), value["name"]]

    def change(self, changes: Sequence[Change]) -> None:
        (newest,) = self._environment.index.query(f"{PROJECT}/000000", reverse=True, limit=1, consistent=False)
        body = encode([[change.client, change.id, change.key, change.value] for change in changes])
        attributes: dict[str, Attribute] = {"C": 1_800_000_000, "T": "Put", "V": 1}
        if len(body) > EXTERNAL_BYTES:
            attributes["E"] = _put_bytes(self.trial, "entries", body)
        else:
            attributes["B"] = body
        self._put(int(newest.sort) + 1, attributes)
        for change in changes:
            self._items[change.key] = [sha256(encode(change.value)), change.value["name"]]
        self._entries += 1
        if self._entries % SNAPSHOT_EVERY == 0:
            self._snapshot(int(newest.sort) + 2)

    def _snapshot(self, number: int) -> None:
        root = _put_bytes(self.trial, "snapshots", encode(self._items))
        attributes: dict[str, Attribute] = {"C": 1_800_000_000, "T": "Snapshot", "V": 1}
        self._put(number, attributes)
        finished = Item(f"{PROJECT}/000000", f"{number:08d}", {**attributes, "B": root})
        segment = Item(f"{PROJECT}/segments", "000000", {"C": 1_800_000_000, "L": number})
        for item in (finished, segment):
            self._environment.index.commit([Put(item)])

    def _put(self, number: int, attributes: dict[str, Attribute]) -> None:
        self._environment.index.commit([Put(Item(f"{PROJECT}/000000", f"{number:08d}", attributes), Absent())])


def collection_of(key: str) -> str:
    """Return the name of the collection that contains the key."""
    return key.partition("/")[0]


def _id(key: str) -> str:
    return key.partition("/")[2]


def _mutation_partition(change: Change) -> str:
    return f"Mutation#{change.client}#m_{change.id:06d}"


def _put_body(trial: Trial, key: str, value: dict[str, Any]) -> bytes:
    return _put_bytes(trial, collection_of(key), encode(value))


def _put_bytes(trial: Trial, folder: str, body: bytes) -> bytes:
    content = sha256(body)
    trial.store.environment.blobs.put(f"o_123/projects/{PROJECT}/{folder}/{content.hex()}", body)
    return content


SCHEMAS: Mapping[str, type[Schema]] = {
    "stratalog": Ours,
    "001": Versions,
    "001 relational": Relational,
    "001 whole": SingleRecord,
    "004": EventLog,
}
