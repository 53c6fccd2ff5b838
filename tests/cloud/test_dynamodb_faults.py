"""Writers on a line to DynamoDB that throttles, loses and damages: what no emulator does, in front of one."""

from __future__ import annotations

import random
import threading
from collections import Counter

import pytest

from stratalog.assembly import Store
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_client import DynamoClient, Patience
from stratalog.backends.dynamodb_http import Endpoint, Reply
from stratalog.backends.dynamodb_setup import create_table
from stratalog.backends.memory import MemoryBlobs, MemoryQueue
from stratalog.clock import SystemClock
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.log import Event, Place, Settings
from stratalog.testing.emulators import Emulator
from tests.cloud.canned import damaged, refused
from tests.cloud.helpers import GivenCredentials, dynamo_client

UNHEARD = ["throttled", "conflict", "unsent", "request lost", "failed before"]
HEARD = ["answer lost", "failed after", "damaged"]
FAULTS = [*UNHEARD, *HEARD, "late"]
LATE_SECONDS_MAX = 0.03
FAULT_SHARE = 0.25
WRITERS = 4
APPENDS = 30


class RoughEndpoint:
    """An endpoint behind a line on which each request may meet a fault, as a seed decides."""

    def __init__(self, url: str, seed: int) -> None:
        self._endpoint = Endpoint(url)
        self._random = random.Random(seed)
        self._delays = random.Random(seed)
        self._lock = threading.Lock()
        self.host = self._endpoint.host
        self.met: Counter[str] = Counter()
        self._late: list[threading.Timer] = []

    def exchange(self, request: bytes) -> Reply:
        fault = self._fault()
        if fault in UNHEARD:
            return _instead_of_sending(fault)
        if fault == "late":
            return self._send_late(request)
        reply = self._endpoint.exchange(request)
        if fault == "answer lost":
            raise OutcomeUnknown("the answer of the service was lost")
        if fault == "failed after":
            return refused("InternalServerError", status=500)
        return damaged(reply) if fault == "damaged" else reply

    def wait(self) -> None:
        """Until every request that is late has arrived."""
        for timer in self._late:
            timer.join()

    def close(self) -> None:
        self._endpoint.close()

    def _send_late(self, request: bytes) -> Reply:
        """It has its effect when its sender has long given it up."""
        timer = threading.Timer(self._delays.random() * LATE_SECONDS_MAX, self._endpoint.exchange, [request])
        self._late.append(timer)
        timer.start()
        raise OutcomeUnknown("the answer of the service was lost")

    def _fault(self) -> str:
        with self._lock:
            fault = self._random.choice(FAULTS) if self._random.random() < FAULT_SHARE else "none"
            self.met[fault] += 1
            return fault


@pytest.mark.parametrize("seed", range(3))
def test_every_append_stands_once_and_where_its_writer_was_told(aws: Emulator, seed: int) -> None:
    """Segments roll over meanwhile, so transactions meet the faults as well. Each writer has a store of its own."""
    line = RoughEndpoint(aws.url, seed)
    patience = Patience(first_wait_seconds=0.001, wait_seconds_max=0.01)
    client = DynamoClient(line, "us-east-1", GivenCredentials, SystemClock(), patience=patience)
    index = DynamoIndex(client, f"rough-{seed}")
    create_table(client, index.table)
    _store(index).create_log("acme", "plan")
    told: list[tuple[int, str]] = []

    def write(writer: int) -> None:
        mine = _store(index).log("acme", "plan")
        for n in range(APPENDS):
            told.append((mine.append(Event("step", n), write_id=f"{writer}-{n}").version, f"{writer}-{n}"))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    line.wait()
    client.close()
    calm = DynamoIndex(dynamo_client(aws), index.table)
    found = [(entry.version, entry.write_id) for entry in _store(calm).log("acme", "plan").read()]
    calm.close()
    assert sorted(told) == found
    assert [version for version, _ in found] == list(range(1, WRITERS * APPENDS + 1))
    assert set(line.met) == {*FAULTS, "none"}


def _instead_of_sending(fault: str) -> Reply:
    if fault == "unsent":
        raise Unavailable("the endpoint cannot be reached")
    if fault == "request lost":
        raise OutcomeUnknown("the answer of the service was lost")
    if fault == "failed before":
        return refused("ServiceUnavailable", status=503)
    return refused("ThrottlingException" if fault == "throttled" else "TransactionConflictException")


def _store(index: DynamoIndex) -> Store:
    clock = SystemClock()
    settings = Settings(segment_entries_target=15, append_seconds_max=30)
    return Store(Place(index, MemoryBlobs(clock), clock, settings), MemoryQueue(clock))
