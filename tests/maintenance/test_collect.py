"""A collection deletes old blobs to which nothing refers, and no other blobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.codec import sha256
from stratalog.documents import Document, verify
from stratalog.errors import Corrupt, NotFound, OutcomeUnknown, Unavailable
from stratalog.keys import collecting_partition, entries_partition, segments_partition
from stratalog.limits import CLAIM_CHECK_SECONDS_MIN, GRACE_SECONDS, OBSERVATION_SECONDS_MAX, UNKNOWN_OWNER_SECONDS_MAX
from stratalog.log import Environment, LogSettings, create_log, open_log
from stratalog.log.snapshots import list_snapshots
from stratalog.log.tasks import InlineTasks
from stratalog.maintenance import marks
from stratalog.maintenance.collection import CollectionReport, collect, collect_family, owners
from stratalog.ports.index import Item, Put
from stratalog.protocol import Mutation
from stratalog.records import Records
from stratalog.testing.clock import ManualClock
from tests.damage import DAMAGES, damaged_blob

LONG = "long " * 500
OLD_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1


def a_document(segment_entries_target: int = 4) -> Document:
    clock = ManualClock()
    settings = LogSettings(segment_entries_target=segment_entries_target, snapshot_entries_interval=3)
    environment = Environment(MemoryIndex(), MemoryBlobs(clock), clock, settings, background=InlineTasks())
    return Document(create_log(environment, "acme", "budget", "document"))


def put(document: Document, key: str, value: object) -> None:
    assert document.mutate("put", {"key": key, "value": value}).status == "applied"


def owner(document: Document) -> str:
    return document.log.record.owner


def age(document: Document) -> None:
    document.log.environment.clock.sleep(OLD_SECONDS)


def keys(document: Document) -> set[str]:
    return {stat.key for stat in document.log.environment.blobs.list(f"{owner(document)}/")}


def orphan(document: Document) -> str:
    """Put a blob that no commit refers to, as a crashed writer does. Return the blob's key."""
    body = b"an orphan"
    key = f"{owner(document)}/bodies/{sha256(body).hex()}"
    document.log.environment.blobs.put(key, body)
    return key


def test_a_collection_deletes_an_old_orphan_and_no_other_blob() -> None:
    document = a_document()
    put(document, "notes/a", LONG)
    gone = orphan(document)
    before = keys(document)
    age(document)
    report = collect_family(document.log.environment, owner(document))
    assert report.garbage == (gone,)
    assert keys(document) == before - {gone}
    assert document.get("notes/a") == LONG


def test_a_young_orphan_stays() -> None:
    document = a_document()
    young = orphan(document)
    report = collect_family(document.log.environment, owner(document))
    assert (report.garbage, report.young) == ((), 1)
    assert young in keys(document)


def test_a_dry_run_lists_exactly_what_a_run_deletes() -> None:
    document = a_document()
    put(document, "notes/a", LONG)
    orphan(document)
    age(document)
    before = keys(document)
    planned = collect_family(document.log.environment, owner(document), dry_run=True)
    assert keys(document) == before
    assert collect_family(document.log.environment, owner(document)) == planned


def test_an_orphan_put_again_just_before_its_deletion_stays() -> None:
    document = a_document()
    gone = orphan(document)
    age(document)

    class PutAgain(MemoryBlobs):
        def stat(self, key: str):  # type: ignore[no-untyped-def]
            document.log.environment.blobs.put(key, b"an orphan")
            return blobs.stat(key)

    blobs = document.log.environment.blobs
    looking = PutAgain(document.log.environment.clock)
    looking.list = blobs.list  # type: ignore[method-assign]
    looking.get = blobs.get  # type: ignore[method-assign]
    looking.delete = blobs.delete  # type: ignore[method-assign]
    environment = Environment(document.log.environment.index, looking, document.log.environment.clock)
    assert collect_family(environment, owner(document)).garbage == ()
    assert gone in keys(document)


