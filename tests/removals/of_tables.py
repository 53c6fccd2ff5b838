"""Removals of fixes: tables, and the trees that their snapshots are."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

GROUP_COMMIT = "src/stratalog/group_commit.py"
TABLE = "apps/table/src/stratalog_table"
TRANSACTION_GROUP = f"{TABLE}/transaction_group.py"
PARTITIONS = f"{TABLE}/partitions.py"
TESTS = "apps/table/tests"
TOLD_UNKNOWN = f"{TESTS}/test_interrupts.py::test_those_who_shared_the_batch_are_told_that_its_outcome_is_unknown"
NOT_SENT = f"{TESTS}/test_interrupts.py::test_those_whose_batch_was_not_sent_are_served_by_the_next_leader"
ANYWHERE = (
    f"{TESTS}/test_interrupts.py::test_an_interrupt_anywhere_in_the_leaders_work_loses_nobody_and_commits_nothing_twice"
)

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B118",
        (
            Edit(
                GROUP_COMMIT,
                '        raise OutcomeUnknown("the thread that committed for others was interrupted")\n',
                "        return []\n",
            ),
        ),
        (TOLD_UNKNOWN,),
    ),
    Removal("B118", (Edit(TRANSACTION_GROUP, "        self._client = None\n", ""),), (TOLD_UNKNOWN,)),
    Removal(
        "B118",
        (
            Edit(
                GROUP_COMMIT,
                "self.leave(others, again=[other for other in others if not other.settled])",
                "self.leave(others)",
            ),
        ),
        (NOT_SENT,),
    ),
    Removal(
        "B119",
        (Edit(TRANSACTION_GROUP, "        for pending in batch:\n            pending.send()\n", ""),),
        (ANYWHERE,),
    ),
    Removal(
        "B119",
        (
            Edit(
                GROUP_COMMIT,
                "            batch.extend(map(deque.popleft, (self.waiting,)))\n",
                "            waiter = self.waiting.popleft()\n            batch.append(waiter)\n",
            ),
        ),
        (ANYWHERE,),
    ),
    Removal(
        "B120",
        (
            Edit(
                f"{TABLE}/table_draft.py",
                "if COLLECTED + filename in self.draft:",
                "if self.draft.get(COLLECTED + filename) is not None:",
            ),
        ),
        (f"{TESTS}/test_files.py::test_data_that_was_declared_garbage_is_never_added",),
    ),
    Removal(
        "B121",
        (Edit(f"{TABLE}/jobs.py", "        for _ in range(REOPENED_MAX):\n", "        for _ in range(0):\n"),),
        (f"{TESTS}/test_jobs.py::test_a_follower_goes_on_where_another_process_has_rebuilt_the_model",),
    ),
    Removal(
        "B122",
        (Edit(PARTITIONS, "    if root.region != schema.full_region():\n", "    if False:\n"),),
        (f"{TESTS}/test_partitions.py::test_a_table_begins_with_one_whole_tree",),
    ),
    Removal(
        "B123",
        (
            Edit(
                PARTITIONS,
                "if edge is None or not is_edge(schema.keys[parent.dimension].type, edge):",
                "if edge is None:",
            ),
        ),
        (f"{TESTS}/test_partitions.py::test_a_partition_is_split_where_a_key_can_be",),
    ),
    Removal(
        "B124",
        (Edit("src/stratalog/ports/commit_blobs.py", "    if len(bodies) < TOGETHER_MIN:\n", "    if True:\n"),),
        ("tests/tree/test_together.py::test_the_chunks_of_a_tree_wait_for_the_disk_beside_each_other",),
    ),
    Removal(
        "B125",
        (
            Edit(
                "src/stratalog/protocol/draft.py",
                "return self._holds(key) if self._holds else next(self._keys(key), None) == key",
                "return next(self._keys(key), None) == key",
            ),
        ),
        ("tests/documents/test_scans.py::test_a_draft_tells_what_was_there_without_opening_it",),
    ),
)
