"""Removals of fixes: commits, background work, and the content of stores."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

DOCUMENT = "src/stratalog/documents/document.py"
LAYER = "src/stratalog/documents/layer.py"
SQLITE_QUEUE = "src/stratalog/backends/sqlite_queue.py"
BESIDE = "tests/documents/test_beside_commits.py"

COLLECTS_ON_WHAT_IT_DECIDES_ON = """\
        def collect(state: State) -> Event:
            return collection_of_clients(state, wanted, expired)
"""
COLLECTS_ON_WHAT_WAS_READ_BEFORE = """\
        read = self.state()

        def collect(state: State) -> Event:
            return collection_of_clients(read, wanted, expired)
"""
LISTS_TO_THE_END = """\
                    letters[letter.id], receipts[letter.id] = letter, record["ReceiptHandle"]
"""
ENDS_AT_REPETITION = """\
                    if letter.id in letters:
                        records = []
                    letters[letter.id], receipts[letter.id] = letter, record["ReceiptHandle"]
                if not records:
                    break
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B90",
        (
            Edit(
                DOCUMENT,
                "        return self._states.at(version)\n",
                "        with self._writer._lock:\n            return self._states.at(version)\n",
            ),
        ),
        ("tests/documents/test_apply.py::test_a_reader_does_not_wait_for_a_commit",),
    ),
    Removal(
        "B91",
        (
            Edit(
                "src/stratalog/documents/snapshot_schedule.py",
                "if self.log.environment.background.offer(self._run) is None:",
                "if self._run() is None:",
            ),
        ),
        (f"{BESIDE}::test_small_commits_continue_while_the_blob_store_is_unavailable_and_a_snapshot_is_due",),
    ),
    Removal(
        "B92",
        (Edit(DOCUMENT, COLLECTS_ON_WHAT_IT_DECIDES_ON, COLLECTS_ON_WHAT_WAS_READ_BEFORE),),
        (
            "tests/documents/test_expiry.py::test_a_client_that_arrives_during_its_collection_leaves_no_row_in_its_group",
        ),
    ),
    Removal(
        "B93",
        (
            Edit(
                LAYER,
                "        start = bisect_left(self._keys, prefix)\n",
                "        start = sum(key < prefix for key in self._keys)\n",
            ),
        ),
        (f"{BESIDE}::test_reading_the_owner_of_a_group_does_not_scan_all_clients",),
    ),
    Removal(
        "B93",
        (
            Edit(
                LAYER,
                "        if len(run.slots) >= RUN_MIN and len(run.slots) >= RUN_GROWTH * len(changes):\n"
                "            break\n",
                "",
            ),
        ),
        (f"{BESIDE}::test_the_cost_of_a_commit_does_not_grow_without_snapshots",),
    ),
    Removal(
        "B94",
        (
            Edit(
                "src/stratalog/documents/state_cache.py",
                "log.record.owner, environment.chunk_cache, environment.chunk_source)",
                "log.record.owner, None, environment.chunk_source)",
            ),
        ),
        (f"{BESIDE}::test_the_documents_of_a_store_share_one_cache_of_chunks",),
    ),
    Removal(
        "B95",
        (
            Edit(
                "src/stratalog/documents/projections.py",
                "                return max(checkpoint, upto)\n",
                "                return max(checkpoint, upto)\n            return self.catch_up(version_min)\n",
            ),
        ),
        ("tests/documents/test_projections.py::test_a_projection_that_loses_every_race_ends_at_the_head",),
    ),
    Removal(
        "B96",
        (
            Edit(
                SQLITE_QUEUE,
                '"SELECT name FROM message_groups WHERE visible_ms = 0 ORDER BY first LIMIT ?"',
                '"SELECT name FROM messages GROUP BY name HAVING max(hidden_until_ms) = 0 ORDER BY min(id) LIMIT ?"',
            ),
        ),
        (
            "tests/backends/test_sqlite_queue.py::test_the_cost_of_a_poll_does_not_depend_on_the_number_of_messages_in_the_queue",
        ),
    ),
    Removal(
        "B97",
        (
            Edit("src/stratalog/backends/sqs.py", LISTS_TO_THE_END, ENDS_AT_REPETITION),
            Edit(
                "src/stratalog/backends/sqs.py",
                "    return min(LISTING_SECONDS_MIN + 2 * age_seconds, VISIBILITY_SECONDS_MAX)\n",
                "    return LISTING_SECONDS_MIN\n",
            ),
        ),
        (
            (
                "tests/cloud/test_sqs_listing.py"
                "::test_a_listing_that_outlasts_the_visibility_timeout_lists_all_dead_letters"
            ),
        ),
    ),
    Removal(
        "B98",
        (
            Edit(
                "src/stratalog/store.py",
                "            if len(self._documents) > DOCUMENTS_HELD_MAX:\n",
                "            if False:\n",
            ),
        ),
        ("tests/test_store.py::test_a_store_holds_a_bounded_number_of_recently_used_documents",),
    ),
)
