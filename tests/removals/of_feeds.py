"""Removals of fixes: the catalogue's feeds and repositories, migrations, and what its commands accept."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

SOURCES = "apps/catalogue/src/stratalog_catalogue/"
FEED = f"{SOURCES}feed.py"
OAI = f"{SOURCES}oai.py"
CODING = f"{SOURCES}content_decoder.py"
PRECEDENCE = f"{SOURCES}precedence.py"
MIGRATION = f"{SOURCES}migration.py"
TESTS = "apps/catalogue/tests/"
FEEDS = f"{TESTS}test_feeds.py"
RESPONSES = f"{TESTS}test_hostile_responses.py"
MIGRATING = f"{TESTS}test_migrating.py"
COMMANDS = f"{TESTS}test_commands.py"

__all__ = ["REMOVALS"]

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B649",
        (Edit(PRECEDENCE, "    return is_other and", "    return False and"),),
        (
            f"{FEEDS}::test_each_change_of_a_record_is_stored_even_if_the_repository_gives_only_dates",
            f"{FEEDS}::test_two_changes_of_a_feed_with_one_modification_time_are_both_stored",
        ),
    ),
    Removal(
        "B649",
        (Edit(PRECEDENCE, "if latest.redacted or not", "if not"),),
        (f"{FEEDS}::test_a_redacted_record_is_not_stored_again_by_the_harvest_of_the_same_day",),
    ),
    Removal(
        "B649",
        (Edit(FEED, "    return min(times)\n", "    return times[0]\n"),),
        (f"{FEEDS}::test_a_modification_time_in_the_future_does_not_hide_later_changes",),
    ),
    Removal(
        "B650",
        (Edit(PRECEDENCE, "    if latest.deleted and step.is_complete", "    if False and step.is_complete"),),
        (f"{TESTS}test_deletions.py::test_a_record_that_returns_with_its_own_earlier_time_is_stored_again",),
    ),
    Removal(
        "B651",
        (Edit(FEED, "content in read if len(read) > 1 else ():", "content in read[:1] if len(read) > 1 else ():"),),
        (
            f"{FEEDS}::test_a_complete_state_of_which_only_a_later_page_changes_during_the_poll_deletes_no_present_record",
        ),
    ),
    Removal(
        "B651",
        (Edit(FEED, "_content(source, again) == content", "_content(source, again)[0] == content[0]"),),
        (f"{FEEDS}::test_a_complete_state_that_gets_another_page_during_the_poll_deletes_no_present_record",),
    ),
    Removal(
        "B652",
        (
            Edit(FEED, "not (answer.status == 304 and headers)", "answer.status != 304"),
            Edit(CODING, "inflater is not None and not inflater.eof", "False"),
        ),
        (f"{RESPONSES}::test_a_poll_with_a_later_page_that_cannot_be_read_deletes_no_record",),
    ),
    Removal(
        "B653",
        (
            Edit(CODING, "inflater.decompress(left, PIECE_BYTES)", "inflater.decompress(left)"),
            Edit(FEED, "        deadline.check()\n", ""),
            Edit(FEED, "if response.next_request is None:", "if response.read() is not None:"),
            Edit(FEED, 'r\'"(?:[^"\\\\]|\\\\.?)*+(?:"|$)\'', 'r\'"(?:[^"\\\\]|\\\\.)*"\''),
        ),
        (
            f"{RESPONSES}::test_a_compressed_response_is_decoded_in_pieces_of_bounded_size",
            f"{RESPONSES}::test_the_body_of_a_redirect_is_not_read",
            f"{RESPONSES}::test_a_response_that_takes_too_long_is_given_up",
            f"{RESPONSES}::test_a_quotation_mark_without_end_in_a_link_header_quotes_the_rest_of_the_header",
        ),
    ),
    Removal(
        "B654",
        (
            Edit(FEED, "urljoin(answer.url, link)", "urljoin(source.location, link)"),
            Edit(FEED, "{_server(source.location), _server(first.url)}", "{_server(source.location)}"),
        ),
        (f"{FEEDS}::test_the_next_page_is_found_from_the_address_to_which_the_source_redirects",),
    ),
    Removal(
        "B655",
        (
            Edit(OAI, "if token and token in seen:", "if token and token == harvest.get('token'):"),
            Edit(OAI, 'moment.strftime("%Y-%m-%dT%H:%M:%SZ")[: DAY', "answered[: DAY"),
        ),
        (
            f"{FEEDS}::test_resumption_tokens_that_form_a_circle_end_the_harvest",
            f"{FEEDS}::test_a_harvest_begins_at_a_time_in_the_protocol_s_format_however_the_server_writes_its_time",
        ),
    ),
    Removal(
        "B656",
        (Edit(MIGRATION, 'return f"{MIGRATIONS}{source.name}/{table}"', "return MIGRATIONS + table"),),
        (f"{MIGRATING}::test_a_migration_ignores_where_a_migration_to_another_source_was_interrupted",),
    ),
    Removal(
        "B657",
        (
            Edit(MIGRATION, "not is_moved(version), versions)", "not is_moved(version), versions[:1])"),
            Edit(MIGRATION, "expected=target.latest, metadata", "metadata"),
        ),
        (
            f"{MIGRATING}::test_a_repeated_migration_copies_no_row_over_what_polls_have_stored_since",
            f"{MIGRATING}::test_two_migrations_at_once_copy_no_row_twice",
        ),
    ),
    Removal(
        "B658",
        (
            Edit(f"{SOURCES}ingest.py", "letter.size is None and letter.reason.startswith(ROW)", "False"),
            Edit(MIGRATION, "(is_past and not is_dead)", "is_past"),
        ),
        (
            f"{MIGRATING}::test_the_dead_letter_of_a_row_stays_until_a_migration_copies_the_row",
            f"{MIGRATING}::test_a_row_stays_a_dead_letter_after_a_later_version_of_it_was_copied",
        ),
    ),
    Removal(
        "B659",
        (
            Edit(f"{SOURCES}commands.py", "FiniteRange(1, CATALOGUE_INTERVAL_SECONDS_MAX)", "FiniteRange(1)"),
            Edit(f"{SOURCES}sources.py", "    _check_pattern(source)\n", ""),
        ),
        (
            f"{COMMANDS}::test_an_interval_that_the_system_cannot_wait_is_refused",
            f"{COMMANDS}::test_a_source_whose_pattern_every_poll_would_refuse_is_refused",
        ),
        ("OverflowError",),
    ),
    Removal(
        "B660",
        (
            Edit(f"{SOURCES}summary.py", '.rpartition("\\t")', '.partition("\\t")'),
            Edit(f"{SOURCES}summary.py", 'begun = "" if tab else', 'begun = "" if True else'),
            Edit(f"{SOURCES}summary.py", 'if "\\t" in work or "\\n" in work else work', "if False else work"),
        ),
        (
            f"{TESTS}test_works.py::test_a_search_by_words_finds_works_whose_ids_have_tabs_and_line_breaks",
            f"{TESTS}test_works.py::test_titles_that_an_earlier_build_stored_are_read",
        ),
        ("ValueError",),
    ),
    Removal(
        "B699",
        (
            Edit(FEED, "(target, answer.url, source.location)", "(target, answer.url)"),
            Edit(FEED, '(user if "authorization" in request.headers else b"")', 'b""'),
            Edit(FEED, "parts.port or DEFAULT_PORTS.get(parts.scheme)", "parts.port"),
        ),
        (
            f"{RESPONSES}::test_each_page_on_the_source_s_server_gets_the_source_s_user_and_a_page_on_another_server_does_not",
        ),
    ),
    Removal(
        "B701",
        (
            Edit(FEED, "encoded = _encoded_as(source, answer)\n", "encoded = source\n"),
            Edit(FEED, "encoding = _encoded_as(source, answer).encoding", "encoding = source.encoding"),
        ),
        (
            f"{RESPONSES}::test_a_page_that_is_not_utf_8_has_the_charset_of_its_response_unless_the_settings_name_another_encoding",
        ),
    ),
    Removal(
        "B701",
        (Edit(FEED, " and not is_utf8([answer.body])", ""),),
        (
            f"{RESPONSES}::test_a_page_that_is_not_utf_8_has_the_charset_of_its_response_unless_the_settings_name_another_encoding",
        ),
    ),
    Removal(
        "B702",
        (Edit(f"{SOURCES}redrive.py", "if source.complete and not reason:", "if False:"),),
        (
            f"{TESTS}test_letters.py::test_a_poll_after_the_redrive_of_a_complete_state_s_record_deletes_what_the_state_lacks",
        ),
    ),
    Removal(
        "B703",
        (
            Edit(FEED, "        read.append((url,", "        digest.update(answer.body)\n        read.append((url,"),
            Edit(
                FEED,
                "    return digest.digest(), not",
                "    digest.update(answer.body)\n    return digest.digest(), not",
            ),
        ),
        (f"{FEEDS}::test_a_complete_state_whose_responses_contain_their_time_deletes_what_it_lacks",),
    ),
    Removal(
        "B734",
        (Edit(f"{SOURCES}deadline.py", "if event.endswith(_OPENED):", "if False:"),),
        (f"{RESPONSES}::test_a_response_whose_headers_take_too_long_is_given_up",),
    ),
    Removal(
        "B736",
        (Edit(f"{SOURCES}polls.py", 'if is_mirror(source) and "newest" in checkpoint else {}', "if False else {}"),),
        (f"{TESTS}test_deletions.py::test_a_file_that_was_removed_when_the_folder_was_moved_is_deleted",),
    ),
    Removal(
        "B737",
        (Edit(MIGRATION, "not is_moved(version), versions)", "True, versions)"),),
        (f"{MIGRATING}::test_a_new_source_with_the_former_name_of_a_renamed_source_gets_all_rows",),
    ),
)
