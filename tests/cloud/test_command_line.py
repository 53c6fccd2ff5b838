"""The command line with a store on AWS: tests of `tests/cli` on this store, and tests that need AWS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import http_calls
from tests.cli.conftest import Run, budget, run
from tests.cli.test_commands import (
    lines,
    test_a_damaged_export_is_not_imported_and_a_failed_export_leaves_no_file,
    test_a_fork_is_replayed_and_merged_once,
    test_an_empty_list_prints_a_note_as_text_and_nothing_as_json,
    test_an_error_is_a_single_line_or_a_single_json_object,
    test_an_exported_state_can_be_imported,
    test_bytes_are_read_and_printed_as_base64,
    test_create_refuses_a_name_in_use,
    test_delete_asks_first,
    test_diff_shows_the_old_and_the_new_value,
    test_export_and_import_go_through_pipes,
    test_export_and_import_keep_every_version,
    test_history_follows_one_key,
    test_list_shows_all_organisations_or_a_given_organisation,
    test_log_is_newest_first_and_bounded,
    test_mutate_prints_the_outcome_of_the_mutation,
    test_records_are_deleted_undeleted_pruned_and_listed,
    test_records_keep_versions_of_a_value,
    test_show_prints_any_version,
    test_show_prints_the_version_at_any_time,
    test_snapshot_archive_forget_and_sweep_report_their_results,
    test_verify_proves_all_documents_or_the_named_documents,
)
from tests.server.api import BUDGET, mutation
from tests.server.test_api_serve import served

__all__ = [
    "budget",
    "run",
    "test_a_damaged_export_is_not_imported_and_a_failed_export_leaves_no_file",
    "test_a_fork_is_replayed_and_merged_once",
    "test_an_empty_list_prints_a_note_as_text_and_nothing_as_json",
    "test_an_error_is_a_single_line_or_a_single_json_object",
    "test_an_exported_state_can_be_imported",
    "test_bytes_are_read_and_printed_as_base64",
    "test_create_refuses_a_name_in_use",
    "test_delete_asks_first",
    "test_diff_shows_the_old_and_the_new_value",
    "test_export_and_import_go_through_pipes",
    "test_export_and_import_keep_every_version",
    "test_history_follows_one_key",
    "test_list_shows_all_organisations_or_a_given_organisation",
    "test_log_is_newest_first_and_bounded",
    "test_mutate_prints_the_outcome_of_the_mutation",
    "test_records_are_deleted_undeleted_pruned_and_listed",
    "test_records_keep_versions_of_a_value",
    "test_show_prints_any_version",
    "test_show_prints_the_version_at_any_time",
    "test_snapshot_archive_forget_and_sweep_report_their_results",
    "test_verify_proves_all_documents_or_the_named_documents",
]


@pytest.fixture(autouse=True)
def on_aws(run: Run, aws_store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STRATALOG_STORE", aws_store)
    return aws_store


def test_init_creates_missing_resources_and_lists_them(run: Run, on_aws: str) -> None:
    name = on_aws.removeprefix("aws://")
    made = [f"table {name}", f"bucket {name}", f"queue {name}.fifo", f"queue {name}-dead.fifo"]
    assert run("init", on_aws).stdout.splitlines() == [
        *(f"made {resource}" for resource in made),
        f"store ready at {on_aws}",
    ]
    assert lines(run("init", "--store", on_aws, "--json").stdout) == [{"store": on_aws, "made": []}]


def test_a_command_without_a_table_names_the_table_and_the_init_command(run: Run, on_aws: str) -> None:
    for command in (["list"], ["create", "acme/budget"], ["show", "acme/budget"]):
        error = run(*command, code=5).stderr
        assert "the table does not exist; `stratalog init` creates it" in error
        assert on_aws.removeprefix("aws://") in error


def test_an_invalid_address_is_a_usage_error(run: Run) -> None:
    assert "aws://NAME?bucket=" in run("init", "aws://acme/folder", code=2).stderr


def test_a_push_is_queued_by_a_server_and_applied_by_a_worker(run: Run, tmp_path: Path) -> None:
    body = {"group": "g", "mutations": [mutation("ada", 1, key="notes/1", value="x" * 1_000_000)]}
    with served(tmp_path, "--queued") as (url, _):
        assert http_calls.put(url + BUDGET).status_code == 201
        answer = http_calls.post(f"{url}{BUDGET}/push", json=body)
        assert (answer.status_code, answer.json()["queued"]) == (202, True)
        assert http_calls.get(url + BUDGET).json()["version"] == 0
        assert json.loads(run("work", "--drain", "--json").stdout.splitlines()[-1])["applied"] == 1
        assert http_calls.get(f"{url}{BUDGET}/item?key=notes/1").json()["value"] == "x" * 1_000_000
    assert json.loads(run("verify", "acme/budget", "--json").stdout)["version"] == 1


def test_two_servers_of_a_store_apply_pushes_to_the_same_document(tmp_path: Path) -> None:
    with served(tmp_path) as (first, _), served(tmp_path) as (second, _):
        assert http_calls.put(first + BUDGET).status_code == 201
        for id, url in enumerate((first, second, first), 1):
            body = {"group": "g", "mutations": [mutation("ada", id, key=f"notes/{id}", value=id)]}
            assert http_calls.post(f"{url}{BUDGET}/push", json=body).json()["outcomes"][0]["status"] == "applied"
        assert http_calls.get(second + BUDGET).json()["version"] == 3


def test_init_advises_to_wait_only_if_it_has_created_a_bucket(run: Run) -> None:
    assert "15 minutes" in run("init").stderr
    assert run("init").stderr == ""
