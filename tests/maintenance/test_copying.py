"""A copy of a store answers every query as its source does, for any store and after any interruption of the copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.codec import encode
from stratalog.errors import Conflict, Corrupt, Unavailable
from stratalog.keys import (
    COPY_PARTITION,
    directory_partition,
    entries_partition,
)
from stratalog.log import Environment, delete_log, open_log
from stratalog.log.retention import archive_segments
from stratalog.maintenance import copy_check
from stratalog.maintenance.collection import collect
from stratalog.maintenance.copy_check import check_copy
from stratalog.maintenance.policy import MaintenancePolicy, RetentionPolicy
from stratalog.maintenance.store_copy import CopyReport, copy_store
from stratalog.maintenance.store_pass import maintain
from stratalog.ports.index import NO_BLOBS, Delete, Item, Put, Write
from stratalog.testing.clock import ManualClock
from tests.inline_store import open_inline
from tests.log.helpers import DUE_SECONDS
from tests.maintenance.growing import FREE, SETTINGS, contents_of, grow
from tests.stored import stored_items

TRIES_MAX = 1000


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(0, 40))
def test_a_copy_answers_every_query_as_its_source_does(seed: int, steps: int) -> None:
    clock, chance = ManualClock(seed=seed), Random(seed)
    source = open_inline(settings=SETTINGS, clock=clock)
    grow(source, chance, steps)
    target = open_inline(settings=SETTINGS, clock=clock)
    copy_store(source, target)
    assert contents_of(target) == contents_of(source)
    again = copy_store(source, target)
    assert (again.items_written, again.blobs_written) == (0, 0)
    # Do not run the sweep here. After the source has swept a deleted log, a copy finds no proof that the target's log
    # came from the source.
    grow(source, chance, steps, without=FREE)
    copy_store(source, target)
    assert contents_of(target) == contents_of(source)


class Killed(BaseException):
    """Simulates a kill of the copying process."""


class Dying:
    """Counts the writes of ``store``, and raises Killed after ``left`` further writes."""

    def __init__(self, store: stratalog.Store) -> None:
        self.store = store
        self.left: int | None = None
        self.puts: Counter[object] = Counter()
        index, blobs = store.environment.index, store.environment.blobs
        self._commit, self._put = index.commit, blobs.put
        index.commit, blobs.put = self.commit, self.put  # type: ignore[method-assign]

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._step()
        self.puts.update(repr(write) for write in writes if isinstance(write, Put) and not is_mark(write.item))
        self._commit(writes, blobs)

    def put(self, key: str, body: bytes) -> None:
        self._step()
        self.puts[key] += 1
        self._put(key, body)

    def _step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed


def is_mark(item: Item) -> bool:
    return item.partition == COPY_PARTITION


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.integers(0, 25), max_size=6))
def test_a_killed_copy_resumes_and_writes_nothing_twice(seed: int, lives: list[int]) -> None:
    clock, chance = ManualClock(seed=seed), Random(seed)
    source = open_inline(settings=SETTINGS, clock=clock)
    grow(source, chance, 30)
    target = Dying(open_inline(settings=SETTINGS, clock=clock))
    for target.left in lives:
        with suppress(Killed):
            copy_store(source, target.store)
        clock.sleep(1)
    target.left = None
    copy_store(source, target.store)
    assert contents_of(target.store) == contents_of(source)
    assert set(target.puts.values()) <= {1}
    assert target.store.environment.index.get(COPY_PARTITION, "state") is None


def test_a_resumed_copy_does_not_read_logs_that_it_has_copied(source: stratalog.Store, target: stratalog.Store) -> None:
    dying = Dying(target)
    dying.left = 60
    with pytest.raises(Killed):
        copy_store(source, target)
    dying.left = None
    mark = target.environment.index.get(COPY_PARTITION, "state")
    assert mark is not None
    finished = str(mark.attributes["i"])
    looked: list[str] = []
    read = source.environment.index.query

    def watched(partition: str, **bounds: object) -> Iterator[Item]:
        looked.append(partition)
        return read(partition, **bounds)  # type: ignore[arg-type]

    source.environment.index.query = watched  # type: ignore[method-assign]
    with suppress(Killed):
        dying.left = 5
        copy_store(source, target)
    assert finished > "log-00"
    read_logs = {partition.partition("@")[0] for partition in looked if partition.startswith("acme/log-")}
    assert read_logs
    assert min(read_logs) > f"acme/{finished}"


@pytest.fixture
def source() -> stratalog.Store:
    store = open_inline(settings=SETTINGS)
    for number in range(20):
        log = store.create_log("acme", f"log-{number:02d}")
        log.append(stratalog.Event("seen", number))
    store.records("acme").put("contract", Random(0).randbytes(5000))
    return store


@pytest.fixture
def target() -> stratalog.Store:
    return open_inline(settings=SETTINGS)


def test_the_report_of_a_copy_counts_the_objects_read_and_written(
    source: stratalog.Store, target: stratalog.Store
) -> None:
    steps: list[int] = []
    first = copy_store(source, target, steps.append)
    assert (first.organisations, first.logs, first.records, first.blobs_written) == (1, 20, 1, 1)
    assert sum(steps) == first.items_written + first.blobs_written
    assert copy_store(source, target) == CopyReport(1, 20, 1, items_written=0, blobs_written=0)


def test_the_check_of_a_copy_writes_no_blob(target: stratalog.Store) -> None:
    source = open_inline()
    plan = source.create("acme", "plan")
    for number in range(200):
        plan.mutate("put", {"key": f"items/{number}", "value": "x" * 500})
    copy_store(source, target)
    stores = (source, target)
    before = [[stat.key for stat in store.environment.blobs.list("")] for store in stores]
    assert check_copy(source.environment, target.environment, ["acme"]) == (1, 0)
    assert [[stat.key for stat in store.environment.blobs.list("")] for store in stores] == before == [[], []]


def test_a_copied_document_continues_mutation_ids_and_remembers_merges(target: stratalog.Store) -> None:
    source = open_inline(settings=SETTINGS)
    plan = source.create("acme", "plan")
    for id in range(1, 8):
        plan.mutate("put", {"key": f"items/{id}", "value": id}, client="ada")
    fork = plan.fork("plan-b")
    fork.mutate("put", {"key": "items/1", "value": "b"})
    stratalog.merge(fork, plan)
    copy_store(source, target)
    copied = target.document("acme", "plan")
    assert copied.log.record.incarnation == plan.log.record.incarnation
    assert copied.mutate("put", {"key": "items/8", "value": 8}, client="ada").id == 8
    before = copied.version
    stratalog.merge(target.document("acme", "plan-b"), copied)
    assert copied.version == before
    stratalog.verify(copied)


def test_failures_of_records_with_and_without_versions_are_copied_with_their_bodies(
    source: stratalog.Store, target: stratalog.Store
) -> None:
    body = Random(1).randbytes(5000)
    for organisation, id in (("acme", "contract"), ("acme", "never stored"), ("zeta", "alone")):
        source.records(organisation).fail(id, "no such column", body=body)
        copy_store(source, target)
        ours, theirs = (store.records(organisation) for store in (source, target))
        assert theirs.failure(id) == ours.failure(id) is not None
        assert b"".join(theirs.open_dead_letter(id)) == body
    source.records("acme").resolve_dead_letter("contract")
    copy_store(source, target)
    assert target.records("acme").failure("contract") is None


def test_the_check_of_a_copy_reports_a_failure_counted_later_or_without_its_body(
    source: stratalog.Store, target: stratalog.Store
) -> None:
    source.records("acme").fail("new", "no such column", body=Random(1).randbytes(5000))
    copy_store(source, target)
    [stat] = target.environment.blobs.list("acme/records/new/")
    target.environment.blobs.delete(stat.key, stat.stamp)
    with pytest.raises(Corrupt):
        check_copy(source.environment, target.environment, ["acme"])
    source.records("acme").fail("new", "no such column")
    with pytest.raises(Conflict, match="was written to during the copy"):
        check_copy(source.environment, target.environment, ["acme"])


@pytest.mark.parametrize("what", ["organisation", "log", "record", "same name", "same record"])
def test_a_target_with_data_that_is_not_from_the_source_is_refused_and_keeps_its_data(
    what: str, source: stratalog.Store, target: stratalog.Store
) -> None:
    if what == "organisation":
        target.create("zeta", "plan")
    elif what == "log":
        target.create_log("acme", "other")
    elif what == "same name":
        target.create_log("acme", "log-03").append(stratalog.Event("seen", "other"))
    else:
        target.records("acme").put("contract" if what == "same record" else "other", b"other")
    before = contents_of(target)
    with pytest.raises(Conflict, match="the target holds"):
        copy_store(source, target)
    assert {name: answer for name, answer in contents_of(target).items() if name in before} == before


@pytest.mark.parametrize("change", ["append", "archive", "fork", "record"])
def test_a_target_that_was_written_to_after_the_copy_is_refused(
    change: str, source: stratalog.Store, target: stratalog.Store
) -> None:
    for number in range(20):
        source.log("acme", "log-00").append(stratalog.Event("seen", number))
    copy_store(source, target)
    log = target.log("acme", "log-00")
    if change == "append":
        log.append(stratalog.Event("seen", "in the target"))
    elif change == "archive":
        archive_segments(log)
    elif change == "fork":
        target.fork_log(log, "fork", 1)
    else:
        target.records("acme").put("contract", b"in the target")
    with pytest.raises(Conflict, match="the target holds"):
        copy_store(source, target)


SECRET = "her name"


def needed(store: stratalog.Store) -> list[str]:
    """Return the keys of the items that still contain the secret."""
    environment = store.environment
    partitions = ["acme/!record/person", *(f"{store.log('acme', 'people').record.prefix}/{n}" for n in range(1, 99))]
    items = [item for partition in partitions for item in environment.index.query(partition)]
    return [f"{item.partition} {item.sort}" for item in items if SECRET.encode() in encode(dict(item.attributes))]


@pytest.fixture
def people(source: stratalog.Store) -> stratalog.Store:
    """A source with a log of 40 entries and a record of three versions, each with the secret."""
    log, records = source.create_log("acme", "people"), source.records("acme")
    for number in range(40):
        log.append(stratalog.Event("seen", [SECRET, number]))
    for number in range(3):
        records.put("person", f"{SECRET} {number}".encode())
    return source


@pytest.mark.parametrize("archived", [False, True])
def test_versions_redacted_since_the_last_copy_are_redacted_in_the_target(
    archived: bool, people: stratalog.Store, target: stratalog.Store
) -> None:
    if archived:
        archive_segments(people.log("acme", "people"))
    copy_store(people, target)
    for version in range(1, 41):
        people.log("acme", "people").redact(version)
        if version in (2, 20, 40):
            copy_store(people, target)
            assert needed(target) == needed(people)
            assert contents_of(target) == contents_of(people)
    for version in (1, 3, 2):
        people.records("acme").redact("person", version)
        copy_store(people, target)
        assert needed(target) == needed(people)
    assert needed(target) == []
    assert contents_of(target) == contents_of(people)


@pytest.mark.parametrize("what", ["log", "record"])
def test_a_store_is_copied_again_after_its_newest_version_was_redacted(
    what: str, people: stratalog.Store, target: stratalog.Store
) -> None:
    copy_store(people, target)
    if what == "log":
        people.log("acme", "people").redact(40)
    else:
        people.records("acme").redact("person", 3)
    copy_store(people, target)
    assert contents_of(target) == contents_of(people)


def test_a_redacted_body_is_deleted_from_the_target_by_its_next_collection() -> None:
    clock = ManualClock()
    source, target = (open_inline(settings=SETTINGS, clock=clock) for _ in range(2))
    log, records = source.create_log("acme", "people"), source.records("acme")
    for count in range(2):
        log.append(stratalog.Event("seen", Random(count).randbytes(5000)))
        records.put("person", Random(count).randbytes(5000))
    copy_store(source, target)
    log.redact(1)
    records.redact("person", 1)
    copy_store(source, target)
    clock.sleep(10_000)
    for store in (source, target):
        collect(store.environment, "acme")
    ours, theirs = ([stat.key for stat in store.environment.blobs.list("")] for store in (source, target))
    assert len(ours) == 2
    assert theirs == ours


def test_a_killed_copy_of_a_redaction_is_resumed(people: stratalog.Store) -> None:
    """The copy commits items one by one, and each run is killed after one write."""
    dying = Dying(open_inline(settings=SETTINGS))
    target = dying.store
    copy_store(people, target)
    target.environment.index.joint_commits = False  # type: ignore[misc]
    for version in (2, 1):
        people.log("acme", "people").redact(version)
        people.records("acme").redact("person", version)
    for _ in range(99):
        dying.left = 1
        with suppress(Killed):
            copy_store(people, target)
            break
    assert needed(target) == needed(people)
    assert contents_of(target) == contents_of(people)


def test_the_check_of_a_copy_reports_a_record_redacted_during_the_copy(
    people: stratalog.Store, target: stratalog.Store
) -> None:
    copy_store(people, target)
    people.records("acme").redact("person", 1)
    with pytest.raises(Conflict, match="was written to during the copy"):
        check_copy(people.environment, target.environment, ["acme"])


@pytest.mark.parametrize("change", ["redact a record", "prune a record", "redact a log"])
def test_a_target_that_redacted_or_pruned_data_itself_is_refused(
    change: str, people: stratalog.Store, target: stratalog.Store
) -> None:
    copy_store(people, target)
    if change == "redact a log":
        target.log("acme", "people").redact(2)
    elif change == "redact a record":
        target.records("acme").redact("person", 1)
    else:
        target.records("acme").prune("person", retain=2)
    before = contents_of(target)
    with pytest.raises(Conflict, match="the target holds"):
        copy_store(people, target)
    assert contents_of(target) == before


@pytest.mark.parametrize("entries", range(4))
def test_a_target_with_an_extra_entry_is_refused_also_in_a_new_segment(
    entries: int, source: stratalog.Store, target: stratalog.Store
) -> None:
    """For one of the four values of ``entries``, the newest entry is the last of its segment.

    Then the append to the target begins another segment.
    """
    for number in range(entries):
        source.log("acme", "log-00").append(stratalog.Event("seen", number))
    copy_store(source, target)
    target.log("acme", "log-00").append(stratalog.Event("seen", "in the target"))
    with pytest.raises(Conflict, match="the target holds"):
        copy_store(source, target)


def test_a_source_written_to_during_a_copy_is_copied_completely_by_the_next_run(
    source: stratalog.Store, target: stratalog.Store
) -> None:
    put = target.environment.index.commit

    def commit(writes: Sequence[Write], *blobs: Any) -> None:
        source.log("acme", "log-00").append(stratalog.Event("seen", "meanwhile"))
        put(writes, *blobs)

    target.environment.index.commit = commit  # type: ignore[method-assign]
    with pytest.raises(Conflict, match="was written to during the copy"):
        copy_store(source, target)
    target.environment.index.commit = put  # type: ignore[method-assign]
    copy_store(source, target)
    assert contents_of(target) == contents_of(source)


def test_a_deleted_log_whose_name_was_used_again_since_the_last_copy_has_its_end_marker_in_the_target(
    target: stratalog.Store,
) -> None:
    with stratalog.open("memory:") as source:
        document = source.create("acme", "plan")
        document.put("notes/1", 1)
        copy_store(source, target)
        delete_log(document.log)
        source.create("acme", "plan").put("notes/2", 2)
        copy_store(source, target)
        assert target.document("acme", "plan").get("notes/2") == 2
        entries = entries_partition(document.log.record.prefix, 1)
        there, here = (list(store.environment.index.query(entries)) for store in (target, source))
    assert len(here) == 2
    assert there == here


def test_a_copy_whose_target_alters_events_raises_corrupt(source: stratalog.Store, target: stratalog.Store) -> None:
    """The target's index changes the events that it receives."""
    put = target.environment.index.commit

    def commit(writes: Sequence[Write], *blobs: Any) -> None:
        put([_spoiled(write) for write in writes], *blobs)

    target.environment.index.commit = commit  # type: ignore[method-assign]
    with pytest.raises(Corrupt):
        copy_store(source, target)