def test_values_of_retained_versions_stay_and_values_of_forgotten_versions_are_deleted() -> None:
    document = a_document()
    for number in range(12):
        put(document, "notes/a", f"{number} {LONG}")
    document.forget_below(9)
    age(document)
    document.free_segments()
    age(document)
    report = collect_family(document.log.environment, owner(document))
    assert any("/items/notes/" in key for key in report.garbage)
    assert [document.get("notes/a", at=version)[:2].strip() for version in range(9, 13)] == ["8", "9", "10", "11"]
    assert verify(document).version == document.version


def test_an_archive_and_the_blobs_that_its_entries_name_stay() -> None:
    document = a_document()
    for number in range(9):
        put(document, "notes/a", f"{number} {LONG}")
    assert document.archive() > 0
    age(document)
    document.free_segments()
    assert collect_family(document.log.environment, owner(document)).garbage == ()
    assert document.get("notes/a", at=1) == f"0 {LONG}"


def test_blobs_that_only_a_fork_refers_to_stay() -> None:
    document = a_document()
    for number in range(6):
        put(document, "notes/a", f"{number} {LONG}")
    copy = document.fork("copy", at=2)
    put(copy, "notes/b", f"copy {LONG}")
    age(document)
    assert collect_family(document.log.environment, owner(document)).garbage == ()
    assert copy.at().to_dict() == {"notes/a": f"1 {LONG}", "notes/b": f"copy {LONG}"}


def test_a_family_is_collected_once_however_many_forks_it_has() -> None:
    document = a_document()
    put(document, "notes/a", LONG)
    document.fork("copy")
    assert list(owners(document.log.environment, "acme")) == [owner(document)]


def stopping(after: int) -> Callable[[], bool]:
    """Return a ``stop`` function that stops a collection after ``after`` calls."""
    asked = itertools.count()
    return lambda: next(asked) >= after


def dry_run(document: Document) -> tuple[CollectionReport, int]:
    """Return the report of a dry run, and the number of its steps, which are its calls of ``stop``."""
    asked = itertools.count()
    planned = collect_family(document.log.environment, owner(document), dry_run=True, stop=lambda: next(asked) < 0)
    return planned, next(asked)


def a_family_with_garbage() -> tuple[Document, set[str]]:
    """Return a document and the keys of its orphans. The document has a fork, and snapshots of several chunks."""
    document = a_document()
    for number in range(60):
        put(document, f"notes/{number}", "small" * 30)
    for number in range(8):
        put(document, "notes/a", f"{number} {LONG}")
    put(document.fork("copy", at=65), "notes/b", f"copy {LONG}")
    garbage = set()
    for number in range(5):
        body = f"orphan {number}".encode()
        key = f"{owner(document)}/bodies/{sha256(body).hex()}"
        document.log.environment.blobs.put(key, body)
        garbage.add(key)
    age(document)
    return document, garbage


@pytest.mark.parametrize("steps", [1, 2, 7, 40, 130])
def test_a_stopped_collection_resumes_where_it_stopped(steps: int) -> None:
    document, garbage = a_family_with_garbage()
    before = keys(document)
    environment, gone, runs = document.log.environment, [], 0
    _, complete = dry_run(document)
    is_finished = False
    while not is_finished:
        report = collect_family(environment, owner(document), stop=stopping(steps + runs))
        gone += report.garbage
        is_finished, runs = report.is_finished, runs + 1
    assert sorted(gone) == sorted(garbage)
    assert before - {key for key in keys(document) if "/collecting/" not in key} == garbage
    assert runs > 1
    assert steps + runs < complete - len(garbage), "one run could read all references"
    assert environment.index.get(collecting_partition("acme"), owner(document)) is None


def test_a_killed_collection_resumes() -> None:
    document, garbage = a_family_with_garbage()
    environment = document.log.environment
    environment.blobs = reads = CountingReads(environment.blobs)
    collect_family(environment, owner(document), dry_run=True)
    complete, reads.count = reads.count, 0

    def die() -> bool:
        environment.clock.sleep(61)  # longer than SAVE_SECONDS, so the collection saves its progress
        if next(asked) == 160:
            raise KeyboardInterrupt
        return False

    asked = itertools.count()
    with pytest.raises(KeyboardInterrupt):
        collect_family(environment, owner(document), stop=die)
    before, reads.count = reads.count, 0
    assert set(collect_family(environment, owner(document)).garbage) == garbage
    assert 0 < before < complete
    assert reads.count < complete
    assert verify(document).version == document.version


