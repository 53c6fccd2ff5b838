"""The floor of a log with a state rises only onto an undamaged app snapshot. No floor rises above a moving pin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.codec import PLAIN, encode
from stratalog.errors import Corrupt, Invalid, VersionForgotten
from stratalog.keys import number as fixed
from stratalog.keys import snapshots_partition
from stratalog.log import Log, create_log, fork_log, open_log, retention
from stratalog.log.app_snapshots import Manifest, read_app_snapshot_back
from stratalog.log.base import AppBases, require_app_base
from stratalog.log.pins import Pin, list_pins
from stratalog.log.retention import free_segments, raise_floor, raise_floor_onto
from stratalog.log.snapshots import Snapshot, list_snapshots, newest_snapshot
from stratalog.ports.index import Index, Item, Put
from tests.damage import DAMAGES, damage_blob, damaged_blob
from tests.log.helpers import (
    DUE_SECONDS,
    ORGANISATION,
    after,
    another,
    clock_of,
    data,
    fill,
    new_environment,
    new_log,
    scripted,
)


def with_states(kind: str = "mine") -> Log:
    """A log of thirty versions, with an app snapshot of two parts at every fifth version."""
    log = create_log(new_environment(segment_entries_target=5), ORGANISATION, "plan", kind)
    for number in range(1, 31):
        fill(log, 1)
        if number % 5 == 0:
            log.save_snapshot(number, [b"state of %d" % number, b"part two of %d" % number])
    return log


def blobs_of(log: Log) -> MemoryBlobs:
    blobs = log.environment.blobs
    assert isinstance(blobs, MemoryBlobs)
    return blobs


def part_of(log: Log, version: int) -> str:
    """The key of the second part of the app snapshot at a version."""
    blobs = blobs_of(log)
    return next(s.key for s in blobs.list("") if blobs.get(s.key) == b"part two of %d" % version)


def test_the_floor_rises_to_the_newest_app_snapshot_at_or_below_the_requested_version() -> None:
    log = with_states()
    assert raise_floor(log, 18) == 15
    assert log.app_snapshot(15) is not None
    assert len(data(log, 15)) == 15


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_app_snapshot_raises_corrupt_and_an_older_snapshot_is_the_base(how: str) -> None:
    log = with_states()
    key = part_of(log, 25)
    damage_blob(blobs_of(log), key, how)
    with pytest.raises(Corrupt) as caught:
        raise_floor(log, 27)
    assert (caught.value.details["version"], caught.value.details["key"]) == (25, key)
    assert log.floor() == 20
    assert [len(part) for part in log.read_snapshot(log.app_snapshot(20))] == [11, 14]  # type: ignore[arg-type]
    assert len(data(log, 20)) == 10


def test_the_floor_does_not_rise_if_every_app_snapshot_is_damaged() -> None:
    log = with_states()
    for version in (5, 10, 15, 20, 25):
        damage_blob(blobs_of(log), part_of(log, version), "lose")
    with pytest.raises(Corrupt):
        raise_floor(log, 27)
    assert (log.floor(), len(data(log))) == (0, 30)


def test_an_app_snapshot_without_a_part_list_is_corrupt_and_an_older_snapshot_is_the_base() -> None:
    log = with_states()
    index, partition = log.environment.index, snapshots_partition(log.record.prefix)
    item = index.get(partition, fixed(25))
    assert item is not None
    listless = encode(Manifest("app-snapshot", 1, None, None))
    index.commit([Put(Item(partition, item.sort, {**item.attributes, PLAIN.tag: listless}))])
    with pytest.raises(Corrupt, match="has no list of parts"):
        raise_floor(log, 27)
    assert log.floor() == 20
    snapshot = newest_snapshot(index, log.record.prefix, 25)
    assert snapshot is not None
    [reading] = read_app_snapshot_back(log.environment.blobs, log.record.owner, snapshot)
    assert reading.damage is not None


def test_a_repaired_app_snapshot_can_become_the_base() -> None:
    log = with_states()
    with damaged_blob(blobs_of(log), part_of(log, 25), "flip"), pytest.raises(Corrupt):
        raise_floor(log, 27)
    assert raise_floor(log, 27) == 25


def test_an_app_snapshot_deleted_during_a_read_is_not_reported_as_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one process reads the state back, another process raises the floor and a collection deletes the state."""
    log = with_states()
    blobs, part, other = blobs_of(log), part_of(log, 20), opened(log, "plan")
    get = blobs.get

    def slow_get(key: str) -> bytes | None:
        monkeypatch.undo()
        raise_floor(other, 27)
        damage_blob(blobs, part, "lose")
        return get(key)

    monkeypatch.setattr(blobs, "get", slow_get)
    assert raise_floor(log, 22) == 25
    assert len(data(log, 25)) == 5


def test_an_app_snapshot_below_the_fork_point_does_not_raise_the_floor_of_a_fork() -> None:
    fork = fork_log(with_states(), "fork", 10)
    fill(fork, 3)
    assert fork.save_snapshot(9, [b"state of the ancestor"])
    assert (raise_floor(fork, 12), fork.floor()) == (0, 0)
    assert len(data(fork)) == 13


