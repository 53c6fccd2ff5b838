"""A machine's cache of chunks hides no damage: proofs, inspections, repairs, scrubs, copies, backups read the store."""

from __future__ import annotations

from pathlib import Path

import pytest

import stratalog
from stratalog.backends.cached_blobs import CachedBlobs
from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.documents.read_back import require_state
from stratalog.documents.snapshots import roots_of
from stratalog.errors import Corrupt
from stratalog.log import Environment
from stratalog.log.snapshots import newest_snapshot
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.repair import repair_history
from stratalog.maintenance.scrub import scrub
from stratalog.maintenance.store_copy import copy_store
from stratalog.maintenance.verification import HistoryName, verify_history
from stratalog.ports.blob_source import BlobSource
from stratalog.store import Store
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.damage import CUT, DAMAGES, FLIP, LOSE, damage_blob
from tests.documents.helpers import put

PLAN = HistoryName("log", "acme", "plan")
KEYS = 600


class Machine:
    """A store of a document, one leaf of which is damaged in the store and intact in the machine's cache."""

    def __init__(self, folder: Path, how: str) -> None:
        self.folder, self.clock = folder, ManualClock()
        self.index, self.blobs = MemoryIndex(), MemoryBlobs(self.clock)
        document = self.open().create("acme", "plan")
        puts = [put(f"items/{number:04}", {"n": number}) for number in range(KEYS)]
        document.apply(puts)
        document.snapshot()
        self.read()
        self.leaf = max(key for key in self.blobs._bodies if "/chunks/" in key)
        damage_blob(self.blobs, self.leaf, how)
        self.is_lost = how == LOSE

    def read(self) -> int:
        """Read the whole document in a new process, and return the number of its keys."""
        return len(list(self.open().document("acme", "plan").scan()))

    def open(self) -> Store:
        """Open the store with empty caches in memory, and with the machine's cache on disk."""
        source = BlobSource(CachedBlobs(self.blobs, self.folder, self.clock))
        environment = Environment(self.index, self.blobs, self.clock, chunk_source=source)
        return Store(environment, MemoryQueue(self.clock))


@pytest.fixture(params=DAMAGES)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def test_a_reader_uses_the_intact_copy_in_the_cache(machine: Machine) -> None:
    assert machine.read() == KEYS


def test_the_proof_before_forgetting_reads_the_store_and_not_the_cache(machine: Machine) -> None:
    document = machine.open().document("acme", "plan")
    list(document.scan())
    snapshot = newest_snapshot(machine.index, document.log.record.prefix, document.version)
    assert snapshot is not None
    with pytest.raises(Corrupt):
        require_state(document.chunks, document.stored_values, roots_of(snapshot))


def test_an_inspection_names_the_damaged_chunk(machine: Machine) -> None:
    assert machine.leaf in {damage.key for damage in inspect_history(machine.open(), PLAN).damages}


def test_a_verification_of_one_history_finds_a_lost_chunk(machine: Machine) -> None:
    assert bool(verify_history(machine.open(), PLAN).findings) == machine.is_lost


def test_a_repair_restores_the_chunk_in_the_store(machine: Machine) -> None:
    assert machine.leaf in {damage.key for damage in repair_history(machine.open(), PLAN).repaired}
    assert inspect_history(machine.open(), PLAN).damages == ()


@pytest.mark.parametrize("how", [CUT, FLIP])
def test_a_scrub_a_copy_and_a_backup_read_the_store(how: str, tmp_path: Path) -> None:
    machine = Machine(tmp_path, how)
    assert machine.leaf in {failure.what for failure in scrub(machine.open().environment, 0.01).failures}
    assert Backups(machine.clock).make(machine.open()).manifest.failures
    with stratalog.open("memory:", clock=machine.clock) as target:
        assert machine.leaf in {failure.what for failure in copy_store(machine.open(), target).failures}
