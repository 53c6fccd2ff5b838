"""Removals of fixes: names, addresses, times and files that a user gives, and backups of what was pruned."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

BACKUP_VIEW = "tests/backups/test_backup_view.py"
BACKED_UP_RECORDS = "src/stratalog/backups/records.py"
MAINTAIN = "tests/maintenance/test_maintain.py"
CONTRACT = "src/stratalog/testing/index_contract.py"
FOLDERS = "src/stratalog/folders.py"
FAMILY = "src/stratalog/backups/family.py"
GARBAGE = "tests/backups/test_backup_garbage.py"
POLICY = "src/stratalog/maintenance/policy.py"
PORT = "src/stratalog/ports/index.py"
SETUP = "src/stratalog/backends/dynamodb_setup.py"
HOMES = "src/stratalog/homes.py"
URLS = "tests/test_urls.py"
RENAME = "apps/catalogue/src/stratalog_catalogue/source_rename.py"
RENAMED = "apps/catalogue/tests/test_source_rename.py"
DAMAGED_KEYS = "tests/maintenance/test_damaged_keys.py"
TIMES = "tests/cli/test_times.py"
USER_FILES = "tests/cli/test_user_files.py"
DISTRIBUTIONS = "tests/test_distributions.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B504",
        (Edit(POLICY, 'organisation.replace("%", "%25").replace("/", "%2F")', 'organisation.replace("/", "%2F")'),),
        (f"{MAINTAIN}::test_an_exception_belongs_to_one_organisation_whatever_its_id_contains",),
    ),
    Removal(
        "B504",
        (Edit(POLICY, 'if _UNESCAPED.search(name.partition("/")[0]):', "if False:"),),
        (f"{MAINTAIN}::test_an_exception_with_an_unescaped_percent_sign_in_its_organisation_is_refused",),
    ),
    Removal(
        "B505",
        (Edit(FAMILY, " or log.record.redacted or log.record.floor > 0", " or log.record.redacted"),),
        (f"{GARBAGE}::test_a_backup_after_a_collection_contains_no_forgotten_blob",),
    ),
    Removal(
        "B505",
        (Edit(BACKED_UP_RECORDS, " and not self._lists_garbage(owner, versions.bodies)", ""),),
        (
            f"{GARBAGE}::test_a_backup_after_a_collection_contains_no_forgotten_blob",
            f"{GARBAGE}::test_a_backup_after_a_collection_lacks_the_body_of_a_resolved_failure",
        ),
    ),
    Removal(
        "B505",
        (Edit(BACKED_UP_RECORDS, "if garbage and body.digest is not None:", "if False:"),),
        (f"{GARBAGE}::test_the_blobs_of_an_unchanged_record_without_garbage_are_not_listed_again",),
    ),
    Removal(
        "B505",
        (Edit(BACKED_UP_RECORDS, "            return True  # the copy of", "            raise  # the copy of"),),
        (f"{GARBAGE}::test_lost_copies_of_a_large_body_do_not_end_the_next_backup",),
    ),
    Removal(
        "B506",
        (Edit(PORT, "            _check_attribute(condition.name, condition.value)\n", "            pass\n"),),
        (
            f"{CONTRACT}::test_integers_of_64_bits_read_back_and_larger_ones_are_refused",
            f"{CONTRACT}::test_a_condition_on_a_value_of_another_type_is_refused",
        ),
    ),
    Removal(
        "B506",
        (Edit("src/stratalog/backends/item_rows.py", " or type(condition.value) is not bytes:", ":"),),
        (f"{CONTRACT}::test_integers_of_64_bits_read_back_and_larger_ones_are_refused",),
    ),
    Removal(
        "B506",
        (Edit("src/stratalog/backends/dynamodb.py", "[0-9]{1,20}", "[0-9]{1,19}"),),
        ("tests/cloud/test_dynamodb_answers.py::test_the_largest_integers_of_64_bits_read_back",),
    ),
    Removal(
        "B507",
        (
            Edit(
                SETUP,
                '!= "ResourceNotFoundException":\n            raise\n        return False\n',
                '!= "":\n            raise\n        return False\n',
            ),
        ),
        ("tests/cloud/test_dynamodb_setup.py::test_create_table_waits_for_a_new_table_that_a_read_does_not_find_yet",),
    ),
    Removal(
        "B508",
        (
            Edit(
                "src/stratalog/urls.py",
                "    except ValueError as exc:\n        raise _malformed(shown",
                "    except KeyError as exc:\n        raise _malformed(shown",
            ),
        ),
        (
            f"{URLS}::test_a_malformed_url_of_a_store_is_refused",
            f"{URLS}::test_a_malformed_url_of_blobs_is_refused",
            f"{URLS}::test_a_malformed_url_of_a_server_is_refused",
        ),
    ),
    Removal(
        "B508",
        (Edit("src/stratalog/urls.py", "_malformed(shown or url)", "_malformed(url)"),),
        (f"{URLS}::test_a_password_in_a_malformed_url_is_not_shown",),
    ),
    Removal(
        "B508",
        (Edit(HOMES, "    with file_errors():\n        return path.exists()\n", "    return path.exists()\n"),),
        (f"{URLS}::test_a_path_that_is_too_long_is_unavailable",),
    ),
    Removal(
        "B508",
        (
            Edit(
                "apps/table/src/stratalog_table/locations.py",
                "    except ValueError as exc:\n",
                "    except KeyError as exc:\n",
            ),
        ),
        ("apps/table/tests/test_table_creation.py::test_a_malformed_url_of_data_files_is_refused",),
    ),
    Removal(
        "B509",
        (
            Edit(RENAME, "    if records.failure(letter.id) is None:\n", "    if False:\n"),
            Edit(
                RENAME,
                "        with suppress(NotFound):  # another process",
                "        with suppress():  # another process",
            ),
        ),
        (f"{RENAMED}::test_letters_dismissed_during_a_rename_neither_fail_the_rename_nor_reappear",),
    ),
    Removal(
        "B509",
        (
            Edit(
                RENAME,
                "    fail(records, target_id, letter.reason, failure, body)\n    resolve(records, letter.id)\n",
                "    fail(records, target_id, letter.reason, failure, body)\n"
                "    records.resolve_dead_letter(letter.id)\n",
            ),
        ),
        (f"{RENAMED}::test_a_letter_that_is_dismissed_after_its_copy_counts_as_moved",),
    ),
    Removal(
        "B510",
        (
            Edit(
                "src/stratalog/keys.py",
                "if is_decimal(text) and (value := int(text)) < VERSION_MAX:",
                "if value := int(text):",
            ),
        ),
        (
            f"{DAMAGED_KEYS}::test_an_invalid_or_maximum_stored_number_raises_corrupt",
            f"{DAMAGED_KEYS}::test_an_item_with_an_impossible_key_ends_no_backup",
        ),
    ),
    Removal(
        "B510",
        (
            Edit(
                "src/stratalog/maintenance/shapes.py",
                "if kind in NUMBERED and not _is_version(item.sort):",
                "if False:",
            ),
        ),
        (f"{DAMAGED_KEYS}::test_an_item_with_an_impossible_key_is_damage_and_ends_no_verification",),
    ),
    Removal(
        "B510",
        (
            Edit(
                "src/stratalog/maintenance/shapes.py",
                "if kind in OF_PREFIXES and not PREFIX",
                "if False and not PREFIX",
            ),
        ),
        (f"{DAMAGED_KEYS}::test_an_item_with_an_impossible_key_is_damage_and_ends_no_verification",),
    ),
    Removal(
        "B510",
        (Edit("src/stratalog/keys.py", "    if not (organisation and name):\n", "    if False:\n"),),
        (f"{DAMAGED_KEYS}::test_an_item_with_an_impossible_key_ends_no_backup",),
    ),
    Removal(
        "B510",
        (
            Edit(
                "src/stratalog/maintenance/verification.py",
                "    except DAMAGE_ERRORS as exc:\n        if isinstance(exc, NotFound)",
                "    except LookupError as exc:\n        if isinstance(exc, NotFound)",
            ),
        ),
        (f"{DAMAGED_KEYS}::test_an_item_with_an_impossible_key_is_damage_and_ends_no_verification",),
    ),
    Removal(
        "B511",
        (
            Edit(
                "src/stratalog/cli/naming.py",
                "(moment if moment.tzinfo else moment.astimezone()) - EPOCH",
                "moment.astimezone(UTC) - EPOCH",
            ),
            Edit("src/stratalog/cli/naming.py", "(ValueError, OverflowError)", "ValueError"),
        ),
        (f"{TIMES}::test_a_time_is_read_even_if_its_year_in_utc_is_0_or_10000",),
    ),
    Removal(
        "B511",
        (Edit("src/stratalog/cli/output.py", "except (ValueError, OverflowError):", "except KeyError:"),),
        (f"{TIMES}::test_a_time_outside_the_calendar_is_shown_in_milliseconds",),
    ),
    Removal(
        "B512",
        (
            Edit(
                "src/stratalog/cli/files.py",
                "        with _named(self._path):\n            return super().write(data)\n",
                "        return super().write(data)\n",
            ),
        ),
        (f"{USER_FILES}::test_a_write_that_fails_names_the_file",),
    ),
    Removal(
        "B512",
        (
            Edit(
                "src/stratalog/cli/files.py",
                "            with _named(path):\n                sync_descriptor(made)\n",
                "            sync_descriptor(made)\n",
            ),
        ),
        (f"{USER_FILES}::test_a_sync_that_fails_names_the_file",),
    ),
    Removal(
        "B513",
        (
            Edit(
                "src/stratalog/backends/sqlite_blobs.py",
                "            connection.execute(RESIZE, (stored_bytes, key))\n",
                "",
            ),
        ),
        ("tests/backends/test_sqlite_blobs.py::test_a_restored_blob_has_the_size_of_its_new_body",),
    ),
    Removal(
        "B514",
        (
            Edit(
                "src/stratalog/backups/view.py",
                "        while waiting and waiting[0][0] < owner:\n",
                "        while waiting:\n",
            ),
        ),
        (f"{BACKUP_VIEW}::test_the_blobs_of_a_backup_are_in_order_of_their_keys",),
    ),
    Removal(
        "B515",
        (
            Edit(
                "src/stratalog/backends/dynamodb_http.py",
                "            if self._closed:  # tested after",
                "            if False:  # tested after",
            ),
        ),
        ("tests/cloud/test_dynamodb_http.py::test_a_connection_that_becomes_idle_during_a_close_is_closed",),
    ),
    Removal(
        "B516",
        (Edit("examples/guestbook/pyproject.toml", '"stratalog[server]==', '"stratalog[server]==9'),),
        (f"{DISTRIBUTIONS}::test_every_requirement_on_the_library_names_its_version",),
    ),
    Removal(
        "B516",
        (Edit("apps/table/pyproject.toml", 'license-files = ["LICENSE"]', "license-files = []"),),
        (f"{DISTRIBUTIONS}::test_a_distribution_has_the_licence",),
    ),
    Removal(
        "B528",
        (
            Edit(
                FAMILY,
                "if self._index.get(member.partition, prefix) is not None or not self._is_alive(record):",
                "if True:",
            ),
        ),
        (
            "tests/backups/test_damaged_items.py::test_a_missing_family_item_of_an_ancestor_is_a_failure_and_other_families_are_backed_up",
        ),
    ),
    Removal(
        "B529",
        (
            Edit(
                "src/stratalog/cli/records.py",
                "None if before is None else milliseconds(before)",
                "milliseconds(before) if before else None",
            ),
        ),
        (f"{TIMES}::test_a_record_command_refuses_a_text_that_is_no_time",),
    ),
    Removal(
        "B530",
        (Edit("src/stratalog/server/records.py", "    if if_newer and expected is not None:\n", "    if False:\n"),),
        ("tests/server/test_api_records.py::test_a_put_if_newer_with_an_expected_version_is_refused",),
    ),
    Removal(
        "B534",
        (Edit("src/stratalog/backups/cut.py", ' and (latest or self._is_before(line, "c"))', ""),),
        (
            "tests/backups/test_backup_cuts.py::test_a_record_that_was_created_and_pruned_after_a_time_does_not_prevent_a_restore_as_of_that_time",
        ),
    ),
    Removal(
        "B539",
        (
            Edit(
                FOLDERS,
                "    for missing in _missing_folders(folder):\n        _mkdir(missing, mode",
                "    os.makedirs(folder, mode, exist_ok=True)\n    for missing in ():\n        _mkdir(missing, mode",
            ),
            Edit(
                FOLDERS,
                "    missing = _missing_folders(folder)\n    existing",
                "    missing = list[str]()\n    os.makedirs(folder, exist_ok=True)\n    existing",
            ),
            Edit(
                "apps/table/src/stratalog_table/data_folder.py",
                "self.files.create_dir(os.path.dirname(path), recursive=True)",
                "os.makedirs(os.path.dirname(path), exist_ok=True)",
            ),
            Edit(
                "apps/sheet/src/stratalog_sheet/engine_files.py",
                "        above.mkdir(exist_ok=True)\n",
                "        home.parent.mkdir(parents=True, exist_ok=True)\n",
            ),
        ),
        (
            "tests/backends/test_deep_folders.py::test_a_folder_below_many_missing_folders_is_made",
            "tests/backends/test_deep_folders.py::test_a_folder_of_blobs_below_many_missing_folders_stores_blobs",
            "tests/backends/test_deep_folders.py::test_a_store_below_many_missing_folders_raises_unavailable",
            "apps/table/tests/test_data_files.py::test_a_data_file_below_many_missing_folders_is_written",
            "apps/sheet/tests/test_engine.py::test_an_installation_makes_many_missing_folders_of_the_engine",
        ),
    ),
    Removal(
        "B542",
        tuple(
            Edit(f"{folder}setup.py", 'RELATIVE_LINK.sub(r"\\1", readme)', "readme")
            for folder in ("", "apps/catalogue/", "apps/sheet/", "apps/table/")
        ),
        (f"{DISTRIBUTIONS}::test_a_build_makes_a_description_without_relative_links",),
    ),
    Removal(
        "B846",
        (
            Edit(
                "src/stratalog/protocol/readable.py",
                "    except RecursionError as exc:\n",
                "    except ZeroDivisionError as exc:\n",
            ),
        ),
        ("tests/test_deep_nesting.py::test_a_text_of_json_that_is_nested_too_deeply_exceeds_the_limit_of_values",),
        raises=("RecursionError",),
    ),
    Removal(
        "B846",
        (
            Edit(
                "src/stratalog/codec.py",
                "    except RecursionError as exc:\n",
                "    except ZeroDivisionError as exc:\n",
            ),
            Edit(
                "src/stratalog/maintenance/document_import.py",
                "(msgspec.DecodeError, UnicodeError, RecursionError)",
                "(msgspec.DecodeError, UnicodeError)",
            ),
            Edit(
                "src/stratalog/client/http.py",
                "    except (msgspec.DecodeError, ValueError, RecursionError):\n",
                "    except (msgspec.DecodeError, ValueError):\n",
            ),
        ),
        (
            "tests/test_deep_nesting.py::test_a_stored_body_that_is_nested_too_deeply_is_corrupt",
            "tests/test_deep_nesting.py::test_an_export_with_a_line_that_is_nested_too_deeply_is_corrupt",
            "tests/client/test_http.py::test_an_error_response_raises_the_error_of_its_code_or_status",
        ),
        raises=("RecursionError",),
    ),
)