def test_an_orphan_put_again_between_two_runs_of_a_collection_stays() -> None:
    document, garbage = a_family_with_garbage()
    environment = document.log.environment
    report = collect_family(environment, owner(document), stop=stopping(100))
    assert not report.is_finished
    environment.clock.sleep(10 * OLD_SECONDS)
    reused = f"{owner(document)}/bodies/{sha256(b'orphan 3').hex()}"
    environment.blobs.put(reused, b"orphan 3")
    environment.clock.sleep(10 * OLD_SECONDS)
    report = collect_family(environment, owner(document))
    assert set(report.garbage) == garbage - {reused}
    assert report.changed == 1


def test_a_collection_whose_progress_cannot_be_read_begins_again() -> None:
    document, garbage = a_family_with_garbage()
    environment = document.log.environment
    environment.index.commit([Put(Item(collecting_partition("acme"), owner(document), {"f": 99, "a": ""}))])
    assert set(collect_family(environment, owner(document)).garbage) == garbage


def test_a_dry_run_starts_from_the_saved_progress_of_a_stopped_collection() -> None:
    document, _ = a_family_with_garbage()
    environment = document.log.environment
    _, complete = dry_run(document)
    collect_family(environment, owner(document), stop=stopping(100))
    planned, steps = dry_run(document)
    assert steps < complete
    assert collect_family(environment, owner(document)) == planned


def test_a_fork_made_during_marking_retains_a_value_that_its_parent_forgets() -> None:
    document = a_document()
    put(document, "notes/x", LONG)
    first = document.fork("first")
    put(first, "notes/a", f"handed on {LONG}")
    put(first, "notes/b", "short")
    age(document)
    environment = document.log.environment

    def hand_on() -> None:
        """Fork ``first`` while the collection reads the document.

        Then ``first`` forgets a value that ``second`` needs.
        """
        second = first.fork("second")
        for number in range(8):
            put(second, "notes/c", number)
            put(first, "notes/a", f"other {number}")
        second.forget_below(4)
        first.forget_below(first.version)

    environment.index = Amid(environment.index, entries_partition(document.log.record.prefix, 1), hand_on)
    collect_family(environment, owner(document))
    environment.index = environment.index.backend
    assert Document(open_log(environment, "acme", "second")).get("notes/a") == f"handed on {LONG}"


def test_a_value_that_moves_into_the_base_snapshot_during_marking_stays() -> None:
    """The collection must read segments before snapshots.

    Suppose that the collection read the snapshots first. No snapshot refers to the value yet. The log could then forget
    the segment with the value. Only a new base snapshot would refer to the value, and the collection would not read
    that base.
    """
    document = a_document()
    put(document, "notes/a", LONG)
    age(document)
    environment = document.log.environment

    def forget() -> None:
        for number in range(8):
            put(document, "notes/z", number)
        document.forget_below(document.version)

    environment.index = Amid(environment.index, segments_partition(document.log.record.prefix), forget)
    collect_family(environment, owner(document))
    environment.index = environment.index.backend
    assert document.log.floor() == 9
    assert document.get("notes/a") == LONG


def with_a_full_segment() -> Document:
    document = a_document(segment_entries_target=8)
    for number in range(9):
        put(document, "notes/a", f"{number} {LONG}")
    return document


def lose_the_archive(document: Document) -> None:
    """Let time pass, and run a collection. It deletes the archive, because no item refers to the archive yet."""
    age(document)
    assert any("/archive/" in key for key in collect_family(document.log.environment, owner(document)).garbage)


def refuse(key: str, body: bytes) -> None:
    raise Unavailable("scripted")


