"""A backup has the content of its store, writes only new blobs, and is restored to an equal store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stratalog
from stratalog.backends.files import FileBlobs
from stratalog.backends.memory import MemoryBlobs
from stratalog.backups import family
from stratalog.backups.backup import back_up
from stratalog.backups.format import HISTORY_ROW, PACKS
from stratalog.backups.prune import needed_keys, prune_backups
from stratalog.backups.repository import ABANDONED_SECONDS, COPIES, MANIFESTS, ROOT, UNFINISHED, BackupRepository
from stratalog.backups.restore import restore_store
from stratalog.backups.verification import verify_backup
from stratalog.codec import sha256
from stratalog.errors import Conflict, Corrupt, Invalid, NotFound
from stratalog.keys import entries_partition, number
from stratalog.limits import ID_ESCAPED_BYTES_MAX, RECORD_ID_BYTES_MAX
from stratalog.log import delete_log
from stratalog.log.head import Head
from stratalog.log.retention import archive_segments
from stratalog.maintenance.checkpoint import read_line
from stratalog.maintenance.collection import collect
from stratalog.maintenance.verification import HistoryName, list_histories, verify_history
from stratalog.ports.index import Delete
from stratalog.testing.clock import ManualClock
from stratalog.tree.lookup import scan
from stratalog.tree.nodes import Slot
from stratalog.tree.update import update
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, contents_of, grow

pytestmark = pytest.mark.slow


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 20), min_size=1, max_size=4))
def test_each_backup_and_its_restoration_equal_the_store_at_that_moment(seed: int, steps: list[int]) -> None:
    """After each run of steps the test makes and restores a backup, and makes another backup, which writes no blobs."""
    clock, chance = ManualClock(seed=seed), Random(seed)
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    wanted = []
    for count in steps:
        grow(store, chance, count)
        wanted.append(contents_of(store))
        report = backups.make(store)
        assert report.manifest.failures == ()
        assert contents_of(backups.restored(backups.view())) == wanted[-1]
        assert backups.make(store).written_blobs == 0
    ids = [manifest.id for manifest in backups.repository().manifests()]
    assert ids == sorted(ids)
    for id, what in zip(ids[::2], wanted, strict=True):
        assert contents_of(backups.view(id)) == what


def test_a_backup_counts_each_object_that_it_writes_except_manifests() -> None:
    clock = ManualClock()
    store, repository = open_inline(settings=SETTINGS, clock=clock), Backups(clock).repository()
    for count in (20, 5, 0):
        grow(store, Random(count), count)
        before = {stat.key for stat in repository.blobs.list(f"{ROOT}/")}
        report = back_up(store, repository)
        written = [stat.key for stat in repository.blobs.list(f"{ROOT}/") if stat.key not in before]
        written = [key for key in written if not key.startswith((f"{MANIFESTS}/", f"{UNFINISHED}/"))]
        assert report.written_blobs == len(written)
        assert report.written_bytes == sum(len(repository.blobs.get(key)) for key in written)


class Killed(BaseException):
    """Simulates the end of the process."""


class Dying:
    """Lets ``left`` more puts of the backups' blobs succeed, and then raises `Killed`."""

    def __init__(self, backups: Backups, left: int) -> None:
        self.left = left
        self.put_keys: list[str] = []
        self._put = backups.blobs.put
        backups.blobs.put = self.put  # type: ignore[method-assign]

    def put(self, key: str, body: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed
        self.put_keys.append(key)
        self._put(key, body)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 12), max_size=6))
def test_a_backup_after_killed_backups_is_complete(seed: int, lives: list[int]) -> None:
    clock, chance = ManualClock(seed=seed), Random(seed)
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    grow(store, chance, 25)
    dying = Dying(backups, 0)
    for dying.left in lives:
        with suppress(Killed):
            backups.make(store)
    assert len(backups.repository().manifests()) <= len(lives)
    dying.left = 10**9
    backups.make(store)
    assert contents_of(backups.restored(backups.view())) == contents_of(store)


