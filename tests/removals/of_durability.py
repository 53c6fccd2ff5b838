"""Removals of fixes: lists beside writes, backups, copies, damaged disks and read-only media."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

FILES = "src/stratalog/backends/files.py"
PRUNE = "src/stratalog/backups/prune.py"
READ_ONLY = "src/stratalog/backends/sqlite_read_only.py"
READ_ONLY_TESTS = "tests/backends/test_sqlite_read_only.py"
RACES = "tests/backups/test_prune_races.py"
REPOSITORY = "src/stratalog/backups/repository.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B1116",
        (Edit(FILES, "yield from filter(None, [self.stat(key)])", "pass"),),
        ("tests/backends/test_blob_names.py::test_a_list_has_a_blob_of_format_1_while_a_put_replaces_its_file",),
    ),
    Removal(
        "B1117",
        (Edit(PRUNE, "(UNFINISHED, UNFINISHED, MANIFESTS)", "(UNFINISHED, MANIFESTS)"),),
        (f"{RACES}::test_a_prune_keeps_the_objects_of_a_backup_that_saves_its_progress_during_a_list",),
    ),
    Removal(
        "B1118",
        (Edit(REPOSITORY, "for _ in range(2))", "for _ in range(1))"),),
        (f"{RACES}::test_the_newest_backup_is_found_although_it_replaces_the_only_other_one_during_the_list",),
    ),
    Removal(
        "B1119",
        (Edit("src/stratalog/homes.py", "allow_read_only=not create", "allow_read_only=False"),),
        (
            f"{READ_ONLY_TESTS}::test_a_store_whose_folder_cannot_be_written_is_read_verified_and_copied_and_stays_as_it_is",
        ),
    ),
    Removal(
        "B1119",
        (
            Edit(
                READ_ONLY,
                "            if self._state() != state:\n                return None\n            raise\n",
                "            raise\n",
            ),
            Edit(
                READ_ONLY,
                "        if self._state() != state:\n            connection.close()\n            return None\n",
                "",
            ),
        ),
        (f"{READ_ONLY_TESTS}::test_a_read_during_which_the_file_is_written_is_repeated",),
    ),
    Removal(
        "B1119",
        (
            Edit(
                READ_ONLY,
                "            except apsw.CantOpenError:\n                return None\n",
                "            except apsw.CantOpenError:\n                state = ()\n",
            ),
            Edit(
                READ_ONLY,
                "        if self._state() != state:\n            connection.close()\n            return None\n",
                "",
            ),
        ),
        (f"{READ_ONLY_TESTS}::test_a_log_that_sqlite_cannot_read_is_named_and_no_older_state_is_shown",),
    ),
)
