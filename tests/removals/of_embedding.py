"""Removals of fixes: programs that embed a store, their processes and forks."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

FORK = "src/stratalog/process_fork.py"
FORK_TESTS = "tests/test_process_fork.py"
SQLITE = "tests/backends/test_sqlite.py"
MOVED = "tests/backends/test_moved_files.py"
CONNECTIONS = "src/stratalog/backends/sqlite_connections.py"

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B582",
        (Edit("src/stratalog/backends/sqlite_file.py", "        if clean:\n", "        if False:\n"),),
        (f"{FORK_TESTS}::test_commits_of_a_forked_child_stay_after_its_parent_has_closed_the_store",),
    ),
    Removal(
        "B582",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "        self._closed = True  # not tested before",
                "        if self._closed:\n            return\n        self._closed = True  # not tested before",
            ),
        ),
        (f"{FORK_TESTS}::test_a_child_that_is_forked_during_a_close_inherits_no_database",),
    ),
    Removal(
        "B582",
        (
            Edit(
                "src/stratalog/backends/sqlite_file.py",
                "            leave_in_child(self)\n",
                "        leave_in_child(self)\n",
            ),
        ),
        (f"{FORK_TESTS}::test_a_child_that_is_forked_during_an_open_inherits_no_database",),
    ),
    Removal(
        "B583",
        (Edit(FORK, 'taken = getattr(self.own, "taken", [])', "taken = list[Any]()"),),
        (f"{FORK_TESTS}::test_a_fork_that_waits_for_another_fork_gives_its_locks_back",),
    ),
    Removal(
        "B583",
        (Edit(FORK, "before=_forks.take, ", ""),),
        (
            f"{FORK_TESTS}::test_a_fork_waits_for_a_commit_of_another_thread_so_the_child_can_write",
            f"{FORK_TESTS}::test_a_fork_waits_for_a_transaction_of_a_client_so_the_child_can_open_its_file",
            f"{FORK_TESTS}::test_no_store_opens_in_a_child_whose_fork_interrupted_a_call_of_sqlite",
        ),
    ),
    Removal(
        "B583",
        (Edit(FORK, "os.register_at_fork(after_in_parent=_forks.give_back)  # again", "# again"),),
        (f"{FORK_TESTS}::test_an_interrupt_anywhere_in_a_fork_blocks_no_other_thread",),
    ),
    Removal(
        "B584",
        (
            Edit(
                CONNECTIONS,
                "    for _ in range(OPENING_WAIT_MS_MAX // POLL_MS):\n",
                "    flock(lock_file, LOCK_EX)\n    for _ in range(OPENING_WAIT_MS_MAX // POLL_MS):\n",
            ),
        ),
        (f"{SQLITE}::test_an_open_waits_at_most_the_limit_for_another_process_that_opens_the_file",),
    ),
    Removal(
        "B585",
        (
            Edit(
                "src/stratalog/sqlite_files.py",
                "        if _identity_of(self._path) != self._identity:\n",
                "        if False:\n",
            ),
        ),
        (
            f"{MOVED}::test_a_store_whose_files_are_gone_acknowledges_no_commit_and_answers_no_read",
            f"{MOVED}::test_a_store_that_is_moved_and_moved_back_works",
        ),
    ),
    Removal(
        "B586",
        (
            Edit(
                "src/stratalog/folders.py",
                "        return os.fspath(Path(path).absolute())\n",
                "        return os.fspath(path)\n",
            ),
        ),
        (
            f"{MOVED}::test_a_store_of_a_relative_path_is_the_same_after_a_change_of_the_working_directory",
            f"{MOVED}::test_a_cache_of_a_relative_path_is_the_same_after_a_change_of_the_working_directory",
        ),
    ),
    Removal(
        "B587",
        (
            Edit(
                "src/stratalog/sqlite_files.py",
                "    if os.path.exists(log) and os.path.getsize(log) > LOG_HEADER_BYTES:\n",
                "    if False:\n",
            ),
        ),
        (
            f"{MOVED}::test_a_store_whose_database_is_lost_keeps_the_commits_in_its_write_ahead_log",
            f"{MOVED}::test_a_client_s_file_that_is_lost_keeps_the_mutations_in_its_write_ahead_log",
        ),
    ),
    Removal(
        "B588",
        (
            Edit(
                CONNECTIONS,
                '    with suppress(apsw.FullError):\n        connection.pragma("wal_checkpoint")\n',
                '    connection.pragma("wal_checkpoint")\n',
            ),
        ),
        ("tests/backends/test_full_disk.py::test_a_store_whose_process_was_killed_can_be_read_on_a_full_disk",),
    ),
    Removal(
        "B588",
        (
            Edit(
                "src/stratalog/client/file.py",
                '        with suppress(apsw.FullError):\n            connection.pragma("wal_checkpoint")\n',
                '        connection.pragma("wal_checkpoint")\n',
            ),
        ),
        ("tests/backends/test_full_disk.py::test_a_client_s_file_can_be_opened_on_a_full_disk",),
    ),
)