@pytest.mark.parametrize("puts", [14, 20, 40])
def test_a_backup_after_a_kill_does_not_rewrite_blobs_of_the_saved_progress(puts: int) -> None:
    """The next backup does not repeat the puts before the last saved progress. It may repeat later puts."""
    clock = ManualClock()
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    for count in range(10):
        store.records("acme").put(f"r{count}", Random(count).randbytes(9000))
    clock_ms = clock.wall_ms
    clock.wall_ms = lambda: (clock.sleep(30), clock_ms())[1]  # type: ignore[assignment, func-returns-value]
    dying = Dying(backups, puts)
    with pytest.raises(Killed):
        backups.make(store)
    last_save = max(position for position, key in enumerate(dying.put_keys) if key.startswith(UNFINISHED))
    saved = {key for key in dying.put_keys[:last_save] if not key.startswith(UNFINISHED)}
    assert any(key.startswith(COPIES) for key in saved)
    dying.left, dying.put_keys = 10**9, []
    backups.make(store)
    assert saved.isdisjoint(dying.put_keys)
    assert contents_of(backups.view()) == contents_of(store)


def test_a_deleted_log_is_in_the_earlier_backup_and_not_in_the_next(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.create("acme", "plan").mutate("put", {"key": "a/1", "value": 1})
    first = backups.make(memory).manifest
    delete_log(memory.document("acme", "plan").log)
    second = backups.make(memory).manifest
    assert [line.id for line in backups.view(first.id).list("acme")] == ["plan"]
    assert [line.id for line in backups.view(second.id).list("acme")] == []
    with pytest.raises(NotFound):
        backups.view(second.id).document("acme", "plan")


def test_a_fork_of_a_deleted_log_is_restored_with_its_inherited_versions(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    plan = memory.create("acme", "plan")
    for count in range(9):
        plan.mutate("put", {"key": "a/1", "value": count})
    plan.fork("copy", at=7)
    delete_log(plan.log)
    memory.create("acme", "plan").mutate("put", {"key": "b/1", "value": "another"})
    backups.make(memory)
    restored = backups.restored(backups.view())
    assert restored.document("acme", "copy").at(7).to_dict() == {"a/1": 6}
    assert contents_of(restored) == contents_of(memory)


def test_a_sealed_segment_is_packed_once(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    log = memory.create_log("acme", "events")
    for count in range(40):
        log.append(stratalog.Event("seen", count))
    backups.make(memory)
    read: list[str] = []
    query = memory.environment.index.query

    def watched(partition: str, **bounds: object) -> object:
        read.append(partition)
        return query(partition, **bounds)  # type: ignore[arg-type]

    memory.environment.index.query = watched  # type: ignore[method-assign, assignment]
    log.append(stratalog.Event("seen", 40))
    backups.make(memory)
    assert entries_partition(log.record.prefix, 1) not in read
    assert entries_partition(log.record.prefix, 41) in read


def test_a_redacted_entry_is_redacted_in_the_next_backup(memory: stratalog.Store) -> None:
    """A redaction changes a sealed segment, and the record of the segment shows the change."""
    backups = Backups(memory.environment.clock)
    log = memory.create_log("acme", "events")
    for count in range(12):
        log.append(stratalog.Event("secret", count))
    backups.make(memory)
    log.redact(2)
    backups.make(memory)
    assert backups.view().log("acme", "events").entry(2).redacted
    assert contents_of(backups.view()) == contents_of(memory)


def test_a_backup_after_a_collection_contains_no_redacted_body(memory: stratalog.Store) -> None:
    backups, clock = Backups(memory.environment.clock), memory.environment.clock
    log, records = memory.create_log("acme", "events"), memory.records("acme")
    for count in range(2):
        log.append(stratalog.Event("secret", Random(count).randbytes(20_000)))
        records.put("r", Random(count).randbytes(20_000))
    records.put("alone", Random(2).randbytes(20_000))
    records.put("pruned", Random(3).randbytes(20_000))
    backups.make(memory)
    log.redact(1)
    records.redact("r", 1)
    records.redact("alone", 1)
    backups.make(memory)
    records.redact("pruned", 1)
    records.put("pruned", b"small")
    records.prune("pruned", retain=1)
    for _ in range(2):
        clock.sleep(10_000)
        records.free("pruned")
        collect(memory.environment, "acme")
    backups.make(memory)
    remaining = [
        [stat.key for stat in environment.blobs.list("")]
        for environment in (memory.environment, backups.view().environment)
    ]
    assert len(remaining[0]) == 2
    assert remaining[1] == remaining[0]


def test_a_damaged_blob_is_named_and_the_rest_is_backed_up(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.records("acme").put("good", b"g" * 20_000)
    memory.records("acme").put("bad", b"b" * 20_000)
    [key] = [stat.key for stat in memory.environment.blobs.list("acme/records/bad/")]
    damage(memory.environment.blobs, key)
    [failure] = backups.make(memory).manifest.failures
    assert (failure.what, failure.code) == (key, "corrupt")
    assert backups.view().records("acme").get("good").body == b"g" * 20_000


def test_a_new_backup_has_the_previous_version_of_a_damaged_record(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.records("acme").put("r", b"first")
    backups.make(memory)
    memory.environment.index.commit([Delete("acme/!record/r", number(1))])
    [failure] = backups.make(memory).manifest.failures
    assert failure.what == "acme/r"
    assert backups.view().records("acme").get("r").body == b"first"


def test_a_new_backup_has_the_previous_version_of_a_damaged_log(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    log = memory.create_log("acme", "events")
    for count in range(6):
        log.append(stratalog.Event("seen", count))
    backups.make(memory)
    memory.environment.index.commit([Delete(entries_partition(log.record.prefix, 5), number(5))])
    [failure] = backups.make(memory).manifest.failures
    assert failure.what == log.record.owner
    assert [entry.version for entry in backups.view().log("acme", "events").read()] == [1, 2, 3, 4, 5, 6]


def test_a_backup_has_logs_and_records_with_the_longest_ids(memory: stratalog.Store) -> None:
    organisation, name = "o" * ID_ESCAPED_BYTES_MAX, "n" * ID_ESCAPED_BYTES_MAX
    document = memory.create(organisation, name)
    document.mutate("put", {"key": "a", "value": "x" * 5000})
    document.fork("f" * ID_ESCAPED_BYTES_MAX)
    memory.records(organisation).put("r" * RECORD_ID_BYTES_MAX, b"x" * 9000)
    backups = Backups(memory.environment.clock)
    assert backups.make(memory).manifest.failures == ()
    assert contents_of(backups.restored(backups.view())) == contents_of(memory)


def test_a_restoration_into_a_store_that_is_not_empty_is_a_conflict(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.create_log("acme", "events")
    backups.make(memory)
    with pytest.raises(Conflict):
        restore_store(backups.view(), memory, "a")


def test_a_killed_restoration_resumes_and_a_different_restoration_is_a_conflict(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    for count in range(5):
        memory.create_log("acme", f"log-{count}").append(stratalog.Event("seen", 1))
    backups.make(memory)
    target = open_inline(settings=SETTINGS, clock=backups.clock)
    commit, left = target.environment.index.commit, 9

    def dying(*arguments: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        commit(*arguments)  # type: ignore[arg-type]

    target.environment.index.commit = dying  # type: ignore[method-assign, assignment]
    with pytest.raises(Killed):
        restore_store(backups.view(), target, "a")
    left = 10**9
    with pytest.raises(Conflict):
        restore_store(backups.view(), target, "b")
    restore_store(backups.view(), target, "a")
    assert contents_of(target) == contents_of(memory)


def test_a_mutation_of_a_document_in_a_backup_is_invalid(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.create("acme", "plan")
    backups.make(memory)
    with pytest.raises(Invalid):
        backups.view().document("acme", "plan").mutate("put", {"key": "a/1", "value": 1})


def test_a_log_that_rolls_over_during_a_backup_is_restored_to_its_head(
    memory: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup reads the name record before the roll-over. So the search for the head begins in a marked segment."""
    backups, search = Backups(memory.environment.clock), family.find_head
    document = memory.document("acme", "plan", create=True)
    log = memory.log("acme", "plan")

    def roll_over_first(*arguments: Any) -> Head:
        for position in range(10):
            document.mutate("put", {"key": f"a/{position}", "value": position})
        assert archive_segments(log) > 1
        return search(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(family, "find_head", roll_over_first)
        backups.make(memory)
    restored = backups.restored(backups.view())
    assert contents_of(restored)["acme/plan"][2:] == contents_of(memory)["acme/plan"][2:]
    assert restored.document("acme", "plan").put("a/10", 10).version == 11
    assert verify_history(restored, HistoryName("log", "acme", "plan")).findings == ()


def test_verification_accepts_a_backup_and_reports_each_damaged_or_missing_object(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    grow(memory, Random(5), 60)
    for line in list(memory.list("acme")):
        archive_segments(memory.log("acme", line.id))
    backups.make(memory)
    intact = verify_backup(backups.repository(), backups.repository().manifest())
    assert intact.findings == ()
    assert intact.histories == len(list(list_histories(memory)))
    keys = [stat.key for stat in backups.blobs.list(f"{ROOT}/") if "/manifests/" not in stat.key]
    assert {key.split("/")[1] for key in keys} >= {"blobs", "chunks", "packs"}
    for key in keys:
        body = backups.blobs.get(key)
        for change in (damage, lose):
            change(backups.blobs, key)
            report = verify_backup(backups.repository(), backups.repository().manifest())
            named = key.startswith((f"{COPIES}/", f"{PACKS}/"))
            assert report.findings, key
            assert not named or any(key in (finding.what, *finding.reason.split("key=")) for finding in report.findings)
            backups.blobs.put(key, body)
    assert verify_backup(backups.repository(), backups.repository().manifest()).findings == ()


def test_a_lost_object_of_a_repository_is_damage_for_each_call_that_reads_it(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    grow(memory, Random(5), 60)
    backups.make(memory)
    calls: list[Callable[[], object]] = [
        lambda: backups.restored(backups.view()),
        lambda: prune_backups(backups.repository(), 1),
        lambda: backups.make(memory),
    ]
    lose_all(backups.blobs, f"{ROOT}/chunks/")
    for call in calls:
        with pytest.raises(Corrupt, match="missing"):
            call()


def test_a_restoration_names_the_logs_and_records_whose_items_are_lost_and_restores_the_rest(
    memory: stratalog.Store,
) -> None:
    backups = Backups(memory.environment.clock)
    grow(memory, Random(5), 60)
    backups.make(memory)
    lose_all(backups.blobs, f"{ROOT}/packs/")
    target = open_inline(settings=SETTINGS, clock=memory.environment.clock)
    report = restore_store(backups.view(), target, "a")
    assert {failure.code for failure in report.failures} == {"corrupt"}
    lost = {failure.what for failure in report.failures}
    logs = logs_of(memory)
    assert lost & logs
    assert logs_of(target) == logs - lost
    for name in logs - lost:
        organisation, _, id = name.partition("/")
        assert list(target.log(organisation, id).read()) == list(memory.log(organisation, id).read())


def logs_of(store: stratalog.Store) -> set[str]:
    return {f"{organisation}/{line.id}" for organisation in store.organisations() for line in store.list(organisation)}


def lose_all(blobs: MemoryBlobs, prefix: str) -> None:
    lost = [stat.key for stat in blobs.list(prefix)]
    assert lost
    for key in lost:
        lose(blobs, key)


def test_a_verification_reports_each_lost_object_as_damage(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    grow(memory, Random(5), 60)
    backups.make(memory)
    for stat in [stat for stat in backups.blobs.list(f"{ROOT}/") if "/manifests/" not in stat.key]:
        body = backups.blobs.get(stat.key)
        lose(backups.blobs, stat.key)
        codes = [
            finding.code for finding in verify_backup(backups.repository(), backups.repository().manifest()).findings
        ]
        backups.blobs.put(stat.key, body)
        assert codes[:1] == ["corrupt"], stat.key
        assert "not-found" not in codes, stat.key


def test_a_backup_whose_base_lost_its_objects_to_a_prune_is_a_conflict(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    grow(memory, Random(5), 60)
    backups.make(memory)
    repository = backups.repository()

    def prune(count: int) -> None:
        for stat in list(backups.blobs.list(f"{ROOT}/")):
            backups.blobs.delete(stat.key, stat.stamp)
        repository.chunks = backups.repository().chunks

    with pytest.raises(Conflict, match="pruned meanwhile"):
        back_up(memory, repository, prune)


def test_an_older_backup_and_each_restored_history_verify_without_findings(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    log = memory.create_log("acme", "events")
    log.append(stratalog.Event("seen", 1))
    manifest = backups.make(memory).manifest
    log.append(stratalog.Event("seen", 2))
    backups.make(memory)
    assert verify_backup(backups.repository(), manifest).findings == ()
    restored = backups.restored(backups.view())
    for history in list_histories(restored):
        assert verify_history(restored, history).findings == ()


@pytest.mark.parametrize("kind", ["log", "record"])
@pytest.mark.parametrize("other", ["hash", "older", "newer", "origin"])
def test_verification_reports_a_manifest_row_that_contradicts_its_history(
    memory: stratalog.Store, kind: str, other: str
) -> None:
    """The manifest's root covers the row of each history. A row that names another head is a finding."""
    backups = Backups(memory.environment.clock)
    log = memory.create_log("acme", "events")
    for count in range(3):
        log.append(stratalog.Event("seen", count))
        memory.records("acme").put("report", bytes([count]))
    manifest = backups.make(memory).manifest
    repository = backups.repository()
    [(key, slot)] = scan(repository.chunks, manifest.root, prefix=f"{HISTORY_ROW}{kind}/")
    checkpoint = read_line(slot.value.decode())
    changes = {
        "hash": {"hash": bytes(32)},
        "older": {"version": 2, "hash": log.hash_at(2) if kind == "log" else record_hash(memory, 2)},
        "newer": {"version": 4},
        "origin": {"origin": "acme/other"},
    }
    row = Slot(msgspec.structs.replace(checkpoint, **changes[other]).line().encode(), 0)
    altered = msgspec.structs.replace(manifest, root=update(repository.chunks, manifest.root, {key: row}))
    [finding] = verify_backup(repository, altered).findings
    assert (finding.what, finding.code) == (f"{kind} acme/{checkpoint.history.name}", "contradicted")


def record_hash(store: stratalog.Store, version: int) -> bytes:
    item = store.environment.index.get("acme/!record/report", number(version))
    assert item is not None
    return bytes(item.attributes["ch"])  # type: ignore[arg-type]


def test_blobs_that_were_repaired_in_the_store_are_in_the_next_backup(memory: stratalog.Store) -> None:
    """The next backup contains the repaired blobs, although nothing else changed since the backup without the blobs."""
    backups = Backups(memory.environment.clock)
    memory.records("acme").put("r", b"r" * 20_000)
    memory.create("acme", "plan").mutate("put", {"key": "items/a", "value": "v" * 5000})
    blobs = memory.environment.blobs
    bodies = {stat.key: blobs.get(stat.key) for stat in blobs.list("acme/")}
    for key in bodies:
        damage(blobs, key)
    assert len(backups.make(memory).manifest.failures) == len(bodies)
    for key, body in bodies.items():
        blobs.put(key, body)
    assert backups.make(memory).manifest.failures == ()
    assert contents_of(backups.restored(backups.view())) == contents_of(memory)


def test_a_backup_made_anew_repairs_a_damaged_repository(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    grow(memory, Random(5), 40)
    old = backups.make(memory).manifest
    for key in [stat.key for stat in backups.blobs.list("!backup/") if "/manifests/" not in stat.key]:
        damage(backups.blobs, key)
    back_up(memory, backups.repository(), anew=True)
    for manifest in backups.repository().manifests():
        assert verify_backup(backups.repository(), manifest).findings == ()
    assert contents_of(backups.view(old.id)) == contents_of(memory)


def test_pruning_leaves_the_remaining_backups_intact(memory: stratalog.Store) -> None:
    clock = memory.environment.clock
    backups = Backups(clock)
    chance, wanted = Random(3), []
    for _ in range(4):
        grow(memory, chance, 15)
        backups.make(memory)
        wanted.append(contents_of(memory))
    clock.sleep(ABANDONED_SECONDS + 1)
    planned = prune_backups(backups.repository(), 2, dry_run=True)
    pruned = prune_backups(backups.repository(), 2)
    assert pruned == planned
    assert len(pruned.backups) == 2
    assert pruned.blobs > 0
    for manifest, what in zip(backups.repository().manifests(), wanted[2:], strict=True):
        assert contents_of(backups.view(manifest.id)) == what
        assert verify_backup(backups.repository(), manifest).findings == ()
    assert prune_backups(backups.repository(), 2).blobs == 0


@pytest.mark.parametrize("folder", [MANIFESTS, f"{ROOT}/chunks"])
@pytest.mark.parametrize("retain", [1, 2])
def test_a_prune_that_would_leave_a_damaged_backup_removes_nothing(
    memory: stratalog.Store, folder: str, retain: int
) -> None:
    backups = Backups(memory.environment.clock)
    grow(memory, Random(5), 40)
    backups.make(memory)
    wanted, old = contents_of(memory), {stat.key for stat in backups.blobs.list("")}
    for step in range(2):
        grow(memory, Random(step), 5)
        backups.make(memory)
    new = [stat.key for stat in backups.blobs.list(f"{folder}/") if stat.key not in old]
    damage(backups.blobs, new[-1])
    before = {stat.key for stat in backups.blobs.list("")}
    memory.environment.clock.sleep(ABANDONED_SECONDS + 1)
    with pytest.raises(Corrupt):
        prune_backups(backups.repository(), retain)
    assert {stat.key for stat in backups.blobs.list("")} == before
    oldest = min(before & old, key=lambda key: (not key.startswith(MANIFESTS), key)).split("/")[2]
    assert contents_of(backups.view(oldest)) == wanted


def test_a_verification_and_a_prune_report_the_sizes_of_their_objects(memory: stratalog.Store, tmp_path: Path) -> None:
    """The file system stores the objects compressed."""
    clock = memory.environment.clock
    blobs = FileBlobs(tmp_path, clock)
    repository = BackupRepository(blobs, clock)
    for letter in "ab":
        memory.records("acme").put("r", letter.encode() * 100_000)
        back_up(memory, repository)
    keys = set(needed_keys(repository, repository.manifest().root))
    verified = verify_backup(repository, repository.manifest())
    assert (verified.objects, verified.content_bytes) == (len(keys), sum(len(blobs.get(key)) for key in keys))
    repository.clock = ManualClock(wall_ms=2**42)  # files get their times from the operating system
    before = {stat.key: stat.stored_bytes for stat in blobs.list("")}
    pruned = prune_backups(repository, 1)
    after = {stat.key: stat.stored_bytes for stat in blobs.list("")}
    gone = [before[key] for key in before.keys() - after.keys() if not key.startswith(f"{MANIFESTS}/")]
    assert (pruned.blobs, pruned.stored_bytes) == (len(gone), sum(gone))
    assert gone


def test_pruning_leaves_young_objects_and_blobs_outside_the_repository(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.records("acme").put("r", b"1" * 9000)
    backups.make(memory)
    memory.environment.clock.sleep(ABANDONED_SECONDS + 1)
    other = b"not of a backup"
    key = f"acme/{sha256(other).hex()}"
    backups.blobs.put(key, other)
    body = b"young"
    young = f"{PACKS}/{sha256(body).hex()}"
    backups.blobs.put(young, body)
    assert prune_backups(backups.repository(), 1).blobs == 0
    memory.environment.clock.sleep(ABANDONED_SECONDS + 1)
    assert prune_backups(backups.repository(), 1).blobs == 1
    assert backups.blobs.stat(young) is None
    assert backups.blobs.get(key) == other


def test_a_backup_whose_base_is_pruned_meanwhile_is_a_conflict(memory: stratalog.Store) -> None:
    backups = Backups(memory.environment.clock)
    memory.create_log("acme", "events")
    first = backups.make(memory).manifest
    repository = backups.repository()

    def prune(count: int) -> None:
        for stat in list(backups.blobs.list(f"{ROOT}/manifests/{first.id}/")):
            backups.blobs.delete(stat.key, stat.stamp)

    with pytest.raises(Conflict):
        back_up(memory, repository, prune)
    assert backups.repository().manifests() == []


@pytest.fixture
def memory() -> stratalog.Store:
    return open_inline(settings=SETTINGS, clock=ManualClock())


def damage(blobs: Any, key: str) -> None:
    """Flip a bit of the blob in the backend's own dictionary."""
    body = blobs._bodies[key]
    blobs._bodies[key] = bytes([body[0] ^ 1]) + body[1:]


def lose(blobs: Any, key: str) -> None:
    """Remove the blob from the backend's own dictionaries."""
    del blobs._bodies[key], blobs._stats[key]


def test_verifying_a_large_document_of_a_backup_writes_no_blobs(memory: stratalog.Store) -> None:
    """Verification builds the chunks of the document's tree again, and writes none of them."""
    backups = Backups(memory.environment.clock)
    plan = memory.create("acme", "plan")
    for item in range(30):
        plan.mutate("put", {"key": f"items/{item}", "value": "x" * 900})
    backups.make(memory)
    count = len(list(backups.blobs.list("")))
    assert verify_backup(backups.repository(), backups.repository().manifest()).findings == ()
    assert len(list(backups.blobs.list(""))) == count
