"""Removals of fixes: marking and collection, and blobs that writers put again."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

APPEND = "src/stratalog/log/append.py"
APP_SNAPSHOTS = "src/stratalog/log/app_snapshots.py"
ARCHIVE = "src/stratalog/log/archive.py"
BLOB_BATCH = "src/stratalog/log/blob_batch.py"
LIFECYCLE = "src/stratalog/log/lifecycle.py"
MARKS = "src/stratalog/maintenance/marks.py"
MAINTAIN = "tests/maintenance/test_maintain.py"
REPAIR = "src/stratalog/maintenance/repair.py"
RETENTION = "src/stratalog/log/retention.py"
SNAPSHOTS = "src/stratalog/documents/snapshots.py"
SNAPSHOT_RECORDS = "src/stratalog/log/snapshots.py"

SEGMENTS_MARKED = """\
            for segment in list_segments(index, prefix, first=reached.segment):
                self._mark_segment(prefix, segment)
                reached.segment = segment.first + 1
"""
SEGMENTS_MARKED_LAST = """\
        for segment in list_segments(index, prefix, first=reached.segment):
            self._mark_segment(prefix, segment)
            reached.segment = segment.first + 1
        reached.done.append(prefix)
"""
UNFORGOTTEN = "[Put(item, Absent()), _floor_check(environment.index, record, version)]"
# The check of an item that no code writes, so that the check of the base keeps its index.
WITHOUT_FLOOR = '[Put(item, Absent()), Check(f"{record.prefix}/nothing", "nothing", Absent())]'
MEMBER_BY_LINEAGE = """\
            if prefix == record.prefix or (member is not None and depth_of(member) > depth):
                yield member_put(record.owner, prefix, depth)
"""
MEMBER_BY_STORED_DEPTHS = """\
            if prefix == record.prefix:
                stored = {item.sort: depth_of(item) for item in self._index.query(family_partition(record.owner))}
                above = [stored.get(parent.prefix, 0) for parent in record.lineage]
                depth = 0 if prefix == record.owner else max(above or stored.values(), default=0) + 1
                yield member_put(record.owner, prefix, depth)
