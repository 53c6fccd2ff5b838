"""The limits of tables that no other test reaches. `docs/limits.md` names a test for each limit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from apps.table.tests.helpers import assignment, memory_store, new_file, table_of
from apps.table.tests.test_committing import add
from stratalog import OutcomeUnknown
from stratalog_table import RULES, TransactionRefused
from stratalog_table.limits import FILES_PER_JOB_MAX, PUSH_TRIES_MAX, TABLE_ID_BYTES_MAX
from stratalog_table.merge_plan import plan
from stratalog_table.queue_path import TableQueue


def test_a_job_id_is_bounded() -> None:
    table = table_of(memory_store())
    table.add_files([new_file("a"), new_file("b")])
    table.assign_job_ids([assignment("j" * TABLE_ID_BYTES_MAX, "a")])
    with pytest.raises(TransactionRefused, match="a job cannot be"):
        table.assign_job_ids([assignment("j" * (TABLE_ID_BYTES_MAX + 1), "b")])


def test_a_merge_job_has_a_bounded_number_of_files() -> None:
    table = table_of(memory_store())
    table.add_files([new_file(str(number)) for number in range(FILES_PER_JOB_MAX + 8)])
    assert plan(table, 8) == 2
    jobs = Counter(reference.job for reference in table.at().on_partition("root").references)
    assert sorted(jobs.values()) == [8, FILES_PER_JOB_MAX]


def test_a_message_that_stays_in_doubt_is_sent_a_bounded_number_of_times() -> None:
    store = memory_store()
    store.rules = RULES
    sent: list[Any] = []

    def in_doubt(group: str, bodies: list[bytes]) -> None:
        sent.append(bodies)
        raise OutcomeUnknown("simulated")

    queue = TableQueue(table_of(store))
    store.queue.send = in_doubt  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        queue.send([add("a")])
    assert len(sent) == PUSH_TRIES_MAX
