"""The four stores that `bench.table` compares, each as one process has it: ours, and three ways not to do it.

All of them add files to a table, check that no name is there twice, and commit what waits together. The baselines stand
on the same ports as ours; each has a number to be tuned by, and the best of three is published.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from stratalog import Store
from stratalog.apps.table import Column, NewFile, NewReference, Schema, Table, create_table, open_table
from stratalog.clock import backoff_seconds
from stratalog.codec import decode, encode, sha256
from stratalog.errors import ConditionFailed
from stratalog.lane import Gate, Lane
from stratalog.ports.index import Absent, Check, Equals, Index, Item, Put, Write

__all__ = ["SIDES", "ItemEach", "Ours", "Side", "WholeState"]

ROWS = 1000
ROOT = "root"
TRANSACTION_FILES = 49
PARALLEL = 8
ATTEMPTS_MAX = 40


class Side(Protocol):
    """One process's handle on one table."""

    def add(self, names: Sequence[str]) -> None:
        """Commit files, durably. Raises where one of them is there, or when it gives up."""
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


class WholeState:
    """(b) The whole state in one blob; an item says which, and is replaced if it has not changed since it was read.

    Tuned by how long the first of a batch waits for more.
    """

    tunings: Sequence[Any] = (0.0, 0.005, 0.02)

    def __init__(self, store: Store, table: str, tuning: Any) -> None:
        self._index, self._blobs, self._clock = store.place.index, store.place.blobs, store.place.clock
        self._table = table
        self._window: float = tuning
        self._lane: Lane[_Waiting] = Lane()
        self._revision = -1
        self._state: dict[str, dict[str, int]] = {}

    @staticmethod
    def create(store: Store, table: str) -> None:
        body = encode({})
        store.place.blobs.put(_blob_key(table, body), body)
        store.place.index.commit([Put(Item(f"whole/{table}", "now", {"r": 0, "a": sha256(body)}), Absent())])

    def add(self, names: Sequence[str]) -> None:
        _together(self._lane, _Waiting(names), self._commit, self._window, 10**9)

    def _commit(self, batch: list[_Waiting]) -> None:
        if self._revision < 0:
            self._load()
        for attempt in itertools.count(1):
            state = dict(self._state)
            for waiting in batch:
                waiting.error = _put_new(state, waiting.names)
            if self._replace(state):
                return
            if attempt == ATTEMPTS_MAX:
                raise TimeoutError("others kept being first")
            self._clock.sleep(backoff_seconds(self._clock, attempt, 0.02, 2.0))
            self._load()

    def _replace(self, state: dict[str, dict[str, int]]) -> bool:
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
    """(c) An item for each file and for each reference, written by transactions that check the partition.

    Tuned by how many commits that wait together share a transaction.
    """

    tunings: Sequence[Any] = (1, 8, 33)

    def __init__(self, store: Store, table: str, tuning: Any) -> None:
        self._index: Index = store.place.index
        self._table = table
        self._share: int = tuning
        self._lane: Lane[_Waiting] = Lane()
        self._pool = ThreadPoolExecutor(PARALLEL)

    @staticmethod
    def create(store: Store, table: str) -> None:
        store.place.index.commit([Put(Item(f"items/{table}/partitions", ROOT, {"l": 1}), Absent())])

    def add(self, names: Sequence[str]) -> None:
        if len(names) > TRANSACTION_FILES:
            parts = [names[start : start + TRANSACTION_FILES] for start in range(0, len(names), TRANSACTION_FILES)]
            list(self._pool.map(self._write, parts))
        elif self._share == 1:
            self._write(names)
        else:
            _together(self._lane, _Waiting(names), self._commit, 0.0, self._share)

    def _commit(self, batch: list[_Waiting]) -> None:
        try:
            self._write([name for waiting in batch for name in waiting.names])
        except ConditionFailed:
            for waiting in batch:
                try:
                    self._write(waiting.names)
                except ConditionFailed as exc:
                    waiting.error = exc

    def _write(self, names: Sequence[str]) -> None:
        writes: list[Write] = [Check(f"items/{self._table}/partitions", ROOT, Equals("l", 1))]
        for name in names:
            writes.append(Put(Item(f"items/{self._table}/files", name, {"n": 1}), Absent()))
            writes.append(Put(Item(f"items/{self._table}/references", f"{ROOT}|{name}", {"n": ROWS}), Absent()))
        self._index.commit(writes)


class _Waiting:
    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.error: Exception | None = None
        self.gate: Gate | None = None
        self.leads: bool | None = None


def _together(
    lane: Lane[_Waiting], waiting: _Waiting, commit: Callable[[list[_Waiting]], None], window: float, most: int
) -> None:
    """Commit what waits in one go, by the thread whose turn it is."""
    if lane.enter(waiting):
        if window:
            time.sleep(window)
        batch, served = [waiting], []
        while len(batch) < most and (other := lane.next()) is not None:
            batch.append(other)
            served.append(other)
        try:
            commit(batch)
        except Exception as exc:  # noqa: BLE001 - every one of the batch is told
            for one in batch:
                one.error = exc
        finally:
            lane.leave(served)
    if waiting.error is not None:
        raise waiting.error


def _put_new(state: dict[str, dict[str, int]], names: Sequence[str]) -> Exception | None:
    if any(name in state for name in names):
        return ValueError("File already exists")
    state.update((name, {ROOT: ROWS}) for name in names)
    return None


def _blob_key(table: str, body: bytes) -> str:
    return f"bench/{table}/{sha256(body).hex()}"


SIDES: dict[str, Any] = {"ours": Ours, "whole state": WholeState, "item each": ItemEach}
