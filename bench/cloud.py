"""Benchmarks of our DynamoDB client and of boto3, with canned responses and with an emulator.

For the canned responses, another process answers every request with the same response, without delay. Rounds of
our client and of boto3 alternate. A put is a conditional PutItem of 500 bytes. Our side puts through the index, which
calls our client. In `client_commit` our side appends to a log, which also uses the index.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection

import boto3
from botocore.config import Config

from bench.figures import Measured
from bench.payload import fact
from bench.workplace import Workplace
from stratalog import Event
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient
from stratalog.backends.dynamodb_http import Endpoint
from stratalog.backends.dynamodb_setup import create_table
from stratalog.backends.memory import MemoryBlobs
from stratalog.clock import Observation, SystemClock, new_id
from stratalog.keys import log_prefix
from stratalog.log import Environment, Log
from stratalog.log.chain import genesis
from stratalog.log.entries import encode_events
from stratalog.log.names import NameRecord
from stratalog.ports.index import Absent, Item, Put
from stratalog.testing.emulators import ministack

__all__ = ["MEASURES"]

THREADS = 16
ROUNDS = 5
CALLS_A_COMMIT = 4  # a factor on the scale's commits, since these calls are much shorter than a durable commit
TABLE = "bench"
BODY = bytes(range(250)) * 2
ANSWER = b'{"ConsumedCapacity":{"TableName":"bench","CapacityUnits":1.0}}'
HEAD = (
    "HTTP/1.1 200 OK\r\nServer: Server\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n"
    "Connection: keep-alive\r\nx-amzn-RequestId: 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGHIJ\r\n"
    "x-amz-crc32: {}\r\n\r\n"
)
RESPONSE = HEAD.format(len(ANSWER), zlib.crc32(ANSWER)).encode() + ANSWER

Side = Callable[[int], object]
"""A function that makes one call. Its argument is the number of the calling thread."""

numbers = itertools.count()
run = new_id(SystemClock())


def client_calls(work: Workplace) -> Measured:
    with canned_answers() as url, closing(our_client(url)) as client:
        (ours, _), (theirs, _) = measured(our_puts(client), boto3_puts(url), _calls(work))
        return Measured(ours, theirs)


def client_commit(work: Workplace) -> Measured:
    with canned_answers() as url, closing(our_client(url)) as client:
        (_, ours), (_, theirs) = measured(our_appends(client), boto3_puts(url), _calls(work))
        return Measured(ours - encoding_ms(), theirs)


def emulator_calls(work: Workplace) -> Measured:
    with ministack(work.fresh()) as emulator, closing(our_client(emulator.url)) as client:
        create_table(client, TABLE)
        (ours, _), (theirs, _) = measured(our_puts(client), boto3_puts(emulator.url), _calls(work))
        return Measured(ours, theirs)


MEASURES = {"client-calls": client_calls, "client-commit": client_commit, "emulator-calls": emulator_calls}


def measured(ours: Side, theirs: Side, each: int) -> list[tuple[float, float]]:
    """Return the medians of each side: calls a second, and CPU of a call. The first round of a side does not count."""
    rates: list[list[tuple[float, float]]] = [[], []]
    for turn in range(ROUNDS + 1):
        for position, side in enumerate((ours, theirs)):
            figure = rate(side, each)
            if turn:
                rates[position].append(figure)
    return [
        (statistics.median(calls for calls, _ in side_rates), statistics.median(cpu for _, cpu in side_rates))
        for side_rates in rates
    ]


def rate(side: Side, each: int) -> tuple[float, float]:
    """Return the calls a second of all threads together, and this process's CPU in milliseconds for each call."""

    def work(thread: int) -> None:
        for _ in range(each):
            side(thread)

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(THREADS)]
    begun, cpu = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    calls = THREADS * each
    return calls / (time.perf_counter() - begun), (time.process_time() - cpu) * 1000 / calls


def our_client(url: str) -> DynamoClient:
    credentials = boto3.Session("test", "secret").get_credentials()
    return DynamoClient(Endpoint(url), "us-east-1", credentials.get_frozen_credentials, SystemClock())


def our_puts(client: DynamoClient) -> Side:
    index = DynamoIndex(client, TABLE)
    return lambda _: index.commit([Put(Item(run, f"{next(numbers):016d}", {"b": BODY}), Absent())])


def our_appends(client: DynamoClient) -> Side:
    """Return a side that appends one event. Each thread has its own log: in one log threads wait for each other."""
    clock = SystemClock()
    environment = Environment(DynamoIndex(client, TABLE), MemoryBlobs(clock), clock)
    records = [
        NameRecord(
            organisation="bench",
            name=name,
            kind="log",
            incarnation=run,
            created_ms=0,
            owner=log_prefix("bench", name, run),
            origin=run,
            hash=genesis(run),
        )
        for name in map(str, range(THREADS))
    ]
    logs = [Log(environment, record, seen=Observation(clock)) for record in records]
    return lambda thread: logs[thread].append(Event("paid", fact(1)))


def encoding_ms() -> float:
    """Return the CPU in milliseconds for encoding one event of `our_appends`."""
    begun = time.process_time()
    for _ in range(1000):
        encode_events([Event("paid", fact(1))])
    return time.process_time() - begun


def boto3_puts(url: str) -> Side:
    client = boto3.Session("test", "secret", region_name="us-east-1").client(
        "dynamodb", endpoint_url=url, config=Config(max_pool_connections=THREADS)
    )
    return lambda _: client.put_item(
        TableName=TABLE,
        Item={"P": {"S": run}, "S": {"S": f"{next(numbers):016d}"}, "b": {"B": BODY}},
        ConditionExpression="attribute_not_exists(P)",
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
        ReturnConsumedCapacity="TOTAL",
    )


def _calls(work: Workplace) -> int:
    """Return the number of calls of each thread in a round."""
    return max(1, CALLS_A_COMMIT * work.scale.commits // THREADS)


@contextmanager
def canned_answers() -> Iterator[str]:
    """Run a server that sends the same response to every request, and yield its URL."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.kill()
        process.join()


class _Canned(asyncio.Protocol):
    """Answers each request as soon as it is complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._seen = b""

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, separator, body = self._seen.partition(b"\r\n\r\n")
        if separator and len(body) >= int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            self._seen = b""
            self._transport.write(RESPONSE)  # type: ignore[attr-defined]


def _serve(pipe: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Canned, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())
