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
BESIDE_PRUNES = "tests/records/test_reads_beside_prunes.py"

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
        (f"{BODIES}::test_the_body_of_a_commit_that_takes_effect_late_still_exists",),
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
        (
            "tests/records/test_lost_answers.py::test_a_put_whose_version_is_freed_during_the_check_raises_outcome_unknown",
        ),
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
        ("tests/records/test_missing.py::test_b46_an_invalid_bucket_name_is_refused",),
    ),
    Removal(
        "B74",
        (
            Edit(DEFECTS, "        yield bytes(2 * BODY_PART_BYTES + 1)\n", '        yield b"start"\n'),
            Edit(
                DEFECTS, "    assert world.blob_keys() != []\n    world.pass_seconds()\n", "    world.pass_seconds()\n"
            ),
        ),
        (f"{PLANTED}::test_a_planted_defect_makes_its_test_fail",),
    ),
    Removal(
        "B74",
        (
            Edit(DEFECTS, "        if followed:\n", "        if False:\n"),
            Edit(DEFECTS, 'body == (b"1+-" if followed else b"1+")', 'body == b"1+"'),
        ),
        (f"{PLANTED}::test_a_planted_defect_makes_its_test_fail",),
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
        (f"{PRUNE}::test_a_prune_or_free_that_loses_every_race_raises_contention_error_at_its_deadline",),
    ),
    Removal(
        "B394",
        (Edit(FAILURES, 'conflict")\n            if not retry.wait(exc):', 'conflict")\n            if exc is None:'),),
        (f"{DEAD_LETTERS}::test_a_resolution_that_loses_every_race_raises_contention_error_at_its_deadline",),
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
        (f"{DEAD_LETTERS}::test_a_dead_letter_remains_dead_in_a_process_with_a_higher_failure_limit",),
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
    Removal(
        "B782",
        (Edit("src/stratalog/records/history.py", "    if is_empty and latest < floor:\n", "    if False:\n"),),
        (
            f"{BESIDE_PRUNES}::test_a_list_of_versions_has_the_newest_version_although_all_earlier_versions_are_forgotten_meanwhile",
        ),
    ),
    Removal(
        "B783",
        (
            Edit(
                "src/stratalog/records/decisions.py",
                "            if _version(newest) == _version(latest):\n                raise\n",
                "            raise\n",
            ),
        ),
        (f"{BESIDE_PRUNES}::test_a_record_that_is_put_during_an_undeletion_is_not_forgotten",),
    ),
    Removal(
        "B783",
        (
            Edit(
                "src/stratalog/records/put.py",
                "            self._behind = True  # the decision may have found that its head is outdated\n",
                "",
            ),
        ),
        (f"{BESIDE_PRUNES}::test_a_record_that_is_put_during_an_undeletion_is_not_forgotten",),
    ),
    Removal(
        "B911",
        (
            Edit(
                "src/stratalog/records/batch.py",
                "(ConditionFailed, Corrupt, Unavailable)",
                "(ConditionFailed, Unavailable)",
            ),
        ),
        ("tests/records/test_many.py::test_a_damaged_version_of_one_record_does_not_stop_the_rest_of_its_batch",),
    ),
    Removal(
        "B986",
        (
            Edit(
                FAILURES,
                "    for letter in letters:\n        if letter is None or",
                "    for letter in letters:\n        if True or letter is None or",
            ),
        ),
        (f"{DEAD_LETTERS}::test_the_body_of_a_dead_letter_without_its_failures_is_spared_by_the_collector",),
    ),
    Removal(
        "B1042",
        (Edit(PUT, "        except Exception as exc:\n", "        except StratalogError as exc:\n"),),
        (
            "tests/records/test_lost_answers.py::test_an_update_that_may_take_effect_late_never_raises_the_error_of_its_function",
        ),
    ),
    Removal(
        "B1057",
        (
            Edit(
                "src/stratalog/records/batch.py",
                "a body with newer_only needs source_time_ms",
                "put_if_newer needs the source's time",
            ),
        ),
        ("tests/records/test_many.py::test_would_put_refuses_an_invalid_body",),
    ),
)
