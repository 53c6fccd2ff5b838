"""Removals of fixes: the simulation, the benchmarks, and the tests' own machinery."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

DISK = "src/stratalog/testing/disk.py"
EMULATORS = "src/stratalog/testing/emulators.py"
WORLD_DISK = "tests/simulation/test_world_disk.py"
LAYERS = "tests/test_layers.py"
TIME_LIMITS = "tests/test_time_limits.py"

PARTS_WITH_GRPC = """\
SEAWEED_PORTS = (*(f"{part}.port" for part in SEAWEED_PARTS), *(f"{part}.port.grpc" for part in SEAWEED_PARTS))
"""
PARTS = """\
SEAWEED_PORTS = tuple(f"{part}.port" for part in SEAWEED_PARTS)
"""

REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B138",
        (Edit(DISK, " if not name.endswith(SHARED_MEMORY)):\n", "):\n"),),
        (f"{WORLD_DISK}::test_the_shared_memory_file_of_sqlite_is_gone_after_a_power_failure",),
    ),
    Removal(
        "B139",
        (Edit(DISK, "present + synced[len(present) :]\n", 'present.ljust(lengths[1], b"\\0")\n'),),
        (f"{WORLD_DISK}::test_a_truncated_file_has_no_zeros_after_a_power_failure",),
    ),
    Removal(
        "B140",
        (
            Edit(
                LAYERS,
                '    run([program("lint-imports"), "--no-cache"], cwd=ROOT)\n',
                '    import_module("importlinter.cli").lint_imports(no_cache=True)\n',
            ),
        ),
        (f"{LAYERS}::test_the_contracts_of_import_linter_hold",),
    ),
    Removal(
        "B141",
        (
            Edit(
                EMULATORS,
                "        yield [reserved.getsockname()[1] for reserved in sockets]\n",
                "        ports = [reserved.getsockname()[1] for reserved in sockets]\n"
                "        stack.close()\n        yield ports\n",
            ),
        ),
        ("tests/cloud/test_emulators.py::test_only_a_server_can_use_a_reserved_port_even_after_a_restart",),
    ),
    Removal(
        "B141",
        (Edit(EMULATORS, PARTS_WITH_GRPC, PARTS),),
        ("tests/cloud/test_emulators.py::test_the_object_store_listens_on_the_ports_that_were_reserved_for_it",),
    ),
    Removal(
        "B142",
        (
            Edit(
                "tests/crashes.py",
                "    report.longrepr = f\"{report.longrepr}: {ended}\\n{stacks or 'no stacks were written'}\"\n",
                "",
            ),
        ),
        ("tests/test_processes.py::test_a_worker_that_crashes_is_named_with_its_test_its_signal_and_its_stacks",),
    ),
    Removal(
        "B142",
        (
            Edit(
                "tests/crashes.py",
                '        report.sections += [("process that died", text) for text in unexpected_ends()]\n',
                "        pass\n",
            ),
        ),
        ("tests/test_processes.py::test_a_process_that_died_is_in_the_report_of_a_test_that_fails_meanwhile",),
    ),
    Removal(
        "B310",
        (
            Edit(
                "tests/simulation/clusters.py",
                "    if writes:\n        index.commit(writes)\n",
                "    index.commit(writes)\n",
            ),
        ),
        ("tests/simulation/test_faults.py::test_an_index_is_restored_across_a_commit_of_blobs_alone",),
    ),
    Removal(
        "B814",
        (Edit("bench/appends.py", '{**data, "amount": turn}', "data"),),
        ("tests/test_bench.py::test_each_mutation_of_the_benchmark_changes_a_value",),
    ),
    Removal(
        "B839",
        (Edit("tests/client/test_http.py", "SECONDS_MAX = 60.0\n", "SECONDS_MAX = 10.0\n"),),
        (f"{TIME_LIMITS}::test_the_time_limit_of_a_wait_is_long",),
    ),
    Removal(
        "B839",
        (Edit("tests/server/test_queue_work.py", "text = http_calls.get(", "import httpx\n        text = httpx.get("),),
        (f"{TIME_LIMITS}::test_httpx_has_a_long_time_limit",),
    ),
    Removal(
        "B839",
        (
            Edit(
                "tests/cloud/test_objectstore.py", "import json\nfrom base64", "import json\nimport time\nfrom base64"
            ),
            Edit("tests/cloud/test_objectstore.py", "SystemClock().wall_ms()) <", "time.time_ns() // 1_000_000) <"),
        ),
        (f"{TIME_LIMITS}::test_no_test_reads_the_clock_of_the_machine",),
    ),
    Removal(
        "B841",
        (Edit("tests/processes.py", "return seconds * 1.1 ** max(0, kills - 5 * kills_min)", "return seconds"),),
        (
            "tests/test_processes.py::test_the_pauses_between_the_kills_of_a_soak_grow_until_a_slow_process_makes_progress",
        ),
    ),
    Removal(
        "B840",
        (Edit("bench/table.py", ">= end and number:", ">= end:"),),
        ("apps/table/tests/test_bench.py::test_a_writer_that_begins_after_the_end_of_the_run_commits_once",),
    ),
    Removal(
        "B930",
        (Edit("bench/cost_log.py", "elif number > snapshot_every and number", "elif number"),),
        ("tests/test_costs.py::test_an_open_reads_the_blobs_of_the_newest_snapshot",),
    ),
    Removal(
        "B1002",
        (
            Edit(
                DISK,
                "                if names.get(name) != durable[name]:\n                    del durable[name]\n",
                "                assert name\n",
            ),
        ),
        (f"{WORLD_DISK}::test_a_rename_is_durable_in_both_folders_or_in_none",),
    ),
    Removal(
        "B1003",
        (Edit("bench/tails.py", "in calls[count:]:", "in calls[: count // 10]:"),),
        ("tests/test_bench.py::test_each_mutation_of_the_tails_changes_a_value",),
    ),
    Removal(
        "B1004",
        (Edit("tests/backups/drill.py", "+= backup.status == -signal.SIGKILL", "+= 1"),),
        ("tests/backups/test_drill.py::test_the_drill_counts_a_killed_backup_only_if_the_signal_ended_it",),
    ),
    Removal(
        "B1006",
        (Edit("Makefile", "limits_reached loaded poison", "limits_reached loaded place poison"),),
        ("tests/test_processes.py::test_each_file_and_module_of_a_make_target_exists",),
    ),
    Removal(
        "B1007",
        (Edit("tests/cloud/histories.py", "kill_at += self._next_kill()", "kill_at = answers + self._next_kill()"),),
        (
            "tests/cloud/test_histories.py::test_a_history_has_the_same_kills_however_many_records_are_written_between_two_counts",
        ),
    ),
    Removal(
        "B1008",
        (
            Edit(
                "apps/sheet/tests/engine_kills.py",
                "        while not any(killed):  #",
                "        if not any(killed):  #",
            ),
        ),
        ("apps/sheet/tests/test_engine_kills.py::test_a_kill_is_repeated_until_there_is_an_engine",),
    ),
    Removal(
        "B1055",
        (Edit("tests/simulation/log_truth.py", "            and log.lived(answer.sent, answer.answered)\n", ""),),
        (
            "tests/simulation/test_log_outcomes.py::test_a_head_returned_by_a_call_after_the_deletion_of_the_log_is_a_violation",
        ),
    ),
    Removal(
        "B1056",
        (Edit("Makefile", " mutation.jsonl corpus.jsonl corpus-exports\n", "\n"),),
        ("tests/test_processes.py::test_make_clean_removes_each_file_at_the_root_that_git_ignores_except_stores",),
    ),
    Removal(
        "B1102",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/pool.py",
                "if any(earlier < number and other not in self._lent for earlier, other in self._waiting.items()):",
                "if False:",
            ),
        ),
        ("apps/sheet/tests/test_engine.py::test_a_later_caller_does_not_overtake_a_waiting_caller",),
    ),
    Removal(
        "B1103",
        (
            Edit(
                "tests/interrupts.py",
                'if event == "opcode" and next(self._steps) == self._step:',
                'if event == "opcode" and not self.victim and (not self._step or next(self._steps) == self._step):',
            ),
        ),
        ("tests/test_group_commit.py::test_an_interrupter_interrupts_one_thread_however_the_threads_take_turns",),
    ),
    Removal(
        "B1104",
        (Edit("src/stratalog/struct_types.py", "delay_forks(), _types.lock:", "delay_forks():"),),
        (
            "tests/test_struct_types.py::test_a_thread_that_decodes_a_struct_waits_until_another_thread_has_resolved_the_struct",
        ),
    ),
    Removal(
        "B1139",
        (Edit("src/stratalog/testing/postgres_server.py", "make(dir=SOCKETS) as sockets", "make() as sockets"),),
        ("tests/postgres/test_store.py::test_a_server_starts_if_the_temporary_folder_has_a_long_path_with_spaces",),
    ),
    Removal(
        "B1115",
        (Edit("src/stratalog/struct_types.py", "delay_forks(), _types.lock:", "_types.lock:"),),
        (
            "tests/test_struct_types.py::test_a_fork_waits_for_an_evaluation_only_for_a_time_and_its_child_decodes_no_struct",
        ),
    ),
)
