"""Reading: entries one after another, a state from its entries or its snapshot, a state of long ago."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.figures import Measured
from bench.measure import alternated, median_ms
from bench.payload import fact, fact_bytes, item_key
from bench.peer import Peer
from bench.plain import Plain
from bench.workplace import DOCUMENT, ORGANISATION, Workplace, reopened, unsynced_store
from stratalog import Event, Settings
from stratalog.assembly import open_store
from stratalog.codec import encode

__all__ = ["MEASURES"]

SEED = 7
READ_ROUNDS_SHARE = 2
KEYS = 1000
WITHOUT_SNAPSHOTS = Settings(snapshot_entries_interval=10**9)


def read(work: Workplace) -> Measured:
    count = work.scale.entries_read
    folder = work.fresh()
    with unsynced_store(folder) as store:
        log = store.create_log(ORGANISATION, "log")
        for number in range(count):
            log.append(Event("paid", fact(number)))
    with open_store(folder) as store, closing(_plain(work, count)) as plain:
        log = store.log(ORGANISATION, "log")
        ours, other = alternated(_rounds(work), lambda: list(log.read()), plain.select)
    return Measured(count / ours, count / other)


def peer_read(work: Workplace) -> Measured:
    count = work.scale.entries_read
    with closing(Peer(work.fresh() / "peer.sqlite")) as peer, closing(_plain(work, count)) as plain:
        peer.append_all(fact_bytes(number) for number in range(count))
        ours, other = alternated(_rounds(work), peer.select, plain.select)
    return Measured(count / ours, count / other)


def load(work: Workplace) -> Measured:
    count = work.scale.entries_loaded
    folder = work.fresh()
    _fill(folder, count)
    with closing(Plain(work.fresh() / "plain.sqlite")) as plain, open_store(folder) as store:
        plain.append_all(encode({"key": item_key(n % KEYS), "value": fact(n)}) for n in range(count))
        ours, other = alternated(work.scale.rounds, lambda: reopened(store).state(), plain.fold)
    return Measured(ours * 1000, other * 1000)


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
    "peer-read": peer_read,
    "load": load,
    "load-snapshot": load_snapshot,
    "state-at": state_at,
}


def _fill(folder: Path, count: int) -> None:
    """A document of ``count`` mutations and no snapshot."""
    with unsynced_store(folder, WITHOUT_SNAPSHOTS) as store:
        document = store.create(ORGANISATION, DOCUMENT)
        for number in range(count):
            document.mutate("put", {"key": item_key(number % KEYS), "value": fact(number)})


def _plain(work: Workplace, count: int) -> Plain:
    plain = Plain(work.fresh() / "plain.sqlite")
    plain.append_all(fact_bytes(number) for number in range(count))
    return plain


def _rounds(work: Workplace) -> int:
    return max(1, work.scale.rounds // READ_ROUNDS_SHARE)
