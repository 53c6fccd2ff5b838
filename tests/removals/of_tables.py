"""Removals of fixes: tables, and the parts of the library that tables use."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

GROUP_COMMIT = "src/stratalog/group_commit.py"
TABLE = "apps/table/src/stratalog_table"
TRANSACTION_GROUP = f"{TABLE}/transaction_group.py"
QUEUE_PATH = f"{TABLE}/queue_path.py"
PARTITIONS = f"{TABLE}/partitions.py"
EXECUTION = "src/stratalog/worker/execution.py"
EXPIRY = "src/stratalog/documents/expiry.py"
MAINTAIN = "tests/maintenance/test_maintain.py"
LETTERS = "tests/server/test_dead_letters.py"
EXPIRIES = "tests/documents/test_expiry.py"
QUEUE_CLIENT = '                self._group = ""\n                raise\n'
COLLECTION = f"{TABLE}/collection.py"
CREATION = f"{TABLE}/table_creation.py"
ROW_ORDER = f"{TABLE}/row_order.py"
FILE_INGEST = f"{TABLE}/file_ingest.py"
JOBS = f"{TABLE}/jobs.py"
REGISTER = f"{TABLE}/folder_register.py"
TESTS = "apps/table/tests"
JOB_TESTS = f"{TESTS}/test_jobs.py"
SHORT = f"{TESTS}/test_short_log_retention.py"
INGEST = f"{TESTS}/test_file_ingest.py"
CREATIONS = f"{TESTS}/test_table_creation.py"
OWNERSHIP = f"{TESTS}/test_ownership.py"
PROPERTIES = f"{TESTS}/test_ownership_properties.py"
QUEUE_PROPERTIES = f"{TESTS}/test_queue_properties.py"
PROPERTY = f"{PROPERTIES}::test_nothing_but_a_table_s_own_files_is_ever_deleted_and_no_row_is_lost"
TYPED = f"{TESTS}/test_key_types.py::test_an_invalid_key_text_is_refused"
ALTERATION = "opened.alter(changes, retention_days=retention_days)"
ALTERATIONS = "[opened.alter([change]) for change in changes][-1]"
OUTCOME_UNKNOWN = (
    f"{TESTS}/test_interrupts.py::test_threads_that_share_the_batch_of_an_interrupted_leader_get_outcome_unknown"
)
NOT_SENT = f"{TESTS}/test_interrupts.py::test_the_next_leader_commits_a_batch_that_an_interrupted_leader_did_not_send"
ANYWHERE = (
    f"{TESTS}/test_interrupts.py::test_an_interrupt_of_the_leader_at_any_step_loses_no_call_and_repeats_no_commit"
)

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B118",
        (
            Edit(
                GROUP_COMMIT,
                '        raise OutcomeUnknown("the thread that committed for others was interrupted")\n',
                "        return []\n",
            ),
        ),
        (OUTCOME_UNKNOWN,),
    ),
    Removal("B118", (Edit(TRANSACTION_GROUP, "        self._client = None\n", ""),), (OUTCOME_UNKNOWN,)),
    Removal(
        "B118",
        (
            Edit(
                GROUP_COMMIT,
                "            if batch[-1].settled:\n",
                "            if True:\n",
            ),
        ),
        (NOT_SENT,),
    ),
    Removal(
        "B119",
        (Edit(TRANSACTION_GROUP, "        for pending in batch:\n            pending.send()\n", ""),),
        (ANYWHERE,),
    ),
    Removal(
        "B119",
        (
            Edit(
                GROUP_COMMIT,
                "            batch.extend(map(deque.popleft, (self.waiting,)))\n",
                "            waiter = self.waiting.popleft()\n            batch.append(waiter)\n",
            ),
        ),
        (ANYWHERE,),
    ),
    Removal(
        "B120",
        (
            Edit(
                f"{TABLE}/table_draft.py",
                "if COLLECTED + filename in self.draft:",
                "if self.draft.get(COLLECTED + filename) is not None:",
            ),
        ),
        (f"{TESTS}/test_files.py::test_a_collected_file_cannot_be_added",),
    ),
    Removal(
        "B121",
        (Edit(f"{TABLE}/jobs.py", "        for _ in range(REOPENED_MAX):\n", "        for _ in range(0):\n"),),
        (f"{TESTS}/test_jobs.py::test_a_tracker_continues_after_another_process_rebuilds_the_model",),
    ),
    Removal(
        "B122",
        (Edit(PARTITIONS, "    if root.region != schema.full_region():\n", "    if False:\n"),),
        (f"{TESTS}/test_partitions.py::test_an_invalid_initial_tree_is_refused_with_the_cause",),
    ),
    Removal(
        "B123",
        (
            Edit(
                PARTITIONS,
                "if edge is None or not is_edge(schema.keys[parent.dimension].type, edge):",
                "if edge is None:",
            ),
        ),
        (f"{TESTS}/test_partitions.py::test_a_split_at_an_impossible_key_is_refused",),
    ),
    Removal(
        "B124",
        (Edit("src/stratalog/ports/commit_blobs.py", "    if len(bodies) < TOGETHER_MIN:\n", "    if True:\n"),),
        ("tests/tree/test_together.py::test_the_chunks_of_a_tree_are_stored_concurrently",),
    ),
    Removal(
        "B125",
        (
            Edit(
                "src/stratalog/protocol/draft.py",
                "return self._holds(key) if self._holds else next(self._keys(key), None) == key",
                "return next(self._keys(key), None) == key",
            ),
        ),
        ("tests/documents/test_scans.py::test_a_draft_checks_the_existence_of_a_key_without_reading_its_value",),
    ),
    Removal(
        "B206",
        (
            Edit(
                COLLECTION,
                "        for file in self._folder.list(self._incarnation):\n"
                "            if owner_of(file.filename) == self._incarnation:\n"
                "                yield file\n",
                "        yield from self._folder.list()\n",
            ),
            Edit(
                COLLECTION,
                "        owner = owner_of(filename)\n",
                "        owner = self._incarnation\n",
            ),
        ),
        (
            f"{OWNERSHIP}::test_maintenance_and_a_clear_delete_no_foreign_file",
            PROPERTY,
        ),
    ),
    Removal(
        "B207",
        (Edit(COLLECTION, "        if self._relatives.may_hold(filename):\n", "        if False:\n"),),
        (
            f"{OWNERSHIP}::test_maintenance_of_a_fork_or_its_source_preserves_the_rows_of_both",
            f"{OWNERSHIP}::test_maintenance_of_a_copy_in_the_same_store_or_of_its_source_preserves_the_rows_of_both",
            f"{OWNERSHIP}::test_files_of_a_deleted_table_remain_until_no_fork_references_them",
            PROPERTY,
        ),
    ),
    Removal(
        "B207",
        (
            Edit(
                COLLECTION,
                "        copies = register.relatives_elsewhere()\n",
                "        copies = register.relatives_elsewhere()[:0]\n",
            ),
        ),
        (f"{OWNERSHIP}::test_a_copy_opened_in_another_store_and_its_source_both_retain_their_rows",),
    ),
    Removal(
        "B208",
        (Edit(REGISTER, "        if known is not None and self._exists(known):\n", "        if False:\n"),),
        (f"{OWNERSHIP}::test_a_copied_store_can_read_data_files_but_not_change_them",),
    ),
    Removal(
        "B209",
        (Edit(CREATION, "    check_vacant(folder)\n", "    pass\n"),),
        (
            f"{OWNERSHIP}::test_a_folder_that_is_not_empty_is_refused_and_nothing_is_made",
            f"{OWNERSHIP}::test_a_data_folder_inside_a_store_or_a_table_folder_is_refused",
        ),
    ),
    Removal(
        "B210",
        (Edit(f"{TABLE}/data_folder.py", "        if not self.holds(filename):\n", "        if False:\n"),),
        (f"{OWNERSHIP}::test_a_filename_that_leads_out_of_the_folder_is_neither_read_nor_deleted",),
    ),
    Removal(
        "B211",
        (Edit(f"{TABLE}/locations.py", "    if folder.parent not in path.parents:\n", "    if True:\n"),),
        (f"{OWNERSHIP}::test_data_files_in_or_next_to_the_store_can_be_moved_and_copied_with_the_store",),
    ),
    Removal(
        "B212",
        (
            Edit(
                COLLECTION,
                "    table.clear_files()\n    count = 0 if rights is None or data_files is None else "
                "_delete_data(table, rights, data_files)\n    table.jobs.delete()\n",
                "    count = 0\n",
            ),
        ),
        (
            f"{OWNERSHIP}::test_deleting_a_table_deletes_only_its_own_files_and_jobs",
            f"{OWNERSHIP}::test_an_interrupted_deletion_can_be_repeated",
        ),
    ),
    Removal(
        "B213",
        (Edit(JOBS, "            if not self._is_ours(document):\n", "            if False:\n"),),
        (
            f"{TESTS}/test_jobs.py::test_a_recreated_table_has_no_jobs_of_its_predecessor",
            f"{TESTS}/test_jobs.py::test_a_foreign_document_with_the_name_of_the_tracker_is_not_changed",
        ),
    ),
    Removal(
        "B214",
        (Edit(COLLECTION, "    if table.cleared_ms() >= before_ms:\n", "    if False:\n"),),
        (f"{OWNERSHIP}::test_files_removed_by_a_clear_are_collected_only_after_the_age_limit",),
    ),
    Removal(
        "B215",
        (
            Edit(
                FILE_INGEST,
                "        if known is not None and known.sha256 != file.sha256:\n",
                "        if False:\n",
            ),
        ),
        (f"{INGEST}::test_changed_content_under_a_known_name_is_an_error_and_the_call_ingests_nothing",),
    ),
    Removal(
        "B215",
        (Edit(FILE_INGEST, "name or Path(os.path.normpath(path)).as_posix()", "name or path.name"),),
        (f"{INGEST}::test_each_daily_file_is_ingested_once",),
    ),
    Removal(
        "B215",
        (
            Edit(
                FILE_INGEST,
                "        if known is None and first != file.name and not repeat:\n",
                "        if False:\n",
            ),
            Edit(f"{TABLE}/sources.py", "    elif not rows.is_repeat:\n", "    elif False:\n"),
        ),
        (f"{INGEST}::test_known_content_under_another_name_is_an_error_unless_repeat_is_set",),
    ),
    Removal(
        "B216",
        (Edit(f"{TABLE}/sources.py", 'f"source{meta.files}/', 'f"source0/'),),
        (f"{INGEST}::test_files_can_be_ingested_again_after_a_clear",),
    ),
    Removal(
        "B217",
        (
            Edit(
                FILE_INGEST,
                "        raise Invalid(text, path=file.path, reason=str(exc)) from exc\n",
                "        raise\n",
            ),
        ),
        (f"{INGEST}::test_a_file_that_is_not_parquet_is_an_error_with_its_path",),
    ),
    Removal(
        "B218",
        (
            Edit(
                "src/stratalog/worker/execution.py",
                "            if name not in document.rules.mutators:\n",
                "            if False:\n",
            ),
        ),
        (
            "tests/server/test_queue.py::test_a_worker_without_a_mutator_leaves_the_push_to_a_worker_with_the_mutator",
            f"{TESTS}/test_committing.py::test_a_worker_without_table_mutators_leaves_transactions_for_another_worker",
        ),
    ),
    Removal(
        "B308",
        (Edit(QUEUE_PATH, "in_doubt = in_doubt or isinstance(", "in_doubt = isinstance("),),
        (f"{TESTS}/test_committing.py::test_a_push_in_doubt_stays_in_doubt_though_a_later_attempt_fails",),
    ),
    Removal(
        "B308",
        (Edit(TRANSACTION_GROUP, "in_doubt = in_doubt or isinstance(", "in_doubt = isinstance("),),
        (f"{TESTS}/test_committing.py::test_a_batch_in_doubt_stays_in_doubt_though_a_later_attempt_fails",),
    ),
    Removal(
        "B309",
        (Edit(QUEUE_PATH, "                _check_accepted(pushed.outcomes)\n", ""),),
        (f"{TESTS}/test_committing.py::test_a_message_of_a_group_that_was_collected_is_refused",),
    ),
    Removal(
        "B330",
        (
            Edit(
                CREATION,
                "Request(CREATION, _checked(wanted), len(tree))",
                "Request(CREATION, plain(wanted), len(tree))",
            ),
        ),
        (f"{CREATIONS}::test_an_invalid_creation_leaves_nothing",),
    ),
    Removal(
        "B331",
        (Edit(CREATION, "mutation.name == CREATION and mutation.reason is not None", "False"),),
        (f"{CREATIONS}::test_the_leftovers_of_a_rejected_creation_can_be_deleted_or_resumed",),
    ),
    Removal(
        "B331",
        (Edit(CREATION, "        register.remove_unfinished(table.incarnation)\n", ""),),
        (f"{CREATIONS}::test_a_partly_written_register_entry_prevents_neither_a_creation_nor_a_deletion",),
    ),
    Removal(
        "B331",
        (
            Edit(
                f"{TABLE}/table_commands.py",
                '    if module("table_creation").is_unfinished(opened.document):\n',
                "    if False:\n",
            ),
        ),
        (f"{TESTS}/test_cli.py::test_the_leftovers_of_an_unfinished_creation_are_deleted",),
    ),
    Removal(
        "B332",
        (
            Edit(
                JOBS,
                '["skipped", floor, after, list(TableView(self._table.at(floor)).jobs())]',
                '["cleared", after], *(["assigned", floor, *job] for job in TableView(self._table.at(floor)).jobs())',
            ),
        ),
        (f"{TESTS}/test_jobs.py::test_a_tracker_that_missed_forgotten_versions_takes_waiting_jobs_from_the_table",),
    ),
    Removal(
        "B332",
        (Edit(JOBS, 'status="created", finished=0, waiting=waiting', 'status="created", waiting=waiting'),),
        (f"{TESTS}/test_jobs.py::test_a_job_that_gets_more_references_is_not_finished",),
    ),
    Removal(
        "B333",
        (
            Edit(
                f"{TABLE}/data_folder.py",
                'self._write(f"{path}.{token}{UNFINISHED}", path, write)',
                "self._write(path + UNFINISHED if self.is_local else path, path, write)",
            ),
        ),
        (f"{OWNERSHIP}::test_a_failed_write_leaves_the_entry_of_the_folder_register_unchanged",),
    ),
    Removal(
        "B336",
        (
            Edit(
                ROW_ORDER,
                r'r"([\dW-]+[Tt ](?:\d\d:\d\d:\d\d|\d{6}))[.,](\d+)"',
                r'r"(.*?)[.,](\d+)"',
            ),
        ),
        (f"{TESTS}/test_key_types.py::test_an_invalid_key_text_is_refused",),
    ),
    Removal(
        "B336",
        (Edit(ROW_ORDER, '    if "." in without or "," in without:\n', "    if False:\n"),),
        (f"{TESTS}/test_key_types.py::test_an_invalid_key_text_is_refused",),
    ),
    Removal(
        "B337",
        (Edit(ROW_ORDER, "            _check_digits(text)\n", "            pass\n"),),
        (f"{TESTS}/test_key_types.py::test_a_key_text_with_non_ascii_digits_or_underscores_is_refused",),
    ),
    Removal(
        "B337",
        (Edit(f"{TABLE}/columns.py", r'[1-9]\d{0,8})\]", re.ASCII)', r'[1-9]\d{0,8})\]")'),),
        (f"{TESTS}/test_key_types.py::test_a_column_type_with_non_ascii_digits_is_refused",),
    ),
    Removal(
        "B338",
        (
            Edit(
                QUEUE_PATH,
                "        if not requests:\n            return []\n",
                '        if not requests:\n            raise LimitExceeded("a message has too many transactions")\n',
            ),
        ),
        (f"{TESTS}/test_committing.py::test_an_empty_or_too_large_message_is_not_queued",),
    ),
    Removal(
        "B343",
        (
            Edit(
                "apps/table/src/stratalog_table/merge.py",
                "        if not _is_between(",
                "        if not part and _is_between(",
            ),
        ),
        (
            "apps/table/tests/test_merge.py::test_an_input_that_would_disorder_the_merged_rows_is_refused_with_its_position",
        ),
    ),
    Removal(
        "B351",
        (
            Edit(
                "apps/table/src/stratalog_table/file_ingest.py",
                "not brought and _present(table, file, source) > 0",
                "not brought and bool(source)",
            ),
        ),
        ("apps/table/tests/test_file_ingest.py::test_a_file_without_rows_is_not_in_the_table",),
    ),
    Removal(
        "B413",
        (Edit(REGISTER, "    except OSError:\n        return True\n", "    except OSError:\n        return False\n"),),
        (
            "apps/table/tests/test_ownership.py::test_a_copied_store_does_not_take_over_files_while_the_first_store_is_unreadable",
        ),
    ),
    Removal(
        "B414",
        (
            Edit(f"{TABLE}/command_parts.py", 'if session.url == "memory:" or (', "if ("),
            Edit(
                f"{TABLE}/command_parts.py",
                'os.path.abspath(session.url.removeprefix("file://"))',
                'session.url.removeprefix("file://")',
            ),
            Edit(f"{TABLE}/command_parts.py", '-lake/{table}").as_uri()', '-lake/{table}").absolute().as_uri()'),
        ),
        (
            "apps/table/tests/test_cli.py::test_a_table_of_a_store_in_memory_needs_a_location_of_its_files",
            "apps/table/tests/test_cli.py::test_the_files_are_next_to_the_store_however_its_folder_is_written",
        ),
    ),
    Removal(
        "B483",
        (
            Edit(
                f"{TABLE}/row_order.py",
                "except (ValueError, OverflowError, InvalidOperation) as exc:",
                "except (ValueError, InvalidOperation) as exc:",
            ),
            Edit(
                f"{TABLE}/row_order.py",
                "except OverflowError as exc:  # the time",
                "except KeyError as exc:  # the time",
            ),
        ),
        (
            TYPED,
            f"{TESTS}/test_key_types.py::test_a_timestamp_that_utc_cannot_represent_is_refused_as_a_key",
        ),
        raises=("OverflowError",),
    ),
    Removal(
        "B550",
        (Edit("src/stratalog/errors.py", "    except ValueError:\n", "    except KeyError:\n"),),
        ("apps/table/tests/test_key_types.py::test_a_key_that_its_type_cannot_represent_is_refused",),
    ),
    Removal(
        "B550",
        (
            Edit(
                "apps/table/src/stratalog_table/row_order.py",
                "if shift < 0 or len(significant) + shift > kind.precision:",
                "if shift < 0 or len(str(int(significant or 0))) + shift > kind.precision:",
            ),
        ),
        ("apps/table/tests/test_key_types.py::test_a_key_that_its_type_cannot_represent_is_refused",),
    ),
    Removal(
        "B591",
        (
            Edit(
                f"{TABLE}/commands.py",
                "    schema, rows = (columns, ()) if first is None else (first.schema, chain([first], parts))\n",
                "    if first is None:\n        return 0\n    schema, rows = (first.schema, chain([first], parts))\n",
            ),
        ),
        (f"{TESTS}/test_cli.py::test_a_scan_without_rows_writes_a_file_with_the_columns_and_no_rows",),
        raises=("FileNotFoundError",),
    ),
    Removal(
        "B592",
        (Edit(f"{TABLE}/arrow_types.py", "    if _has_list_view(kind):\n", "    if not kind:\n"),),
        (f"{TESTS}/test_columns.py::test_list_views_become_lists_with_the_same_values",),
        raises=("ArrowInvalid",),
    ),
    Removal(
        "B592",
        (
            Edit(
                f"{TABLE}/rows.py",
                "    rows = with_typed_keys(data_files.schema, rows)\n",
                "    rows = sorted_by_key(data_files.schema, with_typed_keys(data_files.schema, rows))\n",
            ),
        ),
        (f"{TESTS}/test_columns.py::test_nested_columns_of_any_arrow_layout_are_ingested",),
        raises=("ArrowNotImplementedError",),
    ),
    Removal(
        "B593",
        (
            Edit(
                f"{TABLE}/file_ingest.py",
                "                ingest(table, data_files, part, brought=rows, "
                "add_columns=options.add_columns, widen=options.widen)\n",
                "                with _reading(file):\n"
                "                    ingest(table, data_files, part, brought=rows)\n",
            ),
        ),
        (f"{TESTS}/test_file_ingest.py::test_an_error_of_a_write_does_not_name_the_input_file_as_damaged",),
    ),
    Removal(
        "B594",
        (
            Edit(
                f"{TABLE}/json_rows.py", "not first <= tick < end for tick in ticks]", "tick != tick for tick in ticks]"
            ),
        ),
        (f"{TESTS}/test_json_rows.py::test_each_type_of_value_becomes_the_expected_json",),
    ),
    Removal(
        "B594",
        (Edit(f"{TABLE}/json_rows.py", "    except pa.ArrowInvalid:", "    except ZeroDivisionError:"),),
        (f"{TESTS}/test_json_rows.py::test_each_type_of_value_becomes_the_expected_json",),
        raises=("ArrowInvalid",),
    ),
    Removal(
        "B594",
        (
            Edit(
                f"{TABLE}/json_rows.py",
                "        group = dict if len({*names}) == len(names) else _pairs\n",
                "        group = dict\n",
            ),
        ),
        (f"{TESTS}/test_json_rows.py::test_each_type_of_value_becomes_the_expected_json",),
    ),
    Removal(
        "B595",
        (Edit(f"{TABLE}/file_ingest.py", "if not stat.S_ISREG(state.st_mode):", "if not state.st_mode:"),),
        (f"{TESTS}/test_cli.py::test_a_file_whose_name_is_not_unicode_is_ingested_and_a_pipe_is_refused",),
    ),
    Removal(
        "B595",
        (Edit(f"{TABLE}/file_ingest.py", "pq.ParquetFile(stream, page", "pq.ParquetFile(file.path, page"),),
        (f"{TESTS}/test_cli.py::test_a_file_whose_name_is_not_unicode_is_ingested_and_a_pipe_is_refused",),
        raises=("UnicodeEncodeError",),
    ),
    Removal(
        "B596",
        (Edit(f"{TABLE}/table_commands.py", ALTERATION, ALTERATIONS),),
        (f"{TESTS}/test_cli.py::test_a_refused_alteration_changes_nothing",),
    ),
    Removal(
        "B596",
        (Edit(f"{TABLE}/command_parts.py", "click.IntRange(0, RETENTION_DAYS_MAX)", "click.IntRange(0)"),),
        (f"{TESTS}/test_cli.py::test_a_refused_alteration_changes_nothing",),
    ),
    Removal(
        "B597",
        (Edit(f"{TABLE}/command_parts.py", "    if not text:\n", "    if text is None:\n"),),
        (f"{TESTS}/test_cli.py::test_an_empty_option_is_refused",),
    ),
    Removal(
        "B662",
        (Edit(f"{TABLE}/rows.py", "if folder.is_empty() and not table", "if False and not table"),),
        (f"{TESTS}/test_cli.py::test_a_copied_store_without_its_data_files_takes_no_rows_and_starts_no_maintenance",),
    ),
    Removal(
        "B663",
        (Edit(f"{TABLE}/command_parts.py", "    except OSError as exc:\n", "    except ZeroDivisionError as exc:\n"),),
        (f"{TESTS}/test_cli.py::test_data_files_that_cannot_be_reached_are_no_usage_error",),
    ),
    Removal(
        "B696",
        (Edit(PARTITIONS, "Annotated[int, msgspec.Meta(ge=1)] = 1000", "int = 1000"),),
        (f"{TESTS}/test_files.py::test_a_purge_without_a_positive_limit_is_refused_and_the_next_purge_deletes_all",),
    ),
    Removal(
        "B700",
        (Edit(f"{TABLE}/table_commands.py", ALTERATION, ALTERATIONS),),
        (f"{TESTS}/test_cli.py::test_an_alteration_of_columns_and_retention_is_one_version",),
    ),
    Removal(
        "B723",
        (
            Edit(
                f"{TABLE}/queries.py",
                "            if key > last_reference:\n",
                "            if len(parts) == 3:\n",
            ),
        ),
        (f"{TESTS}/test_queries.py::test_a_range_query_returns_the_references_of_leaves_whose_ids_begin_alike",),
    ),
    Removal(
        "B852",
        (Edit(QUEUE_PATH, "weekly_group(GROUPS, self._recent_ms())", "GROUPS"),),
        (f"{TESTS}/test_committing.py::test_new_senders_can_send_after_the_idle_senders_were_collected",),
    ),
    Removal(
        "B858",
        (Edit(QUEUE_PATH, "        if group != self._group:\n", "        if not self._group:\n"),),
        (f"{TESTS}/test_committing.py::test_a_sender_continues_after_its_idle_group_was_collected",),
    ),
    Removal(
        "B863",
        (Edit(EXPIRY, "        if not _may_expire(state, group, version):\n", "        if False:\n"),),
        (
            f"{QUEUE_PROPERTIES}::test_each_sent_transaction_is_applied_once_although_idle_groups_are_forgotten",
            f"{TESTS}/test_committing.py::test_a_transaction_that_waits_while_its_idle_group_is_old_is_applied",
            f"{EXPIRIES}::test_a_weekly_group_expires_only_after_a_commit_of_its_series_two_weeks_later",
        ),
    ),
    Removal(
        "B863",
        (Edit(EXPIRY, "0 < state.client_version(client) <= version", "True"),),
        (f"{EXPIRIES}::test_a_weekly_group_expires_only_once_a_push_two_weeks_later_is_old_enough",),
    ),
    Removal(
        "B864",
        (Edit(QUEUE_PATH, 'f"queue/{new_id(self._clock)}", 0', '"queue/sender", 0'),),
        (f"{TESTS}/test_committing.py::test_a_sender_that_begins_while_messages_wait_reuses_no_number",),
    ),
    Removal(
        "B864",
        (Edit(QUEUE_PATH, QUEUE_CLIENT, "                raise\n"),),
        (f"{TESTS}/test_committing.py::test_a_sender_continues_with_another_client_after_a_message_in_doubt",),
    ),
    Removal(
        "B867",
        (
            Edit(
                f"{TABLE}/job_worker.py",
                "        self._data_files = data_files\n",
                "        self._data_files = data_files.with_columns(table.at().columns())\n",
            ),
            Edit(
                f"{TABLE}/job_worker.py", "self._data_files.with_columns(view.columns()).rows", "self._data_files.rows"
            ),
        ),
        (f"{TESTS}/test_columns.py::test_a_worker_merges_files_whose_columns_are_newer_than_the_worker",),
    ),
    Removal(
        "B868",
        (
            Edit(
                f"{TABLE}/maintenance.py",
                "    leaves = view.leaves_in_range(source.region)\n",
                "    leaves = [held for held in view.in_range(source.region) if held.partition != source.id]\n",
            ),
        ),
        (f"{TESTS}/test_maintenance_faults.py::test_a_damaged_file_on_a_split_partition_keeps_no_reference_above_it",),
    ),
    Removal(
        "B869",
        (
            Edit(
                f"{TABLE}/job_worker.py",
                "if not all(is_interval_over(self._clock, time_ms, self._lease_ms) for time_ms in times_ms):",
                "if self._clock.wall_ms() - times_ms[1] < self._lease_ms:",
            ),
        ),
        (f"{TESTS}/test_maintenance_faults.py::test_a_claim_of_a_worker_whose_clock_was_far_ahead_can_be_taken_over",),
    ),
    Removal(
        "B870",
        (
            Edit(JOBS, "(event for event in events if _is_storable(event))", "events"),
            Edit(JOBS, "        if outcome.reason not in (None, OUTRUN):\n", "        if False:\n"),
        ),
        (
            f"{JOB_TESTS}::test_a_refused_transaction_of_a_job_with_an_impossible_name_does_not_stop_the_tracker",
            f"{TESTS}/test_jobs.py::test_a_tracker_that_cannot_store_the_events_of_a_version_reports_it",
        ),
    ),
    Removal(
        "B871",
        (Edit(JOBS, "            if size >= EVENTS_BYTES:\n", "            if False:\n"),),
        (f"{TESTS}/test_jobs.py::test_the_events_of_large_versions_are_stored_in_several_entries",),
    ),
    Removal(
        "B872",
        (Edit(EXECUTION, "outcomes if read_weekly_group(queued.group) is None else", "outcomes if True else"),),
        (
            f"{LETTERS}::test_a_push_of_a_weekly_group_is_applied_although_an_earlier_push_is_a_dead_letter",
            f"{LETTERS}::test_no_push_of_a_weekly_group_is_applied_twice_after_a_missing_push",
        ),
    ),
    Removal(
        "B917",
        (Edit(COLLECTION, "    _record_time(table, now_ms, age_ms)\n", ""),),
        (f"{SHORT}::test_files_are_collected_although_the_log_forgets_versions_before_the_files_are_old",),
    ),
    Removal(
        "B917",
        (
            Edit(
                f"{TABLE}/table.py",
                "            return self._clock.wall_ms() if recorded_ms is None else recorded_ms\n",
                "            return 0\n",
            ),
        ),
        (f"{SHORT}::test_files_of_a_clear_stay_for_the_retained_time_although_the_log_has_forgotten_the_clear",),
    ),
    Removal(
        "B917",
        (Edit(f"{TABLE}/maintenance.py", "    _follow_jobs(table, faults)\n", ""),),
        (f"{SHORT}::test_a_pass_of_a_table_reads_its_finished_jobs_before_the_store_forgets_them",),
    ),
    Removal(
        "B918",
        (Edit(JOBS, "    return (*outputs, *added)[-OUTPUTS_RETAINED:]\n", "    return (*outputs, *added)\n"),),
        (f"{SHORT}::test_a_job_lists_its_latest_output_files_only",),
    ),
    Removal(
        "B919",
        (Edit(QUEUE_PATH, "            except BaseException:\n", "            except (Conflict, OutcomeUnknown):\n"),),
        (f"{TESTS}/test_committing.py::test_a_sender_continues_with_another_client_after_a_message_in_doubt",),
    ),
    Removal(
        "B944",
        (
            Edit(
                EXECUTION, "    if len(ranges) == LOST_RANGES_MAX and carried.id <= ranges[0][0]:\n", "    if False:\n"
            ),
        ),
        (
            f"{LETTERS}::test_each_missing_push_of_a_weekly_group_is_applied_once_however_many_are_missing",
            f"{LETTERS}::test_a_missing_push_whose_number_the_log_has_forgotten_is_not_called_seen",
        ),
    ),
    Removal(
        "B945",
        (Edit(QUEUE_PATH, "self._table.document.log.head().created_ms", "self._clock.wall_ms()"),),
        (f"{QUEUE_PROPERTIES}::test_each_sent_transaction_is_applied_once_although_idle_groups_are_forgotten",),
    ),
    Removal(
        "B945",
        (Edit(QUEUE_PATH, "if weekly_group(GROUPS, self._log_ms() - WEEK_MS) > self._group:", "if False:"),),
        (f"{TESTS}/test_committing.py::test_a_message_that_was_queued_too_late_is_not_acknowledged",),
    ),
    Removal(
        "B946",
        (
            Edit(
                f"{TABLE}/job_worker.py",
                "times_ms = (self._seen.claimed_ms, self._changed_ms(version))",
                "times_ms = (self._changed_ms(version),)",
            ),
        ),
        (
            f"{TESTS}/test_maintenance_faults.py::test_a_claim_lasts_for_its_lease_after_a_commit_by_a_clock_that_was_far_ahead",
        ),
    ),
    Removal(
        "B946",
        (
            Edit(
                f"{TABLE}/job_worker.py",
                "times_ms = (self._seen.claimed_ms, self._changed_ms(version))",
                "times_ms = (self._seen.claimed_ms,)",
            ),
        ),
        (f"{TESTS}/test_maintenance_faults.py::test_a_claim_of_a_worker_whose_clock_is_behind_lasts_for_its_lease",),
    ),
    Removal(
        "B947",
        (Edit(JOBS, "in transaction.files[-OUTPUTS_RETAINED:]]", "in transaction.files]"),),
        (f"{JOB_TESTS}::test_a_tracker_reads_a_version_whose_names_of_files_are_larger_than_an_entry",),
    ),
    Removal(
        "B948",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py",
                "        floor = document.rules.permitted_floor(document, floor)\n",
                "        pass\n",
            ),
            Edit(
                "src/stratalog/documents/document.py",
                "self._prove_base(floor, progress), permitted)\n",
                "self._prove_base(floor, progress))\n",
            ),
        ),
        (f"{MAINTAIN}::test_the_floor_does_not_rise_above_the_oldest_version_that_the_application_needs",),
    ),
    Removal(
        "B948",
        (Edit(f"{TABLE}/application.py", ", oldest_needed=oldest_needed", ""),),
        (f"{SHORT}::test_a_pass_with_the_application_forgets_no_version_that_the_table_keeps",),
    ),
    Removal(
        "B948",
        (Edit(f"{TABLE}/retention.py", 'row.get("retention_days") if isinstance(row, dict) else None', "30"),),
        (f"{SHORT}::test_a_pass_with_the_application_keeps_no_versions_of_other_documents",),
    ),
    Removal(
        "B949",
        (Edit(JOBS, "            if view.version:\n", "            if document.version:\n"),),
        (f"{JOB_TESTS}::test_a_new_tracker_that_another_process_fills_meanwhile_is_used",),
    ),
    Removal(
        "B950",
        (
            Edit(
                f"{TABLE}/maintenance_commands.py",
                '        except module("transaction_group").TRANSIENT as exc:\n',
                "        except ZeroDivisionError as exc:\n",
            ),
        ),
        (f"{TESTS}/test_cli.py::test_maintenance_with_watch_continues_after_an_outage",),
    ),
    Removal(
        "B950",
        (
            Edit(
                "apps/catalogue/src/stratalog_catalogue/commands.py",
                "        except (ContentionError, OutcomeUnknown, Unavailable) as exc:\n",
                "        except ZeroDivisionError as exc:\n",
            ),
        ),
        ("apps/catalogue/tests/test_commands.py::test_a_repeated_poll_survives_an_unavailable_store",),
    ),
    Removal(
        "B951",
        (
            Edit(
                f"{TABLE}/data_folder.py",
                "get_file_info(selector)\n        except FileNotFoundError:\n",
                "get_file_info(selector)\n        except ZeroDivisionError:\n",
            ),
        ),
        (f"{TESTS}/test_data_files.py::test_a_folder_that_is_created_while_it_is_listed_can_be_listed",),
    ),
    Removal(
        "B995",
        (
            Edit(
                "apps/table/src/stratalog_table/relatives.py",
                "store.organisations(damaged=damaged)",
                "store.organisations()",
            ),
        ),
        (f"{OWNERSHIP}::test_a_fork_that_no_list_shows_because_of_damage_keeps_its_rows[the-key-of-the-organisation]",),
    ),
    Removal(
        "B1013",
        (Edit("src/stratalog/documents/resumption.py", "LOST_RANGES_MAX = 128\n", "LOST_RANGES_MAX = 16\n"),),
        (f"{LETTERS}::test_an_applied_push_after_many_missing_pushes_is_seen_although_the_log_has_forgotten_it",),
    ),
    Removal(
        "B1034",
        (
            Edit(
                "apps/table/src/stratalog_table/table_commands.py",
                'if known != column.type and module("columns").holds(known, column.type):',
                "if False:",
            ),
        ),
        (f"{TESTS}/test_cli.py::test_columns_are_listed_added_and_widened",),
    ),
    Removal(
        "B1038",
        (
            Edit(
                "apps/table/src/stratalog_table/commands.py",
                "opened.at(version_of(opened.document, at, first=1))",
                "opened.at(at and int(at))",
            ),
        ),
        (f"{TESTS}/test_cli.py::test_a_scan_reads_the_version_of_a_time",),
        raises=("ValueError",),
    ),
)
