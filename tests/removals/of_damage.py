"""Removals of fixes: damaged items that ended a backup, a maintenance pass or a copy."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

OF_HISTORY = "tests/documents/test_history.py::test_a_history_that_meets_the_entry_of_another_version_is_corrupt"
SEGMENTS = "tests/log/test_damaged_segments.py"
BACKUP = "src/stratalog/backups/backup.py"
BACKUP_FAILURES = "src/stratalog/backups/failures.py"
BACKUP_FAMILY = "src/stratalog/backups/family.py"
BACKUP_RECORDS = "src/stratalog/backups/records.py"
BACKED_UP = "tests/backups/test_damaged_items.py"
OF_TWINS = f"{BACKED_UP}::test_a_damaged_dead_letter_of_a_record_is_a_failure_and_is_made_anew_from_its_twin"
BODY_TYPES = "tests/backends/test_sqlite.py::test_a_body_of_another_type_is_damage_of_one_item"
KEY_TYPES = "tests/backends/test_sqlite.py::test_a_sort_key_that_is_not_text_in_utf8_is_corrupt"
GROUP_NAMES = "tests/backends/test_sqlite_queue.py::test_a_group_whose_name_is_not_utf8_is_corrupt"
LOST_BLOBS = "tests/backups/test_lost_blobs.py"
MAINTAINED = "tests/maintenance/test_maintain.py"
SWEPT = f"{MAINTAINED}::test_a_damaged_deletion_or_upload_item_does_not_stop_other_sweeps"
NOTED = "        except Corrupt as exc:\n            damage = damage or exc\n"
RAISED = "        except ZeroDivisionError as exc:\n            damage = damage or exc\n"

FREED = f"{MAINTAINED}::test_a_damaged_snapshot_of_a_log_neither_hides_a_raised_floor_nor_stops_the_freeing_of_segments"
FREED_TOO = f"{MAINTAINED}::test_a_segment_that_cannot_be_archived_does_not_stop_the_freeing_of_forgotten_segments"

BLOB_KEYS = "tests/maintenance/test_damaged_blob_keys.py"
CLI_LISTS = "tests/cli/test_damaged_lists.py"
LISTS = "tests/test_damaged_lists.py"
SQLITE_BLOBS = "tests/backends/test_sqlite_blobs.py"
POSITIONS = "tests/maintenance/test_damaged_positions.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B468",
        (
            Edit(
                BACKUP,
                "            except Corrupt as exc:\n                damaged[",
                "            except ZeroDivisionError as exc:\n                damaged[",
            ),
        ),
        (f"{BACKED_UP}::test_a_damaged_name_record_is_a_failure_and_the_rest_is_backed_up",),
    ),
    Removal(
        "B468",
        (
            Edit(
                BACKUP,
                "            deleted += self._retain_log(organisation, name, error, retained)\n",
                "            pass\n",
            ),
        ),
        (
            f"{BACKED_UP}::test_a_damaged_name_record_is_a_failure_and_the_rest_is_backed_up",
            f"{BACKED_UP}::test_a_log_with_a_damaged_name_record_stays_in_the_next_backup_with_its_fork",
        ),
    ),
    Removal(
        "B468",
        (
            Edit(
                "src/stratalog/log/listed_items.py",
                "            if not isinstance(sort, str):\n                raise\n",
                "            raise\n",
            ),
        ),
        (f"{BACKED_UP}::test_an_undecodable_directory_line_is_a_failure_and_the_backup_rebuilds_the_line",),
    ),
    Removal(
        "B468",
        (
            Edit(
                "src/stratalog/maintenance/checked_items.py",
                "    return ListedItem(listed.sort, None, fault) if fault else listed\n",
                "    return ListedItem(listed.sort, listed.item, fault) if fault else listed\n",
            ),
        ),
        (
            f"{BACKED_UP}::test_a_damaged_directory_line_is_a_failure_and_the_backup_rebuilds_the_line",
            f"{BACKED_UP}::test_a_damaged_dead_letter_of_a_record_is_a_failure_and_is_made_anew_from_its_twin",
        ),
    ),
    Removal(
        "B468",
        (
            Edit(
                "src/stratalog/backups/records.py",
                'required(versions.last, "ch")',
                'bytes(versions.last.attributes["ch"])',
            ),
            Edit("src/stratalog/backups/family.py", 'if required(item, "m")', 'if item.attributes["m"]'),
        ),
        (f"{BACKED_UP}::test_a_damaged_version_or_segment_is_a_failure_and_the_rest_is_backed_up",),
    ),
    Removal(
        "B469",
        (
            Edit(
                "src/stratalog/maintenance/store_pass.py",
                "logs = list_ids(self._index, organisation, directory.LOGS, after=here.id, damaged=damaged)",
                "logs = (line.id for line in self._store.list(organisation, after=here.id))",
            ),
        ),
        (f"{MAINTAINED}::test_a_damaged_directory_line_stops_no_maintenance",),
    ),
    Removal("B469", (Edit("src/stratalog/log/sweep.py", NOTED, RAISED),), (SWEPT,)),
    Removal("B469", (Edit("src/stratalog/records/uploads.py", NOTED, RAISED),), (SWEPT,)),
    Removal(
        "B470",
        (
            Edit(
                "src/stratalog/ports/index.py",
                '    except KeyError as exc:\n        raise Corrupt("an item lacks',
                '    except ZeroDivisionError as exc:\n        raise Corrupt("an item lacks',
            ),
        ),
        (f"{BACKED_UP}::test_a_damaged_version_or_segment_is_a_failure_and_the_rest_is_backed_up",),
    ),
    Removal(
        "B497",
        (
            Edit(
                "src/stratalog/backups/records.py",
                "        return standing or directory_put(",
                "        versions = record_partition(self._organisation, record_key(id))\n"
                "        created_ms = int(next(self._index.query(versions, after=BEFORE_VERSIONS)).attributes['c'])\n"
                "        return standing or directory_put(",
            ),
        ),
        (
            "tests/backups/test_damaged_items.py::test_a_record_that_is_lost_after_its_read_is_backed_up_with_a_new_line",
        ),
        raises=("RuntimeError",),
    ),
    Removal(
        "B498",
        (Edit("src/stratalog/log/sweep.py", "            report(1)\n", ""),),
        (SWEPT,),
    ),
    Removal(
        "B498",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py",
                "    if bound and not stop():\n        report",
                '    if bound and not stop():\n        del done["floors"]\n        report',
            ),
        ),
        ("tests/maintenance/test_maintain.py::test_the_report_counts_the_steps_that_a_log_completed_before_a_failure",),
    ),
    Removal(
        "B499",
        (
            Edit(
                "src/stratalog/cli/maintenance.py",
                "        except Corrupt as exc:\n",
                "        except ZeroDivisionError as exc:\n",
            ),
        ),
        ("tests/cli/test_commands.py::test_a_sweep_continues_after_damage_and_counts_what_it_freed",),
    ),
    Removal(
        "B748",
        (Edit("src/stratalog/backups/gaps.py", "if (key, version) in self._earlier:", "if False:"),),
        (f"{BACKED_UP}::test_a_missing_entry_or_version_is_damage_and_no_conflict",),
    ),
    Removal(
        "B749",
        (
            Edit(
                BACKUP,
                'raise Corrupt("a listed log has no live name record", organisation=organisation, log=name)',
                "return None",
            ),
        ),
        (f"{BACKED_UP}::test_a_log_without_its_name_record_is_a_failure_and_stays_in_the_next_backup",),
    ),
    Removal(
        "B749",
        (
            Edit(
                BACKUP,
                "if owner not in retained:",
                "if True:",
            ),
        ),
        (f"{BACKED_UP}::test_a_log_without_its_name_record_is_a_failure_and_stays_in_the_next_backup",),
    ),
    Removal(
        "B750",
        (
            Edit(
                BACKUP_FAMILY,
                "if record.prefix not in logs and self._is_alive(record):",
                "if False:",
            ),
        ),
        (f"{BACKED_UP}::test_a_log_whose_family_item_is_missing_is_a_failure_and_is_backed_up",),
    ),
    Removal(
        "B751",
        (
            Edit(
                BACKUP_FAMILY,
                "if last is not None and parse_number(item.sort) > last + 1:",
                "if False:",
            ),
        ),
        (f"{BACKED_UP}::test_a_log_without_a_segment_record_is_a_failure_and_stays_in_the_next_backup",),
    ),
    Removal(
        "B751",
        (
            Edit(
                BACKUP_FAMILY,
                "return later is not None and later.sort == following.sort",
                "return later is not None",
            ),
        ),
        (f"{BACKED_UP}::test_a_log_without_a_segment_record_is_a_failure_and_stays_in_the_next_backup",),
    ),
    Removal(
        "B752",
        (
            Edit(
                BACKUP,
                "if item.sort not in organisations and self._has_content(item.sort):",
                "if False:",
            ),
        ),
        (f"{BACKED_UP}::test_a_lost_line_of_a_list_is_a_failure_of_the_next_backup_which_restores_the_line",),
    ),
    Removal(
        "B752",
        (
            Edit(
                BACKUP,
                "{line.sort for line in self._catalogue.base.query(partition)} - names",
                "set[str]()",
            ),
        ),
        (f"{BACKED_UP}::test_a_lost_line_of_a_list_is_a_failure_of_the_next_backup_which_restores_the_line",),
    ),
    Removal(
        "B752",
        (
            Edit(
                BACKUP_RECORDS,
                "ListedItem(line.sort, None)) for line in self._catalogue.base.query(partition))",
                "ListedItem(line.sort, None)) for line in ())",
            ),
        ),
        (f"{BACKED_UP}::test_a_lost_line_of_a_list_is_a_failure_of_the_next_backup_which_restores_the_line",),
    ),
    Removal(
        "B752",
        (
            Edit(
                BACKUP,
                "if item.sort not in organisations and self._has_content(item.sort):",
                "if item.sort not in organisations:",
            ),
        ),
        (f"{BACKED_UP}::test_a_line_that_only_an_earlier_backup_has_is_no_failure_if_its_content_is_gone",),
    ),
    Removal(
        "B752",
        (
            Edit(
                BACKUP_RECORDS,
                "next(items, None) is None or self._index.get(partition, id) is not None",
                "self._index.get(partition, id) is not None",
            ),
        ),
        (f"{BACKED_UP}::test_a_line_that_only_an_earlier_backup_has_is_no_failure_if_its_content_is_gone",),
    ),
    Removal(
        "B718",
        (Edit(BACKUP, "            if key not in self._current:\n", "            if True:\n"),),
        (
            "tests/backups/test_restored_log.py::test_a_name_in_a_backup_belongs_to_the_log_deleted_meanwhile_and_not_to_a_former_log",
        ),
    ),
    Removal(
        "B753",
        (Edit("src/stratalog/documents/snapshots.py", "if floor == before:", "if False:"),),
        ("tests/documents/test_state_cache.py::test_a_lost_base_is_reported_as_damage_and_not_as_forgotten_history",),
    ),
    Removal(
        "B754",
        (
            Edit(
                "src/stratalog/records/store.py",
                "                check_superseded(self.environment, self._name(id), version_record.version)\n",
                "",
            ),
        ),
        ("tests/records/test_lost_bodies.py::test_a_record_whose_latest_item_is_a_forgotten_version_is_damaged",),
    ),
    Removal(
        "B754",
        (
            Edit(
                "src/stratalog/records/decisions.py",
                "        check_superseded(call.environment, call.name, parse_number(item.sort))\n",
                "",
            ),
        ),
        ("tests/records/test_lost_bodies.py::test_a_record_whose_latest_item_is_a_forgotten_version_is_damaged",),
    ),
    Removal(
        "B755",
        (
            Edit(
                BACKUP_RECORDS,
                "self._with_lost(owner, blobs, versions.bodies, self._failures.bodies(key))",
                "blobs",
            ),
        ),
        (f"{BACKED_UP}::test_a_lost_body_of_a_record_is_a_failure_and_stays_in_later_backups",),
    ),
    Removal(
        "B755",
        (
            Edit(
                BACKUP_RECORDS,
                "return self._catalogue.with_base(owner, blobs, lost if are_known else None)",
                "return blobs",
            ),
        ),
        (f"{BACKED_UP}::test_a_lost_body_of_a_record_is_a_failure_and_stays_in_later_backups",),
    ),
    Removal(
        "B756",
        (
            Edit(
                BACKUP_FAMILY,
                "first, segment = parse_number(item.sort), segment_from_item(item)",
                "first, segment = parse_number(item.sort), Segment(first=parse_number(item.sort), created_ms=0)",
            ),
        ),
        (f"{BACKED_UP}::test_a_damaged_segment_record_does_not_replace_the_record_in_the_previous_backup",),
    ),
    Removal(
        "B757",
        (
            Edit(
                "src/stratalog/documents/snapshots.py",
                "            if at < floor:\n                raise\n",
                "            raise\n",
            ),
        ),
        ("tests/documents/test_state_cache.py::test_a_floor_that_rises_while_a_state_is_loaded_is_read_again",),
    ),
    Removal(
        "B760",
        (Edit(BACKUP_FAMILY, "search.run(read.rows, read.retained)", "blobs"),),
        (
            f"{LOST_BLOBS}::test_a_lost_blob_of_a_log_is_a_failure_and_stays_in_later_backups",
            f"{LOST_BLOBS}::test_the_first_backup_names_each_lost_blob_of_a_log",
        ),
    ),
    Removal(
        "B760",
        (
            Edit(
                "src/stratalog/backups/references.py",
                "return self._catalogue.with_base(self._owner, self._listed, self._lost if self._are_known else None)",
                "return self._listed",
            ),
        ),
        (f"{LOST_BLOBS}::test_a_lost_blob_of_a_log_is_a_failure_and_stays_in_later_backups",),
    ),
    Removal(
        "B760",
        (
            Edit(
                "src/stratalog/backups/references.py",
                "            self._seen |= self._base_chunks()\n",
                "            pass\n",
            ),
        ),
        (f"{LOST_BLOBS}::test_the_search_for_lost_blobs_reads_no_blob_that_the_previous_backup_has",),
    ),
    Removal(
        "B761",
        (Edit(BACKUP, "for made in (newest, begun) if made", "for made in (begun,) if made"),),
        (f"{LOST_BLOBS}::test_a_backup_that_resumes_names_the_lost_blobs_that_the_previous_backup_named",),
    ),
    Removal(
        "B762",
        (Edit(BACKUP_FAILURES, "            self._note_lost_bodies(key, pair)\n", ""),),
        (f"{LOST_BLOBS}::test_a_lost_body_of_a_record_s_failure_is_a_failure_and_stays_in_later_backups",),
    ),
    Removal(
        "B762",
        (Edit(BACKUP_RECORDS, "        lost |= more\n", ""),),
        (f"{LOST_BLOBS}::test_a_lost_body_of_a_record_s_failure_is_a_failure_and_stays_in_later_backups",),
    ),
    Removal(
        "B763",
        (
            Edit(
                BACKUP_FAILURES,
                "            return [self._lost(self._failures_partition, key, letter), letter]\n",
                "            return []\n",
            ),
        ),
        (OF_TWINS,),
    ),
    Removal(
        "B763",
        (Edit(BACKUP_FAILURES, "letter = self._lost_letter(key, failure)", "letter = None"),),
        (OF_TWINS,),
    ),
    Removal(
        "B764",
        (
            Edit(
                BACKUP_RECORDS,
                "                complete |= in_base\n                continue\n",
                "                pass\n",
            ),
        ),
        (f"{BACKED_UP}::test_a_version_that_lost_an_attribute_is_a_failure_and_stays_as_in_the_previous_backup",),
    ),
    Removal(
        "B764",
        (Edit(BACKUP_RECORDS, " | versions.faults).items()", ").items()"),),
        (f"{BACKED_UP}::test_the_first_backup_names_a_version_that_lost_an_attribute",),
    ),
    Removal(
        "B764",
        (
            Edit(
                BACKUP_RECORDS,
                "item.attributes.items() < known.attributes.items()",
                "item != known and item.sort not in self._catalogue.failures",
            ),
        ),
        (f"{BACKED_UP}::test_a_redaction_after_the_previous_backup_is_no_failure",),
    ),
    Removal(
        "B765",
        (
            Edit(
                "src/stratalog/maintenance/copy_check.py",
                "            content = _content_of(ours, version)\n        except Corrupt as exc:\n",
                "            content = _content_of(ours, version)\n        except ZeroDivisionError as exc:\n",
            ),
        ),
        (
            f"{LOST_BLOBS}::test_a_restoration_names_lost_blobs_and_restores_the_rest",
            f"{LOST_BLOBS}::test_a_copy_names_lost_blobs_and_copies_the_rest",
            "tests/cli/test_backups.py::test_a_lost_entry_body_is_named_by_each_command_that_copies_it",
        ),
    ),
    Removal(
        "B765",
        (
            Edit(
                "src/stratalog/maintenance/mirror.py",
                "            self._fail(source_key, exc)\n",
                "            raise exc\n",
            ),
        ),
        (f"{LOST_BLOBS}::test_a_restoration_names_lost_copies_and_restores_the_rest",),
    ),
    Removal(
        "B765",
        (Edit("src/stratalog/backups/restore.py", "    if report.failures:\n        require_backup()\n", ""),),
        (f"{LOST_BLOBS}::test_a_restoration_whose_backup_is_pruned_meanwhile_stays_unfinished",),
    ),
    Removal(
        "B766",
        (
            Edit(
                "src/stratalog/cli/backups.py",
                "failures_of_log(cut.environment, require_name(index, organisation, log), _not_held(manifest, source))",
                "list[BackupFailure]()",
            ),
        ),
        ("tests/cli/test_backups.py::test_a_lost_entry_body_is_named_by_each_command_that_copies_it",),
    ),
    Removal(
        "B766",
        (Edit("src/stratalog/cli/backups.py", "[*done.failures, *_not_held(manifest, source)]", "[*done.failures]"),),
        ("tests/cli/test_backups.py::test_a_lost_entry_body_is_named_by_each_command_that_copies_it",),
    ),
    Removal(
        "B850",
        (
            Edit(
                "src/stratalog/backends/item_rows.py",
                "UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError)",
                "UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
            ),
        ),
        (BODY_TYPES,),
    ),
    Removal(
        "B850",
        (Edit("src/stratalog/backends/sqlite.py", 'typeof(sort), {BODY_OR_TYPE}"', 'typeof(sort), body"'),),
        (BODY_TYPES,),
    ),
    Removal(
        "B850",
        (Edit("src/stratalog/backends/sqlite.py", 'GET.replace("body", BODY_OR_TYPE)', "GET"),),
        (BODY_TYPES,),
    ),
    Removal(
        "B850",
        (
            Edit(
                "src/stratalog/backends/sqlite.py",
                "    except UnicodeDecodeError:\n        rows = connection",
                "    except ZeroDivisionError:\n        rows = connection",
            ),
        ),
        (BODY_TYPES,),
    ),
    Removal(
        "B850",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "            return exc\n        except UnicodeDecodeError as exc:",
                "            return exc\n        except ZeroDivisionError as exc:",
            ),
        ),
        (GROUP_NAMES,),
    ),
    Removal(
        "B850",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "            raise translated_error(exc) from exc\n        except UnicodeDecodeError as exc:",
                "            raise translated_error(exc) from exc\n        except ZeroDivisionError as exc:",
            ),
        ),
        (KEY_TYPES,),
    ),
    Removal(
        "B850",
        (Edit("src/stratalog/backends/item_rows.py", "        if type(sort) is not str:\n", "        if False:\n"),),
        (KEY_TYPES,),
    ),
    Removal(
        "B850",
        (
            Edit(
                "src/stratalog/backends/sqlite_blobs.py",
                "BODY_BYTES = \"CASE typeof(body) WHEN 'blob' THEN body END\"",
                'BODY_BYTES = "body"',
            ),
        ),
        ("tests/backends/test_sqlite_blobs.py::test_putting_over_a_damaged_row_restores_it",),
    ),
    Removal(
        "B905",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py",
                "    with _continue_after(damages):\n        floor = floor_bound(",
                "    if True:\n        floor = floor_bound(",
            ),
        ),
        (FREED,),
    ),
    Removal(
        "B905",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py",
                "+= log.floor() > before",
                "+= 0",
            ),
        ),
        (FREED,),
    ),
    Removal(
        "B905",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py",
                "            with _continue_after(damages):\n                archive_segments(",
                "            if True:\n                archive_segments(",
            ),
        ),
        (FREED_TOO,),
    ),
    Removal(
        "B905",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py",
                "    before = 0 if dry_run else log.floor()\n",
                "    before = log.record.floor\n",
            ),
        ),
        ("tests/maintenance/test_maintain.py::test_a_floor_of_a_fork_that_rose_only_with_its_ancestor_is_not_counted",),
    ),
    Removal(
        "B866",
        (
            Edit(
                "src/stratalog/log/sweep.py",
                'read_attributes(listed.item, StoredDeletion, "a deleted log")',
                "StoredDeletion(**listed.item.attributes)",
            ),
        ),
        (SWEPT,),
    ),
    Removal(
        "B866",
        (
            Edit(
                "src/stratalog/records/uploads.py",
                'read_attributes(pin, StoredUpload, "an upload").c',
                'int(pin.attributes["c"])',
            ),
        ),
        (SWEPT,),
    ),
    Removal(
        "B932",
        (
            Edit(
                "src/stratalog/ports/blobs.py",
                "        except Invalid:\n            damaged(stat.key)\n        else:\n            yield stat\n",
                "        except Invalid:\n            damaged(stat.key)\n        yield stat\n",
            ),
        ),
        (
            f"{BLOB_KEYS}::test_a_copy_names_each_damaged_key_of_a_blob_and_has_everything_else",
            f"{BLOB_KEYS}::test_a_backup_names_each_blob_that_a_damaged_key_hides_and_has_everything_else",
            f"{BLOB_KEYS}::test_the_scrub_names_each_damaged_key_and_reads_all_other_blobs",
            f"{BLOB_KEYS}::test_a_collection_frees_the_garbage_beside_a_damaged_key",
        ),
        raises=("Invalid",),
    ),
    Removal(
        "B933",
        (
            Edit(
                "src/stratalog/maintenance/mirror.py", ".blobs.list(prefix, damaged=damaged)\n", ".blobs.list(prefix)\n"
            ),
        ),
        (f"{BLOB_KEYS}::test_a_copy_names_each_damaged_key_of_a_blob_and_has_everything_else",),
    ),
    Removal(
        "B933",
        (
            Edit(
                "src/stratalog/backends/sqlite_blobs.py",
                "            for (key,) in",
                "            for (key,) in () and",
            ),
        ),
        (f"{SQLITE_BLOBS}::test_a_list_of_a_folder_names_the_keys_of_the_folder_that_are_bytes_and_no_others",),
    ),
    Removal(
        "B933",
        (
            Edit(
                "src/stratalog/backends/row_blobs.py",
                "                    damaged(readable_key(key))\n",
                "                    pass\n",
            ),
        ),
        (f"{SQLITE_BLOBS}::test_a_list_has_each_blob_and_names_those_with_a_damaged_key",),
    ),
    Removal(
        "B934",
        (
            Edit(
                "src/stratalog/backends/files.py",
                '                damaged(readable_key(key.encode(errors="surrogateescape")))\n'
                "                continue\n",
                "                pass\n",
            ),
        ),
        (
            "tests/backends/test_files.py::test_a_list_names_a_folder_whose_name_is_not_utf8_and_has_the_blobs_of_others",
        ),
    ),
    Removal(
        "B934",
        (Edit("src/stratalog/backends/postgres.py", "[text_of(sort) for", "[sort.decode() for"),),
        (
            "tests/postgres/test_store.py::test_a_listing_names_an_item_or_blob_whose_key_is_not_utf8_and_has_all_others",
        ),
        raises=("UnicodeDecodeError",),
    ),
    Removal(
        "B935",
        (Edit("src/stratalog/log/listed_items.py", "            damaged(exc)\n", "            raise\n"),),
        (
            f"{LISTS}::test_a_list_of_documents_goes_on_after_a_damaged_line_and_names_it",
            f"{LISTS}::test_a_list_of_records_goes_on_after_a_damaged_line_and_names_it",
            f"{LISTS}::test_a_record_whose_damaged_line_is_the_prefix_itself_is_named",
            f"{LISTS}::test_a_list_of_dead_letters_goes_on_after_a_damaged_one_and_names_it",
            f"{LISTS}::test_a_list_of_holders_of_a_name_goes_on_after_a_damaged_line_and_names_it",
            f"{LISTS}::test_a_list_over_http_goes_on_after_a_damaged_line_and_names_it",
            f"{LISTS}::test_a_list_of_holders_over_http_with_a_damaged_line_is_not_complete",
        ),
        raises=("Corrupt",),
    ),
    Removal(
        "B935",
        (
            Edit(
                "src/stratalog/worker/dead_letters.py",
                "            raise Corrupt(listed.fault)\n        rejection",
                "            raise AssertionError(listed.fault)\n        rejection",
            ),
        ),
        (f"{LISTS}::test_a_damaged_dead_letter_of_a_mutation_is_listed_with_its_damage_and_the_others_are_redriven",),
    ),
    Removal(
        "B936",
        (
            Edit(
                "src/stratalog/log/listed_items.py",
                "            damaged(Corrupt(listed.fault, **details, sort=listed.sort))\n",
                "            continue\n",
            ),
        ),
        (
            f"{LISTS}::test_an_organisation_whose_key_is_damaged_is_named_by_the_list_and_by_maintenance",
            f"{LISTS}::test_maintenance_names_a_directory_line_whose_key_is_damaged",
            f"{CLI_LISTS}::test_a_command_for_the_whole_store_names_a_damaged_key_of_its_lists",
        ),
    ),
    Removal(
        "B937",
        (
            Edit(
                "src/stratalog/log/pins.py",
                "keys_of(list_items(index, partition), raise_damage, partition=partition)",
                "keys_of(list_items(index, partition), lambda error: None, partition=partition)",
            ),
        ),
        (f"{MAINTAINED}::test_a_floor_does_not_rise_while_the_key_of_a_fork_s_pin_is_damaged",),
    ),
    Removal(
        "B938",
        (
            Edit(
                "src/stratalog/maintenance/store_pass.py",
                "        finally:  # damage of a kept version does not stop the freeing of forgotten versions\n",
                "        except ValueError:\n            pass\n        else:\n",
            ),
        ),
        (f"{MAINTAINED}::test_damage_of_the_latest_body_of_a_record_does_not_stop_the_freeing_of_forgotten_versions",),
    ),
    Removal(
        "B939",
        (
            Edit(
                "src/stratalog/log/retention.py",
                "for listed in list_items(index, partition) if listed.position is None)",
                "for listed in list_items(index, partition) if listed.item is not None)",
            ),
        ),
        (f"{MAINTAINED}::test_damaged_items_below_a_floor_are_freed_with_the_others",),
        raises=("Corrupt",),
    ),
    Removal(
        "B940",
        (Edit("src/stratalog/server/logs.py", "    if manifest_in(stored.body) is not None:\n", "    if False:\n"),),
        ("tests/server/test_api_logs.py::test_a_snapshot_in_parts_is_refused_and_one_saved_over_http_is_returned",),
    ),
    Removal(
        "B941",
        (Edit("src/stratalog/server/logs.py", "    if manifest_in(body) is not None:\n", "    if False:\n"),),
        ("tests/server/test_api_logs.py::test_a_snapshot_with_the_form_of_a_list_of_parts_is_refused",),
    ),
    Removal(
        "B942",
        (
            Edit(
                "src/stratalog/maintenance/store_pass.py",
                "get_listed(self._index, MAINTENANCE_PARTITION, POSITION_SORT).item",
                "self._index.get(MAINTENANCE_PARTITION, POSITION_SORT)",
            ),
        ),
        (f"{POSITIONS}::test_maintenance_and_measurement_replace_a_position_that_cannot_be_decoded",),
        raises=("Corrupt",),
    ),
    Removal(
        "B942",
        (
            Edit(
                "src/stratalog/maintenance/copy_position.py",
                "        with suppress(Corrupt):  # a damaged position: compare all objects\n",
                "        if True:\n",
            ),
        ),
        (f"{POSITIONS}::test_a_copy_whose_position_is_damaged_starts_again",),
        raises=("Corrupt",),
    ),
    Removal(
        "B943",
        (
            Edit(
                "src/stratalog/maintenance/usage.py",
                "self._index = RecordingIndex(environment.index, DamageList())",
                "self._index = environment.index",
            ),
        ),
        (f"{POSITIONS}::test_a_measurement_counts_everything_but_a_damaged_item",),
        raises=("Corrupt",),
    ),
    Removal(
        "B992",
        (
            Edit(
                "src/stratalog/maintenance/log_pass.py",
                "    with _continue_after(damages):\n        floor = floor_bound(log, segments, retention, document)\n",
                "    floor = floor_bound(log, segments, retention, document)\n    with _continue_after(damages):\n",
            ),
        ),
        ("tests/maintenance/test_maintain.py::test_damage_of_a_pin_stops_neither_archiving_nor_freeing",),
    ),
    Removal(
        "B996",
        (
            Edit(
                "src/stratalog/cli/usage.py",
                "every_organisation(store, damaged)\n",
                "every_organisation(store, [])\n",
            ),
        ),
        (f"{CLI_LISTS}::test_a_command_for_the_whole_store_names_a_damaged_key_of_its_lists[organisation]",),
    ),
    Removal(
        "B1098",
        (
            Edit(
                "src/stratalog/documents/history.py",
                "change is None or abs(change.before) >= version or any",
                "change is None or any",
            ),
        ),
        (f"{OF_HISTORY}[3-6]",),
    ),
    Removal(
        "B1098",
        (
            Edit(
                "src/stratalog/documents/history.py",
                "next((change for change in commit.patch if change.key == key), None)",
                "next(change for change in commit.patch if change.key == key)",
            ),
        ),
        (f"{OF_HISTORY}[6-2]",),
    ),
    Removal(
        "B1099",
        (Edit("src/stratalog/log/plan.py", "and not _can_begin(name, head)", "and not name.kind"),),
        (
            f"{SEGMENTS}::test_no_append_uses_an_empty_segment_that_a_damaged_name_record_names",
            f"{SEGMENTS}::test_the_first_append_of_a_log_with_a_damaged_incarnation_is_refused",
            f"{SEGMENTS}::test_no_append_uses_the_freed_first_segment_that_a_damaged_name_record_names",
        ),
    ),
)
