"""A batch of mutations gets its chunks at the same time: one round of parallel gets for each level of its trees."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.codec import Value
from stratalog.documents import Document, Rules
from stratalog.documents.commit_builder import commit_of
from stratalog.documents.run import run_batch
from stratalog.errors import Corrupt
from stratalog.log import Environment, create_log, open_log
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.tasks import InlineTasks
from stratalog.ports.blob_source import BlobSource
from stratalog.protocol import Mutation
from stratalog.protocol.draft import Draft
from stratalog.testing.clock import ManualClock

KEYS = 6000
CLIENTS = 400
SEED = 3
TOPMOST = 1
"""The number of gets in the test's own thread: a level that needs only one chunk is not read in parallel.

Only the topmost level of the content is such a level. The topmost chunks of the other trees are inline.
"""

GROUP = {"group": "team", "owner": "ada"}


class WatchedBlobs(MemoryBlobs):
    """Records the thread of each get."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.threads: list[str] = []

    def get(self, key: str) -> bytes:
        self.threads.append(threading.current_thread().name)
        return super().get(key)


def rename(draft: Draft, args: Any) -> None:
    """Set the name of an item. The arguments do not name the key, and the mutator does not read it."""
    draft.put(f"items/{args['number']:05}", args["name"])


class CountedDocument:
    """A document with many keys, clients and tombstones. `cold` opens the document with empty caches."""

    def __init__(self) -> None:
        self.index, self.blobs, self.clock = MemoryIndex(), WatchedBlobs(), ManualClock()
        document = Document(create_log(self._environment(1), "acme", "plan", "document"))
        for first in range(0, KEYS, 1000):
            document.apply(
                [_put("filler", number + 1, f"items/{number:05}", 0) for number in range(first, first + 1000)]
            )
        document.apply([_put(f"client-{number:04}", 1, "last", number) for number in range(CLIENTS)], **GROUP)
        gone = [
            Mutation(client="filler", id=KEYS + 1 + number, name="del", args={"key": f"items/{2 * number:05}"})
            for number in range(1000)
        ]
        document.apply(gone)
        document.snapshot()

    def cold(self, gets_max: int) -> Document:
        """Open the document with an empty cache. It loads at most ``gets_max`` chunks at a time."""
        self.blobs.threads.clear()
        rules = Rules({**Rules().mutators, "rename": rename, "revive": rename})
        return Document(open_log(self._environment(gets_max), "acme", "plan"), rules)

    def gets(self) -> tuple[int, int]:
        """Return the number of gets, and the number of gets that the test's own thread made one after the other."""
        return len(self.blobs.threads), self.blobs.threads.count(threading.current_thread().name)

    def _environment(self, gets_max: int) -> Environment:
        source = BlobSource(self.blobs, gets_max)
        return Environment(self.index, self.blobs, self.clock, background=InlineTasks(), chunk_source=source)


@pytest.fixture(scope="module")
def counted() -> CountedDocument:
    return CountedDocument()


def _put(client: str, id: int, key: str, value: Value) -> Mutation:
    return Mutation(client=client, id=id, name="put", args={"key": key, "value": value})


def _arguments(name: str) -> list[dict[str, Any]]:
    """Return the arguments of 20 mutations of random keys. For "revive" the keys are deleted."""
    numbers = random.Random(SEED).sample(range(1, 2000 if name == "revive" else KEYS, 2), 20)
    if name in ("rename", "revive"):
        return [{"number": number - (name == "revive"), "name": "x"} for number in numbers]
    values: dict[str, Any] = {"put": {"value": 1}, "inc": {}, "patch": {"merge": {"a": 1}}, "del": {}}
    return [{"key": f"items/{number:05}", **values[name]} for number in numbers]


def _gets(counted: CountedDocument, name: str, gets_max: int) -> tuple[int, int]:
    """Run a batch with empty caches and build its commit, but write nothing. Return the numbers of `gets`."""
    document = counted.cold(gets_max)
    arguments = _arguments(name)
    batch = [Mutation(client="client-0007", id=2 + step, name=name, args=args) for step, args in enumerate(arguments)]
    state = document.state()
    run = run_batch(state, document.stored_values, document.rules.mutators, batch, **GROUP)
    assert {outcome.status for outcome in run.outcomes} == {"applied"}
    assert len(commit_of(state, run, document.stored_values, BlobBatch(document.log.environment)).patch) == len(batch)
    return counted.gets()


@pytest.mark.parametrize("name", ["put", "inc", "patch", "del"])
def test_a_batch_whose_arguments_name_its_keys_reads_its_chunks_together(counted: CountedDocument, name: str) -> None:
    alone, together = _gets(counted, name, 1), _gets(counted, name, 16)
    assert alone[0] == alone[1] > 10
    assert together == (alone[0], TOPMOST)


def test_the_chunks_of_keys_that_the_arguments_do_not_name_are_read_together_after_the_run(
    counted: CountedDocument,
) -> None:
    alone, together = _gets(counted, "rename", 1), _gets(counted, "rename", 16)
    assert together == (alone[0], TOPMOST)


def test_the_tombstones_of_absent_keys_are_read_together(counted: CountedDocument) -> None:
    alone, together = _gets(counted, "revive", 1), _gets(counted, "revive", 16)
    assert together == (alone[0], TOPMOST)


def test_a_batch_that_needs_an_unreadable_chunk_fails_and_writes_nothing(counted: CountedDocument) -> None:
    document = counted.cold(16)
    version = document.version
    keys = [key for key in counted.blobs._bodies if "/chunks/" in key]
    lost = {key: counted.blobs._bodies.pop(key) for key in keys}
    try:
        with pytest.raises(Corrupt):
            document.apply([_put("client-0007", 2, "items/00001", 1)], **GROUP)
    finally:
        counted.blobs._bodies.update(lost)
    assert document.version == version
