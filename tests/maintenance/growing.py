"""Random operations that fill a store, and the answers of a store to queries about its content."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import stratalog
from stratalog.documents import Document
from stratalog.errors import StratalogError
from stratalog.log import delete_log
from stratalog.log.retention import archive_segments, free_segments
from stratalog.log.sweep import sweep_deleted
from stratalog.protocol import Mutation

__all__ = ["FREE", "SETTINGS", "contents_of", "grow"]

SETTINGS = stratalog.LogSettings(segment_entries_target=4, snapshot_entries_interval=3, body_inline_bytes_max=400)
ORGANISATIONS = ("acme", "zeta & co")
RECORDS = tuple(f"record-{number}" for number in range(9))
NAMES = ("plan", "budget", "ä/b")
LONG_SECONDS = 1000
LARGE = 3000


def grow(store: stratalog.Store, chance: Random, steps: int, *, without: Step | None = None) -> None:
    """Do ``steps`` random operations, but never the operation ``without``. Ignore operations that the store refuses."""
    for _ in range(steps):
        step = chance.choice([step for step in STEPS if step is not without])
        with suppress(StratalogError):
            step(store, chance)


def contents_of(store: stratalog.Store) -> dict[str, Any]:
    """Return the answers of the store about all of its logs, documents, records and dead letters of records."""
    answers: dict[str, Any] = {}
    for organisation in store.organisations():
        for line in store.list(organisation):
            log = store.log(organisation, line.id)
            answers[f"{organisation}/{line.id}"] = [line, log.record, log.floor(), log.head().version]
            answers[f"{organisation}/{line.id} holders"] = list(store.organisations_of(line.id))
            if line.kind == "grid":
                snapshot = log.app_snapshot(log.head().version)
                answers[f"{organisation}/{line.id} snapshot"] = snapshot and (
                    snapshot.version,
                    list(log.read_snapshot(snapshot)),
                )
            answers[f"{organisation}/{line.id} entries"] = [
                _retained_entry(log, n) for n in range(1, log.head().version + 1)
            ]
            if line.kind == "document":
                answers |= _contents_of_document(Document(log))
        answers |= _contents_of_records(store.records(organisation))
    return answers


def _retained_entry(log: stratalog.Log, version: int) -> stratalog.Entry | None:
    with suppress(stratalog.NotFound):
        return log.entry(version)
    return None


def _contents_of_document(document: Document) -> dict[str, Any]:
    name, oldest = document.name, document.log.floor()
    stratalog.verify(document)
    answers: dict[str, Any] = {}
    for version in range(oldest, document.version + 1):
        with suppress(stratalog.NotFound):
            view = document.at(version)
            answers[f"{name}@{version}"] = (view.to_dict(), list(view.list()), view.content_digest())
    for key in document.at().to_dict():
        answers[f"{name} history of {key}"] = list(document.history(key))
    for client in ("ada", "bob"):
        last = document.last_mutation(client)
        answers[f"{name} {client}"] = (last, _applied_in(document, client, last) if last and not oldest else None)
    return answers


def _applied_in(document: Document, client: str, id: int) -> int | None:
    """Return the version that applied a mutation; -1 if that version is redacted."""
    try:
        return document.applied_in(client, id)
    except stratalog.Redacted:
        return -1


def _contents_of_records(records: stratalog.Records) -> dict[str, Any]:
    of = records.organisation
    answers: dict[str, Any] = {f"{of} dead letters": list(records.dead_letters())}
    for line in records.list():
        answers[f"{of} record {line.id}"] = line
        for version in records.versions(line.id):
            body = None if version.deleted or version.redacted else records.get(line.id, version.version).body
            answers[f"{of} record {line.id}@{version.version}"] = (version, body)
    for id in RECORDS:
        if (failure := records.failure(id)) is not None:
            answers[f"{of} failure {id}"] = (failure, b"".join(records.open_dead_letter(id)))
    return answers


Step = Callable[[stratalog.Store, Random], object]


def _a_document(store: stratalog.Store, chance: Random) -> Document:
    organisation = chance.choice(ORGANISATIONS)
    names = [line.id for line in store.list(organisation) if line.kind == "document"]
    return store.document(organisation, chance.choice(names or ["none"]))


def _create(store: stratalog.Store, chance: Random) -> object:
    return store.create(chance.choice(ORGANISATIONS), f"{chance.choice(NAMES)}-{chance.randrange(3)}")


def _mutate(store: stratalog.Store, chance: Random) -> object:
    document = _a_document(store, chance)
    for _ in range(chance.randrange(1, 6)):
        size = chance.choice((5, 5, LARGE))
        value = {"n": chance.randrange(9), "text": chance.randbytes(size).hex()}
        document.mutate("put", {"key": f"items/{chance.randrange(6)}", "value": value}, client=chance.choice(CLIENTS))
    name = chance.choice(("del", "no such mutator"))
    return document.apply([Mutation(client="local", name=name, args={"key": "items/1"})])


def _fork(store: stratalog.Store, chance: Random) -> object:
    document = _a_document(store, chance)
    return document.fork(f"fork-{chance.randrange(6)}", at=chance.randrange(document.version + 1))


def _forget(store: stratalog.Store, chance: Random) -> object:
    document = _a_document(store, chance)
    return document.forget_below(chance.randrange(document.version + 1))


def _log(store: stratalog.Store, chance: Random) -> object:
    name = f"log-{chance.randrange(2)}"
    with suppress(StratalogError):
        store.create_log("acme", name)
    events = [stratalog.Event("seen", {"bytes": chance.randbytes(chance.choice((3, LARGE)))})]
    return [store.log("acme", name).append(events) for _ in range(chance.randrange(6))]


def _save_snapshot(store: stratalog.Store, chance: Random) -> object:
    with suppress(StratalogError):
        store.create_log("acme", "grid", "grid")
    log = store.log("acme", "grid")
    entry = log.append(stratalog.Event("cell", chance.randrange(9)))
    return log.save_snapshot(entry.version, [chance.randbytes(LARGE), b"the same"])


def _archive(store: stratalog.Store, chance: Random) -> object:
    organisation = chance.choice(ORGANISATIONS)
    return [archive_segments(store.log(organisation, line.id)) for line in list(store.list(organisation))]


def _free(store: stratalog.Store, chance: Random) -> object:
    store.environment.clock.sleep(LONG_SECONDS)
    for organisation in ORGANISATIONS:
        sweep_deleted(store.environment, organisation)
        for line in list(store.list(organisation)):
            if line.kind == "document":
                store.document(organisation, line.id).free_segments()
            else:
                free_segments(store.log(organisation, line.id))
    return None


def _redact(store: stratalog.Store, chance: Random) -> object:
    organisation = chance.choice(ORGANISATIONS)
    names = [line.id for line in store.list(organisation)]
    log = store.log(organisation, chance.choice(names or ["none"]))
    version = 1 + chance.randrange(log.head().version + 1)
    return stratalog.redact(Document(log), version) if log.record.kind == "document" else log.redact(version)


def _put_record(store: stratalog.Store, chance: Random) -> object:
    body = chance.randbytes(chance.choice((3, LARGE)))
    return store.records(chance.choice(ORGANISATIONS)).put(f"record-{chance.randrange(4)}", body, metadata={"n": 1})


def _change_record(store: stratalog.Store, chance: Random) -> object:
    records, id = store.records("acme"), f"record-{chance.randrange(4)}"
    if chance.random() < 0.3:
        return records.delete(id)
    return records.prune(id, retain=1 + chance.randrange(2))


def _redact_record(store: stratalog.Store, chance: Random) -> object:
    records = store.records(chance.choice(ORGANISATIONS))
    id = f"record-{chance.randrange(4)}"
    return records.redact(id, 1 + chance.randrange(records.stat(id).version))


def _free_record(store: stratalog.Store, chance: Random) -> object:
    store.environment.clock.sleep(LONG_SECONDS)
    return store.records("acme").free(f"record-{chance.randrange(4)}")


def _fail_record(store: stratalog.Store, chance: Random) -> object:
    body = chance.randbytes(LARGE)
    records, id = store.records(chance.choice(ORGANISATIONS)), chance.choice(RECORDS)
    return [records.fail(id, "no such column", body=body) for _ in range(chance.choice((1, 5)))]


def _resolve_record(store: stratalog.Store, chance: Random) -> object:
    store.records("acme").resolve_dead_letter(chance.choice(RECORDS))
    return None


FREE: Step = _free
CLIENTS = ("ada", "bob")
STEPS: list[Step] = [
    _create,
    _create,
    *[_mutate] * 6,
    _fork,
    _fork,
    _forget,
    _log,
    _save_snapshot,
    _archive,
    _free,
    _redact,
    _redact,
    *[_put_record] * 3,
    _change_record,
    _redact_record,
    _redact_record,
    _free_record,
    _fail_record,
    _resolve_record,
    lambda store, chance: delete_log(_a_document(store, chance).log),
    lambda store, chance: _a_document(store, chance).snapshot(),
]
