"""Removals of fixes: copies and backups of what was redacted, redactions of records, and imports."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BACKUP = "tests/backups/test_backup.py::test_a_backup_after_a_collection_contains_no_redacted_body"
BACKUPS = "tests/backups/test_backup.py"
BACKUP_VERIFICATION = "src/stratalog/backups/verification.py"
CLI_BACKUPS = "tests/cli/test_backups.py"
LOST_BLOBS = "tests/backups/test_lost_blobs.py"
MANY_LOST = "test_a_backup_and_a_copy_of_a_store_that_lost_very_much_name_some_blobs_and_count_the_others"
REFERENCES = "src/stratalog/backups/references.py"
BLOB_KEYS = "tests/maintenance/test_damaged_blob_keys.py"
COPYING = "tests/maintenance/test_copying.py"
ERASED = f"{COPYING}::test_versions_redacted_since_the_last_copy_are_redacted_in_the_target"
ITSELF = f"{COPYING}::test_a_target_that_redacted_or_pruned_data_itself_is_refused"
NEWEST = f"{COPYING}::test_a_store_is_copied_again_after_its_newest_version_was_redacted"
REDACTIONS = "tests/records/test_redaction.py"
UNDELETED = f"{REDACTIONS}::test_an_undeletion_that_races_with_a_redaction_raises_redacted"
BACKED_UP_FAMILY = "src/stratalog/backups/family.py"
BACKED_UP_RECORDS = "src/stratalog/backups/records.py"
COPY = "src/stratalog/maintenance/store_copy.py"
FAMILY_COPY = "src/stratalog/maintenance/family_copy.py"
DAMAGED_LISTS = "tests/cli/test_damaged_lists.py"
DAMAGED_COPY = "tests/maintenance/test_damaged_copy.py"
DAMAGED_KEYS = "tests/maintenance/test_damaged_sort_keys.py"
DAMAGED_ITEMS = "tests/backups/test_damaged_items.py"
SHORTER = "test_a_history_that_lost_its_newest_version_since_the_previous_backup_is_a_failure"
WRONG_CLOCK = "test_a_restore_to_a_time_has_each_write_up_to_that_time_although_the_clock_of_a_backup_was_wrong"
PRUNE = "src/stratalog/backups/prune.py"
RACES = "tests/backups/test_prune_races.py"
RAISED = "                raise\n"
REPOSITORY = "src/stratalog/backups/repository.py"
IMPORT = "src/stratalog/maintenance/document_import.py"
REDACTION = "src/stratalog/records/redaction.py"

FLOOR_PUT = ", floor_put(name, floor, new_id(environment.clock))]"
FLOOR_AFTER = """\
            self._mirror.items(partition, wanted, after=BEFORE_VERSIONS, before=before, ahead=put_bodies)
            references.end()
            self._mirror.put(partition, FLOOR_SORT, ours)