def test_a_base_below_a_concurrently_raised_floor_does_not_lower_the_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other process pauses between its commit of the floor and the deletion of the older snapshots."""
    log = with_states()
    other, proven, asleep = opened(log, "plan"), list[int](), list[tuple[Any, ...]]()
    forget_below = retention._forget_below

    def prove(wanted: int) -> Snapshot | None:
        base = AppBases(log).find(wanted)
        proven.append(base.version if base else 0)
        if len(proven) == 1:
            with monkeypatch.context() as patch:
                patch.setattr(retention, "_forget_below", lambda *args: asleep.append(args))
                other.save_snapshot(21, [b"a newer state"])
                assert raise_floor(other, 22) == 21
        return base

    assert raise_floor_onto(log, 22, prove) == 21
    forget_below(*asleep[0])
    assert proven == [20, 0]
    assert log.floor() == 21
    require_app_base(log)
    assert len(data(log, 21)) == 9


def test_a_fork_created_while_a_base_is_verified_limits_the_floor() -> None:
    log = with_states()
    proven: list[int] = []

    def prove(wanted: int) -> Snapshot | None:
        proven.append(wanted)
        if len(proven) == 1:
            fork_log(opened(log, "plan"), "fork", 12)
        return newest_snapshot(log.environment.index, log.record.prefix, wanted)

    assert raise_floor_onto(log, 22, prove) == 10
    assert proven == [22, 12]
    assert len(data(opened(log, "fork"), 10)) == 2
    assert raise_floor(log, 22) == 10


def test_the_floor_of_a_log_with_state_does_not_rise_without_an_app_snapshot() -> None:
    log = create_log(new_environment(segment_entries_target=5), ORGANISATION, "plan", "mine")
    fill(log, 10)
    assert (raise_floor(log, 8), len(data(log))) == (0, 10)


def test_a_plain_log_forgets_entries_without_a_snapshot() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    assert raise_floor(log, 7) == 7
    assert list(list_snapshots(log.environment.index, log.record.prefix)) == []


def test_raise_floor_refuses_the_log_of_a_document() -> None:
    log = create_log(new_environment(), ORGANISATION, "plan", "document")
    with pytest.raises(Invalid, match="forget_below"):
        raise_floor(log, 0)


def opened(log: Log, name: str) -> Log:
    return open_log(another(log.environment), ORGANISATION, name)


def moves(log: Log) -> Iterator[None]:
    """Move the pin on ``log`` in two steps: from the fork `m` to its fork `c`, and then to `a`, a fork of `c`."""
    middle = opened(log, "m")
    fork = fork_log(middle, "c", 12)
    fill(fork, 2)
    raise_floor(middle, 12)
    yield
    fork_log(fork, "a", 13)
    raise_floor(fork, 13)
    yield


def family() -> Log:
    log = new_log(segment_entries_target=4)
    fill(log, 20)
    for name in ("b", "d"):
        fork_log(log, name, 20)
    fill(fork_log(log, "m", 10), 3)
    return log


def test_raising_the_floor_never_misses_a_pin_that_moves() -> None:
    """Two equal scans of the pins prove nothing.

    Both scans miss a pin that moves once during each scan, from a page not yet read to a page already read.
    """
    last = 0
    while True:
        last += 1
        for first in range(1, last + 1):
            calls = raised_amid(first, last)
        if calls < last:
            break
    assert last > 6


def test_a_scan_of_pins_in_prefix_order_misses_a_pin_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the lowest pin of such a scan, to show that the test above notices a missed pin."""

    def scanned(index: Index, prefix: str) -> Pin | None:
        pins, after = list[Pin](), ""
        while True:
            later = [pin for pin in list_pins(index, prefix) if pin.prefix > after]
            if not later:
                return min(pins, key=lambda pin: pin.version, default=None)
            pins.append(min(later, key=lambda pin: pin.prefix))
            after = pins[-1].prefix

    monkeypatch.setattr("stratalog.log.retention.lowest_pin", scanned)
    with pytest.raises((AssertionError, VersionForgotten)):
        test_raising_the_floor_never_misses_a_pin_that_moves()


def raised_amid(first: int, second: int) -> int:
    """Raise a floor, and move the pin at steps ``first`` and ``second``. Return the number of steps.

    A step is a read of the index, or one item of a query.
    """
    log = family()
    moving, index, calls = moves(log), scripted(log.environment), 0
    backend_get, backend_query = index.get, index.query

    def step() -> None:
        nonlocal calls
        calls += 1
        for _ in range((calls == first) + (calls == second)):
            next(moving)

    def get(partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        step()
        return backend_get(partition, sort)

    def query(partition: str, **options: object) -> Iterator[Item]:
        step()
        for item in backend_query(partition, **options):  # type: ignore[arg-type]
            yield item
            step()

    index.page_items = 1
    index.get, index.query = get, query  # type: ignore[method-assign, assignment]
    floor = raise_floor(log, 16)
    index.get, index.query = backend_get, backend_query  # type: ignore[method-assign]
    for _ in moving:
        pass
    assert floor <= 10
    assert len(data(opened(log, "a"), 10)) == 3
    return calls


def test_an_app_snapshot_below_a_concurrently_raised_floor_is_refused() -> None:
    log = with_states()
    scripted(log.environment).script = [
        after(lambda: raise_floor(open_log(another(log.environment), ORGANISATION, "plan"), 10))
    ]
    with pytest.raises(VersionForgotten):
        log.save_snapshot(3, [b"state"])
    stored = list_snapshots(log.environment.index, log.record.prefix)
    assert [snapshot.version for snapshot in stored] == [10, 15, 20, 25, 30]


def test_a_snapshot_below_the_floor_of_a_plain_log_does_not_stop_segments_from_being_freed() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    attributes = {"c": 0, "w": "slow", PLAIN.tag: b"by somebody slow", "h": log.hash_at(2)}
    raise_floor(log, 8)
    # `put_snapshot` refuses a snapshot below the floor, so this test commits the item directly.
    log.environment.index.commit([Put(Item(snapshots_partition(log.record.prefix), fixed(2), attributes))])
    clock_of(log.environment).sleep(DUE_SECONDS)
    assert free_segments(log) == 2