def _spoiled(write: Write) -> Write:
    if isinstance(write, Put) and "b" in write.item.attributes:
        events = encode([["seen", "other", 1]])
        return Put(Item(write.item.partition, write.item.sort, {**write.item.attributes, "b": events}))
    return write


def test_a_copy_whose_target_drops_a_body_raises_corrupt(source: stratalog.Store, target: stratalog.Store) -> None:
    target.environment.blobs.put = lambda key, body: None  # type: ignore[method-assign]
    with pytest.raises(Corrupt):
        copy_store(source, target)


def test_a_copy_to_an_unavailable_target_fails_after_several_tries(source: stratalog.Store) -> None:
    target = open_inline(settings=SETTINGS, clock=ManualClock())
    tried: list[str] = []

    def put(key: str, body: bytes) -> None:
        tried.append(key)
        assert len(tried) < TRIES_MAX
        raise Unavailable("the bucket is away")

    target.environment.blobs.put = put  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        copy_store(source, target)
    assert len(tried) > 1


def stored_text(store: stratalog.Store) -> str:
    """Return all items and blobs of the organisation ``acme`` as text."""
    index, blobs = store.environment.index, store.environment.blobs
    items = [repr(item) for item in stored_items(index) if item.partition.startswith("acme/")]
    return " ".join([*items, *(repr(blobs.get(stat.key)) for stat in blobs.list("acme/"))])


