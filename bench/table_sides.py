"""The stores that `bench.table` compares: ours, two alternatives on the same ports, and a lower bound.

All stores except the lower bound add files to a table, assign files to jobs, and replace a job's files by its output,
with the same checks. Each of these calls is a request. The stores use group commit, except `ItemEach` with the tuning 1
or for more than `TRANSACTION_FILES` files. The leader waits a short time for a batch of the same size as its last
batch. The lower bound commits one item for each batch of requests. Each alternative has three tunings. A first run
chooses the tuning whose result the benchmark publishes. `bench.table_postgres` has another alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from stratalog import Store
from stratalog.codec import decode, encode, sha256
from stratalog.errors import ConditionFailed, Invalid
from stratalog.group_commit import GroupCommit, PendingCommit
from stratalog.limits import COMMIT_WRITES_MAX
from stratalog.ports.index import Absent, Check, Delete, Equals, Index, Item, Put, Write
from stratalog.retry import Retry, RetryPolicy
from stratalog_table import (
    Assignment,
    Column,
    NewFile,
    NewReference,
    Output,
    ReplaceFileReferences,
    Schema,
    Table,
    create_table,
    open_table,
)

__all__ = ["BOUNDS", "JOB_FILES", "SIDES", "FullState", "ItemEach", "Minimum", "Ours", "Side"]

ROWS = 1000
ROOT = "root"
TRANSACTION_FILES = 49
PAUSE_SECONDS = 0.001
JOB_FILES = 10
TRANSACTION_WRITES = COMMIT_WRITES_MAX - 1 - 2 * (JOB_FILES + 1) + 1
PARALLEL = 8
ATTEMPTS_MAX = 40


T = TypeVar("T")
_Files = dict[str, dict[str, Any]]
"""The state of a table: file name → partition → the file's number of rows, or [number of rows, job] once assigned."""

_Change = Callable[[_Files], "Exception | None"]


class Side(Protocol):
    """One process's handle on one table."""

    def add(self, names: Sequence[str]) -> None:
        """Commit files durably. Raises if a file exists, or after the last retry."""
        ...

    def assign(self, job: str, names: Sequence[str]) -> None:
        """Assign files to a job. Raises if a file does not exist or already has a job."""
        ...

    def replace(self, job: str, names: Sequence[str], output: str) -> None:
        """Replace files of a job by one file. Raises if a file does not belong to the job, or the new file exists."""
        ...

    def settle(self) -> None:
        """Do the deferred work of earlier commits, such as a snapshot."""
        ...


class Ours:
    """The table of this repository."""

    tunings: Sequence[Any] = (None,)

    def __init__(self, store: Store, table: str, tuning: Any) -> None:
        self._table: Table = open_table(store, "bench", table)

    @staticmethod
    def create(store: Store, table: str) -> None:
        create_table(store, "bench", table, Schema((Column("id", "long"),)))

    def add(self, names: Sequence[str]) -> None:
        reference = (NewReference(ROOT, ROWS),)
        self._table.add_files([NewFile(name, reference) for name in names])

    def assign(self, job: str, names: Sequence[str]) -> None:
        self._table.assign_job_ids([Assignment(job, ROOT, tuple(names))])

    def replace(self, job: str, names: Sequence[str], output: str) -> None:
        done = ReplaceFileReferences(job, ROOT, tuple(names), Output(output, ROWS * len(names)))
        self._table.replace_file_references([done])

    def settle(self) -> None:
        self._table.snapshot()


