"""Collection of data files that nobody needs any more: a table deletes its own files, and no others.

A file is the table's where its name begins with the table's incarnation, or where the folder was made for the table and
its log named the file. A relative that tracks a file keeps it; see `relatives`. What is neither is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum

from stratalog_table.data_files import SUFFIX, DataFiles
from stratalog_table.data_folder import UNFINISHED, DataFile
from stratalog_table.folder_register import REGISTER
from stratalog_table.maintenance_faults import MaintenanceFaults, isolated
from stratalog_table.messages import TransactionRefused
from stratalog_table.queries import TableView
from stratalog_table.relatives import Relatives, is_alive
from stratalog_table.table import Table

__all__ = ["FileRights", "Verdict", "collect", "collect_as", "delete_table", "owner_of", "retained_ms"]

NAMES_PER_COMMIT = 1000
DAY_MS = 86_400_000
NAME = re.compile(rf"([a-z2-7]{{12}})/[a-z2-7]{{2}}/[a-z2-7]{{20}}{re.escape(SUFFIX)}(?:{re.escape(UNFINISHED)})?")
"""A file of ours: the incarnation of the table that wrote it, a folder of some hundred, a random name."""


class Verdict(Enum):
    """What a table does with a file that it has no reference to."""

    DELETE = "delete"
    FORGET = "forget"
    """It is another's, who will delete it."""

    RETAIN = "retain"
    """Another still tracks it, or nobody can say whose it is: look again later."""


class FileRights:
    """Which data files one table may delete, as far as can be said now. Raises DataFolderTaken."""

    def __init__(self, table: Table, data_files: DataFiles) -> None:
        self._store = table.store
        self._incarnation = table.incarnation
        self._folder = data_files.folder
        self._register = register = table.register(data_files.folder)
        self._is_owner = register.enter().is_owner
        self._relatives = Relatives(table.store, table.document.log)
        # What a copy elsewhere tracks cannot be asked. It knows no file that was written after it was made.
        copies = register.relatives_elsewhere()
        self._copied_ms = max((copy.entered_ms for copy in copies), default=-1)

    def verdict(self, filename: str) -> Verdict:
        """What to do with a file that the table's log names and nothing of the table refers to."""
        if not self._folder.holds(filename) or filename.startswith(f"{REGISTER}/"):
            return Verdict.FORGET  # Whoever put the name into the log: no data file is there.
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
        """The files in the folder that are the table's, tracked or not: by their names, or left behind by a clear."""
        for file in self._folder.list(self._incarnation):
            if owner_of(file.filename) == self._incarnation:
                yield file
        for name in view.cleared_files() if self._is_owner else ():
            is_named_by_log = not owner_of(name) and self._folder.holds(name)
            written_ms = self._folder.modified_ms(name) if is_named_by_log else None
            if written_ms is not None:
                yield DataFile(name, written_ms)

    def retire(self) -> None:
        """After the table was deleted: leave the register, unless files of the table are left, which relatives need."""
        if next(self._folder.list(self._incarnation), None) is None:
            self._register.remove()
            self._folder.remove_empty(self._incarnation)
            self._folder.remove_empty(REGISTER)
            self._folder.remove_empty("")

    def _is_shared(self, filename: str) -> bool:
        """Whether a relative may need the file."""
        if self._relatives.may_hold(filename):
            return True
        if self._copied_ms < 0:
            return False
        written_ms = self._folder.modified_ms(filename)
        return written_ms is not None and written_ms <= self._copied_ms


def owner_of(filename: str) -> str:
    """The incarnation in the name of a data file; empty where there is none."""
    match = NAME.fullmatch(filename)
    return match[1] if match else ""


def retained_ms(table: Table, age_ms: int) -> int:
    """How long files stay after the last version that needs them: ``age_ms``, or longer as the table promises."""
    retention_days = table.at().meta.retention_days
    return max(age_ms, retention_days * DAY_MS) if retention_days else age_ms


def collect(table: Table, data_files: DataFiles, age_ms: int, faults: MaintenanceFaults | None = None) -> int:
    """Delete the table's data files without references for longer than ``age_ms``, and such of its files as no
    transaction added; how many. Raises DataFolderTaken where the files belong to the table in another store. A table
    that promises to keep its files longer does. A file that cannot be deleted stays for the next time, and is an error
    where no list of ``faults`` is given.

    Readers of an older view have so long to finish. Data that no transaction added is declared garbage first: a slow
    writer's transaction is rejected from then on.
    """
    return collect_as(table, FileRights(table, data_files), data_files.delete, age_ms, faults)


def collect_as(
    table: Table,
    rights: FileRights,
    delete: Callable[[str], None],
    age_ms: int,
    faults: MaintenanceFaults | None = None,
) -> int:
    """Do what `collect` does, with rights that were looked up."""
    before_ms = table.store.environment.clock.wall_ms() - retained_ms(table, age_ms)
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
        return count  # Readers may still look at what was there before the clear.
    unknown = list(_unknown(table, rights, before_ms))
    return count + sum(_collect_unknown(table, delete, part, faults) for part in _parts(unknown))


def delete_table(table: Table, data_files: DataFiles | None) -> int:
    """Delete a table with its data files and jobs; how many files. Those that relatives track stay.

    The table goes last, so that a deletion that was cut off is done again. Raises DataFolderTaken where the files are
    those of the table in another store: nothing is deleted.
    """
    rights = None if data_files is None else FileRights(table, data_files)
    table.clear_files()
    count = 0 if rights is None or data_files is None else _delete_data(table, rights, data_files)
    table.jobs.delete()
    table.store.delete(table.document)
    if rights is not None and data_files is not None:
        rights.retire()
    return count


def _delete_data(table: Table, rights: FileRights, data_files: DataFiles) -> int:
    view = table.at()
    names = {*(file.filename for file in rights.own_files(view)), *view.cleared_files()}
    deletable = [name for name in sorted(names) if rights.verdict(name) is Verdict.DELETE]
    for name in deletable:
        data_files.delete(name)
    return len(deletable)


def _unknown(table: Table, rights: FileRights, before_ms: int) -> Iterator[str]:
    """The table's own files older than ``before_ms`` that it does not track."""
    old = [file.filename for file in rights.own_files(table.at()) if file.modified_ms < before_ms]
    # Read after the listing: a file that was added meanwhile is tracked by now.
    view = table.at()
    return (name for name in old if view.file(name) is None and rights.verdict(name) is Verdict.DELETE)


def _collect_unknown(
    table: Table, delete: Callable[[str], None], names: Sequence[str], faults: MaintenanceFaults | None
) -> int:
    """Declare them garbage, each for itself where one was added meanwhile, then delete them."""
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
