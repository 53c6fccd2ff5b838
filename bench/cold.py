"""Processes that begin: the cold start of the queue's function, and the first push to a large document.

`cold_start` measures the CPU time of a new process until it can settle its first message. The other side is a minimal
handler that only makes boto3's clients of the same three services. The other rows measure the time of a push of 20
changes far apart, by a process without a chunk in memory. A get of a chunk from the store takes as long as from S3.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from bench.figures import Measured
from bench.measure import alternated
from bench.payload import item_key
from bench.workplace import DOCUMENT, ORGANISATION, Workplace
from stratalog import Document, Store
from stratalog.backends.cached_blobs import CachedBlobs
from stratalog.limits import CHUNK_GETS_MAX
from stratalog.log import Environment, open_log
from stratalog.ports.blob_source import BlobSource
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.protocol import Mutation
from stratalog.store import open_store

__all__ = ["MEASURES"]

OURS = """
import stratalog.aws.processor
from stratalog.store import open_store
open_store("aws://stratalog", create=False)
"""
THEIRS = """
import boto3
session = boto3.Session()
for service in ("dynamodb", "s3", "sqs"):
    session.client(service)
"""
CPU = "\nimport time\nprint(time.process_time())"
ROUNDS = 15
KEYS = 200_000
CHANGES = 20
GET_SECONDS = 0.015
LAMBDA = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def cold_start(work: Workplace) -> Measured:
    """Measure both sides in turn. The first round of a side writes its bytecode, and does not count."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment |= LAMBDA | {"PYTHONPYCACHEPREFIX": str(work.fresh()), "PYTHONDONTWRITEBYTECODE": ""}
    spent: tuple[list[float], list[float]] = ([], [])
    for turn in range(min(ROUNDS, work.scale.rounds) + 1):
        for program, times in zip((OURS, THEIRS), spent, strict=True):
            milliseconds = cpu_ms(program, environment)
            if turn:
                times.append(milliseconds)
    return Measured(statistics.median(spent[0]), statistics.median(spent[1]))


def cpu_ms(program: str, environment: dict[str, str]) -> float:
    """Return the CPU time of a new process that runs the program, in milliseconds."""
    command = [sys.executable, "-c", program + CPU]
    return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout) * 1000


class DistantBlobs(BlobsWrapper):
    """Blobs whose `get` takes as long as from S3."""

    def get(self, key: str) -> bytes:
        time.sleep(GET_SECONDS)
        return self._blobs.get(key)


class ColdPushes:
    """Pushes of changes far apart. Each push is by a process that has no chunk in memory."""

    def __init__(self, store: Store, keys: int) -> None:
        self._store = store
        self._keys = keys
        # The version seeds the keys, so this row changes other keys than an earlier row. A state has recently changed
        # keys in memory, so a change of such a key would load no chunk.
        version = store.document(ORGANISATION, DOCUMENT).version
        self._random = Random(version)
        self._clients = count(version)
        self.distant = DistantBlobs(store.environment.blobs)

    def push(self, source: BlobSource) -> None:
        numbers = self._random.sample(range(self._keys), CHANGES)
        arguments = [{"key": item_key(number), "value": "changed"} for number in numbers]
        client = f"client-{next(self._clients)}"
        self.opened(source).apply([Mutation(client=client, name="put", args=args) for args in arguments])

    def fill(self, folder: Path) -> BlobSource:
        """Read every chunk into the cache in ``folder``, and return the source behind this cache."""
        environment = self._store.environment
        near = CachedBlobs(environment.blobs, folder, environment.clock)
        for _ in self.opened(BlobSource(near)).scan():
            pass
        cached = CachedBlobs(self.distant, folder, environment.clock)
        return BlobSource(cached, CHUNK_GETS_MAX, cached.is_near)

    def opened(self, source: BlobSource) -> Document:
        known = self._store.environment
        environment = Environment(known.index, known.blobs, known.clock, known.settings, chunk_source=source)
        return Document(open_log(environment, ORGANISATION, DOCUMENT))


@contextmanager
def cold_pushes(work: Workplace) -> Iterator[ColdPushes]:
    keys = min(KEYS, work.scale.keys)
    with open_store(work.document(keys)) as store:
        yield ColdPushes(store, keys)


def cold_push(work: Workplace) -> Measured:
    """Compare loads of several chunks at the same time with loads one after the other."""
    with cold_pushes(work) as pushes:
        sides = [partial(pushes.push, BlobSource(pushes.distant, gets_max)) for gets_max in (CHUNK_GETS_MAX, 1)]
        together, alone = alternated(work.scale.rounds, *sides)
    return Measured(together * 1000, alone * 1000)


def cold_push_cached(work: Workplace) -> Measured:
    """Compare a process on a machine whose cache has every chunk with a process on a machine without a cache."""
    with cold_pushes(work) as pushes:
        sides = [pushes.fill(work.fresh()), BlobSource(pushes.distant, CHUNK_GETS_MAX)]
        cached, without = alternated(work.scale.rounds, *(partial(pushes.push, source) for source in sides))
    return Measured(cached * 1000, without * 1000)


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "cold-start": cold_start,
    "cold-push": cold_push,
    "cold-push-cached": cold_push_cached,
}