"""
MADE_ANEW = "_restore_archive(environment, prefix, owner, segment)\n    except"

TEST_REPAIR = "tests/maintenance/test_repair.py"
SEGMENTS = "tests/log/test_damaged_segments.py"
REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B62",
        (
            Edit(MARKS, SEGMENTS_MARKED, ""),
            Edit(MARKS, "        reached.done.append(prefix)\n", SEGMENTS_MARKED_LAST),
        ),
        ("tests/maintenance/test_collect.py::test_a_value_that_moves_into_the_base_snapshot_during_marking_stays",),
    ),
    Removal(
        "B63",
        (
            Edit(
                MARKS,
                "while unread := self._unread():\n            for prefix in unread:\n                self._mark_log",
                "for prefix in self._unread():\n            self._mark_log",
            ),
        ),
        ("tests/maintenance/test_collect.py::test_a_fork_made_during_marking_retains_a_value_that_its_parent_forgets",),
    ),
    Removal(
        "B64",
        (
            Edit(
                MARKS,
                "while (snapshot := next(list_snapshots(index, prefix, first=reached.snapshot, limit=1), None)) "
                "is not None:",
                "for snapshot in list_snapshots(index, prefix, first=reached.snapshot):",
            ),
        ),
        (
            "tests/maintenance/test_collect.py::test_blobs_of_a_newer_base_snapshot_stay_if_the_base_being_read_is_deleted",
            "tests/maintenance/test_collect.py::test_a_collection_queries_a_single_snapshot_at_a_time",
        ),
    ),
    Removal(
        "B65",
        (Edit(BLOB_BATCH, "is_refused = not isinstance(exc, OutcomeUnknown)", "is_refused = bool(exc)"),),
        (
            "tests/documents/test_snapshots.py::test_a_snapshot_with_an_unknown_outcome_puts_its_chunks_again",
            "tests/log/test_segments.py::test_an_archive_is_put_again_if_the_answer_to_its_commit_is_lost",
        ),
    ),
    Removal(
        "B66",
        (Edit(SNAPSHOTS, "        with blob_batch.sending():\n", "        if True:\n"),),
        (
            "tests/documents/test_snapshots.py::test_a_snapshot_whose_writer_slept_puts_its_chunks_again_before_its_commit",
        ),
    ),
    Removal(
        "B66",
        (Edit(BLOB_BATCH, "            if not is_refused:\n", "            if is_refused:\n"),),
        (
            "tests/documents/test_snapshots.py::test_repeated_puts_of_chunks_are_retried_and_need_no_read_of_older_chunks",
        ),
    ),
    Removal(
        "B66",
        (Edit(BLOB_BATCH, "if not retry.wait(exc):", "if retry:"),),
        (
            "tests/documents/test_snapshots.py::test_repeated_puts_of_chunks_are_retried_and_need_no_read_of_older_chunks",
        ),
    ),
    Removal(
        "B66",
        (
            Edit(
                APPEND,
                "if pending.blob_batch is not None and pending.refresh():",
                "if pending.blob_batch is not None and pending.settled:",
            ),
        ),
        (
            "tests/log/test_upload.py::test_a_blob_collected_while_its_writer_slept_is_put_again_before_the_commit",
            "tests/log/test_upload.py::test_a_writer_does_not_commit_if_its_collected_blob_cannot_be_put_again",
        ),
    ),
    Removal(
        "B66",
        (Edit(APP_SNAPSHOTS, "            with blob_batch.sending():\n", "            if True:\n"),),
        (
            "tests/log/test_upload.py::test_a_blob_collected_while_its_writer_slept_is_put_again_before_the_commit",
            "tests/log/test_upload.py::test_a_writer_does_not_commit_if_its_collected_blob_cannot_be_put_again",
        ),
    ),
    Removal(
        "B67",
        (
            Edit(
                "src/stratalog/log/archive.py",
                "        if segment_changed(environment.index, prefix, segment):\n            return False\n    try:\n",
                "        pass\n    try:\n",
            ),
            Edit(
                "src/stratalog/log/archive.py",
                "        if segment_changed(environment.index, prefix, segment):\n"
                "            return False\n        raise\n",
                "        raise\n",
            ),
        ),
        ("tests/log/test_segments.py::test_freeing_skips_a_segment_that_is_forgotten_while_its_archive_is_read",),
    ),
    Removal(
        "B68",
        (Edit(RETENTION, "        with blob_batch.sending():\n", "        if True:\n"),),
        (
            "tests/maintenance/test_collect.py::test_a_collected_archive_is_put_again_before_its_segment_record_refers_to_it",
        ),
    ),
    Removal(
        "B68",
        (Edit(ARCHIVE, "        if segment.freed:\n            raise\n", "        raise\n"),),
        (
            "tests/maintenance/test_collect.py::test_an_archive_deleted_during_the_commit_of_its_segment_record_is_rebuilt",
        ),
    ),
    Removal(
        "B68",
        (Edit(ARCHIVE, MADE_ANEW, 'raise Corrupt("")\n    except'),),
        (
            "tests/maintenance/test_collect.py::test_an_archive_deleted_during_the_commit_of_its_segment_record_is_rebuilt",
        ),
    ),
    Removal(
        "B298",
        (Edit(SNAPSHOT_RECORDS, UNFORGOTTEN, WITHOUT_FLOOR),),
        (
            "tests/documents/test_snapshots.py::test_a_snapshot_without_a_base_is_not_stored_below_a_concurrently_raised_floor",
            "tests/documents/test_snapshots.py::test_a_snapshot_of_a_fork_is_not_stored_below_a_concurrently_raised_floor",
            "tests/log/test_base.py::test_an_app_snapshot_below_a_concurrently_raised_floor_is_refused",
        ),
    ),
    Removal(
        "B298",
        (Edit(SNAPSHOT_RECORDS, "if BASE_CHECK in exc.items:", "if exc.items:"),),
        ("tests/documents/test_snapshots.py::test_a_snapshot_is_stored_although_its_log_rolls_over_meanwhile",),
    ),
    Removal(
        "B299",
        (Edit(SNAPSHOT_RECORDS, UNFORGOTTEN, WITHOUT_FLOOR),),
        ("tests/documents/test_snapshots.py::test_a_snapshot_is_not_stored_in_a_log_that_was_deleted_meanwhile",),
    ),
    Removal(
        "B300",
        (
            Edit(
                REPAIR,
                "self._commit([Put(Item(partition, sort, attributes)), name_check(log.record)])",
                "self._commit([Put(Item(partition, sort, attributes))])",
            ),
        ),
        ("tests/maintenance/test_repair.py::test_a_snapshot_is_not_rebuilt_below_a_floor_that_rose_during_the_repair",),
    ),
    Removal(
        "B397",
        (Edit(ARCHIVE, "blob_batch) != segment.archive:", "blob_batch) is None:"),),
        ("tests/log/test_segments.py::test_entries_that_differ_from_their_damaged_archive_are_not_freed",),
    ),
    Removal(
        "B397",
        (
            Edit(
                ARCHIVE,
                "    except Corrupt:\n        if segment_changed(environment.index, prefix, segment):\n"
                "            return False\n        raise\n",
                "    except Corrupt:\n        raise\n",
            ),
        ),
        (
            "tests/log/test_segments.py::test_a_segment_freed_while_its_lost_archive_is_rebuilt_is_not_reported_as_damage",
        ),
        raises=("Corrupt",),
    ),
    Removal(
        "B537",
        (
            Edit(
                "src/stratalog/log/retention.py",
                "                damage = damage or exc\n            continue\n        with blob_batch",
                "                raise\n            continue\n        with blob_batch",
            ),
            Edit(
                "src/stratalog/log/retention.py",
                '            environment.count("archive")\n            report(1)\n',
                '            environment.count("archive")\n',
            ),
            Edit(
                "src/stratalog/log/retention.py",
                "            damage = damage or exc\n            continue\n        delete_partition",
                "            raise\n        delete_partition",
            ),
            Edit(
                "src/stratalog/documents/document.py",
                "            report(len(idle.clients))\n        return expired\n",
                "        report(expired)\n        return expired\n",
            ),
            Edit(
                "src/stratalog/records/retention.py",
                '        environment.count("freed record version", count)\n        report(count)\n',
                '        environment.count("freed record version", count)\n    report(deleted)\n',
            ),
        ),
        (
            f"{SEGMENTS}::test_archiving_continues_after_a_damaged_segment_and_reports_the_archived_segments",
            f"{SEGMENTS}::test_freeing_continues_after_a_damaged_archive_and_reports_the_freed_segments",
            f"{SEGMENTS}::test_a_damaged_base_stops_the_freeing_of_forgotten_segments_but_not_of_archived_segments",
            f"{SEGMENTS}::test_a_maintenance_pass_counts_the_segments_that_it_archived_beside_a_damaged_segment",
            f"{SEGMENTS}::test_an_expiry_of_clients_reports_the_clients_of_each_entry_before_an_error",
            f"{SEGMENTS}::test_freeing_a_record_reports_the_items_of_each_commit_before_an_error",
            "tests/cli/test_commands.py::test_an_archive_of_a_damaged_document_counts_the_segments_that_it_archived",
        ),
    ),
    Removal(
        "B551",
        (Edit(REPAIR, MEMBER_BY_LINEAGE, MEMBER_BY_STORED_DEPTHS),),
        (
            f"{TEST_REPAIR}::test_a_fork_that_is_repaired_before_its_ancestors_gets_its_depth",
            f"{TEST_REPAIR}::test_a_repaired_fork_that_forgot_its_ancestors_has_a_smaller_depth_than_its_own_forks",
            f"{TEST_REPAIR}::test_a_depth_that_is_too_great_is_repaired_and_no_fork_gets_a_greater_one",
        ),
    ),
    Removal(
        "B552",
        (Edit(LIFECYCLE, "depth_of(member) + 1) if member else depth\n", "depth_of(member) + 1) if member else 1\n"),),
        (f"{TEST_REPAIR}::test_a_fork_of_a_log_that_is_no_member_of_its_family_stays_deeper_than_the_repaired_log",),
    ),
    Removal(
        "B792",
        (
            Edit(
                "src/stratalog/maintenance/marks.py",
                "        except Corrupt:\n            prefix = ",
                "        except ():\n            prefix = ",
            ),
        ),
        (
            "tests/backups/test_lost_blobs.py::test_an_event_of_an_application_named_as_a_documents_commit_refers_to_no_blob",
        ),
    ),
    Removal(
        "B1014",
        (
            Edit(
                MARKS,
                "            elif listed.position is not None or not self._is_forgotten(prefix, listed.sort):\n",
                "            else:\n",
            ),
        ),
        (f"{MAINTAIN}::test_a_forgotten_entry_that_cannot_be_decoded_is_named_and_does_not_stop_a_collection",),
    ),
    Removal(
        "B1014",
        (Edit(MARKS, 'self._is_forgotten(item.partition.rpartition("/")[0], item.sort)', "False"),),
        (f"{MAINTAIN}::test_a_forgotten_entry_whose_body_is_lost_does_not_stop_a_collection",),
    ),
    Removal(
        "B1015",
        (
            Edit(
                "src/stratalog/maintenance/log_check.py",
                "            if is_retained and segment.first <= self.record.floor:\n",
                "            if False:\n",
            ),
        ),
        (f"{MAINTAIN}::test_a_forgotten_entry_that_cannot_be_decoded_is_named_and_does_not_stop_a_collection",),
    ),
)
