"""A sort key that is not UTF-8 hides only its own item. Tools name it, and read, back up and copy the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import stratalog
from stratalog.backends.memory import MemoryIndex
from stratalog.errors import Corrupt
from stratalog.keys import entries_partition, number
from stratalog.log.directory import RECORDS, directory_put, line_partition, list_lines
from stratalog.log.listed_items import ListedItem
from stratalog.maintenance.damage import item_key
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.mirror import Mirror
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.maintenance.store_copy import copy_store
from stratalog.maintenance.store_pass import maintain
from stratalog.maintenance.verification import HistoryName, verify_history
from stratalog.ports.damaged_keys import DamagedKey, KeyPosition
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.damage_sweep import inspect_all
from tests.maintenance.growing import SETTINGS, contents_of
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
    intact = contents_of(store)
    for partition, sort in keys.all():
        names = {f"{partition} {sort}", keys.flip(partition, sort)}
        with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
            inspected = {damage.key for damage in inspect_all(damaged)}
            target = open_inline(settings=SETTINGS, clock=ManualClock())
            named = {failure.what for failure in copy_store(damaged, target).failures}
            named |= {failure.what for failure in Backups(ManualClock()).make(damaged).manifest.failures}
            maintain(damaged, MaintenancePolicy(collect_hours=0))
        assert inspected & names or sort == "!floor", names  # the record has forgotten no version
        assert named or partition.startswith((DELETED, "acme/b ", "!names/")) or (partition, sort) == ("acme/b", "name")
        keys.restore(partition, sort)
        assert contents_of(store) == intact, names


def test_an_item_that_an_earlier_copy_copied_stays_if_its_key_is_damaged_in_the_source(
    folder: tuple[stratalog.Store, Keys], tmp_path: Path
) -> None:
    store, keys = folder
    target = open_inline(settings=SETTINGS, clock=ManualClock())
    copy_store(store, target)
    intact = contents_of(target)
    for partition, sort in keys.all():
        name = keys.flip(partition, sort)
        with open_inline(tmp_path, settings=SETTINGS, clock=ManualClock()) as damaged:
            copy_store(damaged, target)
        assert contents_of(target) == intact, name
        keys.restore(partition, sort)


def test_a_mirror_deletes_nothing_beside_a_damaged_key_that_stands_before_all_others() -> None:
    """SQLite lists a number before all texts, but the readable text of the number may come after them."""
    source, target = (open_inline(clock=ManualClock()) for _ in range(2))
    items = [Item("acme/a@1/1", number(version), {"v": version}) for version in (1, 2, 3)]
    target.environment.index.commit([Put(item) for item in items])
    damaged = ListedItem("9 (not text)", None, "damaged", KeyPosition.after_damage(None))
    with Mirror(source.environment, target.environment, lambda count: None) as mirror:
        mirror.items("acme/a@1/1", [damaged, ListedItem(items[1].sort, items[1])])
        assert list(target.environment.index.query("acme/a@1/1")) == items
        mirror.items("acme/a@1/1", [ListedItem(items[1].sort, items[1])])
    assert list(target.environment.index.query("acme/a@1/1")) == [items[1]]


class NumberFirst(MemoryIndex):
    """An index whose partition ``damaged`` has a number before its sort keys, as a damaged file of SQLite may have."""

    damaged = ""

    def query(self, partition: str, *, after: str | None = None, **options: Any) -> Iterator[Item]:
        if partition == self.damaged and after is None:
            raise DamagedKey(partition, 9, KeyPosition.after_damage(None))
        return super().query(partition, after=after, **options)


def test_lines_are_in_the_order_of_ids_beside_a_line_with_a_damaged_key() -> None:
    index = NumberFirst()
    index.commit([directory_put("acme", RECORDS, f"{count:02}", "record", 0) for count in range(40)])
    index.damaged = line_partition("acme", RECORDS, "00")
    lines = list(list_lines(index, "acme", RECORDS))
    ids = [line.sort for line in lines if line.position is None]
    assert ids == sorted(ids)
    assert len(ids) == len(lines) - 1 == 40
