"""Removals of fixes: appends, segments, lifecycles, group commits, forked processes and names."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

APPEND = "src/stratalog/log/append.py"
BASE = "src/stratalog/log/base.py"
BLOB_BATCH = "src/stratalog/log/blob_batch.py"
DIRECTORY = "src/stratalog/log/directory.py"
GROUP_COMMIT = "src/stratalog/group_commit.py"
HEAD = "src/stratalog/log/head.py"
LIFECYCLE = "src/stratalog/log/lifecycle.py"
INTERRUPTED = (
    "tests/test_group_commit.py::test_an_interrupt_anywhere_leaves_no_waiter_without_a_leader",
    "tests/test_group_commit.py::test_an_interrupted_waiter_that_finds_the_leadership_free_leaves_no_waiter_behind",
)
POOLS = "src/stratalog/server/pools.py"
RETENTION = "src/stratalog/log/retention.py"
SEGMENTS = "src/stratalog/log/segments.py"
BESIDE_MAINTENANCE = "tests/log/test_reads_beside_maintenance.py"

REMOVALS: tuple[Removal, ...] = (
    Removal("B441", (Edit(GROUP_COMMIT, "            self._abandon(pending, batch)\n", ""),), INTERRUPTED),
    Removal(
        "B441",
        (
            Edit(
                GROUP_COMMIT,
                "        self.waiting.extend(map(batch.pop, (0,)))",
                "        self.waiting.append(pending)\n        batch.clear()",
            ),
        ),
        INTERRUPTED,
    ),
    Removal(
        "B441",
        (
            Edit(
                GROUP_COMMIT,
                "                if self.waiting and self.take(batch):\n"
                "                    self._leadership[LEADER] = batch[1]\n",
                "                if self.waiting:\n"
                "                    successor = self.waiting.popleft()\n"
                "                    batch.append(successor)\n"
                "                    self._leadership[LEADER] = successor\n",
            ),
        ),
        INTERRUPTED[:1],
    ),
    Removal(
        "B15",
        (
            Edit(
                HEAD,
                "if head is not None and head.seen.age_seconds() <= OBSERVATION_SECONDS_MAX:",
                "if head is not None:",
            ),
            Edit(
                HEAD, "return current if head.seen.age_seconds() <= OBSERVATION_SECONDS_MAX else None", "return current"
            ),
        ),
        ("tests/log/test_segments.py::test_an_orphaned_write_in_a_freed_segment_is_never_read",),
    ),
    Removal(
        "B16",
        (Edit(APPEND, "if (item is None or ours) and self._is_answered_at", "if ours and self._is_answered_at"),),
        ("tests/log/test_segments.py::test_a_writer_recognises_its_entry_in_the_archive_of_a_freed_segment",),
    ),
    Removal(
        "B17",
        (Edit(APPEND, "        if name.segment == head.segment:\n            return True\n", "        return True\n"),),
        ("tests/log/test_segments.py::test_a_writer_delayed_before_a_roll_over_appends_to_the_newest_segment",),
    ),
    Removal(
        "B18",
        (
            Edit(
                LIFECYCLE,
                "    record = reread_name(environment.index, record)\n    head = log.head()\n",
                "    head = log.head()\n    record = reread_name(environment.index, record)\n",
            ),
        ),
        ("tests/log/test_lifecycle.py::test_a_deletion_delayed_past_a_roll_over_still_ends_the_log",),
    ),
    Removal(
        "B19",
        (Edit("src/stratalog/log/reader.py", "            late = _outdated(seen)\n", "            late = False\n"),),
        ("tests/log/test_slow_reads.py::test_an_entry_read_too_slowly_is_unavailable_not_absent",),
    ),
    Removal(
        "B20",
        (Edit(APPEND, "        if item is None and version > head.version:\n            return False\n", ""),),
        ("tests/log/test_append.py::test_an_append_raises_outcome_unknown_if_a_lost_request_may_still_take_effect",),
    ),
    Removal(
        "B21",
        (
            Edit(BLOB_BATCH, "if not retry.wait(exc):", "if retry:"),
            Edit(
                APPEND, "                self._mark_in_doubt(plan)\n                raise\n", "                raise\n"
            ),
        ),
        ("tests/log/test_segments.py::test_an_append_is_written_once_if_the_repeated_put_of_its_body_fails_at_first",),
    ),
    Removal(
        "B21",
        (
            Edit(
                "src/stratalog/log/pending_entry.py",
                "        if self.blob_batch is not None:\n            self.blob_batch.renew()\n        self.entry",
                "        self.entry",
            ),
        ),
        ("tests/log/test_segments.py::test_the_body_of_an_append_with_a_late_answer_is_put_again",),
    ),
    Removal(
        "B22",
        (Edit(APPEND, "if head.version < self._appender.ask_again_at:", "if over % max(1, target // 8):"),),
        ("tests/log/test_segments.py::test_a_segment_that_a_group_of_appends_overfills_is_sealed",),
    ),
    Removal(
        "B23",
        (
            Edit(
                SEGMENTS,
                "return segment_put(prefix, changed, segment_unchanged(segment))",
                'return segment_put(prefix, changed, Equals("c", segment.created_ms))',
            ),
        ),
        (
            "tests/log/test_segments.py::test_archiving_does_not_overwrite_a_base_that_a_concurrently_raised_floor_recorded",
        ),
    ),
    Removal(
        "B24",
        (
            Edit(
                RETENTION,
                "            if not segment_changed(environment.index, prefix, segment):\n                damage",
                "            if True:\n                damage",
            ),
        ),
        ("tests/log/test_segments.py::test_an_archiver_overtaken_by_another_reports_no_damage",),
    ),
    Removal(
        "B24",
        (Edit("src/stratalog/log/sweep.py", "        forget_segment(environment, prefix, segment)\n", ""),),
        ("tests/log/test_lifecycle.py::test_a_read_during_a_sweep_is_complete_or_raises_not_found",),
    ),
    Removal(
        "B25",
        (
            Edit(
                RETENTION, "                    _forget_below(self._log.environment, record.prefix, record.floor)\n", ""
            ),
        ),
        ("tests/log/test_retention.py::test_raising_the_floor_again_completes_a_run_that_crashed",),
    ),
    Removal(
        "B26",
        (Edit(LIFECYCLE, "max(environment.clock.wall_ms(), created_ms_min)", "environment.clock.wall_ms()"),),
        ("tests/log/test_lifecycle.py::test_entries_of_a_fork_are_never_dated_before_the_entries_of_its_parent",),
    ),
    Removal(
        "B27",
        (Edit("src/stratalog/log/commit.py", "cause = _cause(exc, in_doubt)", "cause = exc"),),
        ("tests/log/test_retention.py::test_a_commit_in_doubt_never_ends_as_unavailable",),
    ),
    Removal(
        "B28",
        (
            Edit(
                LIFECYCLE,
                'stored.attributes.get("w") == seal.attributes["w"]',
                'stored.attributes.get("c") == seal.attributes["c"]',
            ),
        ),
        (
            "tests/log/test_lifecycle.py::test_a_lost_deletion_raises_not_found_if_a_rival_deleted_in_the_same_millisecond",
        ),
    ),
    Removal(
        "B29",
        (
            Edit(
                "src/stratalog/log/log.py",
                "            except VersionForgotten as exc:\n                later, gone_here = False, exc\n",
                "            except VersionForgotten:\n                raise\n",
            ),
        ),
        ("tests/log/test_read.py::test_the_version_at_a_time_above_the_floor_is_still_found",),
    ),
    Removal(
        "B30",
        (
            Edit(
                GROUP_COMMIT,
                "                    self._leadership[LEADER] = batch[1]\n",
                "                    del self._leadership[LEADER]\n",
            ),
            Edit(
                GROUP_COMMIT,
                "return pending.is_leader is not False\n",
                "return pending.is_leader is not False and self._leadership.setdefault(LEADER, pending) is pending\n",
            ),
        ),
        ("tests/test_group_commit.py::test_a_leader_passes_the_leadership_to_a_waiter",),
    ),
    Removal(
        "B31",
        (Edit(APPEND, "head = self.heads.offer(read)", "head = self.heads.value = read"),),
        ("tests/log/test_handle.py::test_a_slow_read_of_the_head_does_not_replace_a_newer_head",),
    ),
    Removal(
        "B32",
        (
            Edit(
                APPEND,
                "            append.interrupt()\n            raise\n",
                "            append.interrupt()\n"
                "            for pending in batch:\n"
                "                pending.error = None if pending.entry else exc\n"
                "            raise\n",
            ),
            Edit(APPEND, "        except BaseException:\n", "        except BaseException as exc:\n"),
        ),
        ("tests/log/test_interrupts.py::test_appends_queued_behind_an_interrupted_leader_are_written_once",),
    ),
    Removal(
        "B33",
        (
            Edit(
                GROUP_COMMIT,
                'raise OutcomeUnknown("the thread that committed for others was interrupted")',
                "return None  # type: ignore[return-value]",
            ),
        ),
        (
            (
                "tests/backends/test_sqlite.py::"
                "test_an_interrupt_of_the_leader_acknowledges_no_commit_that_was_not_written"
            ),
        ),
    ),
    Removal(
        "B34",
        (Edit(APPEND, "pending.fail(exc.copy())", "pending.fail(exc)"),),
        ("tests/log/test_interrupts.py::test_each_append_of_a_failed_shared_commit_raises_its_own_error_object",),
    ),
    Removal(
        "B35",
        (Edit("src/stratalog/process_fork.py", ", after_in_child=_close_all)\n", ")\n"),),
        (
            (
                "tests/test_process_fork.py::"
                "test_a_call_in_a_forked_child_raises_closed_though_another_thread_held_every_lock"
            ),
        ),
    ),
    Removal(
        "B35",
        (Edit("src/stratalog/newest.py", '        close_in_child(self, "_lock")\n', ""),),
        ("tests/test_process_fork.py::test_every_lock_of_an_object_is_closed_in_a_child",),
    ),
    Removal(
        "B36",
        (
            Edit(
                "src/stratalog/keys.py",
                "return f\"{escape(organisation, 'organisation')}/{escape(log)}\"",
                "return escape(log)",
            ),
        ),
        ("tests/server/test_api_names.py::test_two_organisations_can_create_documents_and_logs_of_the_same_name",),
    ),
    Removal(
        "B37",
        (Edit(POOLS, "key=(organisation, name, False)", 'key=f"{organisation}/{name}"'),),
        ("tests/server/test_api_names.py::test_pushes_do_not_wait_for_a_push_of_another_organisation",),
    ),
    Removal(
        "B37",
        (Edit("src/stratalog/maintenance/policy.py", '.replace("/", "%2F")', ""),),
        (
            (
                "tests/maintenance/test_maintain.py::"
                "test_an_exception_of_a_document_does_not_apply_to_an_organisation_of_the_same_name"
            ),
        ),
    ),
    Removal(
        "B38",
        (
            Edit(DIRECTORY, "    if environment.entered_organisations.knows(organisation):\n        return []\n", ""),
            Edit(DIRECTORY, "sort, consistent=False) is None:", "sort, consistent=False) or True:"),
        ),
        (
            "tests/log/test_lifecycle.py::test_only_the_first_log_of_an_organisation_enters_the_organisation_in_the_directory",
            "tests/records/test_put.py::test_only_the_first_record_of_an_organisation_enters_the_organisation_in_the_directory",
        ),
    ),
    Removal(
        "B144",
        (
            Edit(
                RETENTION,
                'OutcomeUnknown("the floor rose, but some segments below it are not marked: call again") from exc',
                "exc",
            ),
        ),
        ("tests/log/test_retention.py::test_raising_the_floor_again_completes_a_run_that_crashed",),
    ),
    Removal(
        "B145",
        (Edit(BASE, "if newest is None or newest.version < floor:", "if newest is None:"),),
        (
            "tests/log/test_base.py::test_a_snapshot_below_the_floor_of_a_plain_log_does_not_stop_segments_from_being_freed",
        ),
    ),
    Removal(
        "B151",
        (
            Edit(
                LIFECYCLE,
                "is None or stored.incarnation == incarnation:\n            return stored is not None\n",
                "is None or stored.incarnation != incarnation:\n            return False\n        return True\n",
            ),
        ),
        (
            "tests/log/test_lifecycle.py::test_a_creation_whose_log_is_deleted_before_its_answer_arrives_succeeds",
            "tests/log/test_lifecycle.py::test_a_creation_whose_log_may_have_been_swept_raises_outcome_unknown",
        ),
    ),
    Removal(
        "B285",
        (Edit(BASE, "if self._newest(version) == snapshot:", "if True:"),),
        ("tests/log/test_base.py::test_an_app_snapshot_deleted_during_a_read_is_not_reported_as_damage",),
    ),
    Removal(
        "B304",
        (Edit(RETENTION, " and plan.floor > record.floor:", ":"),),
        ("tests/log/test_base.py::test_a_base_below_a_concurrently_raised_floor_does_not_lower_the_floor",),
    ),
    Removal(
        "B372",
        (Edit(RETENTION, "return self._log.learn_floor(record)", "return record.floor"),),
        ("tests/log/test_retention.py::test_a_handle_refuses_versions_below_a_floor_that_another_handle_raised",),
    ),
    Removal(
        "B407",
        (
            Edit("src/stratalog/log/floors.py", "for parent in record.lineage:", "for parent in ():"),
            Edit(
                "src/stratalog/log/version_hashes.py",
                "            if hash := self._at_floor(version):\n                return hash\n            raise",
                "            raise",
            ),
        ),
        (
            "tests/log/test_retention.py::test_a_fork_has_the_floor_that_an_ancestor_raised_later",
            "tests/log/test_retention.py::test_the_hash_of_a_floor_that_another_handle_raised_is_known",
            "tests/documents/test_forks.py::test_a_fork_keeps_only_the_versions_that_its_parent_keeps",
        ),
    ),
    Removal(
        "B410",
        (
            Edit(LIFECYCLE, "if not retry.wait(exc.lost):", "if retry.next_seconds() and retry.attempts > 20:"),
            Edit(
                "src/stratalog/documents/redaction.py",
                "            log.environment.clock.sleep(wait_seconds)\n",
                "",
            ),
            Edit(
                "src/stratalog/records/redaction.py",
                "if not retry.wait(exc):",
                "if retry.next_seconds() and retry.attempts > 5:",
            ),
        ),
        (
            "tests/log/test_lost_races.py::test_a_call_that_loses_every_race_raises_contention_error_at_its_deadline",
            "tests/documents/test_redaction.py::test_a_redaction_that_loses_every_race_backs_off_and_raises_contention_error",
            "tests/records/test_redaction.py::test_a_redaction_that_loses_every_race_backs_off_until_its_deadline",
        ),
    ),
    Removal(
        "B439",
        (
            Edit(
                APPEND,
                "appender.contention.contended and (head is appender.left_behind or self._reads_first())",
                "appender.contention.contended and appender.is_behind()",
            ),
        ),
        (
            "tests/log/test_contention.py::test_an_append_at_a_head_that_its_caller_just_read_does_not_read_the_head_again",
            "tests/backends/test_hosted_turns.py::test_a_writer_of_a_mutation_per_second_waits_few_round_trips_among_busy_writers",
        ),
    ),
    Removal(
        "B500",
        (Edit("src/stratalog/log/environment.py", "with self._counters_lock:", "if what:"),),
        ("tests/log/test_counters.py::test_a_count_of_another_thread_is_not_lost",),
    ),
    Removal(
        "B780",
        (
            Edit(
                "src/stratalog/log/reader.py",
                "                if segment == before:\n                    raise\n",
                "                raise\n",
            ),
        ),
        (
            f"{BESIDE_MAINTENANCE}::test_an_archive_that_is_replaced_and_collected_during_a_read_is_not_damaged",
            f"{BESIDE_MAINTENANCE}::test_an_entry_whose_archive_is_repaired_and_freed_during_a_read_is_not_damaged",
        ),
    ),
    Removal(
        "B781",
        (
            Edit(
                "src/stratalog/log/app_snapshots.py",
                "        if _exists(environment, app_snapshot.snapshot):\n            raise\n",
                "        raise\n",
            ),
        ),
        (
            f"{BESIDE_MAINTENANCE}::test_an_app_snapshot_that_is_forgotten_and_collected_during_a_read_is_not_damaged",
            f"{BESIDE_MAINTENANCE}::test_an_app_snapshot_that_is_deleted_by_a_redaction_and_collected_during_a_read_is_not_damaged",
        ),
    ),
    Removal(
        "B781",
        (
            Edit(
                "src/stratalog/log/app_snapshots.py",
                "            if base is None or _exists(environment, base):\n                raise\n",
                "            raise\n",
            ),
        ),
        (
            f"{BESIDE_MAINTENANCE}::test_an_app_snapshot_is_saved_although_the_parts_list_of_its_base_is_collected_meanwhile",
        ),
    ),
    Removal(
        "B767",
        (
            Edit(
                "src/stratalog/log/reader.py",
                "if version <= floor:",
                "if (floor := self._floor()) >= 0:",
            ),
        ),
        (
            "tests/log/test_damaged_segments.py::test_a_kept_version_whose_segment_record_is_lost_is_damage",
            "tests/log/test_damaged_segments.py::test_above_the_floor_a_version_without_a_segment_is_damage_and_at_the_floor_it_is_forgotten",
        ),
    ),
    Removal(
        "B767",
        (
            Edit(
                "src/stratalog/log/log.py",
                "            return next(self.read(version - 1, version))",
                "            raise",
            ),
        ),
        ("tests/log/test_damaged_segments.py::test_a_kept_version_whose_segment_record_is_lost_is_damage",),
    ),
    Removal(
        "B794",
        (Edit("src/stratalog/log/plan.py", "snapshot.writes(version, created_ms, before)", "[]"),),
        ("tests/log/test_prepared_snapshots.py::test_one_commit_stores_the_entry_and_its_snapshot",),
    ),
    Removal(
        "B795",
        (Edit(HEAD, "for _ in range(LOOKS_MAX):", "for _ in range(1000):"),),
        (
            "tests/log/test_slow_reads.py::test_the_head_and_an_entry_beyond_it_are_unavailable_if_each_read_is_too_slow",
        ),
    ),
    Removal(
        "B845",
        (
            Edit(
                "src/stratalog/log/blob_batch.py",
                "        self._put_unsent(bodies)\n",
                "        self._put(bodies)\n",
            ),
        ),
        ("tests/log/test_prepared_snapshots.py::test_no_append_is_in_doubt_if_only_the_put_of_its_parts_or_body_is",),
        raises=("OutcomeUnknown",),
    ),
    Removal(
        "B842",
        (Edit("src/stratalog/log/contention.py", "BACKOFF_GROWTH = 2.0\n", "BACKOFF_GROWTH = 1.0\n"),),
        ("tests/log/test_contention.py::test_64_writers_that_do_not_pause_waste_under_two_puts_per_commit",),
    ),
    Removal(
        "B910",
        (
            Edit(
                "src/stratalog/log/redaction.py",
                "    position = _position(items, record, version)\n",
                "    position = version - segment.first\n",
            ),
        ),
        (
            "tests/log/test_redaction.py::test_a_redaction_in_an_archive_that_lacks_a_version_erases_only_its_own_version",
        ),
    ),
)
