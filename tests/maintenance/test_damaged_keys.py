"""An item whose key is not a version, a prefix of a log or both, is damage. It stops no verification and no backup."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

import stratalog
from stratalog.errors import Corrupt
from stratalog.keys import (
    entries_partition,
    family_partition,
    forks_partition,
    number,
    parse_number,
    record_key,
    record_partition,
    segments_partition,
    snapshots_partition,
)
from stratalog.limits import VERSION_MAX
from stratalog.maintenance.inspection import inspect_history, inspect_store
from stratalog.maintenance.verification import list_histories, verify_history
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS

NO_VERSIONS = ["x", "7", str(VERSION_MAX), str(VERSION_MAX + 1), "9" * 20]


def plan_prefix(store: stratalog.Store) -> str:
    return store.document("acme", "plan").log.record.prefix


def current_segment(store: stratalog.Store) -> int:
    segments = store.environment.index.query(segments_partition(plan_prefix(store)), reverse=True, limit=1)
    return parse_number(next(segments).sort)


PARTITIONS: dict[str, Callable[[stratalog.Store], str]] = {
    "entry": lambda store: entries_partition(plan_prefix(store), current_segment(store)),
    "segment": lambda store: segments_partition(plan_prefix(store)),
    "snapshot": lambda store: snapshots_partition(plan_prefix(store)),
    "pin": lambda store: forks_partition(store.document("acme", "plan").fork("draft").log.record.lineage[0].prefix),
    "family": lambda store: family_partition(plan_prefix(store)),
    "record": lambda store: record_partition("acme", record_key("r")),
}
IMPOSSIBLE = [*product(PARTITIONS, NO_VERSIONS), ("pin", f"{number(7)} draft")]


def damaged_store(partition: str, sort: str) -> tuple[stratalog.Store, str]:
    """Copy the newest item of a partition to the sort key ``sort``. Return the store, and the full key of the copy."""
    store = open_inline(settings=SETTINGS, clock=ManualClock())
    plan = store.create("acme", "plan")
    for count in range(30):
        plan.put("a", count)
    store.records("acme").put("r", b"first")
    keys = PARTITIONS[partition](store)
    newest = next(store.environment.index.query(keys, reverse=True, limit=1))
    store.environment.index.commit([Put(Item(keys, sort, newest.attributes))])
    return store, f"{keys} {sort}"


@pytest.mark.parametrize(("partition", "sort"), IMPOSSIBLE)
def test_an_item_with_an_impossible_key_is_damage_and_ends_no_verification(partition: str, sort: str) -> None:
    store, key = damaged_store(partition, sort)
    histories = list(list_histories(store))
    damages = [damage for history in histories for damage in inspect_history(store, history).damages]
    damages += inspect_store(store)
    assert [damage.reason.partition(" is not ")[0] for damage in damages if damage.key == key] == [
        "the key of the item"
    ]
    for history in histories:
        verify_history(store, history)


@pytest.mark.parametrize(("partition", "sort"), IMPOSSIBLE)
def test_an_item_with_an_impossible_key_ends_no_backup(partition: str, sort: str) -> None:
    store, _ = damaged_store(partition, sort)
    backups = Backups(store.environment.clock)
    backups.make(store)
    assert backups.repository().manifests()


@pytest.mark.parametrize("text", ["", "x", "-1", str(VERSION_MAX), "9" * 20])
def test_an_invalid_or_maximum_stored_number_raises_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        parse_number(text)
    assert parse_number(number(VERSION_MAX - 1)) == VERSION_MAX - 1
