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
        ("tests/log/test_segments.py::test_a_frozen_writers_stray_is_found_by_nobody",),
    ),
    Removal(
        "B16",
        (Edit(APPEND, "if (item is None or ours) and self._is_answered_at", "if ours and self._is_answered_at"),),
        ("tests/log/test_segments.py::test_a_writer_whose_entry_was_archived_and_freed_finds_it_there",),
    ),
    Removal(
        "B17",
        (Edit(APPEND, "        if name.segment == head.segment:\n            return True\n", "        return True\n"),),
        ("tests/log/test_segments.py::test_a_writer_frozen_before_a_roll_over_does_not_lead_the_name_back",),
    ),
    Removal(
        "B18",
        (
            Edit(
                LIFECYCLE,
                "    record = require_name(environment.index, record.organisation",
                "    head = log.head()\n    record = require_name(environment.index, record.organisation",
            ),
            Edit(
                LIFECYCLE,
                "record.incarnation)\n    head = log.head()\n",
                "record.incarnation)\n",
            ),
        ),
        ("tests/log/test_lifecycle.py::test_a_deletion_frozen_before_a_roll_over_ends_the_log_where_it_is",),
    ),
    Removal(
        "B19",
        (Edit("src/stratalog/log/reader.py", "        if late:\n", "        if late and not version:\n"),),
        ("tests/log/test_slow_reads.py::test_an_entry_read_too_slowly_is_unavailable_not_absent",),
    ),
    Removal(
        "B20",
        (Edit(APPEND, "        if item is None and version > head.version:\n            return False\n", ""),),
        ("tests/log/test_append.py::test_giving_up_says_unknown_while_a_lost_write_may_still_come",),
    ),
    Removal(
        "B21",
        (
            Edit(BLOB_BATCH, "if not retry.wait(exc):", "if retry:"),
            Edit(
                APPEND, "                self._mark_in_doubt(plan)\n                raise\n", "                raise\n"
            ),
        ),
        ("tests/log/test_segments.py::test_a_late_entry_whose_body_can_be_put_again_only_later_is_appended_once",),
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
        ("tests/log/test_segments.py::test_a_late_entrys_large_body_is_put_again",),
    ),
    Removal(
        "B22",
        (Edit(APPEND, "if head.version < self._appender.ask_again_at:", "if over % max(1, target // 8):"),),
        ("tests/log/test_segments.py::test_a_group_of_appends_seals_a_segment_it_steps_over",),
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
        ("tests/log/test_segments.py::test_an_archiver_leaves_the_base_where_a_raised_floor_has_named_it",),
    ),
    Removal(
        "B24",
        (
            Edit(
                RETENTION,
                "            if segment_changed(environment.index, prefix, segment):\n                continue\n",
                "",
            ),
        ),
        ("tests/log/test_segments.py::test_an_archiver_overtaken_by_another_reports_no_damage",),
    ),
    Removal(
        "B24",
        (Edit("src/stratalog/log/sweep.py", "        forget_segment(environment, prefix, segment)\n", ""),),
        ("tests/log/test_lifecycle.py::test_a_reader_amid_a_sweep_is_told_that_the_log_is_gone",),
    ),
    Removal(
        "B25",
        (
            Edit(
                RETENTION, "                    _forget_below(self._log.environment, record.prefix, record.floor)\n", ""
            ),
        ),
        ("tests/log/test_retention.py::test_what_a_crash_left_unforgotten_is_forgotten_the_next_time",),
    ),
    Removal(
        "B26",
        (Edit(LIFECYCLE, "max(environment.clock.wall_ms(), created_ms_min)", "environment.clock.wall_ms()"),),
        ("tests/log/test_lifecycle.py::test_a_forks_time_begins_no_earlier_than_its_parents_end",),
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
        ("tests/log/test_lifecycle.py::test_of_two_who_delete_in_one_millisecond_without_an_answer_one_is_told",),
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
        ("tests/test_group_commit.py::test_one_who_waits_is_handed_the_turn",),
    ),
    Removal(
        "B31",
        (Edit(APPEND, "head = self.heads.offer(read)", "head = self.heads.value = read"),),
        ("tests/log/test_handle.py::test_a_slow_look_at_the_head_does_not_replace_a_newer_one",),
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
        ("tests/log/test_interrupts.py::test_the_others_of_an_interrupted_leader_are_written_once",),
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
                "test_an_interrupt_anywhere_in_the_leaders_work_answers_nobody_for_a_write_that_is_not_there"
            ),
        ),
    ),
    Removal(
        "B34",
        (Edit(APPEND, "pending.fail(exc.copy())", "pending.fail(exc)"),),
        ("tests/log/test_interrupts.py::test_those_who_share_a_failed_commit_raise_errors_of_their_own",),
    ),
    Removal(
        "B35",
        (Edit("src/stratalog/process_fork.py", "os.register_at_fork(after_in_child=_close_all)\n", ""),),
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
        ("tests/server/test_api_names.py::test_a_name_of_another_organisation_is_free_and_tells_nothing",),
    ),
    Removal(
        "B37",
        (Edit(POOLS, "key=(organisation, name, False)", 'key=f"{organisation}/{name}"'),),
        ("tests/server/test_api_names.py::test_pushes_do_not_queue_behind_another_organisation_s",),
    ),
    Removal(
        "B37",
        (Edit("src/stratalog/maintenance/policy.py", '.replace("/", "%2F")', ""),),
        (
            (
                "tests/maintenance/test_maintain.py::"
                "test_an_exception_of_a_document_is_none_of_an_organisation_that_is_called_alike"
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
            "tests/log/test_lifecycle.py::test_an_organisation_is_entered_by_the_first_that_it_creates_and_by_no_other",
            "tests/records/test_put.py::test_an_organisation_is_entered_by_its_first_record_alone",
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
        ("tests/log/test_retention.py::test_what_a_crash_left_unforgotten_is_forgotten_the_next_time",),
    ),
    Removal(
        "B145",
        (Edit(BASE, "if newest is None or newest.version < floor:", "if newest is None:"),),
        ("tests/log/test_base.py::test_a_snapshot_of_a_forgotten_version_keeps_a_log_without_states_from_nothing",),
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
            "tests/log/test_lifecycle.py::test_a_creation_whose_log_is_deleted_before_its_answer_came_is_not_called_refused",
            "tests/log/test_lifecycle.py::test_a_creation_whose_log_may_have_been_swept_is_unknown",
        ),
    ),
    Removal(
        "B285",
        (Edit(BASE, "if self._newest(version) == snapshot:", "if True:"),),
        ("tests/log/test_base.py::test_a_state_that_goes_while_it_is_read_is_no_damage",),
    ),
    Removal(
        "B304",
        (Edit(RETENTION, " and plan.floor > record.floor:", ":"),),
        ("tests/log/test_base.py::test_a_base_that_another_process_has_passed_meanwhile_does_not_lower_the_floor",),
    ),
    Removal(
        "B372",
        (Edit(RETENTION, "return self._log.learn_floor(record)", "return record.floor"),),
        ("tests/log/test_retention.py::test_a_handle_knows_the_floor_that_another_raised_and_it_reports",),
    ),
    Removal(
        "B407",
        (
            Edit("src/stratalog/log/floors.py", "for parent in record.lineage:", "for parent in ():"),
            Edit(
                "src/stratalog/log/log.py",
                "            if hash := self._hash_at_floor(version):\n                return hash\n            raise",
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
            "tests/log/test_lost_races.py::test_a_call_that_keeps_losing_backs_off_until_its_time_is_over",
            "tests/documents/test_redaction.py::test_a_redaction_that_keeps_losing_waits_between_its_tries",
            "tests/records/test_redaction.py::test_a_redaction_that_keeps_losing_waits_between_its_tries",
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
            "tests/log/test_contention.py::test_an_append_that_follows_a_head_just_read_reads_no_head_again",
            "tests/backends/test_hosted_turns.py::test_a_mutation_a_second_gets_its_turn_beside_busy_writers",
        ),
    ),
    Removal(
        "B500",
        (Edit("src/stratalog/log/environment.py", "with self._counters_lock:", "if what:"),),
        ("tests/log/test_counters.py::test_a_count_of_another_thread_is_not_lost",),
    ),
)
