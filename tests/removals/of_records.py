"""Removals of fixes: records."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

CONTENT = "src/stratalog/records/content.py"
PUT = "src/stratalog/records/put.py"
DEFECTS = "tests/records/test_defects.py"
BODIES = "tests/records/test_bodies.py"
PRUNE = "tests/records/test_prune.py"
RETENTION = "src/stratalog/records/retention.py"
FAILURES = "src/stratalog/records/failures.py"
DEAD_LETTERS = "tests/records/test_dead_letters.py"
PLANTED = "tests/records/test_planted_defects.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B70",
        (Edit(CONTENT, "        if self._ages():\n            self._upload(self.bytes)\n", "        return\n"),),
        (f"{BODIES}::test_a_body_whose_commit_was_slow_is_put_again",),
    ),
    Removal(
        "B70",
        (Edit(CONTENT, "            if not self._ages():\n", "            if True:\n"),),
        (f"{BODIES}::test_a_body_whose_upload_was_slow_is_put_again_before_its_commit",),
    ),
    Removal(
        "B71",
        (
            Edit(
                PUT,
                "        self._doubts.add(plan.version)\n        self._make_sure()\n",
                "        self._doubts.add(plan.version)\n",
            ),
        ),
        (f"{BODIES}::test_a_body_whose_writer_gave_up_is_there_when_the_commit_lands_late",),
    ),
    Removal(
        "B72",
        (
            Edit(
                PUT,
                " or self._sends[version] > 1 or not self._is_stored(version):",
                " or self._sends[version] > 1:",
            ),
        ),
        ("tests/records/test_lost_answers.py::test_a_version_freed_while_its_writer_looks_is_an_unknown_outcome",),
    ),
    Removal(
        "B73",
        (
            Edit(
                "src/stratalog/backends/objectstore.py",
                "    if not BUCKET.fullmatch(parts.netloc):\n",
                "    if False:\n",
            ),
        ),
        ("tests/records/test_missing.py::test_b46_a_name_that_no_bucket_can_have_is_invalid",),
    ),
    Removal(
        "B74",
        (
            Edit(DEFECTS, "        yield bytes(2 * BODY_PART_BYTES + 1)\n", '        yield b"start"\n'),
            Edit(
                DEFECTS, "    assert world.blob_keys() != []\n    world.pass_seconds()\n", "    world.pass_seconds()\n"
            ),
        ),
        (f"{PLANTED}::test_a_planted_defect_is_noticed_by_the_test_that_stands_for_it",),
    ),
    Removal(
        "B74",
        (
            Edit(DEFECTS, "        if followed:\n", "        if False:\n"),
            Edit(DEFECTS, 'body == (b"1+-" if followed else b"1+")', 'body == b"1+"'),
        ),
        (f"{PLANTED}::test_a_planted_defect_is_noticed_by_the_test_that_stands_for_it",),
    ),
    Removal(
        "B75",
        (Edit(CONTENT, '        if item.attributes["h"] == self.digest:\n', "        if False:\n"),),
        ("tests/records/test_lost_bodies.py::test_putting_a_record_again_restores_its_body",),
    ),
    Removal(
        "B344",
        (
            Edit(
                FAILURES,
                'known is not None and known.attributes["w"] == failure.write_id:',
                'known is not None and known.attributes["w"] == "":',
            ),
        ),
        ("tests/records/test_dead_letters.py::test_a_failure_that_is_repeated_with_its_write_id_is_counted_once",),
    ),
    Removal(
        "B394",
        (Edit(RETENTION, "    if not retry.wait(lost):", "    if lost is None:"),),
        (f"{PRUNE}::test_a_call_that_always_finds_the_floor_changed_waits_and_ends",),
    ),
    Removal(
        "B394",
        (Edit(FAILURES, 'conflict")\n            if not retry.wait(exc):', 'conflict")\n            if exc is None:'),),
        (f"{DEAD_LETTERS}::test_a_resolution_that_always_meets_new_failures_waits_and_ends",),
    ),
    Removal(
        "B395",
        (Edit(FAILURES, "    return not is_same\n", "    return False\n"),),
        (f"{DEAD_LETTERS}::test_a_failure_counted_after_a_resolution_whose_answer_is_lost_is_not_forgotten",),
    ),
    Removal(
        "B422",
        (
            Edit(
                FAILURES,
                '            if known.attributes["q"] == failures_max:\n'
                "                _report(environment, name, known)  # the earlier call may have ended"
                " before its report\n",
                "",
            ),
        ),
        (f"{DEAD_LETTERS}::test_a_dead_letter_whose_failure_had_an_unknown_outcome_is_reported",),
    ),
    Removal(
        "B422",
        (
            Edit(
                FAILURES,
                "            _report(environment, name, item)  # before `_make_sure`, which may raise an error\n",
                "            pass\n",
            ),
        ),
        (f"{DEAD_LETTERS}::test_a_dead_letter_whose_failure_had_an_unknown_outcome_is_reported",),
    ),
    Removal(
        "B396",
        (Edit(FAILURES, 'int(before["d"] or count', "int(count"),),
        (f"{DEAD_LETTERS}::test_a_dead_letter_stays_one_where_another_process_allows_more_failures",),
    ),
    Removal(
        "B432",
        (Edit(FAILURES, "failure.content.guards() and 0 not in exc.items:", "False:"),),
        (f"{DEAD_LETTERS}::test_a_failure_whose_upload_outlives_its_pin_is_not_counted",),
    ),
    Removal(
        "B474",
        (Edit("src/stratalog/records/batch.py", "organisation, body, [], _UnstoredBody)", "organisation, body, [])"),),
        ("tests/records/test_many.py::test_a_dry_run_of_a_large_body_writes_nothing",),
    ),
)