def swept(*stores: stratalog.Store) -> None:
    """Run the maintenance of the stores until everything deleted or forgotten so far is freed."""
    for _ in range(3):
        stores[0].environment.clock.sleep(DUE_SECONDS)
        for store in stores:
            maintain(store, MaintenancePolicy(documents=RetentionPolicy(retain_segments=1), collect_hours=0))


@pytest.mark.parametrize("copies_between", [False, True])
def test_a_log_that_the_source_deleted_and_swept_is_swept_in_the_target(copies_between: bool) -> None:
    clock = ManualClock()
    source, target = (open_inline(settings=SETTINGS, clock=clock) for _ in range(2))
    source.create("acme", "plan").put("a/1", 1)
    gone = source.create("acme", "gone")
    gone.put("a/1", "confidential")
    gone.put("a/2", "confidential" * 10_000)
    fork = gone.fork("fork")
    fork.put("a/1", 1)
    copy_store(source, target)
    fork.put("a/2", 2)
    fork.forget_below(fork.version)
    source.delete(gone)
    if copies_between:
        copy_store(source, target)
    swept(source)
    copy_store(source, target)
    assert contents_of(target) == contents_of(source)
    swept(target)
    assert "confidential" not in stored_text(source)
    assert "confidential" not in stored_text(target)
    assert target.document("acme", "fork").at().to_dict() == {"a/1": 1, "a/2": 2}


