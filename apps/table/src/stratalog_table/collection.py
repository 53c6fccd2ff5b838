"""Collection of data files that the newest version of a table no longer needs, after a retained time.

A table deletes its own files, and files of deleted tables of its store that the table's log names. A file belongs to
the table if its name begins with the table's incarnation. A file whose name has no incarnation belongs to the table
under two conditions: the table's log names the file, and the folder was made for the table or was adopted by it.
Collection keeps a file that a relative of the table tracks. The relatives are all tables with the same origin: forks
and copies of this table, the table of which it is a fork or copy, and other forks and copies of that table. See
`relatives`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from stratalog_table.data_files import SUFFIX, DataFiles
from stratalog_table.data_folder import UNFINISHED, DataFile
from stratalog_table.folder_register import REGISTER
from stratalog_table.limits import check_duration
from stratalog_table.maintenance_faults import MaintenanceFaults, isolated
from stratalog_table.messages import TransactionRefused
from stratalog_table.queries import TableView
from stratalog_table.relatives import Relatives, is_alive
from stratalog_table.retention import DAY_MS
from stratalog_table.table import Table

__all__ = ["FileRights", "Verdict", "collect", "collect_as", "delete_table", "owner_of", "retained_ms"]

NAMES_PER_COMMIT = 1000
TIMES_PER_AGE = 8
"""While the log has forgotten too much, the collection records a time each eighth of the retained time."""

NAME = re.compile(rf"([a-z2-7]{{12}})/[a-z2-7]{{2}}/[a-z2-7]{{20}}{re.escape(SUFFIX)}(?:{re.escape(UNFINISHED)})?")
"""The path of a data file: the incarnation of the table that wrote it, one of 1024 folders, a random name."""


class Verdict(Enum):
    """The decision on a file to which the table has no reference."""

    DELETE = "delete"
    FORGET = "forget"
    """Remove only the name from the table: the file belongs to another table, or the name names no data file."""

    RETAIN = "retain"
    """Keep the name and the file, and decide again later.

    A relative may need the file, or its name has no incarnation and the folder does not belong to the table.
    """


class FileRights:
    """The rights of one table to delete data files. The constructor reads the views of the table's relatives once.

    The constructor also enters the table in the folder's register. Raises DataFolderTaken if the files belong to the
    table in another store.
    """

    def __init__(self, table: Table, data_files: DataFiles) -> None:
        self._store = table.store
        self._incarnation = table.incarnation
        self._folder = data_files.folder
        self._register = register = table.register(data_files.folder)
        self._is_owner = register.enter().is_owner
        self._relatives = Relatives(table.store, table.document.log)
        # This store cannot read which files a copy in another store tracks. A copy enters the register after it was
        # made, and it tracks no file that this table wrote after the copying. So every file that was written before the
        # newest copy entered the register counts as shared.
        copies = register.relatives_elsewhere()
        self._copied_ms = max((copy.entered_ms for copy in copies), default=-1)

    def verdict(self, filename: str) -> Verdict:
        """Return the decision on a file to which the table has no reference."""
        if not self._folder.holds(filename) or filename.startswith(f"{REGISTER}/"):
            return Verdict.FORGET  # The name names no data file. Any program may have put the name into the log.
        owner = owner_of(filename)
        if owner == self._incarnation or (not owner and self._is_owner):
            return Verdict.RETAIN if self._is_shared(filename) else Verdict.DELETE
        if not owner:
            return Verdict.RETAIN
        registration = self._register.registration(owner)
        if registration is None or not self._register.is_ours(registration) or is_alive(self._store, registration):
            return Verdict.FORGET
        return Verdict.FORGET if self._is_shared(filename) else Verdict.DELETE

    def own_files(self, view: TableView) -> Iterator[DataFile]:
        """Yield the table's files, tracked or not: the files whose names have the table's incarnation.

        If the table owns the folder (`Registration.is_owner`), also yield the files that a clear dropped and whose
        names have no incarnation.
        """
        for file in self._folder.list(self._incarnation):
            if owner_of(file.filename) == self._incarnation:
                yield file
        for name in view.cleared_files() if self._is_owner else ():
            is_named_by_log = not owner_of(name) and self._folder.holds(name)
            written_ms = self._folder.modified_ms(name) if is_named_by_log else None
            if written_ms is not None:
                yield DataFile(name, written_ms)

    def retire(self) -> None:
        """Remove the table from the register, unless some of its files remain because relatives need them.

        Also remove each earlier deleted table of the store that has no file left.
        """
        deleted = [
            other.incarnation
            for other in self._register.others()
            if self._register.is_ours(other) and not is_alive(self._store, other)
        ]
        for incarnation in (*deleted, self._incarnation):
            if next(self._folder.list(incarnation), None) is None:
                self._register.retire(incarnation)

    def _is_shared(self, filename: str) -> bool:
        """Return whether a relative in this store, or a copy in another store, may need the file."""
        if self._relatives.may_hold(filename):
            return True
        if self._copied_ms < 0:
            return False
        written_ms = self._folder.modified_ms(filename)
        return written_ms is not None and written_ms <= self._copied_ms


def owner_of(filename: str) -> str:
    """Return the incarnation in the name of a data file, or an empty string if the name has no incarnation."""
    match = NAME.fullmatch(filename)
    return match[1] if match else ""


def retained_ms(table: Table, age_ms: int) -> int:
    """Return the milliseconds for which files stay after the last version that needs them.

    The result is the longer of ``age_ms`` and the table's retention.
    """
    retention_days = table.at().meta.retention_days
    return max(age_ms, retention_days * DAY_MS) if retention_days else age_ms


def collect(table: Table, data_files: DataFiles, age_ms: int, faults: MaintenanceFaults | None = None) -> int:
    """Delete the table's garbage files that are older than ``age_ms`` and return the number of deleted files.

    A file that has had no reference for ``age_ms`` is garbage. A file of the table that the table does not track is
    garbage too: no transaction added it, or a clear dropped it. A table whose retention is longer than ``age_ms`` keeps
    its files for the time of its retention. The age gives readers of an older view time to finish. The collection
    declares an untracked file garbage before it deletes the file. The table then rejects a slow writer's transaction
    that adds the file.

    Raises Invalid for an age out of range, and DataFolderTaken if the files belong to the table in another store. After
    these errors nothing is deleted. A file that cannot be deleted stays for the next pass, and ``faults`` lists the
    failure. Without ``faults`` the function raises the error.
    """
    return collect_as(table, FileRights(table, data_files), data_files.delete, age_ms, faults)


def collect_as(
    table: Table,
    rights: FileRights,
    delete: Callable[[str], None],
    age_ms: int,
    faults: MaintenanceFaults | None = None,
) -> int:
    """Do the work of `collect` with rights that the caller already read."""
    check_duration("age_ms", age_ms)
    age_ms = retained_ms(table, age_ms)
    now_ms = table.store.environment.clock.wall_ms()
    before_ms = now_ms - age_ms
    _record_time(table, now_ms, age_ms)
    count = 0
    for part in _parts(list(table.unreferenced_before(before_ms))):
        foreign: list[str] = []
        deleted: list[str] = []
        for name in part:
            with isolated(faults, "collect", name):
                verdict = rights.verdict(name)
                if verdict is Verdict.DELETE:
                    delete(name)
                    deleted.append(name)
                elif verdict is Verdict.FORGET:
                    foreign.append(name)
        _forget(table, foreign + deleted)
        count += len(deleted)
    if table.cleared_ms() >= before_ms:
        return count  # Readers may still use older versions, whose files the clear has dropped.
    unknown = list(_unknown(table, rights, before_ms))
    return count + sum(_collect_unknown(table, delete, part, faults) for part in _parts(unknown))


def _record_time(table: Table, now_ms: int, age_ms: int) -> None:
    """Record the time of the newest version, if the log forgets versions before their files are old enough.

    Otherwise no later collection could know that these files are old.
    """
    if table.version_before(now_ms - age_ms) is not None:
        return
    view = table.at()
    version, recorded_ms = next(((time.version, time.time_ms) for time in reversed(view.times())), (0, 0))
    # A recorded time that is not over yet is from a clock that was ahead. A new time replaces it.
    if not 0 <= now_ms - recorded_ms < age_ms / TIMES_PER_AGE and view.has_garbage_since(version):
        table.record_time()


def delete_table(table: Table, data_files: DataFiles | None) -> int:
    """Delete a table with its jobs and data files, except files of relatives, and return the number of deleted files.

    The function deletes the data files and the jobs and removes the table from the folder's register. It deletes the
    table's log last, so an interrupted deletion can be repeated. Raises DataFolderTaken, with nothing deleted, if the
    files belong to the table in another store.
    """
    rights = None if data_files is None else FileRights(table, data_files)
    table.clear_files()
    count = 0 if rights is None or data_files is None else _delete_data(table, rights, data_files)
    table.jobs.delete()
    if rights is not None:
        rights.retire()
    table.store.delete(table.document)
    return count


def _delete_data(table: Table, rights: FileRights, data_files: DataFiles) -> int:
    view = table.at()
    names = {*(file.filename for file in rights.own_files(view)), *view.cleared_files()}
    deletable = [name for name in sorted(names) if rights.verdict(name) is Verdict.DELETE]
    for name in deletable:
        data_files.delete(name)
    return len(deletable)


def _unknown(table: Table, rights: FileRights, before_ms: int) -> Iterator[str]:
    """Return the table's own files that the table does not track and that are older than ``before_ms``."""
    old = [file.filename for file in rights.own_files(table.at()) if file.modified_ms < before_ms]
    # Read the view after the listing. So if a transaction added a listed file in between, the view tracks the file.
    view = table.at()
    return (name for name in old if view.file(name) is None and rights.verdict(name) is Verdict.DELETE)


def _collect_unknown(
    table: Table, delete: Callable[[str], None], names: Sequence[str], faults: MaintenanceFaults | None
) -> int:
    """Declare files garbage, then delete them, and return the number of deleted files.

    If another transaction has added one of the files, the table refuses the declaration. The function then declares
    each file in a separate transaction.
    """
    if not _is_committed(lambda: table.collect_files(names)):
        if len(names) == 1:
            return 0
        return sum(_collect_unknown(table, delete, [name], faults) for name in names)
    count = 0
    for name in names:
        with isolated(faults, "collect", name):
            delete(name)
            count += 1
    return count


def _forget(table: Table, names: Sequence[str]) -> None:
    if names and not _is_committed(lambda: table.delete_files(names)) and len(names) > 1:
        for name in names:
            _forget(table, [name])


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + NAMES_PER_COMMIT] for start in range(0, len(names), NAMES_PER_COMMIT))


def _is_committed(act: Callable[[], object]) -> bool:
    try:
        act()
    except TransactionRefused:
        return False
    return True
