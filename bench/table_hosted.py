"""The second ground of `bench.table`: memory that answers as late as DynamoDB and S3 do, and counts what is asked."""

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
"""What a request of a hosted service takes: `bench.contention` says the same of DynamoDB. A transaction takes twice
that, since it is prepared and then committed (Idziorek and others, USENIX ATC 2023)."""


class Hosted:
    """Memory behind requests that take their time."""

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
    """A port whose calls take so many seconds longer. Commits of several entries stay several, as on DynamoDB."""

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