def test_a_collected_archive_is_put_again_before_its_segment_record_refers_to_it() -> None:
    """The writer pauses after it reads the archive back, and a collection deletes the archive.

    During the commit of the segment record that names the archive, the blob store refuses every put. So the writer must
    put the archive again before this commit.
    """
    document = with_a_full_segment()
    index, blobs = document.log.environment.index, document.log.environment.blobs

    def read_and_sleep(key: str) -> bytes:
        del vars(blobs)["get"]
        body = blobs.get(key)
        lose_the_archive(document)
        return body

    def commit(*writes: Any) -> None:
        del vars(index)["commit"]
        vars(blobs)["put"] = refuse
        index.commit(*writes)

    vars(index)["commit"], vars(blobs)["get"] = commit, read_and_sleep
    assert document.archive() == 1
    assert any("/archive/" in key for key in keys(document))


def test_an_archive_deleted_during_the_commit_of_its_segment_record_is_rebuilt() -> None:
    """A collection deletes the archive while the commit of the segment record that names the archive is under way.

    The writer then fails to put the archive again.
    """
    document = with_a_full_segment()
    index, blobs = document.log.environment.index, document.log.environment.blobs

    def land_late(*writes: Any) -> None:
        del vars(index)["commit"]
        lose_the_archive(document)
        vars(blobs)["put"] = refuse
        index.commit(*writes)

    vars(index)["commit"] = land_late
    with pytest.raises(OutcomeUnknown):
        document.archive()
    del vars(blobs)["put"]
    assert not any("/archive/" in key for key in keys(document))
    assert reopened(document).get("notes/a", at=1) == f"0 {LONG}"
    age(document)
    assert document.free_segments() == 1
    assert reopened(document).get("notes/a", at=1) == f"0 {LONG}"


def reopened(document: Document) -> Document:
    return Document(open_log(document.log.environment, "acme", "budget"))


def test_blobs_of_a_newer_base_snapshot_stay_if_the_base_being_read_is_deleted() -> None:
    """Between two reads of a collection, the log forgets its base snapshot.

    Another collection deletes the snapshot's chunks.
    """
    document = a_document()
    fill(document, "before")
    put(document, "notes/a", LONG)
    forget_all(document)
    environment = document.log.environment
    blobs = environment.blobs

    def move_on(key: str) -> bytes:
        del vars(blobs)["get"]
        fill(document, "after")
        forget_all(document)
        assert any("/chunks/" in key for key in collect_family(environment, owner(document)).garbage)
        return blobs.get(key)

    vars(blobs)["get"] = move_on
    collect_family(environment, owner(document))
    assert "get" not in vars(blobs)
    assert reopened(document).get("notes/a") == LONG


def fill(document: Document, text: str) -> None:
    for number in range(40):
        put(document, f"notes/{number:02}", text * 30)


def forget_all(document: Document) -> None:
    """Forget and free all old versions, so that only the newest snapshot refers to old values."""
    for _ in range(4):
        put(document, "notes/z", 0)
    document.forget_below(document.version)
    age(document)
    document.free_segments()
    age(document)


def test_a_collection_queries_a_single_snapshot_at_a_time() -> None:
    """The collection must query one snapshot at a time.

    Suppose that it queried a page of several snapshots. The log can make a newer snapshot during the read of the page.
    The page lacks this newer snapshot, which may be the only snapshot that still refers to a value.
    """
    document = a_document(segment_entries_target=100)
    for number in range(70):
        put(document, f"notes/{number:02}", "small" * 30)
    put(document, "notes/a", f"taken over {LONG}")
    for number in range(8):
        put(document, "notes/z", number)
    age(document)
    environment = document.log.environment
    index = environment.index
    first, last = [report.version for report in list_snapshots(index, document.log.record.prefix)][-2:]
    assert first < last
    paged = environment.index = Paging(index, document.log.record.prefix)
    assert collect_family(environment, owner(document)).garbage == ()
    assert max(paged.limits) == 1


