"""Benchmarks of writes: single appends, appends by many threads, large commits, and mutations of a document."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Protocol

from bench.figures import Measured
from bench.measure import alternated
from bench.payload import fact, fact_bytes
from bench.peer import Peer
from bench.plain import Plain
from bench.workplace import ORGANISATION, Workplace
from stratalog import Event, Log, Store
from stratalog.codec import compress, encode
from stratalog.keys import entries_partition
from stratalog.ports.index import item_bytes
from stratalog.store import open_store

__all__ = ["MEASURES", "PlainAppends", "appended", "appended_together", "batch", "mutated", "rates"]

THREADS = 32
EVENTS = 100


class PlainAppends(Protocol):
    """The other side, which commits each body durably in a separate commit."""

    def append_each(self, bodies: Sequence[bytes]) -> None: ...


def append(work: Workplace) -> Measured:
    with open_store(work.fresh()) as store, _plain(work) as plain:
        return appended(work, store, plain)


def appended(work: Workplace, store: Store, plain: PlainAppends) -> Measured:
    log = store.create_log(ORGANISATION, "log")
    facts, bodies = batch(work.scale.commits)
    seconds = alternated(work.scale.rounds, lambda: _append_each(log, facts), lambda: plain.append_each(bodies))
    return rates(seconds, len(facts))


def peer_append(work: Workplace) -> Measured:
    with closing(Peer(work.fresh() / "peer.sqlite")) as peer, _plain(work) as plain:
        _, bodies = batch(work.scale.commits)
        seconds = alternated(work.scale.rounds, lambda: peer.append_each(bodies), lambda: plain.append_each(bodies))
        return rates(seconds, len(bodies))


def append_32(work: Workplace) -> Measured:
    with open_store(work.fresh()) as store, _plain(work) as plain:
        return appended_together(work, store, plain)


def appended_together(work: Workplace, store: Store, plain: PlainAppends) -> Measured:
    log = store.create_log(ORGANISATION, "log")
    facts, bodies = batch(work.scale.commits)
    ours = lambda: _together(THREADS, lambda: _append_each(log, facts))  # noqa: E731
    seconds = alternated(work.scale.rounds, ours, lambda: plain.append_each(bodies))
    return rates(seconds, THREADS * len(facts), len(bodies))


def append_100(work: Workplace) -> Measured:
    with _log(work) as log, _plain(work) as plain:
        facts, bodies = batch(EVENTS)
        repeats = max(1, work.scale.commits // 10)
        seconds = alternated(
            work.scale.rounds,
            lambda: _repeated(repeats, lambda: log.append([Event("paid", data) for data in facts])),
            lambda: _repeated(repeats, lambda: plain.append_all(bodies)),
        )
        return rates(seconds, EVENTS * repeats)


def mutate(work: Workplace) -> Measured:
    with open_store(work.fresh()) as store, _plain(work) as plain:
        return mutated(work, store, plain)


def mutated(work: Workplace, store: Store, plain: PlainAppends) -> Measured:
    """Each round changes all values: a put of the stored value changes nothing, and takes less time."""
    document = store.create(ORGANISATION, "document")
    facts, bodies = batch(work.scale.commits)
    changes = iter(
        [
            [{"key": data["key"], "value": {**data, "amount": turn}} for data in facts]
            for turn in range(work.scale.rounds + 1)
        ]
    )
    seconds = alternated(
        work.scale.rounds,
        lambda: [document.mutate("put", args) for args in next(changes)],
        lambda: plain.append_each(bodies),
    )
    return rates(seconds, len(facts))


def value(size: int, work: Workplace) -> Measured:
    """Put texts of ``size`` bytes, one in each commit. Compression halves the size of all but the shortest texts."""
    with open_store(work.fresh()) as store, _plain(work) as plain:
        document = store.create(ORGANISATION, "document")
        texts = [_text(number, size) for number in range(work.scale.commits)]
        bodies = [encode(text) for text in texts]
        seconds = alternated(
            work.scale.rounds,
            lambda: [document.mutate("put", {"key": "note/a", "value": text}) for text in texts],
            lambda: plain.append_each(bodies),
        )
        return rates(seconds, len(texts))


def value_files(work: Workplace) -> Measured:
    folder = work.fresh()
    with open_store(folder) as store:
        document = store.create(ORGANISATION, "document")
        for number in range(work.scale.commits):
            document.mutate("put", {"key": f"note/{number}", "value": _text(number, 1500)})
        return Measured(sum(path.is_file() for path in folder.rglob("*")))


def value_bytes(work: Workplace) -> Measured:
    with open_store(work.fresh()) as store:
        document = store.create(ORGANISATION, "document")
        text = _text(1, 4096)
        document.mutate("put", {"key": "note/a", "value": text})
        environment = store.environment
        entries = environment.index.query(entries_partition(document.log.record.prefix, 1))
        stored = sum(map(item_bytes, entries)) + sum(stat.stored_bytes for stat in environment.blobs.list(""))
        return Measured(stored, len(compress(encode(text))))


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "append": append,
    "peer-append": peer_append,
    "append-32": append_32,
    "append-100": append_100,
    "mutate": mutate,
    "value-100": partial(value, 100),
    "value-2k": partial(value, 1500),
    "value-4k": partial(value, 4096),
    "value-16k": partial(value, 16_000),
    "value-64k": partial(value, 64_000),
    "value-files": value_files,
    "value-bytes": value_bytes,
}


@contextmanager
def _log(work: Workplace) -> Iterator[Log]:
    with open_store(work.fresh()) as store:
        yield store.create_log(ORGANISATION, "log")


def _plain(work: Workplace) -> closing[Plain]:
    return closing(Plain(work.fresh() / "plain.sqlite"))


def batch(count: int) -> tuple[list[dict[str, object]], list[bytes]]:
    return [fact(number) for number in range(count)], [fact_bytes(number) for number in range(count)]


def _text(number: int, size: int) -> str:
    chance = random.Random(number)
    return chance.randbytes(size // 2).hex()


def _append_each(log: Log, facts: Sequence[dict[str, object]]) -> None:
    for data in facts:
        log.append(Event("paid", data))


def _repeated(times: int, work: Callable[[], object]) -> None:
    for _ in range(times):
        work()


def _together(count: int, work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def rates(seconds: tuple[float, float], count: int, reference_count: int | None = None) -> Measured:
    ours, other = seconds
    return Measured(count / ours, (reference_count or count) / other)
