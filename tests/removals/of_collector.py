"""Removals of fixes: marking and collection, and blobs that writers put again."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

APPEND = "src/stratalog/log/append.py"
APP_SNAPSHOTS = "src/stratalog/log/app_snapshots.py"
ARCHIVE = "src/stratalog/log/archive.py"
BLOB_BATCH = "src/stratalog/log/blob_batch.py"
MARKS = "src/stratalog/maintenance/marks.py"
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
MADE_ANEW = "_restore_archive(environment, prefix, owner, segment)\n    except"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B62",
        (
            Edit(MARKS, SEGMENTS_MARKED, ""),
            Edit(MARKS, "        reached.done.append(prefix)\n", SEGMENTS_MARKED_LAST),
        ),
        ("tests/maintenance/test_collect.py::test_a_value_that_moves_into_the_base_while_its_log_is_marked_stays",),
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
        (
            "tests/maintenance/test_collect.py::test_a_fork_made_while_the_family_is_marked_keeps_what_its_parent_lets_go",
        ),
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
            "tests/maintenance/test_collect.py::test_blobs_of_a_newer_base_stay_though_the_base_being_read_is_deleted",
            "tests/maintenance/test_collect.py::test_snapshots_are_asked_for_one_by_one",
        ),
    ),
    Removal(
        "B65",
        (Edit(SNAPSHOTS, "    except OutcomeUnknown:\n        blob_batch.renew()\n        raise\n", ""),),
        ("tests/documents/test_snapshots.py::test_a_snapshot_that_is_never_answered_puts_its_chunks_again",),
    ),
    Removal(
        "B65",
        (
            Edit(
                RETENTION,
                "        finally:\n            blob_batch.renew()",
                "        except ConditionFailed:\n            raise\n        blob_batch.renew()",
            ),
        ),
        ("tests/log/test_segments.py::test_an_archive_whose_mark_is_never_answered_is_put_again",),
    ),
    Removal(
        "B66",
        (Edit(SNAPSHOTS, "    blob_batch.refresh()\n", ""),),
        (
            "tests/documents/test_snapshots.py::test_a_snapshot_whose_writer_slept_puts_its_chunks_again_before_it_is_made",
        ),
    ),
    Removal(
        "B66",
        (Edit(SNAPSHOTS, "    blob_batch.renew()\n    return", "    tree_roots(state)\n    return"),),
        (
            "tests/documents/test_snapshots.py::test_chunks_are_put_again_with_patience_and_without_those_they_were_made_from",
        ),
    ),
    Removal(
        "B66",
        (Edit(BLOB_BATCH, "if not retry.wait(exc):", "if retry:"),),
        (
            "tests/documents/test_snapshots.py::test_chunks_are_put_again_with_patience_and_without_those_they_were_made_from",
        ),
    ),
    Removal(
        "B66",
        (
            Edit(
                APPEND,
                "if pending.blob_batch is not None and pending.blob_batch.refresh():",
                "if pending.blob_batch is not None and pending.settled:",
            ),
        ),
        (
            "tests/log/test_upload.py::test_what_was_collected_while_its_writer_slept_is_put_again_before_anything_names_it",
            "tests/log/test_upload.py::test_what_cannot_be_put_again_is_not_named",
        ),
    ),
    Removal(
        "B66",
        (Edit(APP_SNAPSHOTS, "            blob_batch.refresh()\n", ""),),
        (
            "tests/log/test_upload.py::test_what_was_collected_while_its_writer_slept_is_put_again_before_anything_names_it",
            "tests/log/test_upload.py::test_what_cannot_be_put_again_is_not_named",
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
        (
            "tests/log/test_segments.py::test_a_segment_that_is_forgotten_while_its_archive_is_read_is_not_freed_and_not_damaged",
        ),
    ),
    Removal(
        "B68",
        (Edit(RETENTION, "        blob_batch.refresh()\n", ""),),
        ("tests/maintenance/test_collect.py::test_an_archive_whose_writer_slept_is_put_again_before_a_mark_names_it",),
    ),
    Removal(
        "B68",
        (Edit(ARCHIVE, "        if segment.freed:\n            raise\n", "        raise\n"),),
        ("tests/maintenance/test_collect.py::test_an_archive_that_was_collected_before_its_mark_landed_is_made_anew",),
    ),
    Removal(
        "B68",
        (Edit(ARCHIVE, MADE_ANEW, 'raise Corrupt("")\n    except'),),
        ("tests/maintenance/test_collect.py::test_an_archive_that_was_collected_before_its_mark_landed_is_made_anew",),
    ),
    Removal(
        "B298",
        (Edit(SNAPSHOT_RECORDS, UNFORGOTTEN, WITHOUT_FLOOR),),
        (
            "tests/documents/test_snapshots.py::test_a_snapshot_without_a_base_does_not_land_below_a_floor_that_rose_meanwhile",
            "tests/documents/test_snapshots.py::test_a_fork_s_snapshot_on_its_parent_s_does_not_land_below_the_fork_s_own_floor",
            "tests/log/test_base.py::test_an_app_snapshot_does_not_land_below_a_floor_that_rose_meanwhile",
        ),
    ),
    Removal(
        "B298",
        (Edit(SNAPSHOT_RECORDS, "if BASE_CHECK in exc.items:", "if exc.items:"),),
        ("tests/documents/test_snapshots.py::test_a_snapshot_is_made_though_its_log_rolls_over_meanwhile",),
    ),
    Removal(
        "B299",
        (Edit(SNAPSHOT_RECORDS, UNFORGOTTEN, WITHOUT_FLOOR),),
        ("tests/documents/test_snapshots.py::test_a_snapshot_does_not_land_in_a_log_that_was_deleted_meanwhile",),
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
        ("tests/maintenance/test_repair.py::test_no_snapshot_is_made_again_below_a_floor_that_rose_meanwhile",),
    ),
    Removal(
        "B397",
        (Edit(ARCHIVE, "blob_batch) != segment.archive:", "blob_batch) is None:"),),
        ("tests/log/test_segments.py::test_entries_that_do_not_give_their_damaged_archive_again_are_not_freed",),
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
            "tests/log/test_segments.py::test_a_segment_that_is_freed_while_its_lost_archive_is_made_anew_is_not_damaged",
        ),
        raises=("Corrupt",),
    ),
)
