"""Removals of fixes: documents, their snapshots, bases, forks and verification."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BLOB_BATCH = "src/stratalog/log/blob_batch.py"
DOCUMENT = "src/stratalog/documents/document.py"
ENTRIES = "src/stratalog/log/entries.py"
REBUILD = "src/stratalog/documents/rebuild.py"
REPLAY = "src/stratalog/documents/replay.py"
RUN = "src/stratalog/documents/run.py"
SNAPSHOT_SCHEDULE = "src/stratalog/documents/snapshot_schedule.py"
TASKS = "src/stratalog/log/tasks.py"
BESIDE_COMMITS = "tests/documents/test_beside_commits.py"
STATE_CACHE = "src/stratalog/documents/state_cache.py"

LOWEST_PIN = "    return next((pin_of(item) for item in index.query(forks_partition(ancestor), limit=1)), None)\n"
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
        ("tests/documents/test_handle.py::test_what_another_thread_learns_amid_a_call_is_not_lost",),
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
        ("tests/documents/test_apply.py::test_a_commit_whose_blobs_could_not_be_put_again_is_not_called_unwritten",),
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
        (Edit("src/stratalog/documents/state.py", "        self.stale = True\n", ""),),
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
        ("tests/documents/test_snapshots.py::test_a_snapshot_that_fails_fails_no_commit_and_a_later_one_makes_it",),
    ),
    Removal(
        "B43",
        (
            Edit(
                SNAPSHOT_SCHEDULE,
                "                self._follow(taken)\n"
                "                taken = take_snapshot(self.log, self._states.load(state.version))\n",
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
        ("tests/documents/test_base.py::test_a_chunk_that_no_forgotten_entry_changed_is_read_back_too",),
    ),
    Removal(
        "B44",
        (
            Edit(
                "src/stratalog/documents/read_back.py",
                "                blobs += _read_values(values, chunk.node, read, key)\n",
                "",
            ),
        ),
        ("tests/documents/test_base.py::test_no_floor_rises_onto_a_base_that_does_not_read_back",),
    ),
    Removal(
        "B45",
        (Edit("src/stratalog/log/pins.py", LOWEST_PIN, LOWEST_PIN_BY_PAGES),),
        ("tests/log/test_base.py::test_a_pin_that_moves_is_never_missed_whenever_it_does",),
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
        ("tests/documents/test_snapshots.py::test_verify_begins_at_a_raised_floor_that_no_entry_tells_yet",),
    ),
    Removal(
        "B49",
        (
            Edit(
                "src/stratalog/maintenance/marks.py",
                "mutations, patch, *_ = event.data",
                "mutations, patch, _bindings, _fields_bytes = event.data",
            ),
        ),
        ("tests/maintenance/test_verification.py::test_the_blobs_of_a_merge_are_marked",),
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
        ("tests/maintenance/test_verification.py::test_an_archive_that_lacks_a_version_is_no_shorter_history",),
    ),
    Removal(
        "B51",
        (Edit(REPLAY, "target.rules.mutators, unnumbered,", "target.rules.mutators, waiting,"),),
        ("tests/documents/test_forks.py::test_a_replay_after_a_version_runs_the_mutations_of_later_versions",),
    ),
    Removal(
        "B52",
        (Edit(REPLAY, "self._reports = _reports(", "self._reports = self._reports or _reports("),),
        ("tests/documents/test_forks.py::test_the_report_of_a_merge_is_of_what_was_committed",),
    ),
    Removal(
        "B53",
        (Edit(RUN, "            raise self._failure\n", "            self._failure = None\n"),),
        ("tests/documents/test_apply.py::test_a_mutator_that_catches_a_port_error_commits_nothing_made_from_it",),
    ),
    Removal(
        "B54",
        (Edit(RUN, "        if size > PATCH_BYTES_MAX:\n", "        if size < 0:\n"),),
        ("tests/documents/test_apply.py::test_a_mutation_that_no_entry_could_hold_blocks_nobody",),
    ),
    Removal(
        "B423",
        (Edit(RUN, "len(key.encode()) + (", "len(key) + ("),),
        ("tests/documents/test_apply.py::test_a_mutation_that_no_entry_could_hold_blocks_nobody",),
    ),
    Removal(
        "B55",
        (
            Edit(DOCUMENT, '        check_identity(group, "group", empty=True)\n', ""),
            Edit(DOCUMENT, '        check_identity(owner, "owner", empty=True)\n', ""),
        ),
        ("tests/documents/test_apply.py::test_a_group_or_owner_that_no_snapshot_could_hold_is_refused",),
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
        ("tests/documents/test_apply.py::test_those_without_a_group_cannot_be_collected_all_at_once",),
    ),
    Removal(
        "B57",
        (Edit(RUN, "return self._slot(key) is not None", "return self._load(key) is not None"),),
        ("tests/documents/test_apply.py::test_a_deletion_does_not_open_the_value_so_a_damaged_one_can_go",),
    ),
    Removal(
        "B58",
        (Edit("src/stratalog/maintenance/document_check.py", "            self._read_back(snapshot)\n", ""),),
        ("tests/maintenance/test_inspection.py::test_what_cannot_be_read_is_not_verified",),
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
                "    except (KeyError, msgspec.DecodeError, UnicodeDecodeError) as exc:",
                "    except (KeyError, msgspec.DecodeError) as exc:",
            ),
        ),
        ("tests/log/test_read.py::test_a_flipped_bit_in_a_text_of_an_entry_is_corrupt",),
    ),
    Removal(
        "B59",
        (
            Edit(
                ENTRIES,
                "    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):\n",
                "    except (KeyError, msgspec.DecodeError):\n",
            ),
        ),
        ("tests/log/test_read.py::test_a_flipped_bit_in_a_text_of_an_entry_is_corrupt",),
    ),
    Removal(
        "B59",
        (Edit("src/stratalog/tree/nodes.py", "(msgspec.DecodeError, UnicodeDecodeError)", "msgspec.DecodeError"),),
        ("tests/tree/test_tree.py::test_bytes_of_another_shape_are_corrupt",),
    ),
    Removal(
        "B59",
        (
            Edit(
                "src/stratalog/backends/item_rows.py",
                "    except (msgspec.DecodeError, UnicodeDecodeError) as exc:",
                "    except msgspec.DecodeError as exc:",
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
        ("tests/log/test_chain.py::test_a_fork_verifies_one_of_whose_ancestors_forgot_what_an_older_one_keeps",),
    ),
    *(
        Removal(
            "B61",
            (Edit("src/stratalog/log/bodies.py", fixed, unfixed),),
            ("tests/log/test_bodies.py::test_a_reference_that_names_another_size_is_corrupt",),
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
            "tests/documents/test_redaction.py::test_a_fork_that_is_made_amid_a_redaction_keeps_its_state",
            "tests/documents/test_redaction.py::test_a_redaction_amid_a_fork_leaves_no_fork_without_a_state",
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
        ("tests/documents/test_faults.py::test_a_letter_that_is_not_what_was_written_runs_nothing",),
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
        ("tests/maintenance/test_maintain.py::test_the_waiting_mark_of_a_record_goes_and_a_newer_one_stays",),
    ),
    Removal(
        "B150",
        (Edit("src/stratalog/documents/writer.py", "        attempt.blob_batch.defer()\n", ""),),
        ("tests/documents/test_writer.py::test_a_small_commit_does_not_wait_for_a_large_one_of_the_same_handle",),
    ),
    Removal(
        "B152",
        (
            Edit("src/stratalog/tree/reach.py", 'BlobDamage("", False, "a root', 'BlobDamage(top.key, False, "a root'),
            Edit(
                "src/stratalog/maintenance/document_check.py",
                "self._damages.add(kind, damage.key or key, fault, damage.reason)",
                "if not damage.key:\n                        self._damages.add(kind, key, fault, damage.reason)",
            ),
            Edit(REBUILD, "raise BaseContradicted(", "raise Corrupt("),
        ),
        ("tests/maintenance/test_inspection.py::test_a_base_whose_root_was_altered_is_named",),
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
        (
            "tests/records/test_dead_letters.py::test_a_lost_body_of_a_dead_letter_is_corrupt_whatever_its_record_is_called",
        ),
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
        ("tests/maintenance/test_inspection.py::test_snapshots_after_a_damaged_one_are_compared_despite_a_redaction",),
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
            "tests/log/test_redaction.py::test_snapshots_that_were_deleted_before_another_process_changed_the_log_are_returned_too",
            "tests/documents/test_redaction.py::test_snapshots_that_were_deleted_before_another_process_changed_the_document_are_returned_too",
        ),
    ),
    Removal(
        "B394",
        (Edit("src/stratalog/log/redaction.py", "if not retry.wait(exc):", "if exc is None:"),),
        ("tests/log/test_redaction.py::test_a_redaction_of_a_log_that_keeps_changing_waits_and_ends",),
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
            f"{BESIDE_COMMITS}::test_an_interrupt_before_a_thread_has_begun_takes_no_room",
            f"{BESIDE_COMMITS}::test_an_interrupt_after_a_thread_has_begun_does_not_hide_the_thread",
        ),
    ),
    Removal(
        "B492",
        (
            Edit(
                REPLAY,
                "own.effects.keys() | (changed - own.overwritten)",
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
)