class FullState:
    """The store (b) of docs/guides/table.md: the entire state in one blob, and an item that names the blob.

    A commit replaces the item, unless another commit has replaced the item since this process read it.

    The tuning is the maximum time in seconds that a leader waits for a batch of the same size as its last batch.
    """

    tunings: Sequence[Any] = (PAUSE_SECONDS, 0.005, 0.02)

    def __init__(self, store: Store, table: str, tuning: Any) -> None:
        self._index, self._blobs, self._clock = (
            store.environment.index,
            store.environment.blobs,
            store.environment.clock,
        )
        self._table = table
        self._together: _Together[_Change] = _Together(self._commit, tuning)
        self._revision = -1
        self._state: _Files = {}

    @staticmethod
    def create(store: Store, table: str) -> None:
        body = encode({})
        store.environment.blobs.put(_blob_key(table, body), body)
        store.environment.index.commit([Put(Item(f"whole/{table}", "now", {"r": 0, "a": sha256(body)}), Absent())])

    def add(self, names: Sequence[str]) -> None:
        self._together.commit(partial(_put_new, names=names, rows=ROWS))

    def assign(self, job: str, names: Sequence[str]) -> None:
        self._together.commit(partial(_give, job=job, names=names))

    def replace(self, job: str, names: Sequence[str], output: str) -> None:
        self._together.commit(partial(_put_instead, job=job, names=names, output=output))

    def settle(self) -> None:
        """Do nothing."""

    def _commit(self, batch: list[_Waiting[_Change]]) -> None:
        if self._revision < 0:
            self._load()
        retry = Retry(self._clock, RetryPolicy(wait_seconds_first=0.02))
        while True:
            state = dict(self._state)
            for waiting in batch:
                waiting.settle(waiting.wanted(state))
            if self._replace(state):
                return
            if retry.attempts == ATTEMPTS_MAX - 1:
                raise TimeoutError("other writers won every race")
            self._clock.sleep(retry.next_seconds())
            self._load()

    def _replace(self, state: _Files) -> bool:
        body = encode(state)
        self._blobs.put(_blob_key(self._table, body), body)
        item = Item(f"whole/{self._table}", "now", {"r": self._revision + 1, "a": sha256(body)})
        try:
            self._index.commit([Put(item, Equals("r", self._revision))])
        except ConditionFailed:
            return False
        self._revision, self._state = self._revision + 1, state
        return True

    def _load(self) -> None:
        item = self._index.get(f"whole/{self._table}", "now")
        assert item is not None
        address = item.attributes["a"]
        self._state = decode(self._blobs.get(f"bench/{self._table}/{address.hex()}"))
        self._revision = item.attributes["r"]


class ItemEach:
    """The store (c) of docs/guides/table.md: one item for each file and one for each reference.

    Each transaction also checks the partition's item. A call reads nothing, because the benchmark fixes the number of
    rows of each new file, and a job replaces one reference of each of its files. The conditions of the writes check the
    references. The tuning is the maximum number of calls that share a transaction.
    """

    tunings: Sequence[Any] = (1, 8, 33)

    def __init__(self, store: Store, table: str, tuning: Any) -> None:
        self._index: Index = store.environment.index
        self._files, self._references = f"items/{table}/files", f"items/{table}/references"
        self._partitions = f"items/{table}/partitions"
        self._share: int = tuning
        self._together: _Together[list[Write]] = _Together(self._commit, PAUSE_SECONDS, tuning, len, TRANSACTION_WRITES)
        self._pool = ThreadPoolExecutor(PARALLEL)

    @staticmethod
    def create(store: Store, table: str) -> None:
        store.environment.index.commit([Put(Item(f"items/{table}/partitions", ROOT, {"l": 1}), Absent())])

    def add(self, names: Sequence[str]) -> None:
        parts = [names[start : start + TRANSACTION_FILES] for start in range(0, len(names), TRANSACTION_FILES)]
        if len(parts) > 1:
            list(self._pool.map(lambda part: self._write(self._new(part, ROWS)), parts))
        else:
            self._share_out(self._new(names, ROWS))

    def assign(self, job: str, names: Sequence[str]) -> None:
        self._share_out([Put(self._reference(name, ROWS, job), Equals("j", "")) for name in names])

    def replace(self, job: str, names: Sequence[str], output: str) -> None:
        writes: list[Write] = []
        for name in names:
            writes.append(Delete(self._references, f"{ROOT}|{name}", Equals("j", job)))
            writes.append(Put(Item(self._files, name, {"n": 0}), Equals("n", 1)))
        self._share_out(writes + self._new([output], ROWS * len(names)))

    def settle(self) -> None:
        """Do nothing."""

    def _new(self, names: Sequence[str], rows: int) -> list[Write]:
        writes: list[Write] = []
        for name in names:
            writes.append(Put(Item(self._files, name, {"n": 1}), Absent()))
            writes.append(Put(self._reference(name, rows, ""), Absent()))
        return writes

    def _reference(self, name: str, rows: int, job: str) -> Item:
        return Item(self._references, f"{ROOT}|{name}", {"n": rows, "j": job})

    def _share_out(self, writes: list[Write]) -> None:
        if self._share == 1:
            self._write(writes)
        else:
            self._together.commit(writes)

    def _commit(self, batch: list[_Waiting[list[Write]]]) -> None:
        try:
            self._write([write for waiting in batch for write in waiting.wanted])
        except (ConditionFailed, Invalid):  # Invalid if two requests write the same item
            for waiting in batch:
                try:
                    self._write(waiting.wanted)
                except ConditionFailed as exc:
                    waiting.settle(exc)

    def _write(self, writes: list[Write]) -> None:
        self._index.commit([Check(self._partitions, ROOT, Equals("l", 1)), *writes])


