"""Stores with random content and history."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import stratalog
from stratalog.documents import Document, redact
from stratalog.errors import NotFound, Redacted, RedactionRefused
from stratalog.log.retention import archive_segments, free_segments_below, raise_floor
from stratalog.protocol import Mutation
from stratalog.testing.clock import ManualClock
from tests.inline_store import open_inline

__all__ = ["grown_store"]

PEOPLE = ("u-ada", "u-bob", "")
LARGE = 5000
LONG_SECONDS = 1000


def grown_store(draw: Random) -> stratalog.Store:
    """Return a store with a document, maybe its fork, two logs and two records, with or without floors and archives."""
    settings = stratalog.LogSettings(
        segment_entries_target=draw.choice((3, 5, 100)), snapshot_entries_interval=4, body_inline_bytes_max=400
    )
    store = open_inline(settings=settings, clock=ManualClock(seed=draw.randrange(2**30)))
    _grow_document(store, draw)
    for name, kind in (("events", "log"), ("grid", "sheet")):
        _grow_log(store, draw, name, kind)
    for position in range(2):
        _grow_record(store, draw, f"report {position}")
    return store


def _pass_time(store: stratalog.Store, draw: Random) -> None:
    store.environment.clock.sleep(draw.choice((0, 1, 3600)))


def _grow_document(store: stratalog.Store, draw: Random) -> None:
    document = store.create("acme", "plan")
    _mutate(store, draw, document, draw.randrange(6, 20))
    if draw.random() < 0.5:
        _redact(draw, document)
    if draw.random() < 0.5:
        with suppress(Redacted):
            fork = document.fork("draft", at=draw.randrange(document.version - 2, document.version))
            _mutate(store, draw, fork, draw.randrange(3, 9))
    elif draw.random() < 0.5:
        with suppress(NotFound):
            document.forget_below(draw.randrange(1, document.version - 2))
    _retain(store, draw, document.log)


def _mutate(store: stratalog.Store, draw: Random, document: Document, count: int) -> None:
    for _ in range(count):
        _pass_time(store, draw)
        key, author = f"cells/{draw.randrange(4)}", draw.choice(("Ada", "Bob", ""))
        value = draw.randbytes(draw.choice((3, 30, LARGE)))
        name, args = draw.choice((("put", {"key": key, "value": value}), ("del", {"key": key}), ("no such", key)))
        document.apply([Mutation(client=draw.choice(("ada", "bob")), name=name, args=args)], author=author)


def _redact(draw: Random, document: Document) -> None:
    for _ in range(3):
        with suppress(RedactionRefused):
            redact(document, draw.randrange(1, document.version))


def _grow_log(store: stratalog.Store, draw: Random, name: str, kind: str) -> None:
    log = store.create_log("acme", name, kind)
    for position in range(draw.randrange(6, 20)):
        _pass_time(store, draw)
        data = {"cell": position, "bytes": draw.randbytes(draw.choice((3, LARGE)))}
        events = [stratalog.Event("cell", data)] * draw.randrange(1, 3)
        log.append(events, author=draw.choice(("Ada", "")), principal=draw.choice(PEOPLE))
    if kind == "log" and draw.random() < 0.5:
        log.redact(draw.randrange(1, log.head().version + 1))
    if draw.random() < 0.3:
        raise_floor(log, draw.randrange(1, log.head().version - 2))
    _retain(store, draw, log)


def _retain(store: stratalog.Store, draw: Random, log: stratalog.Log) -> None:
    """Maybe archive segments, and maybe free the archived and forgotten segments."""
    if draw.random() < 0.5:
        archive_segments(log)
    if draw.random() < 0.5:
        store.environment.clock.sleep(LONG_SECONDS)
        free_segments_below(log, lambda: None)


def _grow_record(store: stratalog.Store, draw: Random, name: str) -> None:
    records = store.records("acme")
    for position in range(draw.randrange(6, 16)):
        _pass_time(store, draw)
        body, who = draw.randbytes(draw.choice((3, 30, LARGE))), draw.choice(PEOPLE)
        if position and draw.random() < 0.2:
            records.delete(name, principal=who)
            records.undelete(name, principal=who)
        records.put(name, body, principal=who, metadata={"n": position}, source_time_ms=draw.choice((None, position)))
    if draw.random() < 0.5:
        records.redact(name, draw.randrange(1, records.stat(name).version + 1))
    if draw.random() < 0.4:
        records.prune(name, retain=draw.randrange(4, 6))
    if draw.random() < 0.5:
        store.environment.clock.sleep(LONG_SECONDS)
        records.free(name)
