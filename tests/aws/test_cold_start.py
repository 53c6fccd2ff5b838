"""The cold start of the queue's function: the imported modules, and the requests of the first message."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec import structs

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import SystemClock
from stratalog.codec import encode
from stratalog.costs.workload import Trial
from stratalog.documents import Document
from stratalog.documents.snapshots import tree_roots, unwritten_roots
from stratalog.limits import CHUNK_GETS_MAX
from stratalog.log import Environment, LogSettings, create_log, open_log
from stratalog.log.snapshots import put_snapshot
from stratalog.ports.blob_source import BlobSource
from stratalog.protocol.messages import Mutation
from stratalog.tree.nodes import Slot
from stratalog.tree.update import build
from tests.processes import environment, run

OPENED = """
import json, sys
import stratalog.aws.processor
from stratalog.store import open_store
open_store("aws://stratalog", create=False)
print(json.dumps(sorted(sys.modules)))
"""
SLOW = {"anyio", "asyncio", "boto3", "botocore", "email", "litestar", "multiprocessing", "sqlite3", "urllib3", "yaml"}
"""Packages that no message needs. The import of each package takes more than 5 ms of CPU."""


def test_the_function_imports_no_library_that_a_message_does_not_need() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-west-1"}
    no_files = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    imported = json.loads(run([sys.executable, "-c", OPENED], env=environment() | keys | no_files).stdout)
    assert "obstore" in imported
    assert SLOW.intersection(name.partition(".")[0] for name in imported) == set()
    assert "stratalog.maintenance.store_pass" not in imported


def test_the_first_message_makes_five_requests_to_the_index_and_reads_a_single_chunk() -> None:
    """The message needs its client's binding, which is in a leaf of the state's tree.

    The snapshot contains the chunk above this leaf.
    """
    trial = Trial()
    document = trial.store.create("acme", "plan")
    document.apply([_put(number, number + 1) for number in range(200)])
    document.snapshot()
    document.apply([_put(number, number + 201) for number in range(100)])
    cold = trial.reopened()
    before = trial.meter.read()
    (outcome,) = cold.document("acme", "plan").apply([_put(1, 301)])
    assert outcome.status == "applied"
    assert _requests(trial.meter.read(), before) == {"GetItem": 1, "Query": 3, "GetObject": 1, "PutItem": 1}


def _put(number: int, id: int) -> Mutation:
    value = {"title": "x" * 200}
    return Mutation(client="ada", id=id, name="put", args={"key": f"items/{number:03d}", "value": value})


def _requests(after: Mapping[tuple[str, str], float], before: Mapping[tuple[str, str], float]) -> dict[str, float]:
    counts = {name: count - before.get((name, unit), 0) for (name, unit), count in after.items() if unit == "requests"}
    return {name: count for name, count in counts.items() if count}


class RoundTrips:
    """Counts the round trips of gets: one for a get alone, and one for each `CHUNK_GETS_MAX` gets at the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        trips = self

        class CountedPool(ThreadPoolExecutor):
            def map(self, call: Any, gets: Any) -> Any:  # type: ignore[override]
                trips.count += -(-len(gets) // CHUNK_GETS_MAX)
                return super().map(call, gets)

        class CountedBlobs(MemoryBlobs):
            def get(self, key: str) -> bytes:
                trips.count += threading.current_thread() is threading.main_thread()
                return super().get(key)

        monkeypatch.setattr("stratalog.tree.chunks.ThreadPoolExecutor", CountedPool)
        self.blobs = CountedBlobs(SystemClock())

    def taken(self, work: Callable[[], object]) -> int:
        before = self.count
        work()
        return self.count - before


@pytest.mark.slow
def test_a_cold_push_to_a_large_document_takes_the_documented_round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """The section "The chunks of a large document" in docs/concepts/cost.md has these numbers."""
    trips, index, clock = RoundTrips(monkeypatch), MemoryIndex(), SystemClock()
    settings = LogSettings(snapshot_entries_interval=10**6)

    def opened(gets_max: int) -> Document:
        source = BlobSource(trips.blobs, gets_max)
        environment = Environment(index, trips.blobs, clock, settings, chunk_source=source)
        return Document(open_log(environment, "acme", "plan"))

    log = create_log(Environment(index, trips.blobs, clock, settings), "acme", "plan", "document")
    document = Document(log)
    document.mutate("put", {"key": "title", "value": "large"})
    items = ((f"items/{number:06}", Slot(encode({"title": "x" * 100}), 1)) for number in range(200_000))
    roots = structs.replace(tree_roots(document.state()), content=build(document.chunks, items))
    put_snapshot(log.environment, log.record, 1, document.state().hash, encode(roots), None)

    numbers, pushes = Random(7), []
    for many in (1, 20, 200, 1000):
        for gets_max in (1, CHUNK_GETS_MAX):
            keys = [f"items/{number:06}" for number in numbers.sample(range(200_000), many)]
            batch = [Mutation(client=f"c{many}-{gets_max}", name="put", args={"key": key, "value": 1}) for key in keys]
            pushes.append(trips.taken(partial(opened(gets_max).apply, batch)))
    snapshots = [trips.taken(partial(unwritten_roots, opened(gets_max).state())) for gets_max in (1, CHUNK_GETS_MAX)]
    assert pushes == [3, 3, 34, 4, 237, 16, 857, 56]
    assert snapshots == [1476, 103]