class Minimum:
    """The lower bound for a store with group commit: each commit puts one item, for all requests of a batch.

    It checks nothing.
    """

    tunings: Sequence[Any] = (None,)

    def __init__(self, store: Store, table: str, tuning: Any) -> None:
        self._index: Index = store.environment.index
        self._put = Put(Item(f"least/{table}", "now", {"n": 0}))
        self._together: _Together[None] = _Together(self._commit, PAUSE_SECONDS)

    @staticmethod
    def create(store: Store, table: str) -> None:
        """Do nothing."""

    def add(self, names: Sequence[str]) -> None:
        self._together.commit(None)

    def assign(self, job: str, names: Sequence[str]) -> None:
        self._together.commit(None)

    def replace(self, job: str, names: Sequence[str], output: str) -> None:
        self._together.commit(None)

    def settle(self) -> None:
        """Do nothing."""

    def _commit(self, batch: list[_Waiting[None]]) -> None:
        self._index.commit([self._put])


class _Waiting(PendingCommit[None], Generic[T]):
    """The request of one thread."""

    def __init__(self, wanted: T) -> None:
        super().__init__()
        self.wanted = wanted


class _Together(Generic[T]):
    """A group commit: the leader commits waiting requests together.

    A batch has up to ``limit`` requests, and takes no more requests once its weight reaches ``weight_max``.
    """

    def __init__(
        self,
        commit: Callable[[list[_Waiting[T]]], None],
        seconds: float,
        limit: int = 10**9,
        weight: Callable[[T], int] = lambda _: 0,
        weight_max: int = 1,
    ) -> None:
        self._commit = commit
        self._seconds = seconds
        self._limit = limit
        self._weight = weight
        self._weight_max = weight_max
        self._group_commit: GroupCommit[_Waiting[T]] = GroupCommit()
        self._contenders = 1

    def commit(self, wanted: T) -> None:
        """Commit the request and then return. Raises the error of the request."""
        waiting = _Waiting(wanted)
        self._group_commit.commit(waiting, self._serve)
        waiting.answer()

    def _serve(self, batch: list[_Waiting[T]]) -> None:
        if self._contenders > 1:
            self._group_commit.await_others(self._contenders - 1, self._seconds)
        weight = self._weight(batch[0].wanted)
        # The weight of a request is known only after `take`. So `weight_max` leaves room for one more request, as heavy
        # as the heaviest that several writers of the benchmark make: the replacement of a job's files.
        while len(batch) < self._limit and weight < self._weight_max and self._group_commit.take(batch):
            weight += self._weight(batch[-1].wanted)
        self._contenders = len(batch)
        for waiting in batch:
            waiting.settle(None)
        try:
            self._commit(batch)
        except Exception as exc:  # noqa: BLE001 - every request of the batch gets the error
            for waiting in batch:
                waiting.settle(exc)


def _put_new(state: _Files, names: Sequence[str], rows: int) -> Exception | None:
    if any(name in state for name in names):
        return ValueError("File already exists")
    state.update((name, {ROOT: rows}) for name in names)
    return None


def _give(state: _Files, job: str, names: Sequence[str]) -> Exception | None:
    if any(type(state.get(name, {}).get(ROOT)) is not int for name in names):
        return ValueError("Reference is not there, or a job has it")
    state.update((name, {ROOT: [state[name][ROOT], job]}) for name in names)
    return None


def _put_instead(state: _Files, job: str, names: Sequence[str], output: str) -> Exception | None:
    given: list[Any] = [state.get(name, {}).get(ROOT) for name in names]
    if any(type(reference) is not list or reference[1] != job for reference in given):
        return ValueError("Reference is not the job's")
    if output in state:
        return ValueError("File already exists")
    state.update((name, {}) for name in names)
    state[output] = {ROOT: sum(reference[0] for reference in given)}
    return None


def _blob_key(table: str, body: bytes) -> str:
    return f"bench/{table}/{sha256(body).hex()}"


SIDES: dict[str, Any] = {"ours": Ours, "whole state": FullState, "item each": ItemEach}
BOUNDS: dict[str, Any] = {"least": Minimum}
"""Stores that are measured only if `--only` names them."""
