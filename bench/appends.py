"""Writing: one at a time, by many threads, many at once, and as mutations of a document."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from bench.figures import Measured
from bench.measure import alternated
from bench.payload import fact, fact_bytes
from bench.peer import Peer
from bench.plain import Plain
from bench.workplace import ORGANISATION, Workplace
from stratalog import Event, Log
from stratalog.store import open_store

__all__ = ["MEASURES"]

THREADS = 32
EVENTS = 100


def append(work: Workplace) -> Measured:
    with _log(work) as log, _plain(work) as plain:
        facts, bodies = _batch(work.scale.commits)
        seconds = alternated(work.scale.rounds, lambda: _append_each(log, facts), lambda: plain.append_each(bodies))
        return _rates(seconds, len(facts))


def peer_append(work: Workplace) -> Measured:
    with closing(Peer(work.fresh() / "peer.sqlite")) as peer, _plain(work) as plain:
        _, bodies = _batch(work.scale.commits)
        seconds = alternated(work.scale.rounds, lambda: peer.append_each(bodies), lambda: plain.append_each(bodies))
        return _rates(seconds, len(bodies))


def append_32(work: Workplace) -> Measured:
    with _log(work) as log, _plain(work) as plain:
        facts, bodies = _batch(work.scale.commits)
        ours = lambda: _together(THREADS, lambda: _append_each(log, facts))  # noqa: E731
        seconds = alternated(work.scale.rounds, ours, lambda: plain.append_each(bodies))
        return _rates(seconds, THREADS * len(facts), len(bodies))


def append_100(work: Workplace) -> Measured:
    with _log(work) as log, _plain(work) as plain:
        facts, bodies = _batch(EVENTS)
        repeats = max(1, work.scale.commits // 10)
        seconds = alternated(
            work.scale.rounds,
            lambda: _repeated(repeats, lambda: log.append([Event("paid", data) for data in facts])),
            lambda: _repeated(repeats, lambda: plain.append_all(bodies)),
        )
        return _rates(seconds, EVENTS * repeats)


def mutate(work: Workplace) -> Measured:
    with open_store(work.fresh()) as store, _plain(work) as plain:
        document = store.create(ORGANISATION, "document")
        facts, bodies = _batch(work.scale.commits)
        arguments = [{"key": data["key"], "value": data} for data in facts]
        seconds = alternated(
            work.scale.rounds,
            lambda: [document.mutate("put", args) for args in arguments],
            lambda: plain.append_each(bodies),
        )
        return _rates(seconds, len(facts))


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "append": append,
    "peer-append": peer_append,
    "append-32": append_32,
    "append-100": append_100,
    "mutate": mutate,
}


@contextmanager
def _log(work: Workplace) -> Iterator[Log]:
    with open_store(work.fresh()) as store:
        yield store.create_log(ORGANISATION, "log")


def _plain(work: Workplace) -> closing[Plain]:
    return closing(Plain(work.fresh() / "plain.sqlite"))


def _batch(count: int) -> tuple[list[dict[str, object]], list[bytes]]:
    return [fact(number) for number in range(count)], [fact_bytes(number) for number in range(count)]


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


def _rates(seconds: tuple[float, float], count: int, reference_count: int | None = None) -> Measured:
    ours, other = seconds
    return Measured(count / ours, (reference_count or count) / other)
