"""A store with an object of every stored kind. `docs/guides/verify.md` lists the kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import stratalog
from stratalog.documents import Document, Projection
from stratalog.documents.rejections import RejectedMutation, write_rejection
from stratalog.keys import QUEUE_ATTEMPTS_PARTITION
from stratalog.log.retention import archive_segments, free_segments
from stratalog.ports.index import Item, Put
from stratalog.protocol import Mutation
from stratalog.records.uploads import pin_put
from stratalog.records.versions import Name
from stratalog.testing.clock import ManualClock
from stratalog.worker.attempt_record import AttemptRecord, write_attempts
from tests.inline_store import open_inline

__all__ = ["full_store"]

LARGE = 3000
LONG_SECONDS = 1000


def full_store(url: str | Path) -> stratalog.Store:
    """Open a store and fill it. Each call stores the same content."""
    settings = stratalog.LogSettings(
        segment_entries_target=6, snapshot_entries_interval=1000, body_inline_bytes_max=1500
    )
    store = open_inline(url, settings=settings, clock=ManualClock())
    _fill_documents(store)
    _fill_logs(store)
    _fill_records(store)
    _fill_queue(store)
    return store


def _text(seed: int, size: int) -> str:
    """Return a random text, which compresses badly. Each seed gives a different text."""
    clock = ManualClock(seed=seed + 1)
    return clock.random_bytes(size // 2).hex()


def _fill_documents(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    for version in range(20):
        store.environment.clock.sleep(1)
        mutations = [
            Mutation(client="ada", name="put", args={"key": f"cells/{version:02}-{row}", "value": _text(row, 60)})
            for row in range(8)
        ]
        document.apply(mutations, group="tabs", owner="u-ada", author="Ada")
        if version % 5 == 4:
            document.mutate("put", {"key": f"large/{version}", "value": _text(version, LARGE)}, client="bob")
            document.apply(
                [Mutation(client="bob", name="no such", args={"note": _text(100 + version, LARGE)})], author="bob"
            )
            document.mutate("del", {"key": f"cells/{version:02}-0"}, client="bob")
        if version in (9, 14, 19):
            document.snapshot()
    _project(document)
    document.forget_below(document.version - 12)
    archive_segments(document.log, document.version - 8)
    fork = document.fork("draft")
    fork.mutate("put", {"key": "cells/fork", "value": "fork"})
    fork.fork("second draft")
    _delete(store)


def _project(document: Document) -> None:
    Projection(document.log, "titles", lambda entry: []).catch_up()


def _delete(store: stratalog.Store) -> None:
    log = store.create_log("acme", "old")
    log.append(stratalog.Event("seen", 1))
    store.delete_log(log)


def _fill_logs(store: stratalog.Store) -> None:
    events = store.create_log("acme", "events")
    grid = store.create_log("acme", "grid", "grid")
    for position in range(20):
        store.environment.clock.sleep(1)
        size = LARGE if position % 4 == 0 else 10
        events.append(stratalog.Event("seen", {"text": _text(position, size)}), author="Ada", principal="u-ada")
        grid.append(stratalog.Event("cell", {"at": position}))
        if position % 5 == 4:
            grid.save_snapshot(position + 1, [_text(position, LARGE).encode(), b"part that all share" * 50])
    events.redact(3)
    archive_segments(events, 12)
    store.environment.clock.sleep(LONG_SECONDS)
    free_segments(events)
    for position in range(4):
        events.append(stratalog.Event("seen", {"text": _text(200 + position, 10)}))
    archive_segments(events, 18)


def _fill_records(store: stratalog.Store) -> None:
    records = store.records("acme")
    for version in range(6):
        store.environment.clock.sleep(1)
        size = 40_000 if version % 2 else 30
        body = _text(300 + version, size).encode()
        records.put("report", body, metadata={"n": version}, source_time_ms=version, principal="u-ada")
    records.prune("report", retain=4)
    store.environment.clock.sleep(LONG_SECONDS)
    records.free("report")
    records.put("other", b"small")
    records.delete("other")
    for failure in range(5):
        records.fail("report", f"no good {failure}", body=_text(400, 40_000).encode(), pointer="file:1")
    records.fail("other", "no good", body=b"small")
    store.environment.index.commit([pin_put(Name("acme", "report"), "upload", store.environment.clock.wall_ms())])


def _fill_queue(store: stratalog.Store) -> None:
    index: Any = store.environment.index
    write_attempts(index, "0001", AttemptRecord(reason="no good", failed_ms=5, client="ada", id=3))
    rejection = RejectedMutation("acme", "plan", "x", "ada", 3, "no good", 10, 5)
    write_rejection(index, "0002/1", rejection)
    assert index.get(QUEUE_ATTEMPTS_PARTITION, "0001") is not None
    index.commit([Put(Item("!maintenance", "pass", {"f": 1, "b": b""}))])
