"""The restoration of a backup: copy the backup's store into an empty store, and compare the two stores."""

from __future__ import annotations

from collections.abc import Callable

from stratalog.documents import Document
from stratalog.errors import Conflict, Corrupt, Redacted
from stratalog.keys import COPY_PARTITION
from stratalog.log.callbacks import Report
from stratalog.log.commit import commit_once
from stratalog.log.directory import list_organisations
from stratalog.log.lifecycle import open_log
from stratalog.maintenance.copy_position import forget_position
from stratalog.maintenance.store_copy import CopyReport, copy_store
from stratalog.ports.index import Delete, Item, Put
from stratalog.store import Store

__all__ = ["names_without_state", "restore_store"]

RESTORE_SORT = "restore"


def restore_store(
    backup: Store,
    target: Store,
    name: str,
    progress: Report | None = None,
    require_backup: Callable[[], None] = lambda: None,
) -> CopyReport:
    """Copy the store ``backup``, a view of a backup, into the empty store ``target``.

    ``name`` identifies the backup, and the time up to which it is restored, if any. An interrupted restoration resumes
    with the same ``name``. No process may write to the target meanwhile. Incarnations and origins stay. A server
    compares the (version, hash) in a client's cookie with the restored log. So it finds out whether the log lost
    versions that the client has.

    Damaged blobs and items do not end the restoration: they, and the logs and records that cannot be read, are the
    report's failures. In that case the function calls ``require_backup``, which raises Conflict if the backup was
    pruned meanwhile: then the missing objects are no damage.

    Raises Conflict if the target holds other data or another unfinished restoration. Raises Corrupt if the catalogue of
    the backup is damaged, or the backup was pruned meanwhile: `BackupRepository.reading` tells these apart.
    """
    mark = Item(COPY_PARTITION, RESTORE_SORT, {"n": name})
    standing = target.environment.index.get(COPY_PARTITION, RESTORE_SORT)
    if standing is None and next(list_organisations(target.environment.index), None) is not None:
        raise Conflict("the store is not empty; restore the backup into a new store, or one document with --name")
    if standing is not None and standing != mark:
        raise Conflict(
            "another restoration into this store was begun; restore into a new store",
            restoring=standing.attributes["n"],
        )
    commit_once(target.environment, [Put(mark)], lambda: False)
    report = copy_store(backup, target, progress)
    if report.failures:
        require_backup()
    commit_once(target.environment, [Delete(COPY_PARTITION, RESTORE_SORT)], lambda: False)
    if report.failures:
        forget_position(target.environment)
    return report


def names_without_state(store: Store) -> list[str]:
    """Return ``organisation/name`` of each document whose newest state cannot be computed: a version is redacted.

    A restored store has such documents only if it was restored to a time, and a version was redacted after that time.
    """
    names = list[str]()
    for organisation in store.organisations():
        for listing in store.list(organisation):
            log = open_log(store.environment, organisation, listing.id)
            if log.record.kind == "document" and log.record.redacted:
                try:
                    Document(log).state()
                except Redacted:
                    names.append(f"{organisation}/{listing.id}")
                except Corrupt:
                    continue  # the restoration has named the damage
    return names