"""
FLOOR_BEFORE = """\
            self._mirror.put(partition, FLOOR_SORT, ours)
            self._mirror.items(partition, wanted, after=BEFORE_VERSIONS, before=before, ahead=put_bodies)
            references.end()
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B449",
        (Edit(FAMILY_COPY, "                or standing.get(segment.sort) != segment.item\n", ""),),
        (ERASED,),
    ),
    Removal("B449", (Edit(REDACTION, FLOOR_PUT, "]"),), (ERASED,)),
    Removal(
        "B449",
        (Edit(COPY, FLOOR_AFTER, FLOOR_BEFORE), Edit(COPY, " or self._position.is_resumed:\n", ":\n")),
        (f"{COPYING}::test_a_killed_copy_of_a_redaction_is_resumed",),
    ),
    Removal(
        "B449",
        (
            Edit(
                "src/stratalog/maintenance/copy_check.py",
                " or floor != read_floor(target.index, Name(organisation, id)):",
                ":",
            ),
        ),
        (f"{COPYING}::test_the_check_of_a_copy_reports_a_record_redacted_during_the_copy",),
    ),
    Removal(
        "B450",
        (Edit(FAMILY_COPY, 'continues(there, last) if there else required(segment, "m")', "there == last"),),
        (NEWEST,),
    ),
    Removal(
        "B450",
        (Edit(COPY, "not (there is None or continues(there, standing))", "there not in (standing, None)"),),
        (NEWEST,),
    ),
    Removal(
        "B451",
        (Edit(COPY, "if theirs is not None and not succeeds(ours, theirs):", "if False:"),),
        (ITSELF,),
    ),
    Removal(
        "B452",
        (Edit(REDACTION, FLOOR_PUT, "]"),),
        (UNDELETED,),
    ),
    Removal("B453", (Edit(BACKED_UP_FAMILY, " or log.record.redacted or", " or"),), (BACKUP,)),
    Removal("B453", (Edit(BACKED_UP_RECORDS, " and not self._lists_garbage(owner, versions.bodies)", ""),), (BACKUP,)),
    Removal(
        "B453",
        (
            Edit(
                BACKED_UP_RECORDS,
                "if not versions.bodies and self._catalogue.base.row(blobs_row) is None:",
                "if not versions.bodies:",
            ),
        ),
        (BACKUP,),
    ),
    Removal(
        "B466",
        (Edit(IMPORT, "        self._made.remove(log)\n", ""),),
        ("tests/maintenance/test_exchange.py::test_an_error_after_the_document_is_published_does_not_delete_it",),
    ),
    Removal(
        "B466",
        (Edit(IMPORT, "_AnotherBody, KeyboardInterrupt)", "_AnotherBody)"),),
        ("tests/maintenance/test_exchange.py::test_an_interrupted_import_leaves_no_log",),
    ),
    Removal(
        "B524",
        (Edit("src/stratalog/maintenance/document_export.py", "        check_payload(encode(args))\n", ""),),
        ("tests/maintenance/test_exchange.py::test_an_invalid_line_after_the_first_batch_of_a_state_imports_nothing",),
    ),
    Removal(
        "B524",
        (Edit("src/stratalog/maintenance/document_export.py", '        check_key(args["key"])\n', ""),),
        ("tests/maintenance/test_exchange.py::test_an_invalid_line_after_the_first_batch_of_a_state_imports_nothing",),
    ),
    Removal(
        "B553",
        (
            Edit(BACKUP_VERIFICATION, "self._repository.objects.get(key)", "self._repository.blobs.get(key)"),
            Edit(
                BACKUP_VERIFICATION,
                "        except Corrupt as exc:\n            self._find(key, exc)",
                "        except StratalogError as exc:\n            self._find(key, exc)  # type: ignore[arg-type]",
            ),
            Edit(BACKUP_VERIFICATION, "import Corrupt\n", "import Corrupt, StratalogError\n"),
        ),
        (f"{BACKUPS}::test_a_verification_reports_each_lost_object_as_damage",),
    ),
    Removal(
        "B554",
        (Edit(PRUNE, "if self._repository.blobs.stat(manifest) is None:", "if not manifest:"),),
        (f"{RACES}::test_a_call_during_which_backups_are_pruned_succeeds_or_is_a_conflict",),
    ),
    Removal(
        "B554",
        (Edit(BACKUP_VERIFICATION, "self._repository.require_backup(self._manifest.id)", "pass"),),
        (f"{RACES}::test_a_call_during_which_backups_are_pruned_succeeds_or_is_a_conflict",),
    ),
    Removal(
        "B554",
        (Edit(REPOSITORY, "                if all(map(self.blobs.stat, keys)):\n                    raise\n", RAISED),),
        (f"{RACES}::test_a_call_during_which_backups_are_pruned_succeeds_or_is_a_conflict",),
    ),
    Removal(
        "B554",
        (Edit(REPOSITORY, "            self.require_backup(id)\n            raise\n", "            raise\n"),),
        (
            f"{RACES}::test_a_restoration_whose_backup_is_pruned_meanwhile_succeeds_or_is_a_conflict",
            "tests/cli/test_backups.py::test_a_restore_whose_backup_is_pruned_meanwhile_exits_with_4",
        ),
    ),
    Removal(
        "B555",
        (Edit(PRUNE, "(UNFINISHED, UNFINISHED, MANIFESTS)", "(MANIFESTS, UNFINISHED, UNFINISHED)"),),
        (f"{RACES}::test_a_prune_keeps_the_objects_of_an_old_interrupted_backup_that_is_finished_meanwhile",),
    ),
    Removal(
        "B668",
        (
            Edit(
                "src/stratalog/cli/copies.py",
                "copied {shown_url(source)} to {shown_url(target)}",
                "copied {source} to {target}",
            ),
        ),
        ("tests/postgres/test_copying.py::test_a_copy_shows_no_password",),
    ),
    Removal(
        "B669",
        (Edit("src/stratalog/cli/copies.py", "        next(ours.organisations(), None)\n", ""),),
        ("tests/cloud/test_copying.py::test_a_copy_is_refused_without_a_source_store_or_if_the_target_has_other_data",),
    ),
    Removal(
        "B671",
        (
            Edit(
                "src/stratalog/maintenance/store_copy.py",
                "        deleted = [line for line in waiting.values() if self._has_segments(line.sort)]\n",
                "        deleted = []\n",
            ),
        ),
        (
            "tests/maintenance/test_copying.py::test_a_deleted_log_whose_name_was_used_again_since_the_last_copy_has_its_end_marker_in_the_target",
        ),
    ),
    Removal(
        "B806",
        (Edit("src/stratalog/cli/backups.py", " if not failure.is_complete)", ")"),),
        (f"{CLI_BACKUPS}::test_a_restore_from_a_backup_that_made_a_lost_line_anew_exits_with_0",),
    ),
    Removal(
        "B807",
        (
            Edit(
                "src/stratalog/backups/failures_of_log.py",
                "_needed_blobs(backup, record) if lost else None",
                "None",
            ),
        ),
        (f"{CLI_BACKUPS}::test_a_restore_of_one_log_reports_only_the_lost_blobs_that_this_log_needs",),
    ),
    Removal(
        "B808",
        (Edit(BACKED_UP_FAMILY, "copy_blobs(owner, COLLECTING, bodies.note)", "copy_blobs(owner, COLLECTING)"),),
        (f"{LOST_BLOBS}::test_a_backup_reads_each_entry_body_once_and_none_again_after_a_collection_of_bodies",),
    ),
    Removal(
        "B808",
        (Edit(REFERENCES, "            bodies.add_base(catalogue, owner)\n", "            pass\n"),),
        (f"{LOST_BLOBS}::test_a_backup_reads_each_entry_body_once_and_none_again_after_a_collection_of_bodies",),
    ),
    Removal(
        "B808",
        (Edit(REFERENCES, " and gone <= NO_VALUES", ""),),
        (f"{LOST_BLOBS}::test_a_value_that_is_lost_while_another_is_collected_is_named",),
    ),
    Removal(
        "B809",
        (
            Edit(
                "src/stratalog/backups/writer.py",
                "if known is None and len(self.failures) >= DAMAGED_PARTS_NAMED_MAX:",
                "if False:",
            ),
        ),
        (f"{LOST_BLOBS}::{MANY_LOST}",),
    ),
    Removal(
        "B809",
        (Edit("src/stratalog/cli/program.py", "parts[:DAMAGED_PARTS_PRINTED_MAX] if", "parts if"),),
        (f"{CLI_BACKUPS}::test_a_backup_command_prints_some_damaged_parts_and_the_number_of_the_others",),
    ),
    Removal(
        "B810",
        (Edit("src/stratalog/backups/writer.py", " and not self._checks_blobs", ""),),
        (f"{LOST_BLOBS}::test_a_backup_that_checks_blobs_names_the_lost_blobs_of_what_is_unchanged",),
    ),
    Removal(
        "B811",
        (
            Edit(
                "src/stratalog/cli/backups.py",
                "    restorable_log(cut, organisation, log, new_name or log)  #",
                "    pass  #",
            ),
        ),
        (f"{CLI_BACKUPS}::test_a_restore_of_a_log_that_the_backup_does_not_have_makes_no_store",),
    ),
    Removal(
        "B812",
        (
            Edit(
                "src/stratalog/backups/backup.py",
                "    newest = None if anew else repository.newest()\n",
                "    newest = repository.newest()\n",
            ),
        ),
        (f"{CLI_BACKUPS}::test_a_damaged_manifest_is_named_and_hides_no_other_backup_and_a_backup_is_made_anew",),
    ),
    Removal(
        "B812",
        (
            Edit(
                REPOSITORY,
                'raise Corrupt("the manifest of a backup is damaged", key=key, reason=exc.message) from exc',
                "raise",
            ),
            Edit("src/stratalog/ports/blobs.py", '**{**exc.details, "key": key}', "**exc.details"),
        ),
        (f"{CLI_BACKUPS}::test_a_damaged_manifest_is_named_and_hides_no_other_backup_and_a_backup_is_made_anew",),
    ),
    Removal(
        "B813",
        (Edit("src/stratalog/ports/blobs.py", '**{**exc.details, "key": key}', "**exc.details"),),
        (f"{CLI_BACKUPS}::test_a_damaged_copy_of_a_blob_is_named_by_its_key",),
    ),
    Removal(
        "B862",
        (Edit("src/stratalog/cli/backups.py", '= "damaged in the store"', '= "not backed up"'),),
        (f"{CLI_BACKUPS}::test_a_part_that_a_backup_made_anew_is_damaged_in_the_store_and_not_missing_in_the_backup",),
    ),
    Removal(
        "B875",
        (
            Edit(
                "src/stratalog/maintenance/mirror.py",
                "        for listed in list_checked(self.source.index, partition, after=after, before=before):\n",
                "        query = self.source.index.query(partition, after=after, before=before)\n"
                "        for listed in (ListedItem(item.sort, item) for item in query):\n",
            ),
        ),
        (f"{DAMAGED_COPY}::test_a_copy_of_a_log_with_a_damaged_entry_has_all_other_entries",),
    ),
    Removal(
        "B875",
        (Edit(COPY, '                self._fail(f"{organisation}/{id}", exc)\n', "                raise\n"),),
        (
            f"{DAMAGED_COPY}::test_a_copy_names_each_item_that_cannot_be_decoded_and_copies_what_the_source_can_read",
            f"{DAMAGED_COPY}::test_a_copy_names_each_item_that_lacks_an_attribute_and_copies_what_the_source_can_read",
        ),
    ),
    Removal(
        "B875",
        (Edit(FAMILY_COPY, "        return log.error is None\n", "        return True\n"),),
        (f"{DAMAGED_COPY}::test_a_log_with_a_damaged_newest_entry_has_no_name_in_the_copy",),
    ),
    Removal(
        "B875",
        (
            Edit(
                FAMILY_COPY,
                "        if record is not None and not record.deleted_ms:\n            for prefix, depth",
                "        if record is None:\n            for prefix, depth",
            ),
        ),
        (f"{DAMAGED_COPY}::test_a_log_whose_family_lost_its_item_is_copied_and_the_item_is_named",),
        raises=("Conflict", "NotFound"),
    ),
    Removal(
        "B875",
        (
            Edit(
                COPY,
                "                if record is None or record.deleted_ms:\n                    self._require_unlisted",
                "                if record is not None and record.deleted_ms:\n"
                "                    self._require_unlisted",
            ),
        ),
        (f"{DAMAGED_COPY}::test_a_listed_log_without_a_name_record_does_not_stop_a_copy",),
        raises=("NotFound",),
    ),
    Removal(
        "B875",
        (Edit(COPY, " or self._position.is_resumed:\n", ":\n"), Edit(FAMILY_COPY, "self._is_resumed\n", "False\n")),
        (f"{DAMAGED_COPY}::test_a_copy_names_each_item_that_cannot_be_decoded_and_copies_what_the_source_can_read",),
    ),
    Removal(
        "B875",
        (
            Edit(
                "src/stratalog/maintenance/mirror.py",
                "        if listed.item is not None and not (is_there",
                "        if listed.item is None:\n            yield Delete(partition, listed.sort)\n"
                "        elif not (is_there",
            ),
        ),
        (f"{DAMAGED_COPY}::test_an_item_that_an_earlier_copy_copied_stays_if_the_source_cannot_decode_it",),
    ),
    Removal(
        "B875",
        (
            Edit(
                FAMILY_COPY,
                "        except Corrupt as exc:\n            self.leave_out(log.organisation, log.name, exc)\n"
                "            return False\n",
                "        except NotFound:\n            return False\n",
            ),
        ),
        (
            "tests/backups/test_backup.py::test_a_restoration_names_the_logs_and_records_whose_items_are_lost_and_restores_the_rest",
        ),
    ),
    Removal(
        "B876",
        (
            Edit(
                "src/stratalog/backups/backup.py",
                "self._catalogue.list_sound(self._index, ORGANISATIONS_PARTITION, is_made_anew=True)",
                "list_items(self._index, ORGANISATIONS_PARTITION)",
            ),
        ),
        ("tests/backups/test_damaged_items.py::test_a_damaged_line_of_an_organisation_is_a_failure_and_made_anew",),
    ),
    Removal(
        "B879",
        (
            Edit(
                "src/stratalog/log/listed_items.py",
                "            if not isinstance(sort, str):\n",
                "            if not isinstance(sort, str) or isinstance(exc, DamagedKey):\n",
            ),
        ),
        (
            "tests/backends/test_sqlite.py::test_a_listing_names_an_item_with_a_damaged_sort_key_and_has_all_others",
            "tests/maintenance/test_damaged_sort_keys.py::test_each_tool_names_the_damaged_key_of_each_item_and_works_on",
        ),
    ),
    Removal(
        "B879",
        (
            Edit(
                "src/stratalog/backends/sqlite_blobs.py",
                "            return text_rows(read, rows_max, prefix, damaged)\n",
                "            raise\n",
            ),
        ),
        ("tests/backends/test_sqlite_blobs.py::test_a_list_has_each_blob_and_names_those_with_a_damaged_key",),
        raises=("Corrupt",),
    ),
    Removal(
        "B879",
        (Edit("src/stratalog/maintenance/mirror.py", "            is_key_damaged = True\n", ""),),
        (
            f"{DAMAGED_KEYS}::test_an_item_that_an_earlier_copy_copied_stays_if_its_key_is_damaged_in_the_source",
            f"{DAMAGED_KEYS}::test_a_mirror_deletes_nothing_beside_a_damaged_key_that_stands_before_all_others",
        ),
    ),
    Removal(
        "B879",
        (
            Edit(
                "src/stratalog/log/directory.py",
                "heapq.merge(*shards, key=lambda listed: listed.bound)",
                "heapq.merge(*shards, key=lambda listed: listed.sort)",
            ),
        ),
        (f"{DAMAGED_KEYS}::test_lines_are_in_the_order_of_ids_beside_a_line_with_a_damaged_key",),
    ),
    Removal(
        "B880",
        (
            Edit(
                "src/stratalog/cli/backups.py",
                "    restorable_log(cut, organisation, log, new_name or log)  #",
                "    require_name(index, organisation, log)  #",
            ),
        ),
        ("tests/cli/test_backups.py::test_a_restore_of_a_log_that_cannot_be_restored_makes_no_store",),
    ),
    Removal(
        "B881",
        (
            Edit(
                "apps/table/src/stratalog_table/commands.py",
                "    if end is not None and first >= end:\n",
                '    if end is not None and first > f"{end}0":\n',
            ),
        ),
        ("apps/table/tests/test_cli.py::test_rows_are_ingested_maintained_and_scanned",),
    ),
    Removal(
        "B882",
        (
            Edit(
                "src/stratalog/folders.py",
                'return {} if owner == user else {"owner": _user_name(owner), "user": _user_name(user)}',
                "return {}",
            ),
        ),
        ("tests/backends/test_moved_files.py::test_an_error_of_permission_names_the_owner_if_this_is_another_user",),
    ),
    Removal(
        "B885",
        (Edit(BACKED_UP_FAMILY, "            raise _Moved((log.prefix, log.head.segment))  #", "            pass  #"),),
        ("tests/backups/test_damaged_items.py::test_a_log_that_lost_the_record_of_its_current_segment_is_a_failure",),
    ),
    Removal(
        "B885",
        (
            Edit(
                FAMILY_COPY,
                "            segments = (*segments, ListedItem(number(current), None))\n",
                "            pass\n",
            ),
        ),
        (
            f"{DAMAGED_COPY}::test_a_log_that_lost_the_record_of_its_current_segment_is_copied_whole_and_the_record_is_named",
        ),
        raises=("Conflict",),
    ),
    Removal(
        "B886",
        (
            Edit(
                "src/stratalog/maintenance/checked_items.py",
                "    for line in map(_checked, list_lines(index, organisation, shelf, after=after)):\n",
                "    for line in list_lines(index, organisation, shelf, after=after):\n"
                "        if line.fault:\n            raise Corrupt(line.fault)\n",
            ),
        ),
        (f"{DAMAGED_LISTS}::test_a_list_names_a_damaged_line_of_the_directory",),
    ),
    Removal(
        "B886",
        (
            Edit(
                "src/stratalog/cli/stores.py",
                '            fail(f"{organisation}/{name}", exc)\n',
                "            raise\n",
            ),
            Edit("src/stratalog/cli/records.py", "            fail(name, exc)\n", "            raise\n"),
        ),
        (f"{DAMAGED_LISTS}::test_a_list_names_a_damaged_log_or_record",),
    ),
    Removal(
        "B886",
        (
            Edit(
                "src/stratalog/cli/session.py",
                "            if rows:\n                print_table([*head, *rows], right=right)\n            raise\n",
                "            raise\n",
            ),
        ),
        (f"{DAMAGED_LISTS}::test_a_list_of_versions_has_the_rows_before_a_damaged_version",),
    ),
    Removal(
        "B1016",
        (Edit(FAMILY_COPY, "        references.end()\n", ""), Edit(COPY, "            references.end()\n", "")),
        (f"{DAMAGED_COPY}::test_each_copy_names_an_item_whose_blob_is_lost",),
    ),
    Removal(
        "B1016",
        (
            Edit(
                "src/stratalog/maintenance/copied_references.py",
                "            if segment is None or segment.is_forgotten:\n",
                "            if False:\n",
            ),
        ),
        (f"{DAMAGED_COPY}::test_a_copy_does_not_name_forgotten_entries_whose_blobs_were_collected",),
    ),
    Removal(
        "B1017",
        (
            Edit(
                "docs/guides/verify.md",
                "IN\n    (SELECT id FROM blobs WHERE",
                "IN\n    (SELECT id FROM blobs WHERE 0 AND",
            ),
        ),
        (f"{BLOB_KEYS}::test_the_statements_of_the_guide_delete_each_row_with_a_damaged_key",),
    ),
    Removal(
        "B1018",
        (Edit("src/stratalog/server/row_pages.py", "            self.more += 1\n", "            pass\n"),),
        ("tests/test_damaged_lists.py::test_a_page_without_readable_lines_names_some_lines_and_counts_the_others",),
    ),
    Removal(
        "B1050",
        (
            Edit(
                "src/stratalog/maintenance/copy_check.py",
                "    except NotFound as exc:\n",
                "    except TypeError as exc:\n",
            ),
        ),
        (f"{COPYING}::test_a_log_deleted_while_the_stores_are_compared_ends_the_copy_with_a_conflict",),
    ),
    Removal(
        "B1069",
        (Edit(PRUNE, "    needed.add(keys[-retain:])\n", ""),),
        (f"{BACKUPS}::test_a_prune_that_would_leave_a_damaged_backup_removes_nothing",),
    ),
    Removal(
        "B1070",
        (
            Edit(
                "src/stratalog/cli/backups.py",
                "            if chosen is not None and manifest.started_ms > chosen.started_ms:\n",
                "            if False:\n",
            ),
        ),
        (f"{CLI_BACKUPS}::{WRONG_CLOCK}",),
    ),
    Removal(
        "B1071",
        (Edit(REPOSITORY, "if stat.key == key or stat.modified_ms < oldest_ms:", "if stat.key:"),),
        (f"{RACES}::test_a_resumed_backup_during_which_another_resumes_and_finishes_is_intact_or_a_conflict",),
    ),
    Removal(
        "B1071",
        (
            Edit(
                "src/stratalog/backups/backup.py",
                "            if self._resumed and self._repository.blobs.stat",
                "            if self._repository.manifests and None and self._repository.blobs.stat",
            ),
        ),
        (f"{RACES}::test_a_resumed_backup_during_which_another_resumes_and_finishes_is_intact_or_a_conflict",),
    ),
    Removal(
        "B1071",
        (Edit(REPOSITORY, "stat.key == key or stat.modified_ms < oldest_ms", "stat.key == key"),),
        (f"{RACES}::test_progress_that_no_backup_has_saved_again_for_a_week_is_dropped_by_the_next_backup",),
    ),
    Removal(
        "B1112",
        (Edit(REPOSITORY, "            self._require_progress(progress)\n", ""),),
        (f"{RACES}::test_a_backup_that_was_suspended_until_its_progress_was_dropped_is_a_conflict",),
    ),
    Removal(
        "B1112",
        (Edit(REPOSITORY, "                self._require_progress(before)\n", "                pass\n"),),
        (f"{RACES}::test_a_backup_that_was_suspended_until_its_progress_was_dropped_is_a_conflict",),
    ),
    Removal(
        "B1113",
        (
            Edit(
                PRUNE,
                '                if not manifest.startswith(f"{UNFINISHED}/"):\n                    raise\n',
                RAISED,
            ),
        ),
        (f"{RACES}::test_damaged_progress_does_not_block_a_prune",),
    ),
    Removal(
        "B1072",
        (Edit(REPOSITORY, "if manifest.base == base else []", ""),),
        (f"{RACES}::test_a_killed_backup_does_not_bring_back_older_versions_than_the_newest_backup_has",),
    ),
    Removal(
        "B1073",
        (
            Edit(
                "src/stratalog/maintenance/copied_references.py",
                "            if not lost:\n                return\n",
                "",
            ),
        ),
        (f"{DAMAGED_COPY}::test_a_copy_that_has_found_the_item_above_a_lost_chunk_reads_no_more_items",),
    ),
    Removal(
        "B1074",
        (
            Edit(
                "src/stratalog/backups/backup.py",
                "            self._check_length(record, read.rows)\n",
                "            pass\n",
            ),
        ),
        (f"{DAMAGED_ITEMS}::{SHORTER}",),
    ),
    Removal(
        "B1074",
        (Edit(BACKED_UP_RECORDS, "if self._catalogue.is_shorter(history_key, line.encode()):", "if False:"),),
        (f"{DAMAGED_ITEMS}::{SHORTER}",),
    ),
    Removal(
        "B1074",
        (
            Edit(
                "src/stratalog/backups/backup.py",
                "if standing is not None and standing.incarnation == record.incarnation:",
                "if standing is not None:",
            ),
        ),
        (f"{DAMAGED_ITEMS}::test_a_log_that_was_restored_at_an_older_version_under_its_name_is_no_failure",),
    ),
)
