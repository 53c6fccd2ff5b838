"""Benchmarks of the server: large pushes, pushes of one mutation, the delay to other clients, idle connections."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from websockets.sync.client import connect

from bench.figures import Measured
from bench.measure import alternated
from bench.payload import fact
from bench.workplace import Workplace
from stratalog.client import Client
from stratalog.client import connect as connect_client
from stratalog.protocol.messages import Mutation
from stratalog.protocol.sync import Push

__all__ = ["MEASURES", "resident_bytes", "running_program"]

CLIENTS = 8
BATCH = 50
MSGPACK = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
MEGABYTE = 1024 * 1024
READY_SECONDS_MAX = 60.0
ECHO = ("-m", "bench.serving")


def push_batches(work: Workplace) -> Measured:
    """Mutations a second of clients that push many mutations at a time to one document."""
    rounds = max(1, work.scale.commits // 20)
    with _server(work) as (url, _), running_program(ECHO) as (echo, _):
        _send(url, "PUT", _document(0))
        with _senders(url, [[_document(0)]] * CLIENTS) as senders, _senders(echo, [["/"]] * CLIENTS) as mirrors:
            seconds = alternated(
                max(1, work.scale.rounds // 3),
                lambda: _together(senders, lambda sender: sender.push(rounds, BATCH)),
                lambda: _together(mirrors, lambda sender: sender.push(rounds, BATCH)),
            )
        return _rates(seconds, CLIENTS * rounds * BATCH)


def push_singles(work: Workplace) -> Measured:
    """Pushes a second of clients that push one mutation at a time, to many documents."""
    shares = _shares(work)
    with _server(work) as (url, _), running_program(ECHO) as (echo, _):
        return _pushed_singly(work, (url, shares), (echo, [["/"]] * CLIENTS))


def push_processes(work: Workplace) -> Measured:
    """The same pushes to a server of two processes. The reference is a server of one process, on another store."""
    shares = _shares(work)
    with _server(work, "--processes", "2") as (url, _), _server(work) as (other, _):
        return _pushed_singly(work, (url, shares), (other, shares))


def push_together(work: Workplace) -> Measured:
    """Pushes of all clients to one document of a server of two processes. The reference is a server of one process."""
    together = [[_document(0)]] * CLIENTS
    with _server(work, "--processes", "2") as (url, _), _server(work) as (other, _):
        return _pushed_singly(work, (url, together), (other, together), pushes=5 * work.scale.commits // CLIENTS)


def hear(work: Workplace, percent: int) -> Measured:
    """The delay from a mutation of one client to another client's state: a percentile, in milliseconds."""
    if "heard" not in work.results:
        work.results["heard"] = _all_heard_ms(work)
    spent = work.results["heard"]
    return Measured(spent[min(len(spent) - 1, len(spent) * percent // 100)])


def idle_sockets(work: Workplace) -> Measured:
    """The additional memory of the server for a thousand live connections without messages."""
    count = 5 * work.scale.commits
    with _server(work) as (url, pid), ExitStack() as stack:
        _send(url, "PUT", _document(0))
        live = "ws" + url.removeprefix("http") + _document(0) + "/live"
        stack.enter_context(_listening(live))
        before = resident_bytes(pid)
        for _ in range(count):
            stack.enter_context(_listening(live))
        return Measured((resident_bytes(pid) - before) / MEGABYTE * 1000 / count)


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "push-batches": push_batches,
    "push-singles": push_singles,
    "push-processes": push_processes,
    "push-together": push_together,
    "hear-median": lambda work: hear(work, 50),
    "hear-slow": lambda work: hear(work, 99),
    "idle-sockets": idle_sockets,
}


def _shares(work: Workplace) -> list[list[str]]:
    """Return the documents of each client. No two clients push to one document."""
    documents = [_document(number) for number in range(5 * work.scale.commits)]
    return [documents[position::CLIENTS] for position in range(CLIENTS)]


Pushed = tuple[str, Sequence[Sequence[str]]]
"""The URL of a server, and the paths to which each client pushes."""


def _pushed_singly(work: Workplace, ours: Pushed, other: Pushed, pushes: int | None = None) -> Measured:
    """Create the documents of both sides, and measure pushes of one mutation.

    In each round, each client makes ``pushes`` pushes: by default, at most one to each of its documents.
    """
    for url, shares in (ours, other):
        for path in {path for share in shares for path in share} - {"/"}:
            _send(url, "PUT", path)
    rounds = pushes or min(map(len, ours[1]))
    with _senders(*ours) as senders, _senders(*other) as mirrors:
        seconds = alternated(
            max(1, work.scale.rounds // 5),
            lambda: _together(senders, lambda sender: sender.push(rounds, 1)),
            lambda: _together(mirrors, lambda sender: sender.push(rounds, 1)),
        )
    return _rates(seconds, CLIENTS * rounds)


class _Sender:
    """A minimal client that only pushes its next mutations.

    The client opens a new connection in each round, since the server closes connections that are idle during the
    other side's round.
    """

    def __init__(self, url: str, name: str, documents: Sequence[str]) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=READY_SECONDS_MAX)
        self._name = name
        self._paths = [document if document == "/" else f"{document}/push" for document in documents]
        self._next = dict.fromkeys(range(len(documents)), 1)

    def push(self, times: int, size: int) -> None:
        for turn in range(times):
            index = turn % len(self._paths)
            first = self._next[index]
            self._next[index] = first + size
            mutations = [
                Mutation(client=self._name, id=id, name="put", args={"key": fact(id)["key"], "value": fact(id)})
                for id in range(first, first + size)
            ]
            self._post(self._paths[index], msgspec.msgpack.encode(Push(self._name, mutations)))
        self.close()

    def close(self) -> None:
        self._connection.close()

    def _post(self, path: str, body: bytes) -> None:
        self._connection.request("POST", path, body, MSGPACK)
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path} answered {response.status}: {answer!r}")


@contextmanager
def _senders(url: str, shares: Sequence[Sequence[str]]) -> Iterator[list[_Sender]]:
    """Open a sender for each share of the documents."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(closing(_Sender(url, f"client-{number}", documents)))
            for number, documents in enumerate(shares)
        ]


def _all_heard_ms(work: Workplace) -> list[float]:
    with _server(work) as (url, _), ExitStack() as stack:
        document_url = url + _document(0)
        writer = stack.enter_context(_client(document_url, work, "writer"))
        reader = stack.enter_context(_client(document_url, work, "reader"))
        return sorted(_heard_ms(writer, reader, number) for number in range(work.scale.commits))


def _heard_ms(writer: Client, reader: Client, number: int) -> float:
    heard = threading.Event()
    stop = reader.subscribe(lambda keys: heard.set() if reader.get("n") == number else None)
    began = time.perf_counter()
    writer.mutate("put", {"key": "n", "value": number})
    if not heard.wait(READY_SECONDS_MAX):
        raise RuntimeError("the other client did not get the change")
    spent = (time.perf_counter() - began) * 1000
    stop()
    return spent


@contextmanager
def _client(url: str, work: Workplace, name: str) -> Iterator[Client]:
    with connect_client(url, str(work.fresh() / name), create=True) as client:
        client.sync()
        yield client


@contextmanager
def _listening(url: str) -> Iterator[None]:
    with connect(url, open_timeout=READY_SECONDS_MAX) as connection:
        connection.recv(READY_SECONDS_MAX)
        yield


def _document(number: int) -> str:
    return f"/v1/organisations/bench/documents/document-{number}"


def _send(url: str, method: str, path: str) -> None:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=READY_SECONDS_MAX)) as connection:
        connection.request(method, path)
        connection.getresponse().read()


def _together(senders: Sequence[_Sender], work: Callable[[_Sender], None]) -> None:
    """Run all senders at the same time. Raises a sender's error, so that no failed push counts as a fast push."""
    with ThreadPoolExecutor(len(senders)) as threads:
        list(threads.map(work, senders))


def _rates(seconds: tuple[float, float], count: int) -> Measured:
    ours, other = seconds
    return Measured(count / ours, count / other)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return 1024 * int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)]))


@contextmanager
def _server(work: Workplace, *options: str) -> Iterator[tuple[str, int]]:
    """Run `stratalog serve` with the options on a new store. Yield its URL and process id."""
    program = ["-c", "from stratalog.cli import main; main()"]
    serve = ["serve", "bench.serving:app", "--port", "0", "--json", "--store", str(work.fresh()), *options]
    with running_program([*program, *serve]) as running:
        yield running


@contextmanager
def running_program(arguments: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Run a server in its own process. Yield the URL that it prints, and its process id."""
    root = Path(__file__).parents[1]
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"], process.pid
        finally:
            process.terminate()