class Watched(MemoryIndex):
    """An index that forwards `get`, `commit` and `turn` to another index. Subclasses observe and forward `query`."""

    def __init__(self, backend: MemoryIndex) -> None:
        self.backend = backend
        self.joint_commits = True
        self.blob_bytes_max = backend.blob_bytes_max
        self.get = backend.get  # type: ignore[method-assign]
        self.commit = backend.commit  # type: ignore[method-assign]
        self.turn = backend.turn  # type: ignore[method-assign]


class Paging(Watched):
    """Records the limit of each query for snapshots."""

    def __init__(self, backend: MemoryIndex, prefix: str) -> None:
        super().__init__(backend)
        self.limits: list[float] = []
        self.prefix = prefix

    def query(self, partition: str, **options: Any) -> Iterator[Item]:  # type: ignore[override]
        if partition == f"{self.prefix}/snapshots":
            self.limits.append(options.get("limit") or float("inf"))
        return self.backend.query(partition, **options)


class Amid(Watched):
    """Calls ``act`` just before the first query of ``partition``."""

    def __init__(self, backend: MemoryIndex, partition: str, act: Callable[[], None]) -> None:
        super().__init__(backend)
        self.acts = {partition: act}

    def query(self, partition: str, **options: Any) -> Iterator[Item]:  # type: ignore[override]
        self.acts.pop(partition, lambda: None)()
        return self.backend.query(partition, **options)


class CountingReads:
    """Blobs that count reads."""

    def __init__(self, blobs: Any) -> None:
        self.count = 0
        self._blobs = blobs

    def get(self, key: str) -> bytes:
        self.count += 1
        return bytes(self._blobs.get(key))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)


def test_an_unavailable_store_ends_a_collection_and_the_next_run_completes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    document, garbage = a_family_with_garbage()
    environment = document.log.environment
    age(document)

    def away(*arguments: Any, **options: Any) -> None:
        monkeypatch.undo()
        raise Unavailable("the blobs are away")

    monkeypatch.setattr(environment.blobs, "stat", away)
    with pytest.raises(Unavailable):
        collect(environment, "acme")
    report = collect(environment, "acme")
    assert (set(report.garbage), report.failures) == (set(garbage), ())


def test_a_damaged_log_is_reported_and_the_rest_of_the_organisation_is_collected() -> None:
    document, garbage = a_family_with_garbage()
    environment = document.log.environment
    broken = create_log(environment, "acme", "broken", "document")
    lost = f"{broken.record.owner}/bodies/{sha256(b'lost').hex()}"
    environment.blobs.put(lost, b"lost")
    environment.index.commit([Put(Item(f"{broken.record.prefix}/segments", "0000000000000001", {"c": 1}))])
    records = Records(environment, "acme")
    records.put("invoice", bytes(range(256)) * 1000)
    stray = f"acme/records/invoice/bodies/{sha256(b'stray').hex()}"
    environment.blobs.put(stray, b"stray")
    age(document)
    report = collect(environment, "acme")
    assert set(report.garbage) == {*garbage, stray}
    assert [(failure.what, failure.code) for failure in report.failures] == [(broken.record.owner, "corrupt")]
    assert environment.blobs.stat(lost) is not None
    assert len(records.get("invoice").body) == 256_000


def put_blob(document: Document, folder: str) -> str:
    body = folder.encode()
    key = f"{folder}/{sha256(body).hex()}"
    document.log.environment.blobs.put(key, body)
    return key


def test_a_blob_of_a_queued_push_is_deleted_when_no_message_can_refer_to_it() -> None:
    document = a_document()
    incarnation = document.log.record.incarnation
    waiting = put_blob(document, f"acme/queue/budget@{incarnation}/token1")
    former = put_blob(document, "acme/queue/budget@aaaaaaaaaaaa/token2")
    environment = document.log.environment
    queue = MemoryQueue(environment.clock)
    queue.send("acme/budget", [b"the push"])
    collect_queued = partial(collect, environment, "acme", queue=lambda: queue)
    assert collect_queued().garbage == ()
    age(document)
    assert collect_queued().garbage == (former,)
    environment.clock.sleep(365 * 86_400)
    assert collect_queued().garbage == collect(environment, "acme").garbage == ()
    (message,) = queue.receive()
    assert queue.acknowledge(message)
    assert collect(environment, "acme").garbage == ()
    assert collect_queued().garbage == (waiting,)


