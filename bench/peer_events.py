"""The sides of `bench.peers` that store events: Stratalog's logs, the recorders of `eventsourcing`, and UmaDB.

Every side has one order of all its events, and each event belongs to a stream. The peers check each append against the
newest version of its stream. Stratalog stores all events in one log, which is both the order and the only stream.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from bench.payload import fact, fact_bytes
from bench.peer import Peer
from bench.workplace import LOG, ORGANISATION
from stratalog import Event, Store
from stratalog.testing.emulators import free_ports

__all__ = ["THREADS", "EventSide", "PeerEvents", "StratalogEvents", "UmaEvents", "uma_server"]

FILLED = 99
"""The stream of the events that are only read."""

THREADS = 32
STREAMS = FILLED + 1
# A commit of 3,000 events by `eventsourcing` 9.5.6 in PostgreSQL does not return.
FILL_EVENTS = 1000
START_SECONDS_MAX = 30
START_POLL_SECONDS = 0.02
UMA_PROGRAM = "from umadb.umadb_server_cli import main; main()"


class EventSide(Protocol):
    """A store of events. `payload` is the data of an event as the side's caller has it before the clock starts."""

    def payload(self, number: int) -> Any: ...

    def append_each(self, payloads: Sequence[Any], stream: int) -> None:
        """Commit each event durably, one at a time. Threads may call this, each with its own stream."""

    def append_all(self, payloads: Sequence[Any], stream: int) -> None:
        """Commit all events in one durable commit."""

    def fill(self, count: int) -> None:
        """Store ``count`` events, for `read` and `read_all`. Called at most once, in an empty store."""

    def read(self) -> int:
        """Read the filled stream in order, with the data of each event. Return the number of events."""

    def read_all(self) -> int:
        """Read all events of the store in order, with the data of each event. Return the number of events."""


class StratalogEvents:
    """One log. Its events are encoded and decoded within the calls."""

    payload = staticmethod(fact)

    def __init__(self, store: Store) -> None:
        self._log = store.create_log(ORGANISATION, LOG)

    def append_each(self, payloads: Sequence[Any], stream: int) -> None:
        for data in payloads:
            self._log.append(Event("paid", data))

    def append_all(self, payloads: Sequence[Any], stream: int) -> None:
        self._log.append([Event("paid", data) for data in payloads])

    def fill(self, count: int) -> None:
        """Append the events one at a time, since a read of large entries would be faster."""
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda number: self.append_each([fact(number)], FILLED), range(count)))

    def read(self) -> int:
        return _count(self._log.read())

    read_all = read


class PeerEvents:
    """A recorder of `eventsourcing`, which takes and returns bytes. A stream is an aggregate."""

    payload = staticmethod(fact_bytes)

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def append_each(self, payloads: Sequence[Any], stream: int) -> None:
        self._peer.append_each(payloads, stream)

    def append_all(self, payloads: Sequence[Any], stream: int) -> None:
        self._peer.append_all(payloads, stream)

    def fill(self, count: int) -> None:
        for bodies in _batches(count):
            self._peer.append_all(bodies, FILLED)

    def read(self) -> int:
        return len(self._peer.select(FILLED))

    def read_all(self) -> int:
        return _count(self._peer.notifications())


class UmaEvents:
    """A server of UmaDB over gRPC on the loopback interface, which takes and returns bytes. A stream is a tag.

    The condition of each append fails if another caller has appended to the stream. Each stream has its own client.
    """

    payload = staticmethod(fact_bytes)

    def __init__(self, url: str) -> None:
        import umadb

        self._umadb = umadb
        self._clients = [umadb.Client(url) for _ in range(STREAMS)]
        self._queries = [umadb.Query([umadb.QueryItem(tags=[_tag(stream)])]) for stream in range(STREAMS)]
        self._heads = [self._clients[0].head()] * STREAMS

    def append_each(self, payloads: Sequence[Any], stream: int) -> None:
        for body in payloads:
            self.append_all([body], stream)

    def append_all(self, payloads: Sequence[Any], stream: int) -> None:
        events = [self._umadb.Event("paid", body, tags=[_tag(stream)]) for body in payloads]
        condition = self._umadb.AppendCondition(self._queries[stream], after=self._heads[stream])
        self._heads[stream] = self._clients[stream].append(events, condition)

    def fill(self, count: int) -> None:
        for bodies in _batches(count):
            self.append_all(bodies, FILLED)

    def read(self) -> int:
        return _count(event.event.data for event in self._clients[0].read(self._queries[FILLED]))

    def read_all(self) -> int:
        return _count(event.event.data for event in self._clients[0].read())


@contextmanager
def uma_server(folder: Path) -> Iterator[str]:
    """Run the server that the package `umadb` contains, with its default settings, and yield its URL."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-c", UMA_PROGRAM, "--listen", address, "--db-path", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            _await(f"http://{address}")
            yield f"http://{address}"
        finally:
            server.terminate()


def _await(url: str) -> None:
    """Wait until the server answers."""
    handler = signal.getsignal(signal.SIGINT)
    import umadb

    signal.signal(signal.SIGINT, handler)  # the import replaces the handler
    until = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            umadb.Client(url).head()
        except umadb.TransportError:
            if time.monotonic() > until:
                raise
            time.sleep(START_POLL_SECONDS)
        else:
            return


def _batches(count: int) -> Iterator[list[bytes]]:
    for first in range(0, count, FILL_EVENTS):
        yield [fact_bytes(number) for number in range(first, min(count, first + FILL_EVENTS))]


def _tag(stream: int) -> str:
    return f"stream-{stream}"


def _count(rows: Iterator[Any]) -> int:
    """Read all rows and keep none."""
    numbered = deque(enumerate(rows, 1), maxlen=1)
    return numbered[0][0] if numbered else 0
