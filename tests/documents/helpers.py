"""Environments in memory for the documents' tests. Their ports record calls and can fail on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.documents import Document, Rules
from stratalog.log import Environment, Log, LogSettings, create_log, open_log
from stratalog.log.tasks import InlineTasks
from stratalog.ports.blobs import BlobStat, Damaged, ignore
from stratalog.ports.index import NO_BLOBS, Item, Put, Write
from stratalog.protocol import Mutation
from stratalog.testing.clock import ManualClock

Call = tuple[str, str]
Hook = Callable[[str, str], None]


class Recorder:
    """Records calls to both ports in order.

    The hook `before` runs before each recorded call. The hook `after` runs after each commit. Both hooks may raise.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.before: Hook | None = None
        self.after: Hook | None = None

    def note(self, name: str, target: str) -> None:
        self.calls.append((name, target))
        if self.before is not None:
            self.before(name, target)

    def done(self, name: str, target: str) -> None:
        if self.after is not None:
            self.after(name, target)

    def named(self, name: str) -> list[str]:
        """The targets of the recorded calls with that name."""
        return [target for called, target in self.calls if called == name]


class RecordingIndex:
    """An index that records its reads and commits. The target of a commit lists the keys of its writes."""

    joint_commits = True

    def __init__(self, backend: MemoryIndex, recorder: Recorder) -> None:
        self.blob_bytes_max = backend.blob_bytes_max
        self._backend = backend
        self._recorder = recorder
        self.commits: list[tuple[Write, ...]] = []

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self._recorder.note("get", f"{partition} {sort}")
        return self._backend.get(partition, sort, consistent=consistent)

    def query(self, partition: str, **options: Any) -> Iterator[Item]:
        self._recorder.note("query", partition)
        return self._backend.query(partition, **options)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        target = " + ".join(_target(write) for write in writes)
        self._recorder.note("commit", target)
        self.commits.append(tuple(writes))
        self._backend.commit(writes, blobs)
        self._recorder.done("commit", target)

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return self._backend.turn(partition)

    def close(self) -> None:
        self._backend.close()


class RecordingBlobs:
    """A blob store that records its calls of `put` and `get`."""

    def __init__(self, backend: MemoryBlobs, recorder: Recorder) -> None:
        self.backend = backend
        self._recorder = recorder

    def put(self, key: str, body: bytes) -> None:
        self._recorder.note("blob put", key)
        self.backend.put(key, body)

    def get(self, key: str) -> bytes:
        self._recorder.note("blob get", key)
        return self.backend.get(key)

    def stat(self, key: str) -> BlobStat | None:
        return self.backend.stat(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        return self.backend.list(prefix, after=after, damaged=damaged)

    def delete(self, key: str, stamp: str) -> bool:
        return self.backend.delete(key, stamp)

    def close(self) -> None:
        self.backend.close()


class World:
    """One store in memory. A test opens any number of handles to the store, as other processes would."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.recorder = Recorder()
        self.backend = MemoryIndex()
        self.index = RecordingIndex(self.backend, self.recorder)
        self.blobs = RecordingBlobs(MemoryBlobs(self.clock), self.recorder)
        settled = LogSettings(**settings)
        self.environment = Environment(self.index, self.blobs, self.clock, settled, background=InlineTasks())

    def create(self, name: str = "doc", rules: Rules | None = None) -> Document:
        return Document(create_log(self.environment, "acme", name, "document"), rules)

    def open(self, name: str = "doc", rules: Rules | None = None) -> Document:
        """Open the document as another process does: with empty caches."""
        return Document(open_log(self.open_environment(), "acme", name), rules)

    def open_environment(self) -> Environment:
        """Return the environment of another process, with empty caches and the same counters."""
        environment = Environment(
            self.index, self.blobs, self.clock, self.environment.settings, background=InlineTasks()
        )
        environment.counters = self.environment.counters
        return environment

    def open_in(self, organisation: str, name: str) -> Log:
        """Open a log of any organisation, in the environment that `create` uses."""
        return open_log(self.environment, organisation, name)

    def watched(self) -> Recorder:
        """Clear the recorder and return it."""
        self.recorder.calls.clear()
        return self.recorder

    def blob_keys(self, part: str = "") -> list[str]:
        return [stat.key for stat in self.blobs.list("") if part in stat.key]


def put(key: str, value: Any, *, client: str = "ada", id: int = 0) -> Mutation:
    return Mutation(client=client, id=id, name="put", args={"key": key, "value": value})


def inc(key: str = "n", by: int = 1, *, client: str = "ada", id: int = 0) -> Mutation:
    return Mutation(client=client, id=id, name="inc", args={"key": key, "by": by})


def statuses(outcomes: Sequence[Any]) -> list[str]:
    return [outcome.status for outcome in outcomes]


def large(text: str = "x", size: int = 3000) -> dict[str, Any]:
    """A value with metadata. The value is too large to be stored inline."""
    return {"id": text, "name": f"name of {text}", "plot": text * size}


def _target(write: Write) -> str:
    return f"{write.item.partition} {write.item.sort}" if isinstance(write, Put) else f"{write.partition} {write.sort}"