def test_a_blob_of_a_push_that_is_not_sent_yet_stays() -> None:
    document = a_document()
    put_blob(document, f"acme/queue/budget@{document.log.record.incarnation}/token1")
    environment = document.log.environment
    environment.clock.sleep(CLAIM_CHECK_SECONDS_MIN - 1)
    assert collect(environment, "acme", queue=partial(MemoryQueue, environment.clock)).garbage == ()


def test_blobs_of_an_owner_without_index_items_are_retained_longer_for_a_running_copy() -> None:
    document = a_document()
    copied = put_blob(document, "acme/other@aaaaaaaaaaaa/bodies"), put_blob(document, "acme/records/new/bodies")
    former = put_blob(document, "acme/budget@aaaaaaaaaaaa/chunks")
    environment = document.log.environment
    age(document)
    assert collect(environment, "acme").garbage == (former,)
    environment.clock.sleep(UNKNOWN_OWNER_SECONDS_MAX)
    assert collect(environment, "acme").garbage == copied


def test_blobs_in_an_applications_own_folder_stay() -> None:
    document = a_document()
    own = put_blob(document, f"{owner(document)}/pictures")
    document.log.environment.clock.sleep(UNKNOWN_OWNER_SECONDS_MAX * 2)
    report = collect(document.log.environment, "acme")
    assert (report.garbage, report.retained) == ((), 1)
    assert document.log.environment.blobs.stat(own) is not None


def test_a_collection_in_bounded_steps_examines_every_blob(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from stratalog.maintenance import collection as module

    batches: list[int] = []
    mark = module._Collection._mark

    def count(self: Any, work: Any) -> None:
        batches.append(len(work.candidates))
        mark(self, work)

    monkeypatch.setattr(module, "COLLECT_CANDIDATES_MAX", 3)
    monkeypatch.setattr(module._Collection, "_mark", count)
    document, garbage = a_family_with_garbage()
    report = collect_family(document.log.environment, owner(document))
    assert len(batches) > 3
    assert max(batches) == 3
    assert set(report.garbage) == garbage
    assert report.looked_at == len(keys(document)) + len(garbage)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_family_with_a_damaged_snapshot_is_reported_and_loses_no_blob(how: str) -> None:
    """The references in a damaged chunk are unknown, so the collection may delete nothing."""
    document = a_document()
    document.apply([Mutation(client="c", name="put", args={"key": f"k/{n:03}", "value": "v" * 90}) for n in range(200)])
    put(document, "notes/a", LONG)
    document.snapshot()
    environment, blobs = document.log.environment, document.log.environment.blobs
    assert isinstance(blobs, MemoryBlobs)
    gone = orphan(document)
    age(document)
    standing = keys(document)
    for key in [key for key in standing if "/chunks/" in key]:
        with damaged_blob(blobs, key, how):
            report = collect(environment, "acme")
        assert [(failure.what, failure.code) for failure in report.failures] in (
            [(owner(document), Corrupt.code)],
            [(owner(document), NotFound.code)],
        )
        assert report.failures[0].key == key
        assert (report.garbage, keys(document)) == ((), standing)
    assert collect(environment, "acme").garbage == (gone,)


def test_a_collection_remembers_a_bounded_number_of_visited_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    mark_chunk = marks.Marking._mark_chunk

    def count(self: Any, address: bytes) -> None:
        mark_chunk(self, address)
        counts.append(len(self._seen))

    monkeypatch.setattr(marks, "COLLECT_CHUNKS_SEEN_MAX", 3)
    monkeypatch.setattr(marks.Marking, "_mark_chunk", count)
    document = a_document()
    document.apply(
        [Mutation(client="c", name="put", id=id, args={"key": f"k/{id}", "value": LONG}) for id in range(1, 1001)]
    )
    document.snapshot()
    gone = orphan(document)
    age(document)
    assert collect_family(document.log.environment, owner(document)).garbage == (gone,)
    assert max(counts) == 3
