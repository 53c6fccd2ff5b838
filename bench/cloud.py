"""What a client of DynamoDB costs by itself: calls a second and CPU per call, ours beside boto3, on canned answers.

``python -m bench.cloud [--quick] [--endpoint URL]``. The answers come from a process of their own, always the same and
at once; or from the endpoint, an emulator. The sides take turns. A call is a conditional PutItem of 500 bytes; ours
goes through the index, whole.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import multiprocessing
import statistics
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection

import boto3
from botocore.config import Config

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient
from stratalog.backends.dynamodb_http import Endpoint
from stratalog.backends.dynamodb_setup import create_table
from stratalog.clock import SystemClock, new_id
from stratalog.ports.index import Absent, Item, Put

TABLE = "bench"
BODY = bytes(range(250)) * 2
ANSWER = b'{"ConsumedCapacity":{"TableName":"bench","CapacityUnits":1.0}}'
HEAD = (
    "HTTP/1.1 200 OK\r\nServer: Server\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {}\r\n"
    "Connection: keep-alive\r\nx-amzn-RequestId: 0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGHIJ\r\n"
    "x-amz-crc32: {}\r\n\r\n"
)
WHOLE = HEAD.format(len(ANSWER), zlib.crc32(ANSWER)).encode() + ANSWER

Side = Callable[[], object]

numbers = itertools.count()
run = new_id(SystemClock())


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    calls, rounds = (48, 1) if options.quick else (2000, 5)
    with nullcontext(options.endpoint) if options.endpoint else canned_answers() as url:
        client = our_client(url)
        if options.endpoint:
            create_table(client, TABLE)
        sides = {"boto3": boto3_puts(url), "stratalog": our_puts(client)}
        print(f"{'client':<12}{'threads':>8}{'calls/s':>10}{'CPU ms/call':>13}")
        for threads in (1, 16):
            for name, (calls_per_second, cpu_ms) in measured(sides, rounds, threads, calls // threads).items():
                print(f"{name:<12}{threads:>8}{calls_per_second:>10,.0f}{cpu_ms:>13.3f}")
        client.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cloud", description="What a client of DynamoDB costs.")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, says nothing about speed")
    parser.add_argument("--endpoint", help="an emulator to measure against, instead of canned answers")
    return parser.parse_args(arguments)


def measured(sides: dict[str, Side], rounds: int, threads: int, each: int) -> dict[str, tuple[float, float]]:
    """The medians of the rounds of each side. One round of each comes first and is not counted."""
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, put in sides.items():
            figure = rate(put, threads, each)
            if turn:
                figures[name].append(figure)
    return {
        name: (statistics.median(speed for speed, _ in found), statistics.median(cpu for _, cpu in found))
        for name, found in figures.items()
    }


def rate(put: Side, threads: int, each: int) -> tuple[float, float]:
    """Calls a second of all threads together, and this process's CPU in milliseconds for each call."""
    workers = [threading.Thread(target=lambda: [put() for _ in range(each)]) for _ in range(threads)]
    begun, cpu = time.perf_counter(), time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    calls = threads * each
    return calls / (time.perf_counter() - begun), (time.process_time() - cpu) * 1000 / calls


def our_client(url: str) -> DynamoClient:
    credentials = boto3.Session("test", "secret").get_credentials()
    return DynamoClient(Endpoint(url), "us-east-1", credentials.get_frozen_credentials, SystemClock())


def our_puts(client: DynamoClient) -> Side:
    index = DynamoIndex(client, TABLE)
    return lambda: index.commit([Put(Item(run, f"{next(numbers):016d}", {"b": BODY}), Absent())])


def boto3_puts(url: str) -> Side:
    client = boto3.Session("test", "secret", region_name="us-east-1").client(
        "dynamodb", endpoint_url=url, config=Config(max_pool_connections=16)
    )
    return lambda: client.put_item(
        TableName=TABLE,
        Item={"P": {"S": run}, "S": {"S": f"{next(numbers):016d}"}, "b": {"B": BODY}},
        ConditionExpression="attribute_not_exists(P)",
        ReturnValuesOnConditionCheckFailure="ALL_OLD",
        ReturnConsumedCapacity="TOTAL",
    )


@contextmanager
def canned_answers() -> Iterator[str]:
    """The URL of a server that says the same to every request."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.kill()
        process.join()


class _Canned(asyncio.Protocol):
    """Answers whatever comes as soon as it has come whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._seen = b""

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, found, body = self._seen.partition(b"\r\n\r\n")
        if found and len(body) >= int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]):
            self._seen = b""
            self._transport.write(WHOLE)  # type: ignore[attr-defined]


def _serve(pipe: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Canned, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
