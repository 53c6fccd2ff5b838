"""The command line with a store on AWS: tests of `tests/cli` on this store, and tests that need AWS."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import Run, budget, run
from tests.cli.test_commands import (
    lines,
    test_a_damaged_export_is_refused_and_leaves_no_file,
    test_a_fork_is_replayed_and_merged_once,
    test_a_list_of_nothing_is_a_note_to_people_and_silence_in_json,
    test_a_state_is_exported_and_put,
    test_an_error_is_one_line_or_one_object,
    test_bytes_go_in_and_out_as_base64,
    test_create_refuses_a_name_that_lives,
    test_delete_asks_first,
    test_diff_shows_what_was_and_what_is,
    test_export_and_import_go_through_pipes,
    test_export_and_import_keep_every_version,
    test_history_follows_one_key,
    test_list_shows_every_organisation_or_one,
    test_log_is_newest_first_and_bounded,
    test_maintenance_keeps_what_it_should,
    test_mutate_tells_what_became_of_the_mutation,
    test_records_are_deleted_brought_back_pruned_and_listed,
    test_records_keep_versions_of_a_value,
    test_show_looks_at_any_time,
    test_show_looks_at_any_version,
    test_verify_proves_all_documents_or_those_named,
)
from tests.server.api import BUDGET, mutation
from tests.server.test_api_serve import served

__all__ = [
    "budget",
    "run",
    "test_a_damaged_export_is_refused_and_leaves_no_file",
    "test_a_fork_is_replayed_and_merged_once",
    "test_a_list_of_nothing_is_a_note_to_people_and_silence_in_json",
    "test_a_state_is_exported_and_put",
    "test_an_error_is_one_line_or_one_object",
    "test_bytes_go_in_and_out_as_base64",
    "test_create_refuses_a_name_that_lives",
    "test_delete_asks_first",
    "test_diff_shows_what_was_and_what_is",
    "test_export_and_import_go_through_pipes",
    "test_export_and_import_keep_every_version",
    "test_history_follows_one_key",
    "test_list_shows_every_organisation_or_one",
    "test_log_is_newest_first_and_bounded",
    "test_maintenance_keeps_what_it_should",
    "test_mutate_tells_what_became_of_the_mutation",
    "test_records_are_deleted_brought_back_pruned_and_listed",
    "test_records_keep_versions_of_a_value",
    "test_show_looks_at_any_time",
    "test_show_looks_at_any_version",
    "test_verify_proves_all_documents_or_those_named",
]


@pytest.fixture(autouse=True)
def on_aws(run: Run, aws_store: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STRATALOG_STORE", aws_store)
    return aws_store


def test_init_makes_what_is_missing_and_says_so(run: Run, on_aws: str) -> None:
    name = on_aws.removeprefix("aws://")
    made = [f"table {name}", f"bucket {name}", f"queue {name}.fifo", f"queue {name}-dead.fifo"]
    assert run("init", on_aws).stdout.splitlines() == [*(f"made {one}" for one in made), f"store ready at {on_aws}"]
    assert lines(run("init", "--store", on_aws, "--json").stdout) == [{"store": on_aws, "made": []}]


def test_what_is_missing_is_named_with_the_command_that_makes_it(run: Run, on_aws: str) -> None:
    for command in (["list"], ["create", "acme/budget"], ["show", "acme/budget"]):
        said = run(*command, code=5).stderr
        assert "the table does not exist; `stratalog init` creates it" in said
        assert on_aws.removeprefix("aws://") in said


def test_an_address_that_is_none_is_a_usage_error(run: Run) -> None:
    assert "aws://NAME?bucket=" in run("init", "aws://acme/folder", code=2).stderr


def test_a_push_is_queued_by_a_server_and_applied_by_a_worker(run: Run, tmp_path: Path) -> None:
    body = {"group": "g", "mutations": [mutation("ada", 1, key="notes/1", value="x" * 1_000_000)]}
    with served(tmp_path, "--queued") as (url, _):
        assert httpx.put(url + BUDGET).status_code == 201
        answer = httpx.post(f"{url}{BUDGET}/push", json=body)
        assert (answer.status_code, answer.json()["queued"]) == (202, True)
        assert httpx.get(url + BUDGET).json()["version"] == 0
        assert json.loads(run("work", "--drain", "--json").stdout.splitlines()[-1])["applied"] == 1
        assert httpx.get(f"{url}{BUDGET}/item?key=notes/1").json()["value"] == "x" * 1_000_000
    assert json.loads(run("verify", "acme/budget", "--json").stdout)["version"] == 1


def test_a_push_is_applied_by_two_servers_of_one_store(tmp_path: Path) -> None:
    with served(tmp_path) as (first, _), served(tmp_path) as (second, _):
        assert httpx.put(first + BUDGET).status_code == 201
        for id, url in enumerate((first, second, first), 1):
            body = {"group": "g", "mutations": [mutation("ada", id, key=f"notes/{id}", value=id)]}
            assert httpx.post(f"{url}{BUDGET}/push", json=body).json()["outcomes"][0]["status"] == "applied"
        assert httpx.get(second + BUDGET).json()["version"] == 3
