"""Benchmarks of reads: entries in order, a state from its entries, a state from a snapshot, and an old state."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from bench.figures import Measured
from bench.measure import alternated, median_ms
from bench.payload import fact, fact_bytes, item_key
from bench.peer import Peer
from bench.plain import Plain
from bench.workplace import DOCUMENT, ORGANISATION, Workplace, reopened, unsynced_store
from stratalog import Event, LogSettings
from stratalog.store import open_store

__all__ = ["MEASURES"]

SEED = 7
READ_ROUNDS_SHARE = 2
WITHOUT_SNAPSHOTS = LogSettings(snapshot_entries_interval=10**9)


def read(work: Workplace) -> Measured:
    return _read(work, 1, Plain.entries)


def read_100(work: Workplace) -> Measured:
    return _read(work, 100, Plain.entries)


def read_bare(work: Workplace) -> Measured:
    return _read(work, 1, Plain.select)


def read_decoded(work: Workplace) -> Measured:
    return _read(work, 1, lambda plain: plain.decoded(json.loads))


def peer_read(work: Workplace) -> Measured:
    count = work.scale.entries_read
    with closing(Peer(work.fresh() / "peer.sqlite")) as peer, closing(_plain(work, count)) as plain:
        peer.append_all(fact_bytes(number) for number in range(count))
        ours, other = alternated(_rounds(work), peer.select, lambda: _drain(plain.select()))
    return Measured(count / ours, count / other)


def load(work: Workplace) -> Measured:
    return _load(work, json.loads)


def load_msgspec(work: Workplace) -> Measured:
    return _load(work, msgspec.json.Decoder().decode)


def load_snapshot(work: Workplace) -> Measured:
    folder = work.fresh()
    _fill(folder, work.scale.entries_loaded)
    with open_store(folder) as store:
        reopened(store).snapshot()
        return Measured(median_ms(work.scale.rounds, lambda: reopened(store).state()))


def state_at(work: Workplace) -> Measured:
    chance = random.Random(SEED)
    with open_store(work.long) as store:
        ours, other = alternated(
            4 * work.scale.rounds,
            lambda: reopened(store).state(chance.randint(1, work.scale.versions)),
            lambda: reopened(store).state(),
        )
    return Measured(ours * 1000, other * 1000)


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "read": read,
    "read-100": read_100,
    "read-bare": read_bare,
    "read-decoded": read_decoded,
    "peer-read": peer_read,
    "load": load,
    "load-msgspec": load_msgspec,
    "load-snapshot": load_snapshot,
    "state-at": state_at,
}


def _read(work: Workplace, share: int, other_side: Callable[[Plain], Iterator[Any]]) -> Measured:
    """Read entries of ``share`` events each, one after another, and discard each entry."""
    count, folder = work.scale.entries_read, work.fresh()
    with unsynced_store(folder) as store:
        log = store.create_log(ORGANISATION, "log")
        for first in range(0, count, share):
            log.append([Event("paid", fact(number)) for number in range(first, first + share)])
    with open_store(folder) as store, closing(_plain(work, count)) as plain:
        log = store.log(ORGANISATION, "log")
        ours, other = alternated(_rounds(work), lambda: _drain(log.read()), lambda: _drain(other_side(plain)))
    return Measured(count / ours, count / other)


def _load(work: Workplace, decode: Callable[[bytes], Any]) -> Measured:
    folder = work.fresh()
    _fill(folder, work.scale.entries_loaded)
    with open_store(folder) as store, closing(_plain(work, work.scale.entries_loaded)) as plain:
        ours, other = alternated(work.scale.rounds, lambda: reopened(store).state(), lambda: plain.fold(decode))
    return Measured(ours * 1000, other * 1000)


def _drain(rows: Iterator[Any]) -> None:
    deque(rows, maxlen=0)


def _fill(folder: Path, count: int) -> None:
    """Create a document with ``count`` mutations and no snapshot."""
    with unsynced_store(folder, WITHOUT_SNAPSHOTS) as store:
        document = store.create(ORGANISATION, DOCUMENT)
        for number in range(count):
            document.mutate("put", {"key": item_key(number % 1000), "value": fact(number)})


def _plain(work: Workplace, count: int) -> Plain:
    plain = Plain(work.fresh() / "plain.sqlite")
    bodies = [fact_bytes(number) for number in range(count)]
    plain.append_all(bodies)
    plain.record_all(bodies)
    return plain


def _rounds(work: Workplace) -> int:
    return max(1, work.scale.rounds // READ_ROUNDS_SHARE)
