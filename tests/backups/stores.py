"""Helpers of the backup tests: a backup repository in memory, and its backups opened as stores."""

from __future__ import annotations

import stratalog
from stratalog.backends.memory import MemoryBlobs
from stratalog.backups.backup import BackupReport, back_up
from stratalog.backups.cut import CutIndex
from stratalog.backups.repository import BackupRepository
from stratalog.backups.restore import restore_store
from stratalog.backups.view import BackupIndex, store_over
from stratalog.clock import Clock
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS

__all__ = ["Backups"]


class Backups:
    """A backup repository in memory. Each call opens the repository anew, so that no cache hides a missing blob."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.blobs = MemoryBlobs(clock)

    def repository(self) -> BackupRepository:
        return BackupRepository(self.blobs, self.clock)

    def make(self, store: stratalog.Store) -> BackupReport:
        return back_up(store, self.repository())

    def view(self, id: str | None = None) -> stratalog.Store:
        """A backup, the newest by default, opened as a store."""
        repository = self.repository()
        manifest = repository.manifest(id)
        return store_over(BackupIndex(repository, manifest.root), repository, manifest, SETTINGS)

    def view_at(self, time_ms: int, id: str | None = None) -> stratalog.Store:
        """A backup as of a time, opened as a store."""
        repository = self.repository()
        return store_over(
            CutIndex(self.view(id).environment, time_ms=time_ms), repository, repository.manifest(id), SETTINGS
        )

    def view_of(self, prefix: str, version: int) -> stratalog.Store:
        """The newest backup with one log as of a version, opened as a store."""
        repository = self.repository()
        return store_over(
            CutIndex(self.view().environment, prefix=prefix, version=version),
            repository,
            repository.manifest(),
            SETTINGS,
        )

    def restored(self, backup: stratalog.Store, name: str = "a") -> stratalog.Store:
        """Restore ``backup`` into a new store, and return the store."""
        target = open_inline(settings=SETTINGS, clock=self.clock)
        restore_store(backup, target, name)
        return target
