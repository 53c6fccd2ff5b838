"""Removals of fixes: the columns, keys and rows of tables, numbered batches of sources, and maintenance."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

TABLE = "apps/table/src/stratalog_table"
TESTS = "apps/table/tests"
FAULTS = f"{TESTS}/test_maintenance_faults.py"
OWNERSHIP = f"{TESTS}/test_ownership.py"
DAMAGED = f"{FAULTS}::test_a_damaged_file_is_set_aside_and_all_undamaged_files_are_merged"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B264",
        (Edit(f"{TABLE}/rows.py", "    rows = _fitted(table, view, rows, add=add_columns, widen=widen)\n", ""),),
        (f"{TESTS}/test_columns.py::test_the_first_rows_determine_the_columns_and_different_columns_are_refused",),
    ),
    Removal(
        "B265",
        (
            Edit(
                f"{TABLE}/arrow_types.py",
                "    if not pa.types.is_null(given) and not (_KEY_SOURCES[known.family](given) and is_same_zone):\n",
                "    if False:\n",
            ),
        ),
        (f"{TESTS}/test_key_types.py::test_a_key_that_is_no_value_of_its_columns_type_is_refused_and_not_converted",),
    ),
    Removal(
        "B266",
        (Edit(f"{TABLE}/json_rows.py", "    if pa.types.is_floating(kind):\n", "    if False:\n"),),
        (f"{TESTS}/test_json_rows.py::test_each_type_of_value_becomes_the_expected_json",),
    ),
    Removal(
        "B267",
        (
            Edit(
                f"{TABLE}/maintenance.py",
                "collect(table, data_files, age_ms, faults)",
                "collect(table, data_files, age_ms)",
            ),
        ),
        (f"{FAULTS}::test_a_file_that_cannot_be_deleted_does_not_stop_the_collection",),
    ),
    Removal(
        "B268",
        (Edit(f"{TABLE}/maintenance.py", 'isolated(faults, "merge", job)', 'isolated(None, "merge", job)'),),
        (DAMAGED,),
    ),
    Removal(
        "B269",
        (
            Edit(
                f"{TABLE}/job_worker.py",
                "        if count != reference.rows and not reference.approximate:\n",
                "        if False:\n",
            ),
        ),
        (DAMAGED,),
    ),
    Removal(
        "B270",
        (
            Edit(
                f"{TABLE}/job_worker.py",
                "        self._renew()\n        return True\n",
                "        if known is None and self._lease_ms > 0:\n"
                "            return False\n"
                "        self._renew()\n"
                "        return True\n",
            ),
        ),
        (f"{FAULTS}::test_a_maintenance_pass_executes_its_own_merge_jobs",),
    ),
    Removal(
        "B271",
        (Edit(f"{TABLE}/job_claims.py", "    if _heartbeat(known) != _heartbeat(wanted.seen):\n", "    if False:\n"),),
        (f"{FAULTS}::test_a_worker_that_saw_a_claim_before_its_renewal_cannot_take_over_the_job",),
    ),
    Removal(
        "B272",
        (Edit(f"{TABLE}/merge_plan.py", "tiers.setdefault(size_tier(reference.rows), [])", "tiers.setdefault(0, [])"),),
        (f"{TESTS}/test_merge.py::test_merges_rewrite_a_row_three_times_or_less_on_average",),
    ),
    Removal(
        "B273",
        (Edit(f"{TABLE}/data_files.py", "file.iter_batches(STREAMED_ROWS, ", "file.iter_batches(10**9, "),),
        (f"{TESTS}/test_merge.py::test_a_merge_has_only_a_part_of_each_input_in_memory",),
    ),
    Removal(
        "B274",
        (
            Edit(
                f"{TABLE}/collection.py",
                "    return max(age_ms, retention_days * DAY_MS) if retention_days else age_ms\n",
                "    return age_ms\n",
            ),
        ),
        (f"{FAULTS}::test_retention_preserves_the_data_files_of_earlier_versions",),
    ),
    Removal(
        "B305",
        (
            Edit(
                f"{TABLE}/merge.py", "        if stop < len(positions) and self.last <= bound:\n", "        if False:\n"
            ),
        ),
        (
            f"{TESTS}/test_maintenance_faults.py::test_a_damaged_file_is_set_aside_and_all_undamaged_files_are_merged",
            f"{TESTS}/test_merge.py::test_an_input_with_unsorted_rows_is_refused_with_its_position",
        ),
    ),
    Removal(
        "B334",
        (Edit(f"{TABLE}/limits.py", "    if not 0 <= value <= DURATION_MS_MAX:\n", "    if False:\n"),),
        (f"{TESTS}/test_ownership.py::test_an_age_or_a_lease_outside_its_range_is_refused",),
    ),
    Removal(
        "B334",
        (
            Edit(
                f"{TABLE}/command_parts.py",
                "        if 0 <= value <= DURATION_MS_MAX / 1000:\n",
                "        if True:\n",
            ),
        ),
        (f"{TESTS}/test_cli.py::test_a_duration_is_a_number_of_seconds_in_a_range",),
    ),
    Removal(
        "B335",
        (
            Edit(
                f"{TABLE}/maintenance_commands.py",
                "    default=AGE_SECONDS,\n    show_default=True,\n    type=seconds,\n",
                "    default=AGE_SECONDS,\n    show_default=True,\n",
            ),
        ),
        (f"{TESTS}/test_cli.py::test_a_duration_is_a_number_of_seconds_in_a_range",),
    ),
    Removal(
        "B369",
        (
            Edit(
                f"{TABLE}/collection.py",
                "    if rights is not None:\n        rights.retire()\n    table.store.delete(table.document)\n",
                "    table.store.delete(table.document)\n    if rights is not None:\n        rights.retire()\n",
            ),
        ),
        (f"{OWNERSHIP}::test_a_deletion_interrupted_near_its_end_can_be_repeated_and_frees_the_folder",),
    ),
    Removal(
        "B369",
        (
            Edit(
                f"{TABLE}/collection.py",
                "        for incarnation in (*deleted, self._incarnation):\n",
                "        for incarnation in (self._incarnation,):\n",
            ),
        ),
        (f"{OWNERSHIP}::test_deleting_the_last_of_a_table_and_its_forks_frees_the_folder",),
    ),
    Removal(
        "B370",
        (
            Edit(
                f"{TABLE}/retention.py",
                "    except VersionForgotten:\n",
                "    except ZeroDivisionError:\n",
            ),
        ),
        (f"{FAULTS}::test_retention_longer_than_the_history_protects_the_versions_above_the_floor",),
    ),
    Removal(
        "B430",
        (
            Edit(f"{TABLE}/rows.py", "    if source.number > last + 1:\n", "    if False:\n"),
            Edit(f"{TABLE}/rows.py", '    elif outcome.status != "applied":\n', "    elif False:\n"),
        ),
        (
            f"{TESTS}/test_data_files.py::test_a_batch_after_a_gap_is_an_error",
            f"{TESTS}/test_data_files.py::test_a_source_with_the_name_of_a_client_of_another_group_is_refused",
        ),
    ),
    Removal(
        "B430",
        (Edit(f"{TABLE}/rows.py", "    if source.number < 1:\n", "    if False:\n"),),
        (f"{TESTS}/test_data_files.py::test_a_batch_with_the_number_zero_is_invalid",),
    ),
    Removal(
        "B430",
        (Edit(f"{TABLE}/rows.py", "    if source.number == last:\n        _require_added(table, source)\n", ""),),
        (f"{TESTS}/test_data_files.py::test_a_batch_that_was_refused_is_refused_again",),
    ),
    Removal(
        "B431",
        (Edit(f"{TABLE}/rows.py", "AddFiles((new,), job=job, source=brought)", "AddFiles((new,), job=job)"),),
        (f"{TESTS}/test_data_files.py::test_a_numbered_batch_records_the_number_of_rows_of_the_source_s_file",),
    ),
    Removal(
        "B437",
        (Edit(f"{TABLE}/merge_plan.py", "    if not 2 <= files_min <= files_max:\n", "    if False:\n"),),
        (f"{TESTS}/test_merge.py::test_a_minimum_of_files_outside_its_range_is_refused",),
    ),
    Removal(
        "B486",
        (
            Edit(
                f"{TABLE}/maintenance.py",
                "except (OSError, DataFileDamaged, Invalid):",
                "except (OSError, DataFileDamaged):",
            ),
        ),
        (f"{FAULTS}::test_a_set_aside_file_named_outside_the_folder_does_not_stop_a_retry",),
        raises=("Invalid",),
    ),
    Removal(
        "B661",
        (
            Edit(
                f"{TABLE}/data_files.py",
                "if self._is_intact(filename) and isinstance(exc, OSError):",
                "if not self._is_intact(filename) and False:",
            ),
        ),
        (f"{FAULTS}::test_maintenance_sets_no_file_aside_if_the_storage_fails_one_request",),
    ),
    Removal(
        "B1019",
        (Edit("src/stratalog/cli/maintenance.py", "    open_for(session, application)\n    opened", "    opened"),),
        (
            "apps/table/tests/test_cli.py::test_forget_with_the_application_keeps_the_versions_that_the_table_has_promised",
        ),
    ),
)
