"""A log stores app snapshots in parts. Two snapshots share an equal part. The collector deletes no referenced part."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.codec import sha256
from stratalog.errors import Corrupt, Invalid, LimitExceeded, NotFound, OutcomeUnknown
from stratalog.limits import BODY_PART_BYTES
from stratalog.log import Environment, Event, Log, LogSettings, create_log, fork_log
from stratalog.log.app_snapshots import read_app_snapshot_back
from stratalog.log.snapshots import put_snapshot
from stratalog.maintenance.collection import OLD_SECONDS, collect_family
from stratalog.ports.index import Delete, Index, Write
from stratalog.testing.clock import ManualClock
from tests.damage import DAMAGES, damaged_blob
from tests.log.helpers import ScriptedIndex, lost_answer


def opened(entries: int = 3, index: Index | None = None) -> Log:
    clock = ManualClock()
    environment = Environment(
        index or MemoryIndex(), MemoryBlobs(clock), clock, LogSettings(segment_entries_target=100)
    )
    log = create_log(environment, "acme", "plan", "sheet")
    for number in range(entries):
        log.append(Event("set", number))
    return log


def stored(log: Log) -> set[str]:
    return {stat.key.rsplit("/", 1)[1][:8] for stat in log.environment.blobs.list(f"{log.record.owner}/app-snapshots/")}


def parts_at(log: Log, version: int) -> list[bytes] | None:
    snapshot = log.app_snapshot(version)
    return None if snapshot is None else list(log.read_snapshot(snapshot))


def test_an_app_snapshot_is_returned_for_its_version_and_for_later_versions() -> None:
    log = opened()
    assert log.save_snapshot(2, [b"one", b"two"])
    assert [parts_at(log, version) for version in (1, 2, 3)] == [None, [b"one", b"two"], [b"one", b"two"]]


def test_a_second_app_snapshot_of_a_version_does_not_replace_the_first() -> None:
    log = opened()
    assert log.save_snapshot(2, [b"first"])
    assert not log.save_snapshot(2, [b"second"])
    assert parts_at(log, 2) == [b"first"]


def test_a_part_that_is_already_stored_is_not_written_again() -> None:
    log = opened()
    log.save_snapshot(1, [b"same", b"old", b"same"])
    before = stored(log)
    log.save_snapshot(2, [b"same", b"new", b"same"])
    assert (len(before), len(stored(log) - before)) == (2, 1)


def test_a_long_part_list_is_stored_as_a_blob() -> None:
    log = opened()
    parts = [str(number).encode() for number in range(1000)]
    log.save_snapshot(3, parts)
    assert parts_at(log, 3) == parts
    assert len(stored(log)) == 1001


def test_a_fork_shares_the_snapshot_parts_of_its_parent() -> None:
    log = opened()
    log.save_snapshot(2, [b"same", b"old"])
    fork = fork_log(log, "branch", 3)
    fork.append(Event("set"))
    assert parts_at(fork, 4) == [b"same", b"old"]
    before = stored(log)
    fork.save_snapshot(4, [b"same", b"new"])
    assert len(stored(log) - before) == 1
    assert parts_at(log, 3) == [b"same", b"old"]


def test_all_parts_are_written_if_the_snapshot_that_shares_them_was_just_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = opened()
    log.save_snapshot(1, [b"same"])
    base = log.snapshot_at(1)
    assert base is not None
    log.environment.index.commit([Delete(f"{base.prefix}/snapshots", "0000000000000001")])
    log.environment.blobs.delete(key := f"{log.record.owner}/app-snapshots/{_only(log)}", _stamp(log, key))
    monkeypatch.setattr(log, "snapshot_at", lambda version: base)
    # `snapshot_at` still returns the record of the deleted base, and that record lists the base's parts.
    assert log.save_snapshot(2, [b"same", b"new"])
    monkeypatch.undo()
    assert parts_at(log, 2) == [b"same", b"new"]


def _only(log: Log) -> str:
    (stat,) = log.environment.blobs.list(f"{log.record.owner}/app-snapshots/")
    return stat.key.rsplit("/", 1)[1]


def _stamp(log: Log, key: str) -> str:
    stat = log.environment.blobs.stat(key)
    assert stat is not None
    return stat.stamp


def test_an_app_snapshot_of_a_missing_version_raises_not_found() -> None:
    with pytest.raises(NotFound):
        opened().save_snapshot(4, [b"x"])


def test_an_app_snapshot_without_parts_or_with_a_too_large_part_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        opened().save_snapshot(1, [])
    with pytest.raises(LimitExceeded):
        opened().save_snapshot(1, [bytes(BODY_PART_BYTES + 1)])


def test_reading_another_kind_of_snapshot_as_an_app_snapshot_is_refused() -> None:
    log = opened()
    put_snapshot(log.environment, log.record, 2, log.hash_at(2), b"\x81\xa1a\x01", None)
    with pytest.raises(Invalid):
        log.app_snapshot(2)


def test_a_missing_part_is_damage() -> None:
    log = opened()
    log.save_snapshot(1, [b"only"])
    log.environment.blobs.delete(key := f"{log.record.owner}/app-snapshots/{_only(log)}", _stamp(log, key))
    with pytest.raises(Corrupt):
        parts_at(log, 1)


def test_the_collector_deletes_only_unreferenced_parts() -> None:
    log = opened()
    many = [str(number).encode() for number in range(1000)]
    log.save_snapshot(1, many)
    log.save_snapshot(2, [b"few"])
    lost = f"{log.record.owner}/app-snapshots/{sha256(b'lost').hex()}"
    log.environment.blobs.put(lost, b"lost")
    for _ in range(3):
        log.environment.clock.sleep(10_000)
        collect_family(log.environment, log.record.owner)
    assert log.environment.blobs.stat(lost) is None
    assert parts_at(log, 1) == many
    assert parts_at(log, 2) == [b"few"]


def test_a_log_with_state_waits_for_an_app_snapshot_before_it_starts_a_new_segment() -> None:
    clock = ManualClock()
    environment = Environment(MemoryIndex(), MemoryBlobs(clock), clock, LogSettings(segment_entries_target=4))
    log = create_log(environment, "acme", "plan", "sheet")
    for number in range(5):
        log.append(Event("set", number))
    assert log.head().segment == 1
    log.save_snapshot(4, [b"state"])
    log.append(Event("set"))
    assert log.head().segment == 6


def test_parts_are_put_again_if_the_answer_to_their_commit_is_lost() -> None:
    index = ScriptedIndex()
    log = opened(index=index)

    def late_and_lost(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        log.environment.clock.sleep(OLD_SECONDS + 1)
        collect_family(log.environment, log.record.owner)
        lost_answer(index, writes)

    index.script = [late_and_lost]
    with pytest.raises(OutcomeUnknown):
        log.save_snapshot(2, [b"one", b"two"])
    assert parts_at(log, 2) == [b"one", b"two"]


def test_reading_an_app_snapshot_back_names_the_damaged_part_or_part_list() -> None:
    log = opened()
    log.save_snapshot(2, [f"part {number}".encode() for number in range(1000)])
    state, blobs = log.app_snapshot(2), log.environment.blobs
    assert state is not None
    assert isinstance(blobs, MemoryBlobs)

    def damaged() -> set[str]:
        readings = read_app_snapshot_back(blobs, log.record.owner, state.snapshot)
        return {reading.key for reading in readings if reading.damage is not None}

    keys = [stat.key for stat in blobs.list(f"{log.record.owner}/app-snapshots/")]
    assert damaged() == set()
    assert len(keys) == 1001
    for key in (keys[0], keys[-1], next(key for key in keys if len(blobs.get(key)) > 10_000)):
        for how in DAMAGES:
            with damaged_blob(blobs, key, how):
                assert damaged() == {key}
