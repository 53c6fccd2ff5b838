"""Removals of fixes: files of blobs, SQLite's file, turns, and the ports in memory."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

FILES = "src/stratalog/backends/files.py"
FOLDERS = "src/stratalog/folders.py"
SQLITE_FILES = "src/stratalog/sqlite_files.py"
FULL_DISK = "tests/backends/test_full_disk.py"
MEMORY = "src/stratalog/backends/memory.py"
RESTORED_LOG = "src/stratalog/backups/restored_log.py"
TURNSTILE = "src/stratalog/backends/turnstile.py"
TURNSTILE_TESTS = "tests/backends/test_turnstile.py"
WORLD_DISK = "tests/simulation/test_world_disk.py"
SQLITE = "tests/backends/test_sqlite.py"
BACKUP = "tests/backups/test_backup.py"
CONTENDED = (
    "tests/backups/test_contended.py"
    "::test_a_new_backup_has_the_previous_version_of_a_record_that_changes_in_each_attempt"
)
FILE_FOLDERS = "tests/backends/test_file_folders.py"
ASIDE = Edit(
    FILES,
    "            if _is_at(path, file) and _stamp(os.fstat(file.fileno())) == stamp:\n"
    "                os.unlink(path)\n"
    "                return True\n",
    "            aside = os.path.join(self._folder, NEW, new_id(self._clock))\n"
    "            os.rename(path, aside)\n"
    "            if _stamp(os.stat(aside)) == stamp:\n"
    "                os.unlink(aside)\n"
    "                return True\n"
    "            os.rename(aside, path)\n",
)
"""The delete without the fix: it renames the file first and then compares."""

LOCK_FILES = "tests/test_store.py::test_a_store_whose_lock_files_cannot_be_opened_leaves_no_file_open"
PREPARATION = "tests/cloud/test_preparation.py"
SQS_SETUP = "src/stratalog/backends/sqs_setup.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B446",
        (Edit("src/stratalog/homes.py", "    with _closed_on_error(database):\n", "    if database:\n"),),
        ("tests/test_store.py::test_a_store_whose_blobs_cannot_be_opened_leaves_no_file_open",),
    ),
    Removal(
        "B446",
        (Edit(TURNSTILE, "            self._transaction.close()\n            raise\n", "            raise\n"),),
        (LOCK_FILES,),
    ),
    Removal(
        "B446",
        (Edit(TURNSTILE, "            os.close(self.door)\n            raise\n", "            raise\n"),),
        (LOCK_FILES,),
    ),
    Removal(
        "B446",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "                on_error.callback(writer.close)\n",
                "",
            ),
        ),
        (LOCK_FILES,),
    ),
    Removal(
        "B446",
        (
            Edit(
                "src/stratalog/backends/aws_store.py",
                "        except BaseException:\n",
                "        except Unavailable:\n",
            ),
            Edit("src/stratalog/backends/aws_store.py", "import Invalid\n", "import Invalid, Unavailable\n"),
        ),
        ("tests/cloud/test_aws_store.py::test_a_search_for_the_queue_that_is_interrupted_leaves_no_client_open",),
    ),
    Removal(
        "B448",
        (
            Edit(
                "src/stratalog/store.py",
                '        close_in_child(self, "_lock", "_queue_lock")\n',
                '        self._queue_lock = self._lock\n        close_in_child(self, "_lock", "_queue_lock")\n',
            ),
        ),
        ("tests/test_store.py::test_documents_are_opened_while_the_queue_is_opened",),
    ),
    Removal(
        "B2",
        (Edit("src/stratalog/sqlite_files.py", 'connection.pragma("wal_checkpoint")\n', "pass\n"),),
        (
            "tests/simulation/test_world_disk.py::test_a_reopened_database_makes_a_commit_with_a_failed_sync_durable_before_a_read",
        ),
    ),
    Removal(
        "B3",
        (Edit(FILES, "make_folder(self._folder, sync=sync)", "os.makedirs(self._folder, exist_ok=True)"),),
        ("tests/simulation/test_world_disk.py::test_a_blob_survives_though_its_folder_was_new",),
    ),
    Removal(
        "B4",
        (
            Edit(
                "src/stratalog/homes.py", "    make_folder(folder)\n", "    folder.mkdir(parents=True, exist_ok=True)\n"
            ),
        ),
        ("tests/test_store.py::test_a_new_store_and_the_folders_above_it_survive_a_power_failure",),
    ),
    Removal(
        "B4",
        (Edit(FOLDERS, "        sync_path(os.path.dirname(made), sync)\n", ""),),
        ("tests/test_store.py::test_a_new_store_and_the_folders_above_it_survive_a_power_failure",),
    ),
    Removal(
        "B5",
        (ASIDE,),
        (f"{FILE_FOLDERS}::test_a_process_that_is_killed_while_it_deletes_leaves_the_blob_and_no_lock",),
    ),
    Removal(
        "B6",
        (Edit(FILES, "if _is_at(path, file) and _stamp(", "if _stamp("),),
        (f"{FILE_FOLDERS}::test_a_delete_removes_only_the_generation_of_the_given_stamp",),
    ),
    Removal(
        "B6",
        (Edit(FILES, "_is_at(path, file) and _stamp(os.fstat(file.fileno())) == stamp", "_is_at(path, file)"),),
        (f"{FILE_FOLDERS}::test_a_delete_removes_only_the_generation_of_the_given_stamp",),
    ),
    Removal(
        "B7",
        (Edit(FILES, "            self._remove_unfinished()\n", ""),),
        ("tests/backends/test_file_folders.py::test_opening_the_folder_removes_temporary_files_of_killed_processes",),
    ),
    Removal(
        "B7",
        (Edit(FILES, "            remove_empty(os.path.dirname(path), self._folder)\n", ""),),
        ("tests/backends/test_file_folders.py::test_deleting_the_last_blob_removes_its_folders",),
    ),
    Removal(
        "B7",
        (
            Edit(FOLDERS, "        self._root = root\n", "        self._root = root\n        self._seen = {''}\n"),
            Edit(FOLDERS, "if _is_marked(descriptor):", "if folder in self._seen or self._seen.add(folder):"),
        ),
        (f"{FILE_FOLDERS}::test_a_put_syncs_a_folder_that_another_process_has_recreated",),
    ),
    Removal(
        "B8",
        (
            Edit(
                FILES,
                "            with self._locked(file):\n                os.utime",
                "            if file:\n                os.utime",
            ),
        ),
        ("tests/backends/test_files.py::test_a_put_that_froze_does_not_replace_the_newer_time_of_a_later_put",),
    ),
    Removal(
        "B8",
        (
            Edit(FILES, "            if not _is_at(path, file):\n                return False\n", ""),
            Edit(FILES, "if is_stored and os.path.exists(path):", "if is_stored:"),
        ),
        (f"{FILE_FOLDERS}::test_a_put_stores_a_blob_that_another_process_deletes_during_the_put",),
    ),
    Removal(
        "B9",
        (Edit("src/stratalog/log/append.py", "(before if hash == head.hash else head.version)", "head.version"),),
        (
            "tests/log/test_contention.py::test_a_read_of_a_writers_own_unacknowledged_entry_does_not_count_as_contention",
        ),
    ),
    Removal(
        "B10",
        (
            Edit(
                "src/stratalog/backends/hosted_turns.py",
                "        if traffic.stop:\n            self._stop(traffic, first)\n",
                "",
            ),
        ),
        (
            "tests/backends/test_hosted_turns.py::test_a_writer_of_a_commit_per_second_waits_few_round_trips_among_busy_writers",
        ),
    ),
    Removal(
        "B12",
        (
            Edit(
                "src/stratalog/log/conditional_append.py",
                "with self._turn() if isinstance(before, RaceLost) or self._reads_first() else no_turn() as has_turn:",
                "with no_turn() as has_turn:",
            ),
        ),
        ("tests/log/test_turns.py::test_a_writer_with_a_busy_rival_commits_at_its_second_try",),
    ),
    Removal(
        "B13",
        (Edit(MEMORY, "copied = Item(item.partition, item.sort, dict(item.attributes))", "copied = item"),),
        ("src/stratalog/testing/index_contract.py::test_an_item_does_not_change_with_the_caller_s_dictionary",),
    ),
    Removal(
        "B14",
        (
            Edit(
                MEMORY,
                "for queued in list(waiting):\n            if len",
                "for queued in waiting[:limit]:\n            if len",
            ),
        ),
        ("src/stratalog/testing/queue_contract.py::test_a_message_delivered_too_often_becomes_a_dead_letter",),
    ),
    Removal(
        "B14",
        (
            Edit(
                MEMORY,
                "sorted((letter for letter in self._dead if letter.id > after), key=lambda letter: letter.id)",
                "[letter for letter in self._dead if letter.id > after]",
            ),
        ),
        ("src/stratalog/testing/queue_contract.py::test_dead_letters_are_listed_oldest_first_after_an_id",),
    ),
    Removal(
        "B143",
        (
            Edit(
                TURNSTILE,
                "        self._closed = True\n        self._transaction.close()\n        self._close_turn()\n",
                "        self._transaction.close()\n        os.closerange(self._turn.door, self._turn.room + 1)\n",
            ),
        ),
        (
            "tests/backends/test_turnstile.py::test_closing_the_file_ends_a_wait_for_a_turn_without_the_turn",
            "tests/backends/test_turnstile.py::test_a_turn_that_is_running_holds_its_descriptor_open_until_the_turn_ends",
        ),
    ),
    Removal(
        "B149",
        (
            Edit(
                "src/stratalog/backends/files.py",
                "                make_shared_folder(os.path.dirname(path), self._folder)",
                "                os.makedirs(os.path.dirname(path), exist_ok=True)",
            ),
        ),
        (
            "tests/backends/test_file_folders.py::test_a_put_recreates_a_folder_that_another_process_removes_during_its_creation",
        ),
    ),
    Removal("B294", (ASIDE,), (f"{FILE_FOLDERS}::test_a_delete_with_an_outdated_stamp_never_hides_the_blob",)),
    Removal(
        "B295",
        (Edit(FOLDERS, "            _mark(descriptor)\n", "            Path(folder, DURABLE).touch()\n"),),
        (f"{FILE_FOLDERS}::test_a_folder_recreated_during_a_put_does_not_count_as_durable",),
    ),
    Removal(
        "B296",
        (Edit("src/stratalog/backups/family.py", " and not _is_searched(log, first):", ":"),),
        (f"{BACKUP}::test_a_log_that_rolls_over_during_a_backup_is_restored_to_its_head",),
    ),
    Removal(
        "B297",
        (
            Edit(
                "src/stratalog/backends/sqlite_connections.py",
                "        create_file(path, _create_tables, vfs)\n",
                "",
            ),
        ),
        (f"{WORLD_DISK}::test_a_new_database_opens_after_any_run_of_failed_syncs_and_power_failures",),
    ),
    Removal(
        "B297",
        (
            Edit(
                "src/stratalog/client/file.py",
                "    create_file(path, _create_tables)\n",
                "    apsw.Connection(path).close()\n",
            ),
        ),
        ("tests/client/test_file.py::test_a_file_can_be_opened_despite_the_remains_of_an_unfinished_creation",),
    ),
    Removal(
        "B313",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                '                self._connection.execute("ROLLBACK")\n                failed',
                "                failed",
            ),
        ),
        (f"{SQLITE}::test_a_commit_on_a_damaged_item_fails_without_effect_on_other_commits",),
    ),
    Removal(
        "B313",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "        if self._connection.in_transaction:\n            # A",
                "        if not group:\n            # A",
            ),
        ),
        (f"{SQLITE}::test_a_commit_does_not_join_a_transaction_that_was_left_open",),
    ),
    Removal(
        "B339",
        (
            Edit(
                "src/stratalog/backups/verification.py",
                "elif descent.report and descent.report.chain.version != checkpoint.version:",
                "elif False:",
            ),
        ),
        (
            f"{BACKUP}::test_verification_reports_a_manifest_row_that_contradicts_its_history[older-log]",
            f"{BACKUP}::test_verification_reports_a_manifest_row_that_contradicts_its_history[older-record]",
        ),
    ),
    Removal(
        "B361",
        (
            Edit(
                "src/stratalog/backups/records.py",
                "            blobs = self._catalogue.copy_blobs(owner)\n",
                "            self._catalogue.put(blobs_row, self._catalogue.copy_blobs(owner))\n",
            ),
        ),
        (f"{CONTENDED}[False]",),
    ),
    Removal(
        "B361",
        (
            Edit(
                "src/stratalog/backups/failures.py",
                "self._catalogue.with_base(owner, self._catalogue.copy_blobs(owner))",
                "self._catalogue.copy_blobs(owner)",
            ),
        ),
        (f"{CONTENDED}[True]",),
    ),
    Removal(
        "B366",
        (
            Edit(
                "src/stratalog/backups/writer.py",
                "            self.failures[what] = BackupFailure(",
                "            self.failures[str(len(self.failures))] = BackupFailure(",
            ),
        ),
        ("tests/backups/test_contended.py::test_a_damaged_body_is_reported_once_although_each_attempt_reads_the_body",),
    ),
    Removal(
        "B429",
        (Edit("src/stratalog/backups/repository.py", '        close_in_child(self, "blobs", "_lock")\n', ""),),
        (
            "tests/test_process_fork.py::test_a_backup_repository_in_a_forked_child_raises_closed",
            "tests/test_process_fork.py::test_every_lock_of_an_object_is_closed_in_a_child",
        ),
    ),
    Removal(
        "B455",
        (
            Edit(RESTORED_LOG, "        self._put(line)\n", ""),
            Edit(RESTORED_LOG, "            listed,\n", ""),
        ),
        ("tests/backups/test_restored_log.py::test_maintenance_removes_a_restoration_that_was_killed_at_any_write",),
    ),
    Removal(
        "B456",
        (Edit("src/stratalog/maintenance/collection.py", "is_gone = not is_listed and ", "is_gone = "),),
        ("tests/backups/test_restored_log.py::test_maintenance_during_a_slow_restoration_deletes_no_restored_data",),
    ),
    Removal(
        "B457",
        (
            Edit(
                "src/stratalog/maintenance/store_check.py", "if UNNAMED in gone.attributes:", "if not gone.attributes:"
            ),
        ),
        (
            "tests/backups/test_restored_log.py::test_the_ancestors_of_a_restored_fork_are_no_damage_and_are_deleted_with_the_fork",
        ),
    ),
    Removal(
        "B458",
        (Edit(RESTORED_LOG, "        except ConditionFailed as exc:", "        except ZeroDivisionError as exc:"),),
        ("tests/backups/test_restored_log.py::test_a_name_that_is_taken_during_a_restoration_is_a_conflict",),
    ),
    Removal(
        "B489",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "            self._turnstile.leave()  # an interrupt may have ended the first call early\n",
                "",
            ),
        ),
        (f"{TURNSTILE_TESTS}::test_an_interrupt_anywhere_in_a_commit_leaves_no_lock",),
    ),
    Removal(
        "B489",
        (Edit(TURNSTILE, "            locks.unlock()\n            raise\n", "            raise\n"),),
        (f"{TURNSTILE_TESTS}::test_an_interrupt_anywhere_in_a_commit_leaves_no_lock",),
    ),
    Removal(
        "B490",
        (
            Edit(
                TURNSTILE,
                "            self._end_turn(token)  # an interrupt may have ended the first call early\n",
                "",
            ),
        ),
        (f"{TURNSTILE_TESTS}::test_an_interrupt_anywhere_in_a_turn_ends_the_turn",),
    ),
    Removal(
        "B501",
        (
            Edit(
                "src/stratalog/backups/repository.py",
                "self.chunks = Chunks(self.objects, ROOT)",
                "self.chunks = Chunks(blobs, ROOT)",
            ),
        ),
        (f"{BACKUP}::test_a_backup_counts_each_object_that_it_writes_except_manifests",),
    ),
    Removal(
        "B541",
        (
            Edit(
                "src/stratalog/backends/row_blobs.py",
                "            return self.stat(key) is None\n        return below",
                "            return False\n        return below",
            ),
        ),
        (
            "tests/backends/test_sqlite_blobs.py::test_a_delete_after_another_process_deleted_the_generation_returns_true",
            "src/stratalog/testing/blobs_contract.py::test_all_deletes_of_one_generation_at_once_return_true",
        ),
    ),
    Removal(
        "B617",
        (Edit("src/stratalog/sqlite_files.py", '    connection.pragma("fullfsync", 1)\n', ""),),
        (
            "tests/test_sqlite_files.py::test_all_syncs_of_a_store_are_full_syncs",
            "tests/test_sqlite_files.py::test_all_syncs_of_a_clients_file_are_full_syncs",
        ),
    ),
    Removal(
        "B557",
        (Edit("src/stratalog/backends/s3_versions.py", '{"NoncurrentDays": RECOVERY_DAYS}', '{"NoncurrentDays": 1}'),),
        ("tests/aws/test_template.py::test_init_and_the_template_make_buckets_with_the_same_expiry",),
    ),
    Removal(
        "B558",
        (Edit(SQS_SETUP, "        clock.sleep(FIRST_USE_SECONDS)\n", ""),),
        (
            f"{PREPARATION}::test_the_preparation_of_a_queue_takes_at_least_a_second_and_waits_until_sqs_finds_the_queue",
        ),
    ),
    Removal(
        "B558",
        (
            Edit(
                SQS_SETUP,
                "        if exc.reason != DELETED_RECENTLY:\n            raise\n        return False",
                "        raise",
            ),
        ),
        (f"{PREPARATION}::test_a_queue_whose_name_was_deleted_recently_is_created_when_the_name_is_free",),
    ),
    Removal(
        "B558",
        (
            Edit(
                "src/stratalog/backends/s3_versions.py",
                "            made = True  # directly after its creation, a request may not find the bucket\n",
                "            raise\n",
            ),
        ),
        (f"{PREPARATION}::test_a_new_bucket_is_configured_after_s3_finds_it",),
    ),
    Removal(
        "B558",
        (Edit("src/stratalog/cli/stores.py", 'if any(what.startswith("bucket ") for what in made):', "if not made:"),),
        ("tests/cloud/test_command_line.py::test_init_advises_to_wait_only_if_it_has_created_a_bucket",),
    ),
    Removal(
        "B968",
        (
            Edit(
                SQLITE_FILES,
                "    refused = isinstance(exc, apsw.BusyError | apsw.FullError | apsw.ReadOnlyError)\n"
                "    if refused or _write_errno(exc, connection) in (*NO_ROOM, errno.EROFS):\n",
                "    if isinstance(exc, apsw.BusyError | apsw.ReadOnlyError):\n",
            ),
        ),
        tuple(
            f"{FULL_DISK}::{test}[{reason}]"
            for test in (
                "test_a_commit_that_the_file_system_refuses_has_the_error_of_its_reason",
                "test_a_refused_transaction_of_a_client_s_file_has_the_error_of_its_reason",
            )
            for reason in ("full", "quota", "file-too-large", "read-only")
        ),
    ),
    Removal(
        "B969",
        (Edit(SQLITE_FILES, " or _code(exc) == apsw.SQLITE_IOERR_SHMSIZE\n", "\n"),),
        (f"{FULL_DISK}::test_a_closed_store_is_read_without_room_for_shared_memory_and_a_write_says_so",),
    ),
    Removal(
        "B969",
        (Edit(FOLDERS, "StorageFull if exc.errno in NO_ROOM else Unavailable", "Unavailable"),),
        (
            f"{FULL_DISK}::test_a_lock_file_that_finds_no_room_is_a_lack_of_room[store]",
            f"{FULL_DISK}::test_a_lock_file_that_finds_no_room_is_a_lack_of_room[client]",
        ),
    ),
    Removal(
        "B970",
        (
            Edit(
                SQLITE_FILES,
                "            _remove(unfinished, *_companions(unfinished))\n        raise\n",
                "            pass\n        raise\n",
            ),
        ),
        (f"{FULL_DISK}::test_a_failed_creation_of_a_file_leaves_no_unfinished_database",),
    ),
    Removal(
        "B971",
        (Edit(FILES, "with file_errors(self._folder), suppress", "with file_errors(), suppress"),),
        ("tests/backends/test_files.py::test_a_full_disk_leaves_nothing_half_written",),
    ),
    Removal(
        "B972",
        (
            Edit(
                "apps/table/src/stratalog_table/data_folder.py",
                "            if self.is_local:\n                _settle(source, path)\n"
                "            elif source != path:\n                self.files.move(source, path)\n",
                "            if not self.is_local and source != path:\n                self.files.move(source, path)\n",
            ),
            Edit(
                "apps/table/src/stratalog_table/data_folder.py",
                "                self.files.delete_file(source)\n            raise\n",
                "                self.files.delete_file(source)\n            raise\n"
                "        if self.is_local:\n            _settle(source, path)\n",
            ),
        ),
        ("apps/table/tests/test_data_files.py::test_a_data_file_whose_sync_fails_leaves_no_file",),
    ),
    Removal(
        "B993",
        (
            Edit(
                "src/stratalog/sqlite_files.py",
                "if not isinstance(translated_error(exc, connection), StorageFull):",
                "if not isinstance(exc, apsw.FullError):",
            ),
        ),
        (
            "tests/backends/test_full_disk.py::test_a_store_whose_process_was_killed_can_be_read_on_a_full_disk",
            "tests/backends/test_full_disk.py::test_a_client_s_file_can_be_opened_on_a_full_disk",
        ),
    ),
    Removal(
        "B1022",
        (
            Edit(
                SQLITE_FILES,
                '        connection.execute(f"BEGIN; {schema} {number} COMMIT")\n',
                '        with connection:\n            connection.execute(f"{schema} {number}")\n',
            ),
        ),
        (f"{FULL_DISK}::test_the_creation_of_a_file_on_a_full_disk_raises_storage_full",),
    ),
    Removal(
        "B1022",
        (
            Edit(
                SQLITE_FILES,
                "        raise translated_error(exc, connection, path=connection.filename) from exc\n",
                "        raise\n",
            ),
        ),
        (f"{FULL_DISK}::test_the_creation_of_a_file_on_a_full_disk_raises_storage_full",),
    ),
)
