"""Redaction erases an entry's events. The chain still verifies, and no item refers to a copy of the events."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec import structs

from stratalog.clock import Observation
from stratalog.codec import encode, sha256
from stratalog.errors import ContentionError, Corrupt, NotFound, Redacted, RedactionRefused, VersionForgotten
from stratalog.keys import entries_partition, number
from stratalog.log import Log, create_log, fork_log, open_log
from stratalog.log.archive import open_archive, pack_archive
from stratalog.log.bodies import write_body
from stratalog.log.chain import body_digest
from stratalog.log.names import name_put, require_name
from stratalog.log.redaction import erase_entry
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.segments import segment_change, segment_holding
from stratalog.log.snapshots import list_snapshots
from stratalog.log.verification import verify_log
from stratalog.ports.index import Item, Write
from tests.log.helpers import (
    NAME,
    ORGANISATION,
    ScriptedIndex,
    after,
    another,
    event,
    fill,
    lost_answer,
    new_log,
    scripted,
)

SECRET = b"a person's name"
CHANGES = 500
"""A writer that waits before each try reaches its deadline before another process makes this many changes."""


def grown(secret: bytes = SECRET, **settings: Any) -> Log:
    """A log of nine entries. The third entry contains the secret."""
    log = new_log(segment_entries_target=4, **settings)
    fill(log, 2)
    log.append(event(secret), author="Ada", principal="u-1", write_id="w-3", expected=2)
    fill(log, 6)
    return log


def other(log: Log) -> Log:
    """Another handle in this process."""
    return open_log(log.environment, log.record.organisation, log.record.name)


def other_process(log: Log) -> Log:
    return open_log(another(log.environment), log.record.organisation, log.record.name)


def held(log: Log, secret: bytes = SECRET) -> bool:
    """Return whether any item in the index still contains the secret."""
    attributes = [value for item in stored(log) for value in item.attributes.values()]
    return any(secret in value for value in attributes if isinstance(value, bytes))


def stored(log: Log) -> list[Item]:
    """All items of the index."""
    index: Any = scripted(log.environment).backend
    return [item for partition in index._partitions.values() for item in partition.items.values()]


def check_redacted(log: Log) -> None:
    for handle in (log, other(log)):
        entry = handle.entry(3)
        assert (entry.events, entry.salt, entry.author, entry.principal, entry.write_id) == (
            (),
            b"",
            "Ada",
            "u-1",
            "w-3",
        )
        assert entry.redacted
        assert [entry.version for entry in handle.read()] == list(range(1, 10))
        report = verify_log(handle)
        assert (report.findings, report.redacted, report.version) == ((), (3,), 9)


def test_redaction_erases_the_events_and_the_salt_and_preserves_the_hash() -> None:
    log = grown()
    before = log.entry(3)
    assert log.redact(3) == []
    check_redacted(log)
    after = log.entry(3)
    assert (after.hash, after.created_ms) == (before.hash, before.created_ms)
    assert after.redacted == body_digest(before.salt, sha256(encode(before.events)))
    assert not held(log)


def test_redacting_again_changes_nothing() -> None:
    log = grown()
    log.redact(3)
    before = stored(log)
    log.redact(3)
    assert stored(log) == before


@pytest.mark.parametrize("freed", [False, True])
def test_redaction_erases_an_archived_entry_from_the_archive_and_from_the_index(freed: bool) -> None:
    log = grown()
    archive_segments(log)
    if freed:
        log.environment.clock.sleep(1000)
        free_segments(log)
    assert log.entry(3).events
    log.redact(3)
    check_redacted(log)
    assert not held(log)
    log.environment.clock.sleep(1000)
    assert free_segments(log) == (0 if freed else 2)
    check_redacted(log)


def test_an_archive_whose_segment_is_redacted_before_its_commit_is_never_referenced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from stratalog.log import retention

    log, write = grown(), retention.write_archive

    def overtaken(*arguments: Any) -> Any:
        written = write(*arguments)
        monkeypatch.setattr(retention, "write_archive", write)
        other(log).redact(3)
        return written

    monkeypatch.setattr(retention, "write_archive", overtaken)
    assert archive_segments(log) == 1  # only the second segment, since the redaction changed the first segment
    check_redacted(log)
    assert archive_segments(log) == 1
    check_redacted(log)


def test_an_archive_committed_during_a_redaction_is_redacted_too() -> None:
    log = grown()

    index = scripted(log.environment)
    index.script.append(after(lambda: archive_segments(other_process(log))))
    log.redact(3)
    check_redacted(log)


def test_redaction_removes_the_reference_to_a_body_in_blobs() -> None:
    log = grown(Random(1).randbytes(40_000), body_inline_bytes_max=100)
    item = log.environment.index.get(entries_partition(log.record.prefix, 1), number(3))
    assert item is not None
    assert "x" in item.attributes
    log.redact(3)
    check_redacted(log)
    item = log.environment.index.get(entries_partition(log.record.prefix, 1), number(3))
    assert item is not None
    assert sorted(item.attributes) == ["a", "c", "d", "h", "p", "w"]


def test_an_entry_redacted_during_a_read_is_read_as_redacted_and_not_as_damaged() -> None:
    log = grown(Random(1).randbytes(40_000), body_inline_bytes_max=100)
    reading = open_log(log.environment, log.record.organisation, log.record.name).read()
    assert [next(reading).version, next(reading).version] == [1, 2]
    log.redact(3)
    blobs = log.environment.blobs
    for stat in list(blobs.list(log.record.owner)):
        blobs.delete(stat.key, stat.stamp)
    third = next(reading)
    assert (third.version, bool(third.redacted), third.events) == (3, True, ())


def test_redaction_deletes_the_snapshots_of_the_version_and_of_later_versions() -> None:
    log = grown()
    for version in (2, 3, 5):
        log.save_snapshot(version, [b"state"])
    assert log.redact(3) == [3, 5]
    assert [snapshot.version for snapshot in list_snapshots(log.environment.index, log.record.prefix)] == [2]


def test_redaction_returns_every_deleted_snapshot_despite_a_concurrent_fork() -> None:
    log = grown()
    for version in (3, 5, 7):
        log.save_snapshot(version, [b"state"])
    forking = after(lambda: fork_log(other_process(log), "fork", 2))
    scripted(log.environment).script = [after(), after(), forking]  # the erasure, and the deletions of 3 and 5
    assert log.redact(3) == [3, 5, 7]
    assert list(list_snapshots(log.environment.index, log.record.prefix)) == []


def test_a_redaction_that_loses_every_race_raises_contention_error_and_can_be_repeated() -> None:
    log = grown(append_seconds_max=5.0)
    log.save_snapshot(3, [b"state"])

    changes = [0] * CHANGES

    def change(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        changes.pop()
        index.script = [change] if changes else []
        record = require_name(index, ORGANISATION, NAME)
        index.backend.commit([name_put(msgspec.structs.replace(record, revision=record.revision + 1))])
        index.backend.commit(writes)

    begun = Observation(log.environment.clock)
    scripted(log.environment).script = [after(), change]  # the erasure, and the first deletion
    with pytest.raises(ContentionError):
        log.redact(3)
    assert 5 <= begun.age_seconds() < 7
    assert changes
    scripted(log.environment).script = []
    assert log.redact(3) == [3]


def test_redaction_of_an_entry_that_a_fork_or_a_state_needs_is_refused() -> None:
    log = grown()
    fork = fork_log(log, "fork", 5)
    with pytest.raises(RedactionRefused, match="forks need the version"):
        log.redact(3)
    with pytest.raises(RedactionRefused, match="belongs to the log that this one was forked from"):
        fork.redact(3)
    log.redact(6)
    grid = create_log(log.environment, log.record.organisation, "grid", "grid")
    fill(grid, 1)
    with pytest.raises(RedactionRefused, match="has a state"):
        grid.redact(1)


def test_redaction_of_a_missing_or_forgotten_version_is_refused() -> None:
    log = grown()
    for version in (0, 10):
        with pytest.raises(NotFound):
            log.redact(version)
    raise_floor(log, 6)
    for version in (3, 6):
        with pytest.raises(VersionForgotten):
            log.redact(version)


def test_a_retry_of_a_redacted_append_raises_redacted() -> None:
    log = grown()
    log.redact(3)
    for content in (SECRET, b"something else"):
        with pytest.raises(Redacted):
            log.append(event(content), principal="u-1", write_id="w-3", expected=2)
    assert log.head().version == 9


def test_a_redaction_of_an_entry_succeeds_although_its_answer_is_lost() -> None:
    log = grown()
    scripted(log.environment).script.append(lost_answer)
    log.redact(3)
    check_redacted(log)


def test_a_log_accepts_appends_after_the_redaction_of_its_newest_entry() -> None:
    log = grown()
    log.redact(9)
    assert log.append(event("next")).version == 10
    assert other(log).append(event("next")).version == 11
    assert verify_log(log).redacted == (9,)


def test_erasing_a_forgotten_entry_raises_version_forgotten() -> None:
    log = grown()
    raise_floor(log, 6)
    with pytest.raises(VersionForgotten):
        erase_entry(log.environment, log.record, 3)


def test_a_redaction_in_an_archive_that_lacks_a_version_erases_only_its_own_version() -> None:
    log = grown()
    archive_segments(log)
    segment = segment_holding(log.environment.index, log.record.prefix, 1)
    assert segment is not None
    items = open_archive(log.environment, log.record.prefix, log.record.owner, segment)
    body = pack_archive([items[0], *items[2:]])
    ref = write_body(log.environment.blobs, f"{log.record.owner}/archive", body)
    log.environment.index.commit([segment_change(log.record.prefix, structs.replace(segment, archive=ref))])
    with pytest.raises(Corrupt, match="an archive lacks a version"):
        log.redact(2)
    log.redact(3)
    assert [bool(other(log).entry(version).redacted) for version in (1, 3, 4)] == [False, True, False]
