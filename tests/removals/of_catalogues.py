"""Removals of fixes: the catalogue's input from its sources, and its deletes."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

SOURCES = "apps/catalogue/src/stratalog_catalogue/"
TESTS = "apps/catalogue/tests/"
REMOVED = f"{TESTS}test_removed_sources.py"
FOLDER = f"{SOURCES}folder.py"
RACY = f"{TESTS}test_racy_files.py"
LETTER_ENCODINGS = f"{TESTS}test_letter_encodings.py"
LIMITS = f"{TESTS}test_limits_reached.py"
NEXT_PAGE = f"{TESTS}test_feeds.py::test_the_next_page_of_a_link_header_is_found_however_it_is_written"
NO_HARVEST = f"{TESTS}test_feeds.py::test_an_answer_without_a_list_of_records_fails_and_moves_no_checkpoint"
XML = f"{SOURCES}xml.py"
COMMANDS = f"{TESTS}test_commands.py"
XML_TESTS = f"{TESTS}test_xml.py"
MARKED_HARVEST = (
    f"{TESTS}test_hostile_feeds.py::test_a_harvest_with_a_byte_order_mark_is_read_as_utf_8_whatever_it_declares"
)
HOSTILE = f"{TESTS}test_hostile.py::test_valid_records_of_a_hostile_file_are_stored_and_the_rest_become_dead_letters"

__all__ = ["REMOVALS"]
FILE_OF_A_LETTER = Edit(
    f"{SOURCES}folder.py",
    'records = _records(source, folder, [file], {}, {"files": {}})',
    "records = _split_file(source, file)",
)

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B219",
        (
            Edit(
                f"{SOURCES}record_splitter.py",
                "(msgspec.DecodeError, UnicodeDecodeError, RecursionError)",
                "(msgspec.DecodeError, RecursionError)",
            ),
        ),
        (f"{HOSTILE}[jsonl_latin_1_byte]",),
    ),
    Removal(
        "B220",
        (
            Edit(
                f"{SOURCES}csv_rows.py", "        csv.field_size_limit(CATALOGUE_RECORD_BYTES_MAX)\n", "        pass\n"
            ),
        ),
        (f"{HOSTILE}[csv_large_field]",),
    ),
    Removal(
        "B221",
        (
            Edit(
                f"{SOURCES}folder.py",
                "except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as exc:",
                "except ZeroDivisionError as exc:",
            ),
        ),
        (f"{TESTS}test_letters.py::test_a_damaged_gzip_file_becomes_a_dead_letter_and_intact_files_are_ingested",),
    ),
    Removal(
        "B222",
        (
            Edit(
                f"{SOURCES}names.py",
                "return f\"{encoded.decode(errors='backslashreplace')}~{sha256(encoded).hex()[:32]}\"",
                "return name",
            ),
        ),
        (f"{HOSTILE}[file_name_no_UTF_8]",),
    ),
    Removal(
        "B223",
        (Edit(f"{SOURCES}folder.py", "replace(record, path=file.path) if is_file else record", "replace(record)"),),
        (f"{TESTS}test_letters.py::test_a_damaged_gzip_file_becomes_a_dead_letter_and_intact_files_are_ingested",),
    ),
    Removal(
        "B224",
        (
            Edit(
                f"{SOURCES}ingest.py",
                "            where = letter_id(where, sha256(unreadable.body))\n",
                "            pass\n",
            ),
        ),
        (f"{TESTS}test_letters.py::test_two_failures_at_the_same_position_make_two_dead_letters",),
    ),
    Removal(
        "B225",
        (
            Edit(
                f"{SOURCES}ingest.py",
                "fail(self._records, source_id(self._source.name, record.id), reason, letter, body)",
                "fail(self._records, source_id(self._source.name, record.id), reason, letter, None)",
            ),
        ),
        (f"{TESTS}test_letters.py::test_a_record_that_the_store_refuses_becomes_a_dead_letter",),
    ),
    Removal(
        "B226",
        (
            Edit(
                f"{SOURCES}polls.py",
                "except Exception as exc:  # noqa: BLE001 - an error of one poll must not stop the other polls",
                "except (StratalogError, OSError) as exc:",
            ),
        ),
        (f"{TESTS}test_letters.py::test_an_unexpected_error_of_an_adapter_does_not_stop_other_sources",),
    ),
    Removal(
        "B227",
        (
            Edit(
                f"{SOURCES}feed.py", "            yield url, answer, False\n            raise\n", "            raise\n"
            ),
        ),
        (f"{TESTS}test_hostile_feeds.py::test_records_before_an_invalid_next_page_are_stored",),
    ),
    Removal(
        "B228",
        (
            Edit(
                f"{SOURCES}feed.py",
                "            yield url, answer, False\n            raise\n",
                "            following = None\n",
            ),
        ),
        (f"{TESTS}test_hostile_feeds.py::test_an_unreadable_page_becomes_a_dead_letter_and_is_read_again",),
    ),
    Removal(
        "B229",
        (
            Edit(
                f"{SOURCES}record_splitter.py",
                "    body = encode_text(raw, encoding)\n    try:\n",
                "    body = msgspec.json.encode(msgspec.json.decode(raw))\n    try:\n",
            ),
            Edit(f"{SOURCES}xml.py", "self._slice(), encoding", "ElementTree.tostring(element), encoding"),
        ),
        (
            f"{HOSTILE}[jsonl_number_as_written]",
            f"{HOSTILE}[xml_an_end_with_space]",
        ),
    ),
    Removal(
        "B230",
        (
            Edit(
                f"{SOURCES}record_splitter.py",
                '_PARAGRAPH_END = re.compile(rb"\\n\\r?\\n")',
                '_PARAGRAPH_END = re.compile(rb"\\n\\n")',
            ),
        ),
        (f"{HOSTILE}[rfc822_CRLF]",),
    ),
    Removal(
        "B231",
        (Edit(f"{SOURCES}record_splitter.py", "if year := _YEAR.fullmatch(text):", "if year := None:"),),
        (f"{TESTS}test_taking.py::test_a_number_is_read_as_a_year_a_month_a_day_milliseconds_or_seconds",),
    ),
    Removal(
        "B232",
        (Edit(f"{SOURCES}deletions.py", "if allow_deletions or not _is_too_much(", "if True or not _is_too_much("),),
        (
            f"{TESTS}test_deletions.py::test_a_state_that_lacks_too_many_records_deletes_none_until_deletions_are_allowed",
        ),
    ),
    Removal(
        "B233",
        (
            Edit(
                f"{SOURCES}folder.py",
                "    if is_mirror(source):\n        yield from",
                "    if False:\n        yield from",
            ),
        ),
        (f"{TESTS}test_deletions.py::test_files_that_are_records_together_form_a_single_state",),
    ),
    Removal(
        "B234",
        (Edit(f"{SOURCES}sources.py", "        if not records.stat(line.id).deleted:\n", "        if True:\n"),),
        (f"{TESTS}test_deletions.py::test_a_removed_source_stops_no_poll_or_scan_and_its_records_stay",),
    ),
    Removal(
        "B235",
        (Edit(f"{SOURCES}folder_files.py", "path.resolve().is_relative_to(root)", "True"),),
        (f"{TESTS}test_letters.py::test_a_link_that_leads_out_of_the_folder_is_named_and_not_read",),
    ),
    Removal(
        "B236",
        (
            Edit(f"{SOURCES}oai.py", "    readable = readable_xml(body)\n", "    readable = body\n"),
            Edit(f"{SOURCES}oai.py", "parse_element(readable_xml(body))", "parse_element(body)"),
        ),
        (f"{TESTS}test_hostile_feeds.py::test_a_bad_character_in_a_harvest_fails_only_its_record",),
    ),
    Removal(
        "B237",
        (
            Edit(
                f"{SOURCES}feed.py",
                '    return urlunsplit((parts.scheme, netloc, parts.path, "…" if parts.query else "", ""))',
                "    return url",
            ),
        ),
        (f"{TESTS}test_hostile_feeds.py::test_a_url_is_shown_without_credentials_query_and_fragment",),
    ),
    Removal(
        "B238",
        (
            Edit(f"{SOURCES}oai.py", "own = [query] if mark and query else []", "own: list[str] = []"),
            Edit(f"{SOURCES}polls.py", "if newest != checkpoint:", "if False:"),
        ),
        (
            f"{TESTS}test_hostile_feeds.py::test_a_repository_is_requested_with_the_query_of_its_url",
            f"{TESTS}test_hostile_feeds.py::test_tries_are_counted_separately_for_each_page_of_a_harvest",
        ),
    ),
    Removal(
        "B311",
        (
            Edit(
                FOLDER,
                "    return len(entry) > 3 and (not entry[3] or _hash(file) != entry[3])\n",
                "    return False\n",
            ),
        ),
        (f"{RACY}::test_a_change_of_the_same_size_and_time_is_read",),
    ),
    Removal(
        "B311",
        (Edit(FOLDER, "return file if file.time_ms > last_ms else file._replace(", "return file or file._replace("),),
        (f"{RACY}::test_a_change_in_a_later_tick_is_read_after_a_change_within_a_tick",),
    ),
    Removal(
        "B311",
        (Edit(FOLDER, "    if source.complete:  # each", "    if not source:  # each"),),
        (f"{RACY}::test_a_state_that_is_read_again_does_not_hide_another_file_of_the_same_tick",),
    ),
    Removal(
        "B312",
        (Edit(FOLDER, "max(0, last_ms, *map(_given_ms, before.values()), *(", "max(0, *("),),
        (f"{RACY}::test_a_mirror_deletes_a_removed_newest_file_and_stores_it_again_when_it_reappears",),
    ),
    Removal(
        "B312",
        (Edit(FOLDER, "if file.id in before else absent_ms)", "if file.id in before else -1)"),),
        (f"{RACY}::test_a_mirror_deletes_a_removed_newest_file_and_stores_it_again_when_it_reappears",),
    ),
    Removal(
        "B315",
        (
            Edit(
                f"{SOURCES}summary.py",
                "    return counted, next(rest, None) is not None\n",
                '    return counted | {"more": 1}, next(rest, None) is not None\n',
            ),
        ),
        (f"{LIMITS}::test_a_source_named_more_is_counted_like_any_other",),
    ),
    Removal(
        "B315",
        (Edit(f"{SOURCES}metrics.py", "{} if stats.more_dead_letters else {summary", "{summary"),),
        (f"{LIMITS}::test_a_source_named_more_is_counted_like_any_other",),
    ),
    Removal(
        "B316",
        (Edit(f"{SOURCES}feed.py", 'LINK = re.compile(r"<([^<>]*)>', 'LINK = re.compile(r"<([^<>,;]*)>'),),
        (NEXT_PAGE,),
    ),
    Removal(
        "B316",
        (
            Edit(
                f"{SOURCES}feed.py",
                'if "next" in _parameter(parameters, "rel").lower().split():',
                'if _parameter(parameters, "rel") == "next":',
            ),
        ),
        (NEXT_PAGE,),
    ),
    Removal(
        "B317",
        (
            Edit(f"{SOURCES}oai.py", '(NOTHING, EXPIRED) if "token" in harvest else (NOTHING,)', "(NOTHING, EXPIRED)"),
            Edit(f"{SOURCES}oai.py", "any(error.get", '"token" in harvest and any(error.get'),
        ),
        (NO_HARVEST,),
    ),
    Removal(
        "B317",
        (
            Edit(f"{SOURCES}oai.py", "if code not in permitted:", "if code not in ('', *permitted):"),
            Edit(f"{SOURCES}oai.py", "    if not errors and all(", "    if False and all("),
        ),
        (NO_HARVEST,),
    ),
    Removal(
        "B317",
        (Edit(f"{SOURCES}oai.py", "    for error in errors:\n", "    for error in errors[:1]:\n"),),
        (NO_HARVEST,),
    ),
    Removal(
        "B318",
        (
            Edit(
                f"{SOURCES}csv_rows.py",
                "while (names := next(reader, None)) == []:",
                "while (names := next(reader, None)) == 0:",
            ),
        ),
        (f"{HOSTILE}[csv_blank_lines_first]",),
    ),
    Removal(
        "B318",
        (Edit(f"{SOURCES}csv_rows.py", '    if not "".join(names).strip():', "    if False:"),),
        (f"{HOSTILE}[csv_no_names]",),
    ),
    Removal(
        "B319",
        (Edit(f"{SOURCES}queries.py", 'str(metadata.get("k", "")))', '"")'),),
        (f"{TESTS}test_works.py::test_both_searches_give_a_work_with_the_same_title_and_kind",),
    ),
    Removal(
        "B320",
        (Edit(f"{SOURCES}workers.py", "if len(under_way) >= self._ahead:", "if len(under_way) > self._ahead:"),),
        (f"{TESTS}test_works.py::test_no_more_batches_are_in_flight_than_the_limit",),
    ),
    Removal(
        "B350",
        (Edit(f"{SOURCES}redrive.py", "polled[source.name] or _reason_left(records, letter)", "polled[source.name]"),),
        (f"{TESTS}test_letters.py::test_a_redrive_resolves_no_letter_of_files_that_still_cannot_be_opened",),
    ),
    Removal(
        "B367",
        (
            Edit(
                f"{SOURCES}redrive.py",
                "        name = source_of_letter(letter.id)\n",
                '        _, name, _ = letter.id.split("/", 2)\n',
            ),
        ),
        (f"{TESTS}test_letters.py::test_a_redrive_leaves_the_letters_of_other_programs",),
    ),
    Removal(
        "B367",
        (Edit(f"{SOURCES}ingest.py", "except (msgspec.DecodeError, RecursionError):", "except ZeroDivisionError:"),),
        (f"{TESTS}test_letters.py::test_a_foreign_letter_of_a_source_stops_no_scan_redrive_or_rename",),
    ),
    Removal(
        "B368",
        (
            Edit(
                f"{SOURCES}summary.py",
                "        source = source_of_letter(id)\n",
                '        source = id.split("/")[1] if id.count("/") > 1 else id.partition("/")[2]\n',
            ),
        ),
        (f"{TESTS}test_letters.py::test_the_letters_of_other_programs_are_counted_for_no_source",),
    ),
    Removal(
        "B371",
        (Edit(f"{SOURCES}migration.py", "map(_id, rows) if id != read)", "map(_id, rows))"),),
        (f"{TESTS}test_migrating.py::test_an_id_whose_rows_are_on_several_pages_of_a_scan_is_read_once",),
    ),
    Removal(
        "B400",
        (
            Edit(
                f"{SOURCES}polls.py",
                "        except NotFound:\n            # Another",
                "        except ZeroDivisionError:\n            # Another",
            ),
        ),
        (f"{TESTS}test_deletions.py::test_a_source_removed_during_a_poll_does_not_stop_other_sources",),
    ),
    Removal(
        "B408",
        (
            Edit(
                f"{SOURCES}polls.py",
                "        try:\n            if settings is None:\n",
                "        _checkpoint(records, source)\n        try:\n            if settings is None:\n",
            ),
            Edit(
                f"{SOURCES}sources.py",
                "except (msgspec.DecodeError, RecursionError) as exc:",
                "except msgspec.ValidationError as exc:",
            ),
        ),
        (
            f"{TESTS}test_polls.py::test_a_damaged_checkpoint_stops_no_other_source",
            f"{TESTS}test_polls.py::test_damaged_settings_stop_no_other_source",
        ),
    ),
    Removal(
        "B409",
        (Edit(f"{SOURCES}polls.py", "    if failed is not None:  # the", "    if False:  # the"),),
        (f"{TESTS}test_polls.py::test_a_source_that_fails_is_due_after_a_back_off",),
    ),
    Removal(
        "B424",
        (Edit(f"{SOURCES}queries.py", " or isinstance(before, bool) is not isinstance(after, bool)", ""),),
        (f"{TESTS}test_works.py::test_true_and_1_differ",),
    ),
    Removal(
        "B459",
        (FILE_OF_A_LETTER,),
        (f"{TESTS}test_letters.py::test_a_redrive_follows_no_link_out_of_the_folder",),
    ),
    Removal(
        "B460",
        (FILE_OF_A_LETTER, Edit(f"{SOURCES}redrive.py", "except Exception as exc:", "except ValueError as exc:")),
        (
            f"{TESTS}test_letters.py::test_an_unreadable_file_does_not_stop_the_redrive_of_other_letters",
            f"{TESTS}test_letters.py::test_an_unexpected_error_does_not_stop_the_redrive_of_other_letters",
        ),
    ),
    Removal(
        "B461",
        (
            Edit(
                f"{SOURCES}redrive.py",
                "    done = poll_source(records",
                "    for other in before:\n        resolve(records, other.id)\n    done = poll_source(records",
            ),
        ),
        (
            f"{TESTS}test_letters.py::test_a_redrive_whose_poll_fails_resolves_no_letter",
            f"{TESTS}test_letters.py::test_a_redrive_does_not_resolve_the_letter_of_a_source_that_fails_again",
        ),
    ),
    Removal(
        "B462",
        (
            Edit(
                f"{SOURCES}reconciliation.py",
                "if work in self.dead:\n                    resolve",
                "if not work:\n                    resolve",
            ),
        ),
        (f"{TESTS}test_works.py::test_the_letter_of_a_work_is_resolved_after_its_record_is_deleted",),
    ),
    Removal(
        "B463",
        (
            Edit(
                f"{SOURCES}redrive.py",
                "return _reason_left(records, letter) if reconcile",
                "return letter.reason if reconcile",
            ),
        ),
        (f"{TESTS}test_works.py::test_a_work_that_fails_again_in_a_redrive_has_the_new_reason",),
    ),
    Removal(
        "B464",
        (Edit(f"{SOURCES}ingest.py", "with suppress(NotFound):", "with suppress(ZeroDivisionError):"),),
        (f"{TESTS}test_works.py::test_a_letter_that_another_scan_resolves_first_stops_no_scan",),
    ),
    Removal(
        "B465",
        (Edit(f"{SOURCES}web/parts.js", "parsed(await body.text())", "JSON.parse(await body.text())"),),
        (f"{TESTS}test_parts.py::test_the_node_tests_of_the_page_helpers_pass",),
    ),
    Removal(
        "B481",
        (
            Edit(
                f"{SOURCES}migration.py",
                "except (TypeError, OverflowError) as exc:",
                "except ZeroDivisionError as exc:",
            ),
        ),
        (f"{TESTS}test_migrating.py::test_a_row_whose_version_is_no_number_is_a_dead_letter",),
        raises=("TypeError",),
    ),
    Removal(
        "B535",
        (
            Edit(
                f"{SOURCES}encodings.py",
                'return encoding if mark or encoding != UTF8 else ""',
                'return encoding if encoding != UTF8 else ""',
            ),
            Edit(
                f"{SOURCES}record_splitter.py",
                "row.fields.get, body, row_where, UTF8)",
                'row.fields.get, body, row_where, "")',
            ),
            Edit(f"{SOURCES}oai.py", "encoding = cut.encoding or UTF8", "encoding = cut.encoding"),
            Edit(
                f"{SOURCES}redrive.py", "return UTF8 if is_utf8(pieces) else source.encoding", "return source.encoding"
            ),
        ),
        (
            f"{LETTER_ENCODINGS}::test_a_redrive_reads_a_record_in_the_encoding_of_its_byte_order_mark",
            f"{LETTER_ENCODINGS}::test_a_record_that_is_not_in_the_encoding_of_its_byte_order_mark_stays_a_letter",
            f"{LETTER_ENCODINGS}::test_a_redrive_reads_a_csv_row_that_the_store_refused_as_it_was_converted",
            f"{LETTER_ENCODINGS}::test_a_redrive_reads_an_oai_record_without_the_encoding_of_the_source",
            f"{LETTER_ENCODINGS}::test_a_letter_of_an_earlier_build_without_an_encoding_is_read_as_utf_8_or_in_the_encoding_of_the_source",
        ),
    ),
    Removal(
        "B589",
        (
            Edit(
                XML,
                "        if forced is None:\n            parser.XmlDeclHandler = self._declare\n",
                "        parser.XmlDeclHandler = self._declare\n",
            ),
            Edit(XML, 'if head.startswith(start)), "")', 'if not start), "")'),
        ),
        (
            f"{XML_TESTS}::test_a_record_of_a_document_that_declares_utf_16_or_utf_32_keeps_its_bytes_and_is_read_again",
            f"{HOSTILE}[xml_UTF_16_declared]",
            f"{HOSTILE}[xml_UTF_16_without_a_mark]",
        ),
    ),
    Removal(
        "B589",
        (Edit(XML, 'return "" if given.startswith(WIDE) and head.startswith(b"<") else given', "return given"),),
        (f"{XML_TESTS}::test_a_record_that_an_earlier_build_converted_from_utf_16_to_utf_8_is_read",),
    ),
    Removal(
        "B590",
        (
            Edit(XML, "if wide or DECLARED.match(head):", "if wide:"),
            Edit(
                XML,
                "forced = UTF8 if mark or detected != UTF8 else None",
                "forced = UTF8 if detected != UTF8 else None",
            ),
        ),
        (
            f"{XML_TESTS}::test_a_byte_order_mark_overrides_a_declaration_and_each_overrides_the_encoding_of_the_settings",
            MARKED_HARVEST,
        ),
    ),
    Removal(
        "B590",
        (
            Edit(
                f"{SOURCES}oai.py",
                "    readable = readable_xml(body)\n",
                "    body = body.removeprefix(codecs.BOM_UTF8)\n    readable = readable_xml(body)\n",
            ),
        ),
        (MARKED_HARVEST,),
    ),
    Removal(
        "B590",
        (Edit(f"{SOURCES}queries.py", "return xml_text(got.body, encoding).encode()", "pass"),),
        (f"{TESTS}test_works.py::test_versions_of_xml_are_compared_as_texts_of_their_encoding",),
    ),
    Removal(
        "B597",
        (Edit(f"{SOURCES}commands.py", "    if not location:\n", "    if location is None:\n"),),
        (f"{COMMANDS}::test_a_source_without_a_location_is_refused",),
    ),
    Removal(
        "B598",
        (
            Edit(
                f"{SOURCES}sources.py",
                "if not math.isfinite(value := getattr(source, name)):",
                "if (value := getattr(source, name)) is None:",
            ),
        ),
        (f"{COMMANDS}::test_a_source_with_a_number_that_is_not_finite_is_refused",),
    ),
    Removal(
        "B599",
        (
            Edit(
                f"{SOURCES}workers.py", "    if named and skip_unreadable:\n", "    if not named and skip_unreadable:\n"
            ),
        ),
        (f"{COMMANDS}::test_a_source_whose_settings_cannot_be_read_is_named_and_other_sources_get_their_works",),
    ),
    Removal(
        "B599",
        (
            Edit(
                f"{SOURCES}source_commands.py",
                '            unreadable.append(f"{name}: {exc}")\n',
                "            continue\n",
            ),
        ),
        (f"{COMMANDS}::test_a_source_whose_settings_cannot_be_read_is_named_and_other_sources_get_their_works",),
    ),
    Removal(
        "B621",
        (
            Edit(
                FOLDER,
                "listed_file(Path(path.absolute().anchor), path.parent, path)",
                "listed_file(path.parent.resolve(), path.parent, path)",
            ),
        ),
        (f"{TESTS}test_letters.py::test_a_named_file_may_be_a_link_to_another_folder",),
    ),
    Removal(
        "B695",
        (Edit(f"{SOURCES}encodings.py", ".name.removesuffix(MARKED)", ".name"),),
        (
            f"{TESTS}test_encodings.py::test_in_each_encoding_that_a_source_may_have_text_keeps_its_bytes",
            f"{TESTS}test_encodings.py::test_utf_8_with_a_byte_order_mark_is_declared_as_utf_8",
        ),
    ),
    Removal(
        "B695",
        (Edit(f"{SOURCES}encodings.py", "declared = declared.removesuffix(MARKED)", "pass"),),
        (f"{TESTS}test_encodings.py::test_text_of_a_source_that_was_added_with_a_byte_order_mark_gets_no_mark",),
    ),
    Removal(
        "B695",
        (Edit(f"{SOURCES}encodings.py", "if known in LOSSY:", "if known in ():"),),
        (
            f"{TESTS}test_encodings.py::test_in_each_encoding_that_a_source_may_have_text_keeps_its_bytes",
            f"{TESTS}test_encodings.py::test_an_encoding_in_which_text_would_change_its_bytes_is_refused",
        ),
    ),
    Removal(
        "B724",
        (
            Edit(
                f"{SOURCES}redrive.py",
                "metadata = metadata_of(source, SplitRecord(id=failure.id, metadata=failure.metadata))",
                'metadata = {"format": source.format}',
            ),
        ),
        (f"{TESTS}test_letters.py::test_a_redriven_record_has_the_metadata_that_its_bytes_do_not_contain",),
    ),
    Removal(
        "B724",
        (Edit(f"{SOURCES}redrive.py", "metadata={**failure.metadata, **record.metadata}", "metadata=record.metadata"),),
        (f"{TESTS}test_letters.py::test_a_redriven_record_has_the_metadata_that_its_bytes_do_not_contain",),
    ),
    Removal(
        "B913",
        (
            Edit(
                f"{SOURCES}sources.py",
                "    forget_checkpoint(records, name)\n    with suppress",
                "    records.delete(SETTINGS + name)\n    forget_checkpoint(records, name)\n    with suppress",
            ),
        ),
        (
            f"{TESTS}test_source_rename.py::test_a_rename_killed_at_any_write_resumes_without_loss_or_duplicates",
            f"{TESTS}test_deletions.py::test_a_removal_killed_at_any_write_can_be_repeated",
        ),
    ),
    Removal(
        "B929",
        (
            Edit(
                f"{SOURCES}polls.py",
                "        return is_interval_over(clock, failed.last_ms, "
                "_backoff_seconds(source, failed.failures) * 1000)",
                "        if clock.wall_ms() - failed.last_ms < _backoff_seconds(source, failed.failures) * 1000:\n"
                "            return False",
            ),
        ),
        (f"{TESTS}test_polls.py::test_a_poll_that_fails_after_a_checkpoint_resumes_after_a_back_off",),
    ),
    Removal(
        "B982",
        (Edit(f"{SOURCES}source_rename.py", "source_time_ms=_MOVED_MS", "source_time_ms=newest.source_time_ms"),),
        (f"{REMOVED}::test_a_new_source_with_the_former_name_of_a_renamed_source_stores_unchanged_records",),
    ),
    Removal(
        "B983",
        (
            Edit(
                f"{SOURCES}polls.py",
                "msgspec.json.encode(saved), expected=expected)",
                "msgspec.json.encode(saved))",
            ),
        ),
        (
            f"{REMOVED}::test_a_poll_that_runs_during_a_removal_saves_no_checkpoint",
            f"{REMOVED}::test_a_poll_that_outlives_its_source_makes_no_new_source_of_that_name_skip_files",
        ),
    ),
    Removal(
        "B983",
        (Edit(f"{SOURCES}sources.py", "    if not has_source(records, source.name):\n", "    if False:\n"),),
        (f"{REMOVED}::test_a_new_source_ignores_a_checkpoint_that_was_saved_during_the_removal",),
    ),
    Removal(
        "B984",
        (
            Edit(
                f"{SOURCES}source_rename.py",
                "    counts.letters = _move_letters(records, name, other)\n",
                "    counts.letters = _move_letters(records, name, other)\n"
                "    with suppress(NotFound):\n"
                "        records.put(CHECKPOINTS + other, records.get(CHECKPOINTS + name).body)\n",
            ),
        ),
        (f"{REMOVED}::test_a_rename_loses_no_record_that_an_earlier_poll_stores_after_the_last_pass_of_the_rename",),
    ),
    Removal(
        "B985",
        (
            Edit(
                f"{SOURCES}source_rename.py",
                "max((version.version for version in versions if is_moved(version)), default=0)",
                "0",
            ),
        ),
        (f"{TESTS}test_source_rename.py::test_a_source_can_be_renamed_back_to_its_old_name",),
    ),
    Removal(
        "B1000",
        (
            Edit(
                f"{SOURCES}sources.py",
                "        if stored.renamed_to and source.name in",
                "        if False and source.name in",
            ),
        ),
        (f"{TESTS}test_source_rename.py::test_no_source_can_take_either_name_of_an_interrupted_rename",),
    ),
    Removal(
        "B1035",
        (
            Edit(
                f"{SOURCES}commands.py",
                '        note("a complete state of which a part failed deletes no record")\n',
                "",
            ),
        ),
        (f"{TESTS}test_commands.py::test_a_poll_without_sources_says_so_and_a_failed_one_that_it_deletes_nothing",),
    ),
    Removal(
        "B1036",
        (Edit(f"{SOURCES}commands.py", "if not polled and not due:", "if False:"),),
        (f"{TESTS}test_commands.py::test_a_poll_without_sources_says_so_and_a_failed_one_that_it_deletes_nothing",),
    ),
    Removal(
        "B1075",
        (
            Edit(f"{SOURCES}web/work.css", "text-align: left; white-space: normal;", "text-align: left;"),
            Edit(f"{SOURCES}web/work.css", "white-space: pre-line; overflow-wrap: anywhere;", "white-space: pre-line;"),
        ),
        (
            f"{TESTS}test_e2e.py::test_the_story_passes_in_the_browser[longNamesLargeCountsAndLongWordsAreNotCutAtAnyWidth]",
        ),
    ),
    Removal(
        "B1076",
        (Edit(f"{SOURCES}web/overview.js", ": unscanned(waiting, organisation)),", ": []),"),),
        (f"{TESTS}test_e2e.py::test_the_story_passes_in_the_browser[aCatalogueWithoutWorksSaysHowToBegin]",),
    ),
    Removal(
        "B1077",
        (
            Edit(
                f"{SOURCES}polls.py",
                "or is_interval_over(clock, polled_ms, source.every_seconds * 1000)",
                "or clock.wall_ms() - polled_ms >= source.every_seconds * 1000",
            ),
        ),
        (f"{TESTS}test_polls.py::test_a_source_that_was_polled_by_a_clock_that_was_far_ahead_is_due",),
    ),
    Removal(
        "B1078",
        (
            Edit(FOLDER, "-1 if entry is None else", "-1 if entry is None or file.time_ns < entry[0] else"),
            Edit(FOLDER, "(entry is None or _given_ms(entry) < newest)", "True"),
        ),
        (f"{TESTS}test_racy_files.py::test_a_file_that_is_replaced_by_a_file_with_an_older_time_is_read",),
    ),
    Removal(
        "B1078",
        (Edit(FOLDER, "(entry is None or _given_ms(entry) < newest)", "entry is None"),),
        (f"{TESTS}test_racy_files.py::test_an_older_state_that_is_replaced_does_not_replace_the_newest_state",),
    ),
    Removal(
        "B1079",
        (Edit(f"{SOURCES}folder_files.py", " if is_broken else None\n", " if False else None\n"),),
        (f"{TESTS}test_deletions.py::test_a_file_whose_link_leads_to_no_file_now_is_named_and_not_deleted",),
    ),
    Removal(
        "B1079",
        (Edit(FOLDER, "(os.path.islink(path) and not os.path.exists(path))", "False"),),
        (f"{TESTS}test_letters.py::test_a_named_link_that_leads_to_no_file_is_refused",),
    ),
    Removal(
        "B1080",
        (Edit(f"{SOURCES}folder_files.py", "    for error in errors:\n", "    for error in []:\n"),),
        (
            f"{TESTS}test_deletions.py::test_the_files_of_a_folder_that_cannot_be_listed_are_not_deleted",
            f"{TESTS}test_deletions.py::test_a_source_whose_folder_cannot_be_listed_is_not_empty",
        ),
    ),
    Removal(
        "B1080",
        (Edit(f"{SOURCES}folder_files.py", "        return fits and (", "        return True or ("),),
        (f"{TESTS}test_deletions.py::test_a_folder_that_the_pattern_does_not_enter_may_be_closed",),
    ),
    Removal(
        "B1081",
        (
            Edit(
                f"{SOURCES}letters.py",
                "records.dead_letters(prefix, damaged=ignore_damage)",
                "records.dead_letters(prefix)",
            ),
        ),
        (f"{TESTS}test_letters.py::test_a_damaged_letter_stops_no_poll_scan_count_or_rename_of_another_source",),
    ),
    Removal(
        "B1081",
        (
            Edit(
                f"{SOURCES}source_rename.py",
                "records.dead_letters(prefix, damaged=refuse)",
                "records.dead_letters(prefix)",
            ),
        ),
        (f"{TESTS}test_letters.py::test_a_damaged_letter_stops_no_poll_scan_count_or_rename_of_another_source",),
    ),
    Removal(
        "B1082",
        (Edit(f"{SOURCES}redrive.py", "    for error in errors[:-1]:\n", "    for error in ():\n"),),
        (f"{TESTS}test_letters.py::test_a_redrive_names_each_damaged_letter",),
    ),
    Removal(
        "B1083",
        (Edit(f"{SOURCES}polls.py", "                if counts.read or tries:", "                if False:"),),
        (f"{TESTS}test_removed_sources.py::test_a_poll_that_outlives_a_rename_moves_its_records_to_the_new_name",),
    ),
    Removal(
        "B1083",
        (Edit(f"{SOURCES}polls.py", "if counts.read or tries:", "if counts.read:"),),
        (f"{TESTS}test_removed_sources.py::test_a_poll_that_fails_after_a_rename_moves_its_records_to_the_new_name",),
    ),
    Removal(
        "B1083",
        (
            Edit(
                f"{SOURCES}source_rename.py",
                "        if (version.source_time_ms or 0) <= newest_ms:",
                "        if False:",
            ),
        ),
        (f"{TESTS}test_removed_sources.py::test_a_record_that_comes_after_a_rename_replaces_no_later_version",),
    ),
    Removal(
        "B1084",
        (Edit(f"{TESTS}soak.py", "worker.proceed(own.randrange(1, events_min))", "worker.finish()"),),
        (f"{TESTS}test_soak.py::test_records_survive_processes_that_are_killed",),
    ),
    Removal(
        "B1110",
        (
            Edit(
                f"{SOURCES}transformers.py",
                're.split(r"[\\s:(\\[<]", alternative.strip())[0]',
                "alternative.split()[0]",
            ),
        ),
        (f"{TESTS}test_works.py::test_a_dependency_without_a_space_before_its_version_is_named_without_the_version",),
    ),
    Removal(
        "B1120",
        (
            Edit(
                f"{SOURCES}source_rename.py",
                "    is_late = newest is not None and (",
                "    is_late = newest is not None and not newest.deleted and (",
            ),
        ),
        (f"{REMOVED}::test_a_late_version_does_not_bring_back_a_record_that_the_renamed_source_has_deleted",),
    ),
    Removal(
        "B1120",
        (Edit(f"{SOURCES}source_rename.py", "not names or None in names:", "not names:"),),
        (f"{REMOVED}::test_a_late_record_stays_if_a_later_source_of_its_name_was_removed",),
    ),
    Removal(
        "B1120",
        (Edit(f"{SOURCES}source_rename.py", "    other = names[0]\n", "    other = names[-1]\n"),),
        (f"{REMOVED}::test_a_late_record_goes_to_the_source_that_its_poll_has_read",),
    ),
    Removal(
        "B1121",
        (Edit(f"{SOURCES}polls.py", "    if ended is not None and settings is not None:\n", "    if False:\n"),),
        (f"{REMOVED}::test_a_poll_that_breaks_off_after_a_rename_moves_its_records_and_counts_no_failure",),
    ),
    Removal(
        "B1122",
        (Edit(f"{SOURCES}ingest.py", "conflicting += not new and self", "conflicting += False and self"),),
        (
            f"{TESTS}test_taking.py::test_records_of_one_file_that_share_an_id_and_differ_are_counted",
            f"{TESTS}test_commands.py::test_a_poll_says_that_a_record_was_not_stored_because_another_has_its_id",
        ),
    ),
    Removal(
        "B1123",
        (Edit(f"{SOURCES}ingest.py", "            self.error = exc\n", "            raise\n"),),
        (
            f"{TESTS}test_taking.py::test_the_records_before_an_error_of_their_step_are_stored",
            f"{TESTS}test_feeds.py::test_the_records_of_a_page_with_an_invalid_link_are_stored_also_in_a_complete_state",
        ),
    ),
    Removal(
        "B1149",
        (
            Edit(
                f"{SOURCES}content_decoder.py",
                "not (is_gzip and left.startswith(GZIP_BEGINNING))",
                "not left.startswith(GZIP_BEGINNING)",
            ),
        ),
        (
            f"{TESTS}test_hostile_responses.py::test_bytes_after_deflated_content_are_ignored_also_if_they_look_like_gzip",
        ),
    ),
    Removal(
        "B1150",
        (Edit("src/stratalog/cli/records.py", "text if is_restored else", "text if True else"),),
        ("tests/cli/test_commands.py::test_an_undeletion_of_a_record_that_is_not_deleted_says_so",),
    ),
    Removal(
        "B1151",
        (
            Edit(f"{SOURCES}transformers.py", '"debian-package/2"', '"debian-package/1"'),
            Edit(f"{SOURCES}transformers.py", '"debian-source/2"', '"debian-source/1"'),
        ),
        (
            f"{TESTS}test_works.py::test_a_scan_repairs_the_relations_that_the_first_version_of_a_debian_transformer_made",
        ),
    ),
)
