"""Removals of fixes: programs that embed a store, their processes and forks."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

FORK = "src/stratalog/process_fork.py"
FORK_TESTS = "tests/test_process_fork.py"
SQLITE = "tests/backends/test_sqlite.py"
CONNECTIONS = "src/stratalog/backends/sqlite_connections.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B589",
        (Edit("src/stratalog/backends/sqlite_file.py", "        if clean:\n", "        if False:\n"),),
        (f"{FORK_TESTS}::test_commits_of_a_forked_child_stay_after_its_parent_has_closed_the_store",),
    ),
    Removal(
        "B590",
        (Edit(FORK, "before=_forks.take, ", ""),),
        (
            f"{FORK_TESTS}::test_a_fork_waits_for_a_commit_of_another_thread_so_the_child_can_write",
            f"{FORK_TESTS}::test_a_fork_waits_for_a_transaction_of_a_client_so_the_child_can_open_its_file",
            f"{FORK_TESTS}::test_no_store_opens_in_a_child_whose_fork_interrupted_a_call_of_sqlite",
        ),
    ),
    Removal(
        "B591",
        (
            Edit(
                CONNECTIONS,
                "    for _ in range(OPENING_WAIT_MS_MAX // POLL_MS):\n",
                "    flock(lock_file, LOCK_EX)\n    for _ in range(OPENING_WAIT_MS_MAX // POLL_MS):\n",
            ),
        ),
        (f"{SQLITE}::test_an_open_waits_at_most_the_limit_for_another_process_that_opens_the_file",),
    ),
)
