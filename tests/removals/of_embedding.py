"""Removals of fixes: programs that embed a store, their processes and forks."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

FORK = "src/stratalog/process_fork.py"
FORK_TESTS = "tests/test_process_fork.py"
SQLITE = "tests/backends/test_sqlite.py"
MOVED = "tests/backends/test_moved_files.py"
CONNECTIONS = "src/stratalog/backends/sqlite_connections.py"
SQLITE_FILES = "src/stratalog/sqlite_files.py"
FOLDERS = "src/stratalog/folders.py"
FILES = "src/stratalog/backends/files.py"
READ = "tests/log/test_read.py"
FORKS = "tests/documents/test_forks.py"
COPY = "src/stratalog/maintenance/store_copy.py"
FAMILY_COPY = "src/stratalog/maintenance/family_copy.py"
VERIFICATION = "tests/maintenance/test_verification.py"
RESTORED = "tests/backups/test_restored_log.py"
COPYING = "tests/maintenance/test_copying.py"
ADMISSION = "tests/log/test_admission.py"
RETENTION = "tests/log/test_retention.py"
LIFECYCLE = "tests/log/test_lifecycle.py"
CLI_BACKUPS = "tests/cli/test_backups.py"
MERGING = "tests/documents/test_merging.py"
MAINTAIN = "tests/maintenance/test_maintain.py"
PRUNE = "tests/records/test_prune.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B582",
        (Edit("src/stratalog/backends/sqlite_file.py", "        if clean:\n", "        if False:\n"),),
        (f"{FORK_TESTS}::test_commits_of_a_forked_child_stay_after_its_parent_has_closed_the_store",),
    ),
    Removal(
        "B582",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "        self._closed = True  # not tested before",
                "        if self._closed:\n            return\n        self._closed = True  # not tested before",
            ),
        ),
        (f"{FORK_TESTS}::test_a_child_that_is_forked_during_a_close_inherits_no_database",),
    ),
    Removal(
        "B582",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "            leave_in_child(self)\n",
                "        leave_in_child(self)\n",
            ),
        ),
        (f"{FORK_TESTS}::test_a_child_that_is_forked_during_an_open_inherits_no_database",),
    ),
    Removal(
        "B583",
        (Edit(FORK, 'taken = getattr(self.own, "taken", [])', "taken = list[Any]()"),),
        (f"{FORK_TESTS}::test_a_fork_that_waits_for_another_fork_gives_its_locks_back",),
    ),
    Removal(
        "B583",
        (Edit(FORK, "before=_forks.take, ", ""),),
        (
            f"{FORK_TESTS}::test_a_fork_waits_for_a_commit_of_another_thread_so_the_child_can_write",
            f"{FORK_TESTS}::test_a_fork_waits_for_a_transaction_of_a_client_so_the_child_can_open_its_file",
            f"{FORK_TESTS}::test_no_store_opens_in_a_child_whose_fork_interrupted_a_call_of_sqlite",
        ),
    ),
    Removal(
        "B583",
        (Edit(FORK, "os.register_at_fork(after_in_parent=_forks.give_back)  # again", "# again"),),
        (f"{FORK_TESTS}::test_an_interrupt_anywhere_in_a_fork_blocks_no_other_thread",),
    ),
    Removal(
        "B584",
        (
            Edit(
                CONNECTIONS,
                "    for _ in range(OPENING_WAIT_MS_MAX // POLL_MS):\n",
                "    flock(lock_file, LOCK_EX)\n    for _ in range(OPENING_WAIT_MS_MAX // POLL_MS):\n",
            ),
        ),
        (f"{SQLITE}::test_an_open_waits_at_most_the_limit_for_another_process_that_opens_the_file",),
    ),
    Removal(
        "B585",
        (
            Edit(
                FOLDERS,
                "        if _identity_of(self.path) != self._identity:\n",
                "        if False:\n",
            ),
        ),
        (
            f"{MOVED}::test_a_store_whose_files_are_gone_acknowledges_no_commit_and_answers_no_read",
            f"{MOVED}::test_a_store_that_is_moved_and_moved_back_works",
        ),
    ),
    Removal(
        "B687",
        (
            Edit(
                SQLITE_FILES,
                "            opened.check()\n        with _translated",
                "            pass\n        with _translated",
            ),
        ),
        (
            f"{MOVED}::test_a_file_that_is_replaced_while_sqlite_opens_it_is_not_accepted",
            f"{MOVED}::test_a_read_uses_no_file_that_replaced_the_store_s_file_while_the_read_began",
        ),
    ),
    Removal(
        "B688",
        (
            Edit(
                FOLDERS,
                "        with file_errors():  # not",
                "        return None\n        with file_errors():  # not",
            ),
        ),
        (f"{MOVED}::test_an_error_of_the_file_system_is_not_reported_as_a_moved_file",),
    ),
    Removal(
        "B586",
        (
            Edit(
                FOLDERS,
                "    with file_errors():\n        return _absolute(path)\n",
                "    with file_errors():\n        return os.fspath(path)\n",
            ),
        ),
        (
            f"{MOVED}::test_a_store_of_a_relative_path_is_the_same_after_a_change_of_the_working_directory",
            f"{MOVED}::test_a_cache_of_a_relative_path_is_the_same_after_a_change_of_the_working_directory",
        ),
    ),
    Removal(
        "B587",
        (
            Edit(
                SQLITE_FILES,
                "    if os.path.exists(log) and os.path.getsize(log) > LOG_HEADER_BYTES:\n",
                "    if False:\n",
            ),
        ),
        (
            f"{MOVED}::test_a_store_whose_database_is_lost_keeps_the_commits_in_its_write_ahead_log",
            f"{MOVED}::test_a_client_s_file_that_is_lost_keeps_the_mutations_in_its_write_ahead_log",
        ),
    ),
    Removal(
        "B588",
        (
            Edit(
                SQLITE_FILES,
                "        if not isinstance(translated_error(exc, connection), StorageFull):\n            raise\n",
                "        raise\n",
            ),
        ),
        (
            "tests/backends/test_full_disk.py::test_a_store_whose_process_was_killed_can_be_read_on_a_full_disk",
            "tests/backends/test_full_disk.py::test_a_client_s_file_can_be_opened_on_a_full_disk",
        ),
    ),
    Removal(
        "B624",
        (
            Edit(
                "src/stratalog/clock.py",
                "    return abs(clock.wall_ms() - began_ms) >= interval_ms\n",
                "    return clock.wall_ms() - began_ms >= interval_ms\n",
            ),
        ),
        ("tests/maintenance/test_maintain.py::test_a_pass_whose_clock_was_ahead_delays_no_later_pass",),
    ),
    Removal(
        "B624",
        (
            Edit(
                "src/stratalog/log/usage.py",
                "    return began_ms > now_ms + USAGE_CLOCKS_SECONDS_MAX * 1000\n",
                "    return False\n",
            ),
        ),
        (f"{ADMISSION}::test_a_measurement_by_a_clock_that_was_ahead_is_replaced",),
    ),
    Removal(
        "B624",
        (
            Edit(
                "src/stratalog/log/admission.py",
                "        while self._slices and now_ms - self._slices[-1].first_ms",
                "        if self._slices and now_ms - self._slices[-1].first_ms",
            ),
        ),
        (f"{ADMISSION}::test_admissions_by_a_clock_that_was_ahead_count_until_the_next_measurement",),
    ),
    Removal(
        "B625",
        (
            Edit(
                FILES,
                '        self._opened = OpenPath(self._folder, "the folder of the blobs")\n',
                '        self._opened = OpenPath("/", "the root")\n',
            ),
        ),
        (
            f"{MOVED}::test_blobs_whose_folder_is_gone_are_not_reported_as_missing_and_none_is_acknowledged",
            f"{MOVED}::test_a_scrub_of_blobs_whose_folder_is_gone_finishes_no_round",
        ),
    ),
    Removal(
        "B625",
        (Edit(FILES, "            if is_stored and os.path.exists(path):\n", "            if is_stored:\n"),),
        (f"{MOVED}::test_a_put_during_which_its_folder_was_replaced_for_a_moment_is_in_the_folder",),
        raises=("NotFound",),
    ),
    Removal(
        "B626",
        (
            Edit(
                "src/stratalog/log/log.py",
                "        if gone is not None and not self._is_followed_at(low, time_ms):\n",
                "        if gone is not None:\n",
            ),
        ),
        (f"{READ}::test_between_the_creation_of_a_fork_and_its_first_entry_version_at_returns_the_floor",),
    ),
    Removal(
        "B627",
        (
            Edit(
                "src/stratalog/log/snapshots.py",
                "        if newest is None or newest.version < upto:\n",
                "        if newest is None:\n",
            ),
        ),
        (f"{FORKS}::test_a_fork_with_a_snapshot_below_its_ancestor_s_floor_is_read_and_forked",),
        raises=("VersionForgotten",),
    ),
    Removal(
        "B628",
        (
            Edit(
                COPY,
                "        self._mirror.items(partition, sorted((waiting | swept).values(), key=_sort))\n",
                "        self._mirror.items(partition, waiting.values())\n",
            ),
        ),
        (f"{COPYING}::test_a_log_that_the_source_deleted_and_swept_is_swept_in_the_target",),
    ),
    Removal(
        "B628",
        (Edit(COPY, "            self._mirror.items(forks_partition(prefix))\n", "            pass\n"),),
        (f"{COPYING}::test_a_log_that_the_source_deleted_and_swept_is_swept_in_the_target",),
    ),
    Removal(
        "B628",
        (
            Edit(
                COPY,
                '"" if record is None or record.deleted_ms else record.prefix',
                '""',
            ),
        ),
        (f"{COPYING}::test_a_log_whose_directory_line_is_lost_in_the_source_is_not_swept_in_the_target",),
        raises=("NotFound", "VersionForgotten"),
    ),
    Removal(
        "B628",
        (
            Edit(
                FAMILY_COPY,
                "            self._mirror.items(entries_partition(log.prefix, parse_number(sort)), ())  #",
                "            pass  #",
            ),
        ),
        (f"{COPYING}::test_versions_that_the_source_forgot_and_freed_are_freed_in_the_target",),
    ),
    Removal(
        "B629",
        (Edit(FAMILY_COPY, "theirs is None or theirs.deleted_ms or (ours", "theirs is None or (ours"),),
        (f"{COPYING}::test_another_log_of_a_name_is_copied_after_the_earlier_log_is_deleted_in_the_target",),
        raises=("Conflict",),
    ),
    Removal(
        "B630",
        (Edit(FOLDERS, '        if not missing.startswith(os.path.join(root, "")):\n', "        if False:\n"),),
        (f"{MOVED}::test_a_put_during_the_move_of_its_folder_does_not_make_the_folder_again",),
    ),
    Removal(
        "B631",
        (
            Edit(
                FOLDERS,
                "    missing, folder = list[str](), _absolute(folder)\n",
                "    missing, folder = list[str](), os.path.abspath(folder)\n",
            ),
        ),
        (f"{MOVED}::test_a_store_at_a_path_with_two_dots_after_a_link_is_where_the_system_finds_it",),
        raises=("Unavailable",),
    ),
    Removal(
        "B632",
        (
            Edit(
                "src/stratalog/maintenance/verification.py",
                "        if log.floor() == floor:\n            raise\n        return None\n",
                "        raise\n",
            ),
        ),
        (f"{VERIFICATION}::test_a_verification_during_which_the_floor_rises_starts_again_at_the_new_floor",),
        raises=("VersionForgotten",),
    ),
    Removal(
        "B633",
        (
            Edit(
                "src/stratalog/log/floors.py",
                "            forgotten = max(forgotten, segment.first - 1)\n",
                "",
            ),
        ),
        (f"{FORKS}::test_the_floor_of_a_fork_is_that_of_its_deleted_ancestor_after_another_document_took_the_name",),
        raises=("VersionForgotten",),
    ),
    Removal(
        "B634",
        (
            Edit(
                FAMILY_COPY,
                'if not (continues(there, last) if there else required(segment, "m")):',
                "if there is None or not continues(there, last):",
            ),
        ),
        (
            f"{COPYING}::test_a_store_whose_archived_and_freed_versions_were_forgotten_since_the_last_copy_is_copied_again",
        ),
        raises=("Conflict",),
    ),
    Removal(
        "B635",
        (
            Edit(
                "src/stratalog/backups/restored_log.py",
                '    if record.kind == "document" and record.redacted:\n',
                "    if False:\n",
            ),
        ),
        (f"{RESTORED}::test_a_version_without_a_state_because_of_a_redaction_is_not_restored",),
    ),
    Removal(
        "B714",
        (Edit("src/stratalog/log/lifecycle.py", ", *floor_named(environment.index, record)]", "]"),),
        (f"{FORKS}::test_a_floor_within_a_segment_of_a_deleted_ancestor_stays_after_another_document_took_the_name",),
    ),
    Removal(
        "B714",
        (Edit("src/stratalog/log/floors.py", "    if named > forgotten:\n", "    if False:\n"),),
        (f"{RETENTION}::test_a_deleted_ancestor_still_has_a_floor",),
    ),
    Removal(
        "B715",
        (
            Edit(
                "src/stratalog/log/retention.py",
                ".lineage[-1].version < plan.floor",
                ".lineage[-1].version <= plan.floor",
            ),
        ),
        (f"{FORKS}::test_a_fork_that_forgets_the_versions_of_its_ancestors_can_be_merged_and_forked",),
        raises=("VersionForgotten",),
    ),
    Removal(
        "B715",
        (Edit("src/stratalog/log/lifecycle.py", "if source.floor == at else None", "if False else None"),),
        (f"{FORKS}::test_a_fork_that_forgets_the_versions_of_its_ancestors_can_be_merged_and_forked",),
    ),
    Removal(
        "B716",
        (
            Edit(
                "src/stratalog/log/retention.py",
                "        if not segment.freed and is_mark_ahead(environment.clock, segment.marked_ms):\n",
                "        if False:\n",
            ),
        ),
        (f"{RETENTION}::test_segments_marked_by_a_clock_that_was_far_ahead_are_freed_after_the_grace_period",),
    ),
    Removal(
        "B716",
        (
            Edit(
                "src/stratalog/log/sweep.py",
                "is_mark_ahead(environment.clock, line.m - _waits_ms(line)) and not dry_run",
                "False",
            ),
        ),
        (f"{LIFECYCLE}::test_a_log_deleted_by_a_clock_that_was_far_ahead_is_swept_after_the_grace_period",),
    ),
    Removal(
        "B716",
        (Edit("src/stratalog/records/retention.py", "is_mark_ahead(clock, mark.marked_ms)", "False"),),
        (
            f"{PRUNE}::test_versions_pruned_by_a_clock_that_was_far_ahead_are_freed_after_the_grace_period",
            f"{PRUNE}::test_a_free_marks_versions_again_that_a_clock_far_ahead_has_marked",
        ),
    ),
    Removal(
        "B717",
        (Edit("src/stratalog/cli/backups.py", "names_without_state(target) if time_ms is not None else []", "[]"),),
        (f"{CLI_BACKUPS}::test_a_restore_to_a_time_names_documents_whose_state_was_redacted_since",),
    ),
    Removal(
        "B716",
        (
            Edit(
                "src/stratalog/log/sweep.py",
                "    if record is not None and record.deleted_ms:\n",
                "    if False:\n",
            ),
        ),
        (f"{LIFECYCLE}::test_a_log_deleted_by_a_clock_that_was_far_ahead_is_swept_after_the_grace_period",),
    ),
    Removal(
        "B718",
        (
            Edit(
                "src/stratalog/backups/family.py",
                "        for ancestor, pin in of_deleted:\n",
                "        for ancestor, pin in ():\n",
            ),
        ),
        (f"{RESTORED}::test_a_restored_store_with_a_deleted_fork_that_another_fork_needs_has_no_damage",),
    ),
    Removal(
        "B718",
        (Edit("src/stratalog/backups/family.py", " if ancestor in prefixes]", "]"),),
        (f"{RESTORED}::test_a_backup_of_a_fork_of_a_deleted_log_needs_no_ancestor_below_the_floor_of_that_log",),
        raises=("KeyError",),
    ),
    Removal(
        "B719",
        (
            Edit(
                "src/stratalog/documents/replay.py",
                "position, last)\n",
                "position, dict(last))\n",
            ),
        ),
        (f"{MERGING}::test_the_memory_of_a_merge_does_not_grow_with_the_square_of_the_mutations_of_an_entry",),
    ),
    Removal(
        "B718",
        (
            Edit(
                "src/stratalog/backups/family.py",
                "(later := self._later_deleted(organisation, name)) is not None",
                "(later := None) is not None",
            ),
        ),
        (f"{RESTORED}::test_a_restored_store_with_a_deleted_fork_that_another_fork_needs_has_no_damage",),
    ),
    Removal(
        "B720",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py", "_has_state(log, floor) if is_document", "True if is_document"
            ),
        ),
        (f"{MAINTAIN}::test_a_document_without_a_state_of_the_new_floor_forgets_up_to_its_newest_snapshot_below",),
    ),
)
