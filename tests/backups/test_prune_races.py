"""A prune may run at any moment of another call on its repository: it damages nothing and deletes no needed object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import msgspec
import pytest

import stratalog
from stratalog.backups.backup import SAVE_SECONDS, back_up
from stratalog.backups.prune import needed_keys, prune_backups
from stratalog.backups.repository import ABANDONED_SECONDS, MANIFESTS, ROOT, UNFINISHED, BackupRepository
from stratalog.backups.restore import restore_store
from stratalog.backups.verification import verify_backup
from stratalog.backups.view import BackupIndex, store_over
from stratalog.errors import Conflict
from stratalog.keys import record_key, record_partition
from stratalog.ports.blobs import BlobStat, Damaged, ignore
from stratalog.ports.blobs_wrapper import BlobsWrapper
from stratalog.ports.index import Delete
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, contents_of, grow

pytestmark = pytest.mark.slow

Call = Callable[[stratalog.Store, BackupRepository], object]


class Interrupted(BlobsWrapper):
    """Calls ``interrupt`` once, before call number ``position``, counted from 0. A call is a `get`, `list` or `put`."""

    def __init__(self, backups: Backups, position: int, interrupt: Callable[[], object]) -> None:
        super().__init__(backups.blobs)
        self.left = position
        self._interrupt = interrupt

    def get(self, key: str) -> bytes:
        self._count()
        return super().get(key)

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        self._count()
        return super().list(prefix, after=after, damaged=damaged)

    def put(self, key: str, body: bytes) -> None:
        self._count()
        super().put(key, body)

    def _count(self) -> None:
        if self.left == 0:
            self._interrupt()
        self.left -= 1


class Killed(BaseException):
    """Simulates the end of the process."""


class Dying:
    """The progress callback of a backup.

    It lets the backup save its progress after each history, and kills the backup after more than ``rows`` rows.
    """

    def __init__(self, clock: ManualClock, rows: int) -> None:
        self._clock = clock
        self._rows = rows

    def __call__(self, count: int) -> None:
        self._clock.sleep(SAVE_SECONDS + 1)
        self._rows -= count
        if self._rows < 0:
            raise Killed


def pruned(store: stratalog.Store, repository: BackupRepository) -> object:
    return prune_backups(repository, 2)


def made(store: stratalog.Store, repository: BackupRepository) -> object:
    return back_up(store, repository, workers=0)


def verified(store: stratalog.Store, repository: BackupRepository) -> object:
    report = verify_backup(repository, repository.manifests()[0])
    assert report.findings == ()
    return report


def listed(store: stratalog.Store, repository: BackupRepository) -> object:
    repository.manifest()
    return repository.manifests()


def old_backups() -> tuple[stratalog.Store, Backups]:
    """Return a store and three backups of different states, old enough that a prune removes their objects."""
    clock, chance = ManualClock(), Random(3)
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    for _ in range(3):
        grow(store, chance, 8)
        backups.make(store)
    grow(store, chance, 4)
    clock.sleep(ABANDONED_SECONDS + 1)
    return store, backups


@pytest.mark.parametrize("call", [pruned, verified, made, listed])
def test_a_call_during_which_backups_are_pruned_succeeds_or_is_a_conflict(call: Call) -> None:
    conflicts = 0
    for position in range(10**6):
        store, backups = old_backups()

        def prune(backups: Backups = backups) -> None:
            # This backup is of an empty store, so it shares no object with the other backups.
            backups.make(open_inline(settings=SETTINGS, clock=backups.clock))
            prune_backups(backups.repository(), 1)

        blobs = Interrupted(backups, position, prune)
        try:
            call(store, BackupRepository(blobs, backups.clock))
        except Conflict:
            conflicts += 1
        assert are_intact(backups)
        if blobs.left >= 0:
            break
    assert (conflicts > 0) == (call is not listed)


def test_a_restoration_whose_backup_is_pruned_meanwhile_succeeds_or_is_a_conflict() -> None:
    conflicts = successes = 0
    for position in range(10**6):
        _, backups = old_backups()
        manifest = backups.repository().manifests()[0]
        wanted = contents_of(backups.view(manifest.id))

        def prune(backups: Backups = backups) -> None:
            prune_backups(backups.repository(), 1)

        blobs = Interrupted(backups, position, prune)
        repository = BackupRepository(blobs, backups.clock)
        source = store_over(BackupIndex(repository, manifest.root), repository, manifest, SETTINGS)
        target = open_inline(settings=SETTINGS, clock=backups.clock)
        require_backup = partial(repository.require_backup, manifest.id)
        try:
            with repository.reading(manifest.id):
                report = restore_store(source, target, manifest.id, require_backup=require_backup)
        except Conflict:
            conflicts += 1
        else:
            assert report.failures == ()
            assert contents_of(target) == wanted
            successes += 1
        if blobs.left >= 0:
            break
    assert conflicts
    assert successes


def test_a_prune_keeps_the_objects_of_an_old_interrupted_backup_that_is_finished_meanwhile() -> None:
    outcomes = set[str]()
    for position in range(10**6):
        clock = ManualClock()
        store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
        backups.make(store)
        grow(store, Random(3), 20)
        with pytest.raises(Killed):
            back_up(store, backups.repository(), Dying(clock, rows=8), workers=0)
        clock.sleep(ABANDONED_SECONDS + 1)

        def finish(store: stratalog.Store = store, backups: Backups = backups) -> None:
            back_up(store, backups.repository(), workers=0)

        blobs = Interrupted(backups, position, finish)
        try:
            prune_backups(BackupRepository(blobs, clock), 2)
            outcomes.add("pruned")
        except Conflict:
            outcomes.add("conflict")
        assert are_intact(backups)
        if blobs.left >= 0:
            break
    assert outcomes == {"pruned", "conflict"}


def test_a_resumed_backup_during_which_another_resumes_and_finishes_is_intact_or_a_conflict() -> None:
    """Both resume the same old progress. The store changes in between, so only one needs all its objects."""
    outcomes = set[str]()
    for position in range(10**6):
        clock, chance = ManualClock(), Random(3)
        store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
        backups.make(store)
        grow(store, chance, 60)
        with pytest.raises(Killed):
            back_up(store, backups.repository(), Dying(clock, rows=60), workers=0)
        clock.sleep(ABANDONED_SECONDS + 1)

        def finish_and_prune(
            store: stratalog.Store = store, backups: Backups = backups, chance: Random = chance
        ) -> None:
            grow(store, chance, 20)
            back_up(store, backups.repository(), workers=0)
            prune_backups(backups.repository(), 2)

        blobs = Interrupted(backups, position, finish_and_prune)
        try:
            back_up(store, BackupRepository(blobs, clock), workers=0)
            outcomes.add("made")
        except Conflict:
            outcomes.add("conflict")
        assert are_intact(backups), position
        if blobs.left >= 0:
            break
    assert outcomes == {"made", "conflict"}


def test_a_killed_backup_does_not_bring_back_older_versions_than_the_newest_backup_has() -> None:
    """The killed backup began after the newest backup, and ended before that was published."""
    clock = ManualClock()
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    store.records("acme").put("r", b"1")
    backups.make(store)
    store.records("acme").put("r", b"2")
    killed = list[str]()

    def kill_another(count: int) -> None:
        if not killed:
            clock.sleep(1)
            with pytest.raises(Killed):
                back_up(store, backups.repository(), Dying(clock, rows=0), workers=0)
            killed.extend(stat.key for stat in backups.blobs.list(f"{UNFINISHED}/"))

    back_up(store, backups.repository(), kill_another, workers=0)
    assert killed
    index, partition = store.environment.index, record_partition("acme", record_key("r"))
    for item in list(index.query(partition)):
        index.commit([Delete(partition, item.sort)])
    assert [failure.what for failure in backups.make(store).manifest.failures] == ["acme/r"]
    assert backups.view().records("acme").get("r").body == b"2"


def test_progress_that_no_backup_has_saved_again_for_a_week_is_dropped_by_the_next_backup() -> None:
    clock = ManualClock()
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    grow(store, Random(3), 20)
    with pytest.raises(Killed):
        back_up(store, backups.repository(), Dying(clock, rows=8), workers=0)
    backups.make(store)
    assert list(backups.blobs.list(f"{UNFINISHED}/"))
    clock.sleep(ABANDONED_SECONDS + 1)
    backups.make(store)
    assert not list(backups.blobs.list(f"{UNFINISHED}/"))


@pytest.mark.parametrize("before_end", [10, 1])
def test_a_backup_that_was_suspended_until_its_progress_was_dropped_is_a_conflict(before_end: int) -> None:
    """It notices this as it saves its progress again, or else as it publishes."""
    clock, reports = ManualClock(), list[int]()
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    grow(store, Random(3), 60)
    back_up(store, Backups(clock).repository(), reports.append, workers=0)
    position = len(reports) - before_end
    reports.clear()

    def suspend(count: int) -> None:
        reports.append(count)
        if len(reports) == position:
            clock.sleep(ABANDONED_SECONDS + 1)
            # These backups are of an empty store, so they share no object with the suspended backup.
            for _ in range(2):
                backups.make(open_inline(settings=SETTINGS, clock=clock))
            prune_backups(backups.repository(), 1)

    with pytest.raises(Conflict):
        back_up(store, backups.repository(), suspend, workers=0)
    assert len(reports) >= position
    back_up(store, backups.repository(), workers=0)
    assert are_intact(backups)


def test_damaged_progress_does_not_block_a_prune() -> None:
    clock = ManualClock()
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    backups.make(store)
    grow(store, Random(3), 60)
    with pytest.raises(Killed):
        back_up(store, backups.repository(), Dying(clock, rows=60), workers=0)
    repository = backups.repository()
    (progress,) = [stat.key for stat in backups.blobs.list(f"{UNFINISHED}/")]
    root = repository.read_manifest(progress).root
    needed = set(needed_keys(repository, root)) - set(needed_keys(repository, repository.manifest().root))
    repository.remove(min(key for key in needed if key.startswith(f"{ROOT}/chunks/")))
    prune_backups(backups.repository(), 1, dry_run=True)
    assert backups.blobs.stat(progress)
    prune_backups(backups.repository(), 1)
    assert not backups.blobs.stat(progress)
    back_up(store, backups.repository(), workers=0)
    assert are_intact(backups)


class ChangedDuringList(BlobsWrapper):
    """Calls ``change`` once, after a list of ``folder`` has read the names and before it looks at the objects."""

    def __init__(self, backups: Backups, folder: str, change: Callable[[], object]) -> None:
        super().__init__(backups.blobs)
        self._folder = folder
        self._change: Callable[[], object] | None = change

    def list(self, prefix: str, *, after: str = "", damaged: Damaged = ignore) -> Iterator[BlobStat]:
        stats = list(super().list(prefix, after=after, damaged=damaged))
        if prefix == f"{self._folder}/" and self._change:
            change, self._change = self._change, None
            change()
        return (stat for stat in stats if self.stat(stat.key))


def test_a_prune_keeps_the_objects_of_a_backup_that_saves_its_progress_during_a_list() -> None:
    """The progress that it saved before is gone, and the new progress is not in the list of the names."""
    clock = ManualClock()
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    backups.make(store)
    grow(store, Random(3), 60)
    with pytest.raises(Killed):
        back_up(store, backups.repository(), Dying(clock, rows=60), workers=0)
    clock.sleep(ABANDONED_SECONDS + 1)
    (progress,) = [stat.key for stat in backups.blobs.list(f"{UNFINISHED}/")]
    manifest = backups.repository().read_manifest(progress)

    def save() -> None:
        later = msgspec.structs.replace(manifest, finished_ms=clock.wall_ms())
        backups.repository().note_unfinished(later, progress)

    prune_backups(BackupRepository(ChangedDuringList(backups, UNFINISHED, save), clock), 1)
    assert not backups.blobs.stat(progress)
    assert all(map(backups.blobs.stat, needed_keys(backups.repository(), manifest.root)))


@pytest.mark.parametrize(
    "newest",
    [
        lambda repository: repository.manifest().id,
        lambda repository: "".join(manifest.id for manifest in repository.manifests()),
        lambda repository: "".join(manifest.id for manifest in repository.intact_manifests()[0]),
        lambda repository: repository.newest_id(),
        lambda repository: getattr(repository.newest(), "id", ""),
    ],
    ids=["manifest", "manifests", "intact_manifests", "newest_id", "newest"],
)
def test_the_newest_backup_is_found_although_it_replaces_the_only_other_one_during_the_list(
    newest: Callable[[BackupRepository], str],
) -> None:
    clock = ManualClock()
    store, backups = open_inline(settings=SETTINGS, clock=clock), Backups(clock)
    backups.make(store)

    def replace_the_backup() -> None:
        backups.make(store)
        prune_backups(backups.repository(), 1)

    blobs = ChangedDuringList(backups, MANIFESTS, replace_the_backup)
    assert newest(BackupRepository(blobs, clock)) == backups.repository().newest_id()


def are_intact(backups: Backups) -> bool:
    repository = backups.repository()
    return not any(verify_backup(repository, manifest).findings for manifest in repository.manifests())
