"""A sort key that is not UTF-8 hides only its own item. Tools name it, and read, back up and copy the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import stratalog
from stratalog.errors import Corrupt
from stratalog.keys import entries_partition, number
from stratalog.maintenance.damage import item_key
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.maintenance.store_copy import copy_store
from stratalog.maintenance.store_pass import maintain
from stratalog.maintenance.verification import HistoryName, verify_history
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.damage_sweep import inspect_all
from tests.maintenance.growing import SETTINGS, told
from tests.maintenance.test_damaged_copy import DELETED, grow


class Keys:
    """The sort keys of a store in a folder."""

    def __init__(self, folder: Path) -> None:
        self._database = apsw.Connection(str(folder / "index.sqlite"))

    def all(self) -> list[tuple[str, str]]:
        return list(self._database.execute("SELECT partition, sort FROM items"))

    def flip(self, partition: str, sort: str) -> str:
        """Flip the highest bit of the last byte of a sort key. Return the name of the item in reports."""
        damaged = sort.encode()[:-1] + bytes([sort.encode()[-1] ^ 0x80])
        self._put(partition, sort.encode(), damaged)
        return f"{partition} {damaged.decode(errors='backslashreplace')}"

    def restore(self, partition: str, sort: str) -> None:
        self._put(partition, sort.encode()[:-1] + bytes([sort.encode()[-1] ^ 0x80]), sort.encode())

    def _put(self, partition: str, old: bytes, new: bytes) -> None:
        where = "WHERE partition = ? AND CAST(sort AS BLOB) = ?"
        self._database.execute(f"UPDATE items SET sort = CAST(? AS TEXT) {where}", (new, partition, old))
        assert self._database.changes() == 1


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[stratalog.Store, Keys]]:
    with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as store:
        grow(store)
        yield store, Keys(tmp_path)


def test_a_verification_names_an_entry_with_a_damaged_key_and_reads_the_others(
    folder: tuple[stratalog.Store, Keys],
) -> None:
    store, keys = folder
    prefix = store.log("acme", "a").record.prefix
    partition = entries_partition(prefix, 1)
    keys.flip(partition, number(2))
    history = HistoryName("log", "acme", "a")
    assert item_key(partition, number(2)) in {damage.key for damage in inspect_history(store, history).damages}
    report = verify_history(store, history)
    assert [(finding.version, finding.last) for finding in report.findings] == [(2, 2)]
    assert report.chain.version == 5


def test_a_reader_gets_the_entries_before_and_after_an_entry_with_a_damaged_key(
    folder: tuple[stratalog.Store, Keys],
) -> None:
    store, keys = folder
    log = store.log("acme", "a")
    keys.flip(entries_partition(log.record.prefix, 1), number(2))
    assert [log.entry(version).version for version in (1, 3, 4, 5)] == [1, 3, 4, 5]
    with pytest.raises(Corrupt):
        log.entry(2)


def test_each_tool_names_the_damaged_key_of_each_item_and_works_on(
    folder: tuple[stratalog.Store, Keys], tmp_path: Path
) -> None:
    """No tool raises an error, and a pass of the maintenance deletes nothing."""
    store, keys = folder
    intact = told(store)
    for partition, sort in keys.all():
        names = {f"{partition} {sort}", keys.flip(partition, sort)}
        with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
            found = {damage.key for damage in inspect_all(damaged)}
            target = open_inline(settings=SETTINGS, clock=ManualClock())
            named = {failure.what for failure in copy_store(damaged, target).failures}
            named |= {failure.what for failure in Backups(ManualClock()).make(damaged).manifest.failures}
            maintain(damaged, MaintenancePolicy(collect_hours=0))
        assert found & names or sort == "!floor", names  # the record has forgotten no version
        assert named or partition.startswith((DELETED, "acme/b ", "!names/")) or (partition, sort) == ("acme/b", "name")
        keys.restore(partition, sort)
        assert told(store) == intact, names
