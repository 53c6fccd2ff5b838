"""The *hosted* ground of `bench.table`: memory with the latency of DynamoDB and S3, and a meter of the requests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from stratalog import Store
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.backends.metered_ports import MeteredBlobs, MeteredIndex
from stratalog.clock import SystemClock
from stratalog.log import Environment
from stratalog.ports.meter import Meter

__all__ = ["Hosted"]

WRITE_SECONDS, READ_SECONDS, BLOB_WRITE_SECONDS, BLOB_READ_SECONDS = 0.005, 0.003, 0.025, 0.015
"""The latency of a request. DynamoDB has the same latency in `bench.contention`. A transaction takes twice as long,
since DynamoDB prepares it and then commits it (Idziorek and others, USENIX ATC 2023)."""


class Hosted:
    """Stores in memory behind requests with latency."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self.meter = Meter()
        self._index = MeteredIndex(MemoryIndex(), self.meter)
        self._blobs = MeteredBlobs(MemoryBlobs(self._clock), self.meter)

    def store(self, *, slow: bool = True) -> Store:
        index: Any = Late(self._index, commit=WRITE_SECONDS, get=READ_SECONDS, query=READ_SECONDS)
        blobs: Any = Late(self._blobs, put=BLOB_WRITE_SECONDS, get=BLOB_READ_SECONDS, stat=BLOB_READ_SECONDS)
        environment = Environment(index if slow else self._index, blobs if slow else self._blobs, self._clock)
        return Store(environment, MemoryQueue(self._clock))


class Late:
    """A port whose calls take longer, by the given seconds of each method. Like DynamoDB, it has no joint commits."""

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, port: Any, **seconds: float) -> None:
        self._port = port
        self._seconds = seconds

    def __getattr__(self, name: str) -> Callable[..., Any]:
        called, seconds = getattr(self._port, name), self._seconds.get(name, 0)

        def late(*args: Any, **options: Any) -> Any:
            time.sleep(2 * seconds if name == "commit" and len(args[0]) > 1 else seconds)
            return called(*args, **options)

        return late
