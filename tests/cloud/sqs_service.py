"""Queues on an emulator of SQS. The emulator runs in its own process, and uses the clock of the test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from stratalog.backends.boto import aws_client
from stratalog.backends.service_request import RequestPolicy
from stratalog.backends.sqs import SqsQueue
from stratalog.backends.sqs_setup import create_queues
from stratalog.clock import Clock, SystemClock, new_id
from stratalog.testing.clock import ManualClock
from stratalog.testing.emulators import Command, ministack_environment, started
from tests.cloud import sqs_by_clock
from tests.cloud.seaweed import session
from tests.processes import watched

__all__ = ["ForwardingClock", "Service", "queue_on", "running"]


class Service(msgspec.Struct, frozen=True):
    """A client of a running SQS, and the file from which this SQS reads the time."""

    client: Any
    time: Path


class ForwardingClock(ManualClock):
    """A manual clock that writes its time to the file that the service reads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY)
        self._tell()

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._tell()

    def _tell(self) -> None:
        os.pwrite(self._file, sqs_by_clock.TIME.pack(self.wall_ms() / 1000), 0)

    def __del__(self) -> None:
        os.close(self._file)


@contextmanager
def running(folder: Path) -> Iterator[Service]:
    """Run ministack's SQS on the test's clock."""
    time = folder / "time"
    ForwardingClock(time)

    def command(ports: Sequence[int]) -> Command:
        environment = ministack_environment(ports[0], "sqs")
        return Command([sys.executable, sqs_by_clock.__file__, str(time)], environment, "/_ministack/health")

    with started("sqs", 1, command, folder) as emulator, watched(emulator):
        yield Service(aws_client("sqs", session(), emulator.url, RequestPolicy()), time)


def queue_on(service: Service, clock: Clock, receives_max: int = 10) -> SqsQueue:
    """Return a new queue on the service."""
    urls = create_queues(service.client, new_id(SystemClock()))
    for url in urls:
        largest = {"MaximumMessageSize": str(sqs_by_clock.MESSAGE_BYTES_MAX)}
        service.client.set_queue_attributes(QueueUrl=url, Attributes=largest)
    return SqsQueue(service.client, *urls, clock, receives_max)