def test_versions_that_the_source_forgot_and_freed_are_freed_in_the_target() -> None:
    clock = ManualClock()
    source, target = (open_inline(settings=SETTINGS, clock=clock) for _ in range(2))
    document = source.create("acme", "plan")
    for number in range(20):
        document.put("a/1", f"confidential {number}")
    copy_store(source, target)
    for number in range(20):
        document.put("a/1", number)
    swept(source)
    copy_store(source, target)
    assert "confidential" not in stored_text(source)
    swept(target)
    assert "confidential" not in stored_text(target)
    assert contents_of(target) == contents_of(source)


def test_a_store_whose_archived_and_freed_versions_were_forgotten_since_the_last_copy_is_copied_again() -> None:
    clock = ManualClock()
    source, target = (open_inline(settings=SETTINGS, clock=clock) for _ in range(2))
    document = source.create("acme", "plan")
    for number in range(20):
        document.put("a/1", number)
    assert document.archive()
    copy_store(source, target)
    clock.sleep(DUE_SECONDS)
    assert document.free_segments()
    document.forget_below(20)
    copy_store(source, target)
    assert contents_of(target) == contents_of(source)


def test_another_log_of_a_name_is_copied_after_the_earlier_log_is_deleted_in_the_target() -> None:
    clock = ManualClock()
    source, target = (open_inline(settings=SETTINGS, clock=clock) for _ in range(2))
    source.create("acme", "plan").put("a/1", "confidential")
    copy_store(source, target)
    source.delete(source.document("acme", "plan"))
    swept(source)
    source.create("acme", "plan").put("a/1", 2)
    with pytest.raises(Conflict, match="delete the log there"):
        copy_store(source, target)
    target.delete(target.document("acme", "plan"))
    copy_store(source, target)
    assert contents_of(target) == contents_of(source)
    swept(target)
    assert "confidential" not in stored_text(target)


def test_a_log_whose_directory_line_is_lost_in_the_source_is_not_swept_in_the_target() -> None:
    clock = ManualClock()
    source, target = (open_inline(settings=SETTINGS, clock=clock) for _ in range(2))
    source.create("acme", "plan").put("a/1", 1)
    copy_store(source, target)
    source.environment.index.commit([Delete(directory_partition("acme", "logs", 0), "plan")])
    copy_store(source, target)
    swept(target)
    assert target.document("acme", "plan").get("a/1") == 1


def test_a_log_deleted_while_the_stores_are_compared_ends_the_copy_with_a_conflict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = (open_inline(settings=SETTINGS, clock=ManualClock()) for _ in range(2))
    log = source.create_log("acme", "events")

    def delete_and_open(environment: Environment, organisation: str, name: str) -> stratalog.Log:
        delete_log(log)
        return open_log(environment, organisation, name)

    with monkeypatch.context() as patched:
        patched.setattr(copy_check, "open_log", delete_and_open)
        with pytest.raises(Conflict, match="was written to during the copy"):
            copy_store(source, target)
    assert copy_store(source, target).logs == 0
