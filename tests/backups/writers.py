"""A process that writes to logs, documents and records, and notes each answer: ``python -m tests.backups.writers``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import msgspec

import stratalog
from stratalog.codec import sha256
from stratalog.errors import StratalogError

__all__ = ["ORGANISATION", "SETTINGS", "Acknowledged", "Task", "main", "read_acknowledged"]

ORGANISATION = "acme"
SETTINGS = stratalog.LogSettings(segment_entries_target=20, snapshot_entries_interval=10, body_inline_bytes_max=1000)
LOGS = ("events", "ledger")
DOCUMENTS = ("plan", "budget")
RECORDS_PER_WRITER = 4
LARGE = 5000


class Acknowledged(msgspec.Struct, frozen=True, array_like=True):
    """One acknowledged version, and the time at which the writer noted the acknowledgement."""

    kind: str
    name: str
    version: int
    created_ms: int
    at_ms: int
    fact: str
    """The text that identifies the version: the hash of an entry, or the digest of a record's body or of a value."""

    key: str = ""
    """The key whose value ``fact`` identifies, if the version is a version of a document."""


class Task(msgspec.Struct, frozen=True):
    """The task of a writer, given on its command line as JSON."""

    url: str
    records: str
    seed: int
    seconds: float


def read_acknowledged(folder: Path) -> Iterator[Acknowledged]:
    """Yield the notes of all writers. The last line of a killed writer may be cut off."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            with suppress(msgspec.DecodeError):
                yield msgspec.json.decode(line, type=Acknowledged)


def main(task: Task) -> None:
    """Write until the time is up and at least one write was acknowledged."""
    chance = Random(task.seed)
    until, acknowledged = time.monotonic() + task.seconds, 0
    with stratalog.open(task.url, settings=SETTINGS) as store, open(task.records, "ab", buffering=0) as records:
        writer = _Writer(store, chance, task.seed)
        while time.monotonic() < until or not acknowledged:
            with suppress(StratalogError):
                noted = chance.choice(writer.steps)()
                if noted is not None:
                    records.write(msgspec.json.encode(noted) + b"\n")
                    acknowledged += 1
            time.sleep(chance.random() * 0.01)


class _Writer:
    def __init__(self, store: stratalog.Store, chance: Random, seed: int) -> None:
        self._store = store
        self._chance = chance
        self._seed = seed
        self.steps: list[Callable[[], Acknowledged | None]] = [
            *[self._append] * 3,
            *[self._mutate] * 3,
            *[self._put] * 2,
            self._fork,
            self._change,
        ]

    def _append(self) -> Acknowledged:
        log = self._log(self._chance.choice(LOGS))
        entry = log.append(stratalog.Event("seen", self._text()))
        return _noted("log", log.record.name, entry.version, entry.created_ms, entry.hash.hex())

    def _mutate(self) -> Acknowledged | None:
        names = [line.id for line in self._store.list(ORGANISATION) if line.kind == "document"]
        document = self._document(self._chance.choice([*DOCUMENTS, *names]))
        key, value = f"items/{self._chance.randrange(5)}", self._text()
        outcome = document.mutate("put", {"key": key, "value": value}, client=f"writer-{self._seed}")
        if outcome.version is None or outcome.status != "applied":
            return None
        entry = document.log.entry(outcome.version)
        return _noted("document", document.name, entry.version, entry.created_ms, _digest(value), key)

    def _put(self) -> Acknowledged:
        id = f"r{self._seed}-{self._chance.randrange(RECORDS_PER_WRITER)}"
        body = self._text().encode()
        stored = self._store.records(ORGANISATION).put(id, body)
        return _noted("record", id, stored.version, stored.created_ms, sha256(body).hex())

    def _fork(self) -> None:
        if self._chance.random() < 0.1:
            self._document(DOCUMENTS[0]).fork(f"fork-{self._seed}-{self._chance.randrange(3)}")

    def _change(self) -> None:
        """Archive and take a snapshot, as maintenance does. Forget nothing, since the drill compares all versions."""
        if self._chance.random() < 0.1:
            document = self._document(self._chance.choice(DOCUMENTS))
            document.archive()
            document.snapshot()

    def _log(self, name: str) -> stratalog.Log:
        with suppress(stratalog.Conflict):
            return self._store.create_log(ORGANISATION, name)
        return self._store.log(ORGANISATION, name)

    def _document(self, name: str) -> stratalog.Document:
        with suppress(stratalog.NotFound):
            return self._store.document(ORGANISATION, name)
        with suppress(stratalog.Conflict):
            return self._store.create(ORGANISATION, name)
        return self._store.document(ORGANISATION, name)

    def _text(self) -> str:
        return self._chance.randbytes(self._chance.choice((10, 10, LARGE))).hex()


def _noted(kind: str, name: str, version: int, created_ms: int, fact: str, key: str = "") -> Acknowledged:
    return Acknowledged(kind, name, version, created_ms, time.time_ns() // 1_000_000, fact, key)


def _digest(value: str) -> str:
    return sha256(value.encode()).hex()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Task))
