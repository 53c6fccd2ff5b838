"""Removals of fixes: names, addresses, times and files that a user gives, and backups of what was pruned."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BACKED_UP_RECORDS = "src/stratalog/backups/records.py"
MAINTAIN = "tests/maintenance/test_maintain.py"
CONTRACT = "src/stratalog/testing/index_contract.py"
FAMILY = "src/stratalog/backups/family.py"
GARBAGE = "tests/backups/test_backup_garbage.py"
POLICY = "src/stratalog/maintenance/policy.py"
PORT = "src/stratalog/ports/index.py"
SETUP = "src/stratalog/backends/dynamodb_setup.py"

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
    Removal(
        "B507",
        (Edit(PORT, "            _check_attribute(condition.name, condition.value)\n", "            pass\n"),),
        (
            f"{CONTRACT}::test_integers_of_64_bits_read_back_and_larger_ones_are_refused",
            f"{CONTRACT}::test_a_condition_on_a_value_of_another_type_is_refused",
        ),
    ),
    Removal(
        "B507",
        (Edit("src/stratalog/backends/item_rows.py", " or type(condition.value) is not bytes:", ":"),),
        (f"{CONTRACT}::test_integers_of_64_bits_read_back_and_larger_ones_are_refused",),
    ),
    Removal(
        "B507",
        (Edit("src/stratalog/backends/dynamodb.py", "[0-9]{1,20}", "[0-9]{1,19}"),),
        ("tests/cloud/test_dynamodb_answers.py::test_the_largest_integers_of_64_bits_read_back",),
    ),
    Removal(
        "B508",
        (
            Edit(
                SETUP,
                "        if table_is_ready(client, table):\n            return made\n",
                "        description = client.call("
                '"DescribeTable", {"TableName": table}, _described, CallEffect.READ).value\n'
                '        if description is not None and description.Table.TableStatus == "ACTIVE":\n'
                "            _check_keys(table, description.Table)\n            return made\n",
            ),
        ),
        ("tests/cloud/test_dynamodb_setup.py::test_a_new_table_that_a_read_does_not_find_yet_is_waited_for",),
    ),
)
