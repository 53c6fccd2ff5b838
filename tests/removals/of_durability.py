"""Removals of fixes: lists beside writes, backups, copies, damaged disks and read-only media."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

FILES = "src/stratalog/backends/files.py"
PRUNE = "src/stratalog/backups/prune.py"
RACES = "tests/backups/test_prune_races.py"
REPOSITORY = "src/stratalog/backups/repository.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B2100",
        (Edit(FILES, "yield from filter(None, [self.stat(key)])", "pass"),),
        ("tests/backends/test_blob_names.py::test_a_list_has_a_blob_of_format_1_while_a_put_replaces_its_file",),
    ),
    Removal(
        "B2101",
        (Edit(PRUNE, "(UNFINISHED, UNFINISHED, MANIFESTS)", "(UNFINISHED, MANIFESTS)"),),
        (f"{RACES}::test_a_prune_keeps_the_objects_of_a_backup_that_saves_its_progress_during_a_list",),
    ),
    Removal(
        "B2102",
        (Edit(REPOSITORY, "for _ in range(2))", "for _ in range(1))"),),
        (f"{RACES}::test_the_newest_backup_is_found_although_it_replaces_the_only_other_one_during_the_list",),
    ),
)
