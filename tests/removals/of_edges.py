"""Removals of fixes: names, addresses, times and files that a user gives, and backups of what was pruned."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BACKED_UP_RECORDS = "src/stratalog/backups/records.py"
MAINTAIN = "tests/maintenance/test_maintain.py"
FAMILY = "src/stratalog/backups/family.py"
GARBAGE = "tests/backups/test_backup_garbage.py"
POLICY = "src/stratalog/maintenance/policy.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B505",
        (Edit(POLICY, 'organisation.replace("%", "%25").replace("/", "%2F")', 'organisation.replace("/", "%2F")'),),
        (f"{MAINTAIN}::test_an_exception_belongs_to_one_organisation_whatever_its_id_contains",),
    ),
    Removal(
        "B505",
        (Edit(POLICY, 'if _UNESCAPED.search(name.partition("/")[0]):', "if False:"),),
        (f"{MAINTAIN}::test_an_exception_with_a_percent_sign_of_its_own_is_refused",),
    ),
    Removal(
        "B506",
        (Edit(FAMILY, " or log.record.redacted or log.record.floor > 0", " or log.record.redacted"),),
        (f"{GARBAGE}::test_what_was_forgotten_is_in_no_backup_that_is_made_after_the_collection",),
    ),
    Removal(
        "B506",
        (Edit(BACKED_UP_RECORDS, " and not self._lists_garbage(owner, versions.bodies)", ""),),
        (
            f"{GARBAGE}::test_what_was_forgotten_is_in_no_backup_that_is_made_after_the_collection",
            f"{GARBAGE}::test_the_body_of_a_resolved_failure_is_in_no_backup_that_is_made_after_the_collection",
        ),
    ),
    Removal(
        "B506",
        (Edit(BACKED_UP_RECORDS, "if garbage and body.digest is not None:", "if False:"),),
        (f"{GARBAGE}::test_the_blobs_of_an_unchanged_record_without_garbage_are_not_listed_again",),
    ),
    Removal(
        "B506",
        (Edit(BACKED_UP_RECORDS, "            return True  # the copy of", "            raise  # the copy of"),),
        (f"{GARBAGE}::test_a_damaged_copy_of_a_large_body_does_not_end_the_next_backup",),
    ),
)
