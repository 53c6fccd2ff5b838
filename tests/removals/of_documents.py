"""Removals of fixes: documents, snapshots, bases, forks, histories, redaction, verification, dead letters, backups."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BLOB_BATCH = "src/stratalog/log/blob_batch.py"
DOCUMENT = "src/stratalog/documents/document.py"
ENTRIES = "src/stratalog/log/entries.py"
HISTORY = "src/stratalog/documents/history.py"
REBUILD = "src/stratalog/documents/rebuild.py"
REPLAY = "src/stratalog/documents/replay.py"
RUN = "src/stratalog/documents/run.py"
LOG = "src/stratalog/log/log.py"
READS_AGAIN = "                if floor == before:\n                    raise\n"
SIX_QUERIES = "tests/documents/test_six_queries.py"
SNAPSHOT_SCHEDULE = "src/stratalog/documents/snapshot_schedule.py"
SCHEDULE_TESTS = "tests/documents/test_snapshot_schedule.py"
TASKS = "src/stratalog/log/tasks.py"
BESIDE_COMMITS = "tests/documents/test_beside_commits.py"
BESIDE_RETENTION = "tests/documents/test_reads_beside_retention.py"
STATE_CACHE = "src/stratalog/documents/state_cache.py"

LOWEST_PIN = "    return _pin_at(partition, sorts[0]) if sorts else None\n"
LOWEST_PIN_BY_PAGES = """\
    pins, after = [], ""
    while later := [pin for pin in list_pins(index, ancestor) if pin.prefix > after]:
        pins.append(min(later, key=lambda pin: pin.prefix))
        after = pins[-1].prefix
    return min(pins, key=lambda pin: pin.version, default=None)
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B39",
        (Edit("src/stratalog/newest.py", "rank >= self._bar", "rank is not None"),),
        ("tests/documents/test_handle.py::test_a_slow_call_does_not_discard_a_newer_state_that_another_thread_loaded",),
    ),
    Removal(
        "B40",
        (
            Edit(
                BLOB_BATCH,
                'raise OutcomeUnknown("the blobs of a commit in doubt could not be put again") from exc',
                "raise",
            ),
        ),
        ("tests/documents/test_apply.py::test_a_commit_whose_blobs_cannot_be_put_again_raises_outcome_unknown",),
    ),
    Removal(
        "B41",
        (
            Edit(
                STATE_CACHE,
                "return self.load(head.version, head) if state.snapshot_version < state.floor else state",
                "return state",
            ),
        ),
        ("tests/documents/test_history.py::test_a_reader_whose_snapshot_was_forgotten_finds_the_new_one",),
    ),
    Removal(
        "B41",
        (Edit("src/stratalog/documents/state.py", "        state.stale = True\n", "        pass\n"),),
        ("tests/documents/test_history.py::test_a_view_of_a_forgotten_snapshot_asks_to_read_the_document_again",),
    ),
    Removal(
        "B42",
        (
            Edit(
                SNAPSHOT_SCHEDULE,
                "            self._states.drop_base(state.snapshot_version)\n            self._fail()\n",
                "            raise\n",
            ),
        ),
        (
            "tests/documents/test_snapshots.py::test_a_failed_snapshot_does_not_fail_its_commit_and_a_later_commit_takes_the_snapshot",
        ),
    ),
    Removal(
        "B43",
        (
            Edit(
                SNAPSHOT_SCHEDULE,
                "                state = self._states.at(version)\n"
                "                taken = take_snapshot(self.log, state)\n",
                "                return state.version\n",
            ),
        ),
        (
            "tests/documents/test_forks.py::test_a_fork_makes_a_snapshot_of_its_own_after_its_parents_snapshot_is_deleted",
        ),
    ),
    Removal(
        "B43",
        (
            Edit(
                SNAPSHOT_SCHEDULE,
                "            self._states.drop_base(taken.snapshot_version)\n            return",
                "            return",
            ),
        ),
        (
            "tests/documents/test_forks.py::test_a_fork_makes_a_snapshot_of_its_own_after_its_parents_snapshot_is_deleted",
        ),
    ),
    Removal(
        "B44",
        (
            Edit(
                "src/stratalog/documents/base.py",
                "progress)\n    _require_state(document, base)\n",
                "progress)\n",
            ),
        ),
        (
            "tests/documents/test_base.py::test_raising_the_floor_also_reads_back_chunks_that_no_forgotten_entry_changed",
        ),
    ),
    Removal(
        "B44",
        (
            Edit(
                "src/stratalog/documents/read_back.py",
                "                yield from _read_values(values, chunk.node, read)\n",
                "                pass\n",
            ),
        ),
        ("tests/documents/test_base.py::test_the_floor_does_not_rise_onto_a_damaged_base",),
    ),
    Removal(
        "B45",
        (Edit("src/stratalog/log/pins.py", LOWEST_PIN, LOWEST_PIN_BY_PAGES),),
        ("tests/log/test_base.py::test_raising_the_floor_never_misses_a_pin_that_moves",),
    ),
    Removal(
        "B46",
        (
            Edit(
                "src/stratalog/log/redaction.py",
                "environment.index.commit([deletion, name_check(record)])",
                "environment.index.commit([deletion])",
            ),
        ),
        ("tests/documents/test_redaction.py::test_a_snapshot_that_became_the_base_meanwhile_is_not_deleted",),
    ),
    Removal(
        "B47",
        (Edit(SNAPSHOT_SCHEDULE, "if base is None or base.version < floor:", "if base is None:"),),
        ("tests/documents/test_snapshots.py::test_an_older_snapshot_is_no_base",),
    ),
    Removal(
        "B48",
        (
            Edit(
                REBUILD,
                "first = max(log.floor(), log.first)",
                "first = max(log.record.floor, log.first)",
            ),
        ),
        ("tests/documents/test_snapshots.py::test_verify_begins_at_a_raised_floor_that_no_entry_records_yet",),
    ),
    Removal(
        "B49",
        (
            Edit(
                "src/stratalog/maintenance/marks.py",
                "        commit = commit_of(event, version)\n",
                "        _mutations, _patch, _bindings, _fields_bytes = event.data\n"
                "        commit = commit_of(event, version)\n",
            ),
        ),
        ("tests/maintenance/test_verification.py::test_a_collection_after_a_merge_deletes_only_the_orphaned_blob",),
        raises=("ValueError",),
    ),
    Removal(
        "B50",
        (
            Edit(
                "src/stratalog/log/reader.py",
                "yield from page if is_gapless(page, first, last) else self._sought(items, first, last)",
                "yield from (item for item in items if number(first) <= item.sort <= number(last))",
            ),
        ),
        ("tests/maintenance/test_verification.py::test_a_version_missing_from_an_archive_is_reported",),
    ),
    Removal(
        "B51",
        (Edit(REPLAY, "target.rules.mutators, unnumbered,", "target.rules.mutators, waiting,"),),
        ("tests/documents/test_forks.py::test_a_replay_after_a_version_runs_the_mutations_of_later_versions",),
    ),
    Removal(
        "B52",
        (Edit(REPLAY, "self._reports = _reports(", "self._reports = self._reports or _reports("),),
        ("tests/documents/test_forks.py::test_the_report_of_a_merge_describes_the_committed_outcomes",),
    ),
    Removal(
        "B53",
        (Edit(RUN, "            raise self._failure\n", "            self._failure = None\n"),),
        ("tests/documents/test_apply.py::test_a_mutator_that_catches_a_port_error_commits_nothing",),
    ),
    Removal(
        "B54",
        (Edit(RUN, "        if size > PATCH_BYTES_MAX:\n", "        if size < 0:\n"),),
        (
            "tests/documents/test_apply.py::test_a_mutation_with_a_too_large_patch_is_rejected_and_the_rest_of_the_batch_is_applied",
        ),
    ),
    Removal(
        "B423",
        (Edit(RUN, "len(key.encode()) + (", "len(key) + ("),),
        (
            "tests/documents/test_apply.py::test_a_mutation_with_a_too_large_patch_is_rejected_and_the_rest_of_the_batch_is_applied",
        ),
    ),
    Removal(
        "B55",
        (
            Edit(DOCUMENT, '        check_identity(group, "group", empty=True)\n', ""),
            Edit(DOCUMENT, '        check_identity(owner, "owner", empty=True)\n', ""),
        ),
        ("tests/documents/test_apply.py::test_an_invalid_group_owner_or_client_is_refused",),
    ),
    Removal(
        "B56",
        (
            Edit(
                DOCUMENT,
                'check_identity(group, "group") for group in groups',
                'check_identity(group, "group", empty=True) for group in groups',
            ),
        ),
        ("tests/documents/test_apply.py::test_clients_without_a_group_cannot_be_collected_as_a_group",),
    ),
    Removal(
        "B57",
        (Edit(RUN, "return self._slot(key) is not None", "return self._load(key) is not None"),),
        ("tests/documents/test_apply.py::test_an_item_with_a_damaged_value_can_be_deleted",),
    ),
    Removal(
        "B58",
        (Edit("src/stratalog/maintenance/document_check.py", "            self._read_back(snapshot)\n", ""),),
        ("tests/maintenance/test_inspection.py::test_an_unreadable_blob_of_a_document_is_reported_as_damage",),
    ),
    Removal(
        "B58",
        (
            Edit(
                "src/stratalog/maintenance/recording_ports.py",
                "self.scratch.put(key, verified(key, body))",
                "self._blobs.put(key, body)",
            ),
        ),
        ("tests/maintenance/test_inspection.py::test_an_inspection_writes_nothing",),
    ),
    Removal(
        "B59",
        (
            Edit(
                ENTRIES,
                "    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:",
                "    except (msgspec.DecodeError, RecursionError) as exc:",
            ),
        ),
        ("tests/log/test_read.py::test_a_flipped_bit_in_a_text_of_an_entry_is_corrupt",),
    ),
    Removal(
        "B59",
        (
            Edit(
                ENTRIES,
                "    except (KeyError, TypeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):\n",
                "    except (KeyError, TypeError, msgspec.DecodeError, RecursionError):\n",
            ),
        ),
        ("tests/log/test_read.py::test_a_flipped_bit_in_a_text_of_an_entry_is_corrupt",),
    ),
    Removal(
        "B59",
        (
            Edit(
                "src/stratalog/tree/nodes.py",
                "(msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
                "(msgspec.DecodeError, RecursionError)",
            ),
        ),
        ("tests/tree/test_tree.py::test_a_malformed_chunk_is_corrupt",),
    ),
    Removal(
        "B59",
        (
            Edit(
                "src/stratalog/backends/item_rows.py",
                "UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)",
                "UNDECODABLE = (msgspec.DecodeError, RecursionError, TypeError)",
            ),
        ),
        ("tests/backends/test_sqlite.py::test_a_flipped_bit_in_a_text_of_an_item_is_corrupt",),
    ),
    Removal(
        "B60",
        (
            Edit(
                "src/stratalog/log/floors.py",
                "                floor = theirs\n",
                "                floor = theirs\n            else:\n                break\n",
            ),
        ),
        ("tests/log/test_chain.py::test_a_fork_whose_parent_forgot_entries_verifies_from_the_floor_of_the_parent",),
    ),
    *(
        Removal(
            "B61",
            (Edit("src/stratalog/log/bodies.py", fixed, unfixed),),
            ("tests/log/test_bodies.py::test_a_body_whose_size_differs_from_its_reference_is_corrupt",),
        )
        for fixed, unfixed in (
            ("        if len(body) != ref.size:\n", "        if not ref.address:\n"),
            ("- 1 and (digest.digest(), size) != (ref.digest, ref.size):", "- 1 and digest.digest() != ref.digest:"),
            ("is_other = len(body) != ref.size", "is_other = False"),
            (
                "is_intact and (digest.digest(), size) != (ref.digest, ref.size)",
                "is_intact and digest.digest() != ref.digest",
            ),
        )
    ),
    Removal(
        "B146",
        (
            Edit(
                "src/stratalog/log/redaction.py",
                "writes.append(name_put(msgspec.structs.replace(newest,",
                "[].append(name_put(msgspec.structs.replace(newest,",
            ),
        ),
        (
            "tests/documents/test_redaction.py::test_a_fork_created_during_a_redaction_has_its_state",
            "tests/documents/test_redaction.py::test_a_redaction_during_a_fork_leaves_no_fork_without_a_state",
        ),
    ),
    Removal(
        "B147",
        (
            Edit(
                "src/stratalog/documents/rejections.py",
                "    if rejection.digest != _digest(letter, rejection):",
                "    if not letter:",
            ),
        ),
        ("tests/documents/test_faults.py::test_an_altered_dead_letter_is_corrupt_and_runs_nothing",),
    ),
    Removal(
        "B148",
        (
            Edit(
                "src/stratalog/maintenance/store_pass.py",
                "            remove_waiting_mark(environment, name)",
                "            pass",
            ),
        ),
        (
            "tests/maintenance/test_maintain.py::test_a_stale_waiting_mark_of_a_record_is_removed_and_a_newer_mark_stays",
        ),
    ),
    Removal(
        "B150",
        (Edit("src/stratalog/documents/writer.py", "        attempt.blob_batch.defer()\n", ""),),
        ("tests/documents/test_writer.py::test_a_small_commit_does_not_wait_for_a_large_one_of_the_same_handle",),
    ),
    Removal(
        "B152",
        (
            Edit("src/stratalog/tree/reach.py", "_facts(root_of(chunk_of(top.node))) != _facts(root):", "False:"),
            Edit(REBUILD, "raise BaseContradicted(", "raise Corrupt("),
        ),
        ("tests/maintenance/test_inspection.py::test_a_base_snapshot_with_an_altered_root_is_reported",),
    ),
    Removal(
        "B160",
        (
            Edit(
                "src/stratalog/records/content.py",
                "        if item.partition != name.partition:\n            _require",
                "        if False:\n            _require",
            ),
        ),
        ("tests/records/test_dead_letters.py::test_a_lost_body_of_a_dead_letter_is_corrupt_for_any_record_id",),
    ),
    Removal(
        "B161",
        (
            Edit(
                "src/stratalog/maintenance/document_check.py",
                "        # Continue even without a state (as after a redacted version): the next snapshot gives one.\n",
                "            return rebuild if has_state else None\n",
            ),
        ),
        (
            "tests/maintenance/test_inspection.py::test_a_snapshot_after_a_damaged_snapshot_is_inspected_despite_a_redaction",
        ),
    ),
    Removal(
        "B393",
        (
            Edit(
                "src/stratalog/log/redaction.py",
                "        retired.add(",
                "        retired.clear()\n        retired.add(",
            ),
        ),
        (
            "tests/log/test_redaction.py::test_redaction_returns_every_deleted_snapshot_despite_a_concurrent_fork",
            "tests/documents/test_redaction.py::test_redaction_returns_every_deleted_snapshot_despite_a_concurrent_fork",
        ),
    ),
    Removal(
        "B394",
        (Edit("src/stratalog/log/redaction.py", "if not retry.wait(exc):", "if exc is None:"),),
        (
            "tests/log/test_redaction.py::test_a_redaction_that_loses_every_race_raises_contention_error_and_can_be_repeated",
        ),
    ),
    Removal(
        "B398",
        (Edit(TASKS, "except (RuntimeError, MemoryError):", "except RuntimeError:"),),
        (f"{BESIDE_COMMITS}::test_an_offer_is_refused_where_the_system_has_no_thread_left",),
        raises=("MemoryError",),
    ),
    Removal(
        "B398",
        (
            Edit(TASKS, "[other for other in self._threads if other.is_alive()]", "list(self._threads)"),
            Edit(TASKS, "[thread for thread in self._threads if thread.is_alive()]", "[]"),
        ),
        (
            f"{BESIDE_COMMITS}::test_an_offer_interrupted_before_its_thread_starts_uses_no_capacity",
            f"{BESIDE_COMMITS}::test_close_waits_for_a_thread_whose_offer_was_interrupted",
        ),
    ),
    Removal(
        "B492",
        (
            Edit(
                REPLAY,
                "own.effects.keys() | {key for key in changed if not own.is_overwritten(key)}",
                "own.effects.keys()",
            ),
        ),
        ("tests/documents/test_forks.py::test_a_replay_and_a_merge_compare_the_keys_that_change_only_on_the_target",),
    ),
    Removal(
        "B493",
        (
            Edit(
                REPLAY,
                "            return self._state.get(key)\n",
                "            return None\n",
            ),
        ),
        ("tests/documents/test_forks.py::test_a_replay_reports_no_difference_where_one_side_has_the_value_already",),
    ),
    Removal(
        "B540",
        (
            Edit(
                "src/stratalog/documents/writer.py",
                "            self._states.drop(state)\n        return entry\n",
                "        return entry\n",
            ),
        ),
        (
            "tests/documents/test_writer.py::test_a_commit_after_the_floor_rose_runs_its_mutators_once_and_does_not_wait",
        ),
    ),
    Removal(
        "B543",
        (
            Edit(
                "src/stratalog/documents/state.py",
                "if all(state.is_retained(state.version, state.snapshot_version) for state in states):",
                "if not states:",
            ),
        ),
        (
            "tests/documents/test_history.py::test_a_lost_chunk_of_an_existing_snapshot_is_damage_for_every_read",
            "tests/documents/test_writer.py::test_a_writer_whose_snapshot_has_lost_its_chunks_fails_once_and_then_commits",
            "tests/maintenance/test_usage.py::test_a_document_with_a_lost_chunk_is_counted_as_unreadable_and_the_rest_is_measured",
        ),
    ),
    Removal(
        "B543",
        (Edit("src/stratalog/documents/writer.py", "except (Corrupt, Unavailable):", "except Unavailable:"),),
        (
            "tests/documents/test_writer.py::test_a_writer_whose_snapshot_has_lost_its_chunks_fails_once_and_then_commits",
        ),
    ),
    Removal(
        "B544",
        (
            Edit("src/stratalog/documents/snapshots.py", "    with reading_chunks(state):\n", "    if state:\n"),
            Edit("src/stratalog/documents/history.py", "    with reading_chunks(old, new):\n", "    if old:\n"),
        ),
        ("tests/documents/test_history.py::test_a_lost_chunk_of_an_existing_snapshot_is_damage_for_every_read",),
    ),
    Removal(
        "B545",
        (
            Edit(
                "src/stratalog/backups/view.py", "return stat and msgspec.structs.replace(stat, key=key)", "return stat"
            ),
        ),
        ("tests/backups/test_backup_view.py::test_each_blob_of_a_backup_has_its_own_key_and_the_bytes_of_its_source",),
    ),
    Removal(
        "B546",
        (Edit("src/stratalog/cli/history.py", "    if row.redacted:\n", "    if row.redacted and row.mutations:\n"),),
        ("tests/cli/test_commands.py::test_redact_erases_a_version_of_a_document_a_log_or_a_record",),
    ),
    Removal(
        "B547",
        (
            Edit(
                "src/stratalog/documents/history.py",
                "        if entry.redacted:\n            yield Unread(",
                "        if entry.redacted and entry.events:\n            yield Unread(",
            ),
        ),
        (
            "tests/cli/test_commands.py::test_history_prints_the_changes_that_are_kept_and_names_the_redacted_ones",
            "tests/documents/test_redaction.py::test_the_history_of_a_key_names_redacted_changes_and_goes_on_below_them",
        ),
    ),
    Removal(
        "B547",
        (
            Edit(
                "src/stratalog/documents/history.py",
                "        if at is None:\n            raise\n",
                "        raise\n",
            ),
        ),
        ("tests/documents/test_redaction.py::test_the_history_of_a_key_names_redacted_changes_and_goes_on_below_them",),
    ),
    Removal(
        "B547",
        (
            Edit(
                "src/stratalog/documents/history.py",
                '            version = exc.details["version"]\n',
                "            raise\n",
            ),
        ),
        (
            "tests/documents/test_redaction.py::test_a_history_goes_on_below_two_redacted_versions_without_a_snapshot_between_them",
        ),
    ),
    Removal(
        "B548",
        (
            Edit(
                "src/stratalog/backups/repository.py",
                'raise Corrupt("an object of the backup repository is missing", key=key) from exc',
                "raise",
            ),
        ),
        (
            "tests/backups/test_backup.py::test_a_lost_object_of_a_repository_is_damage_for_each_call_that_reads_it",
            "tests/cli/test_backups.py::test_commands_that_a_lost_chunk_of_the_repository_stops_exit_with_6",
        ),
    ),
    Removal(
        "B549",
        (
            Edit(
                "src/stratalog/backups/backup.py",
                "            repository.require_backup(newest_id)\n            raise\n",
                "            raise\n",
            ),
        ),
        ("tests/backups/test_backup.py::test_a_backup_whose_base_lost_its_objects_to_a_prune_is_a_conflict",),
    ),
    Removal(
        "B775",
        (Edit(LOG, READS_AGAIN, "                raise\n"),),
        (f"{BESIDE_RETENTION}::test_the_version_of_a_mutation_above_the_risen_floor_is_found",),
    ),
    Removal(
        "B776",
        (
            Edit(
                "src/stratalog/documents/state.py",
                "            if self.is_retained(self.version, self.snapshot_version):\n                raise\n",
                "            raise\n",
            ),
        ),
        (f"{BESIDE_RETENTION}::test_a_value_that_is_replaced_and_collected_during_a_read_is_not_damaged",),
    ),
    Removal(
        "B777",
        (Edit(HISTORY, "if version <= (floor := log.floor()):", "if version <= (floor := 0):"),),
        (f"{BESIDE_RETENTION}::test_a_row_of_a_version_that_is_forgotten_during_a_read_is_not_damaged",),
    ),
    Removal(
        "B778",
        (Edit(LOG, READS_AGAIN, "                raise\n"),),
        (f"{BESIDE_RETENTION}::test_versions_are_listed_from_the_risen_floor_on",),
    ),
    Removal(
        "B779",
        (
            Edit(
                SNAPSHOT_SCHEDULE,
                "                state = self._states.at(version)\n",
                "                state = self._states.load(state.version)\n",
            ),
        ),
        (
            f"{BESIDE_RETENTION}::test_a_snapshot_of_the_newest_version_is_made_although_that_version_is_forgotten_meanwhile",
        ),
    ),
    Removal(
        "B793",
        (Edit(STATE_CACHE, "state.version == version and not state.stale:", "state.version == version:"),),
        ("tests/documents/test_state_cache.py::test_a_stale_state_is_loaded_again",),
    ),
    Removal(
        "B859",
        (
            Edit(HISTORY, "newest.began_in(client)\n", "0\n"),
            Edit(HISTORY, " and state.binding(client) == binding\n", "\n"),
            Edit(
                HISTORY, "            applied = redacted = 0  # the client begins here, or anew\n", "            pass\n"
            ),
            Edit(HISTORY, "            applied = entry.version\n", "            applied = applied or entry.version\n"),
        ),
        (f"{SIX_QUERIES}::test_query_5_a_client_that_began_anew_has_only_its_new_mutations",),
    ),
    Removal(
        "B873",
        (Edit(HISTORY, "newest.began_in(client)\n", "0\n"),),
        (
            f"{SIX_QUERIES}::test_query_5_a_redacted_entry_in_which_a_client_began_anew_hides_its_earlier_mutations",
            f"{SIX_QUERIES}::test_query_5_a_client_that_began_anew_without_a_group_has_only_its_new_mutations",
        ),
    ),
    Removal(
        "B973",
        (
            Edit(
                SNAPSHOT_SCHEDULE,
                "    return changes >= max(CHANGES_MIN, interval * CHANGES_PER_ENTRY)\n",
                "    return False\n",
            ),
        ),
        (f"{SCHEDULE_TESTS}::test_a_snapshot_is_due_after_few_entries_of_many_mutations[1000-made1]",),
    ),
    Removal(
        "B973",
        (Edit("src/stratalog/documents/state.py", "        moved.changes = len(moved.content.changes())\n", ""),),
        ("tests/documents/test_snapshots.py::test_a_state_over_a_newer_snapshot_counts_the_changes_after_it",),
    ),
    Removal(
        "B1041",
        (
            Edit(
                "src/stratalog/documents/changes.py",
                "        changes.clients.update(resumed_clients(entry))\n",
                "",
            ),
        ),
        ("tests/server/test_pull.py::test_a_pull_reports_a_number_that_was_raised_after_its_cookie",),
    ),
    Removal(
        "B1140",
        (Edit("src/stratalog/log/tasks.py", "        if self._closed:\n            return None\n", ""),),
        ("tests/documents/test_beside_commits.py::test_closed_background_tasks_run_no_more_work[InlineTasks]",),
    ),
)
