"""These tests run the commands as users run them."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import stratalog
from stratalog.cli import main
from stratalog.cli.program import FAILED, Program
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.errors import NotFound
from stratalog.keys import (
    NAME_SORT,
    deleted_partition,
    entries_partition,
    name_partition,
    names_partition,
    number,
    record_key,
    record_partition,
    snapshots_partition,
)
from stratalog.log import Log
from stratalog.log.segments import list_segments
from stratalog.maintenance.inspection import HistoryInspection, inspect_history
from stratalog.maintenance.verification import HistoryName
from stratalog.ports.index import Delete, Item, Put
from stratalog.store import Store
from tests.cli.conftest import Run


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_init_leaves_an_existing_store_unchanged(budget: Run) -> None:
    assert budget("init").stdout.startswith("store ready at ")
    assert lines(budget("init", "--json").stdout)[0]["store"].endswith("/store")
    assert len(lines(budget("list", "--json").stdout)) == 1


def test_a_command_without_a_store_suggests_init(run: Run) -> None:
    assert "stratalog init" in run("list", code=2).stderr


def test_list_shows_all_organisations_or_a_given_organisation(budget: Run) -> None:
    budget("create", "zeta/plan")
    listed = budget("list").stdout
    assert "acme/budget  document        3" in listed
    assert "zeta/plan    document        0" in listed
    assert [line["name"] for line in lines(budget("list", "zeta", "--json").stdout)] == ["zeta/plan"]


def test_list_finds_the_organisations_that_have_a_name(budget: Run) -> None:
    budget("create", "zeta/budget")
    budget("create", "zeta/plan")
    named = lines(budget("list", "--named", "budget", "--json").stdout)
    assert [(line["name"], line["version"]) for line in named] == [("acme/budget", 3), ("zeta/budget", 0)]
    named = lines(budget("list", "zeta", "--named", "budget", "--json").stdout)
    assert [line["name"] for line in named] == ["zeta/budget"]
    assert lines(budget("list", "--named", "none", "--json").stdout) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "--against", "note", "--upto", "2"),
        ("verify", "--against", "note", "--quick"),
        ("verify", "--against", "note", "--resume", "finished"),
        ("verify", "--lines", "note"),
        ("verify", "--key", "a-key"),
        ("verify", "--quick", "--resume", "finished"),
        ("checkpoint", "acme/budget", "--all", "--lines", "list", "--key", "note"),
        ("checkpoint", "--all", "--record", "acme/r", "--lines", "list", "--key", "note"),
        ("checkpoint", "acme/budget", "--lines", "list", "--key", "note"),
    ],
    ids=" ".join,
)
def test_an_option_that_would_be_ignored_is_refused(budget: Run, arguments: tuple[str, ...]) -> None:
    Path("note").write_text("")
    assert re.search(r"needs --|has no effect with --|no names", budget(*arguments, code=2).stderr)
    assert not Path("list").exists()


def test_the_list_of_a_checkpoint_overwrites_no_file(budget: Run) -> None:
    budget("checkpoint-key", "example.com/ledger", "signing.key")
    made = ("checkpoint", "--all", "--key", "signing.key", "--lines", "list")
    budget(*made)
    before = Path("list").read_bytes()
    budget("create", "acme/plan")
    assert "list exists" in budget(*made, code=2).stderr
    assert Path("list").read_bytes() == before


def test_a_log_that_is_deleted_between_two_reads_ends_neither_a_list_nor_a_sweep(
    budget: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget("create", "acme/plan")

    def gone(self: Store, organisation: str, name: str) -> Any:
        if name == "budget":
            raise NotFound("no such document", organisation=organisation, document=name)
        return real(self, organisation, name)

    for method in ("log", "document"):
        real = getattr(Store, method)
        with monkeypatch.context() as patched:
            patched.setattr(Store, method, gone)
            expected = ["acme/plan"] if method == "log" else ["acme/budget", "acme/plan"]
            assert [line["name"] for line in lines(budget("list", "--json").stdout)] == expected
            budget("sweep", "acme")


def test_a_sweep_continues_after_damage_and_counts_what_it_freed(run: Run) -> None:
    run("init")
    with stratalog.open("store") as store:
        index = store.environment.index
        for organisation, name in (("acme", "a"), ("acme", "b"), ("zeta", "c")):
            log = store.create_log(organisation, name)
            store.delete_log(log)
            gone = index.get(deleted_partition(organisation), log.record.prefix)
            assert gone is not None
            attributes = {**gone.attributes, "m": 0}
            if name == "a":
                del attributes["o"]
            index.commit([Put(Item(gone.partition, gone.sort, attributes))])
    swept = run("sweep", "--json", code=FAILED)
    assert json.loads(swept.stdout)["deleted_logs"] == 2
    assert "acme, deleted logs: corrupt" in swept.stderr


def test_an_archive_of_a_damaged_document_counts_the_segments_that_it_archived(run: Run) -> None:
    run("init")
    with stratalog.open("store", settings=stratalog.LogSettings(segment_entries_target=2)) as store:
        document = store.create("acme", "plan")
        for value in range(20):
            document.mutate("put", {"key": "k", "value": value})
        store.environment.index.commit([Delete(entries_partition(document.log.record.prefix, 1), number(2))])
        sealed = len(list(list_segments(store.environment.index, document.log.record.prefix))) - 1
    assert sealed > 2
    archived = run("archive", "acme/plan", "--json", code=FAILED)
    assert json.loads(archived.stdout)["archived_segments"] == sealed - 1
    assert "acme/plan: corrupt" in archived.stderr


def test_listing_an_empty_store_suggests_create(run: Run) -> None:
    run("init")
    assert "stratalog create" in run("list").stderr


def test_create_refuses_a_name_in_use(budget: Run) -> None:
    assert budget("create", "acme/budget", code=4).stderr.startswith("error: the name is in use")
    assert json.loads(budget("create", "acme/plan", "--json").stdout)["version"] == 0


def test_delete_asks_first(budget: Run) -> None:
    budget("delete", "acme/budget", code=1, typed="n\n")
    budget("show", "acme/budget")
    budget("delete", "acme/budget", typed="y\n")
    budget("show", "acme/budget", code=3)


def test_delete_does_not_ask_with_yes(budget: Run) -> None:
    assert json.loads(budget("delete", "acme/budget", "--yes", "--json").stdout)["deleted"] is True


def test_mutate_prints_the_outcome_of_the_mutation(budget: Run) -> None:
    applied = budget("mutate", "acme/budget", "inc", "key=cells/C2", "--client", "ada", "--json")
    assert json.loads(applied.stdout)["version"] == 4
    assert "gap" in budget("mutate", "acme/budget", "inc", "key=x", "--client", "ada", "--id", "9", code=4).stdout
    budget("mutate", "acme/budget", "inc", "key", code=2)
    budget("mutate", "acme/budget", "inc", "{broken", code=2)


def test_mutate_names_the_author(budget: Run) -> None:
    budget("mutate", "acme/budget", "del", "key=cells/C2", "--author", "grace")
    assert "grace" in budget("log", "acme/budget").stdout


def test_bytes_are_read_and_printed_as_base64(budget: Run) -> None:
    budget("mutate", "acme/budget", "put", '{"key": "raw", "value": {"$bytes": "AP8="}}')
    assert json.loads(budget("show", "acme/budget", "raw", "--json").stdout)["value"] == {"$bytes": "AP8="}
    budget("mutate", "acme/budget", "put", '{"key": "raw", "value": {"$bytes": "?"}}', code=2)


def test_show_prints_any_version(budget: Run) -> None:
    assert budget("show", "acme/budget", "cells/C2").stdout == "105\n"
    assert budget("show", "acme/budget", "cells/C2", "--at", "1").stdout == "100\n"
    assert "no keys" in budget("show", "acme/budget", "--at", "0").stderr
    assert json.loads(budget("show", "acme/budget", "--json").stdout)["content"] == {"cells/C2": 105}
    budget("show", "acme/budget", "--at", "9", code=3)
    budget("show", "acme/budget", "nothing", code=3)
    budget("show", "budget", code=2)


def test_show_prints_the_version_at_any_time(budget: Run) -> None:
    assert "version 3" in budget("show", "acme/budget", "--at", "2999-01-01T00:00").stdout
    assert "version 0" in budget("show", "acme/budget", "--at", "1999-01-01").stdout
    budget("show", "acme/budget", "--at", "noon", code=2)


def test_show_stops_at_a_limit_and_prints_a_note(budget: Run) -> None:
    budget("mutate", "acme/budget", "put", '{"key": "cells/A1", "value": {"a": 1}}')
    assert "more than 1 keys" in budget("show", "acme/budget", "cells/", "--limit", "1").stderr
    assert len(json.loads(budget("show", "acme/budget", "--limit", "1", "--json").stdout)["content"]) == 1
    assert budget("show", "acme/budget", "cells/A1").stdout == "a  1\n"


def test_log_is_newest_first_and_bounded(budget: Run) -> None:
    assert [line["version"] for line in lines(budget("log", "acme/budget", "--json").stdout)] == [3, 2, 1]
    assert [line[0] for line in budget("log", "acme/budget", "--limit", "2").stdout.splitlines()] == ["3", "2"]
    assert len(lines(budget("log", "acme/budget", "--after", "1", "--upto", "2", "--json").stdout)) == 1
    assert "rejected: append needs a list" in budget("log", "acme/budget").stdout
    assert "no versions" in budget("log", "acme/budget", "--after", "3").stderr


@pytest.mark.parametrize(
    ("before", "after"), [({"f": True}, {"f": 1}), ({"f": [0]}, {"f": [False]}), ({"f": None}, {}), ({}, {"f": None})]
)
def test_diff_shows_the_fields_that_differ(budget: Run, before: Any, after: Any) -> None:
    for value in (before, after):
        budget("mutate", "acme/budget", "put", json.dumps({"key": "c/1", "value": {**value, "same": 1}}))
    written = [json.dumps(value).replace(" ", "") for value in (before, after)]
    assert budget("diff", "acme/budget", "4", "5").stdout == f"- c/1  {written[0]}\n+ c/1  {written[1]}\n"


def test_diff_shows_the_old_and_the_new_value(budget: Run) -> None:
    assert budget("diff", "acme/budget", "1", "2").stdout == "- cells/C2  100\n+ cells/C2  105\n"
    assert lines(budget("diff", "acme/budget", "0", "--json").stdout)[0]["was"] is False
    assert "no differences" in budget("diff", "acme/budget", "2", "3").stderr


def test_lists_of_changes_name_the_version_up_to_which_changes_are_forgotten(budget: Run) -> None:
    assert "forgotten" not in budget("log", "acme/budget").stderr
    budget("forget", "acme/budget", "--below", "3")
    forgotten = "the changes up to version 3 are forgotten"
    assert budget("history", "acme/budget", "cells/C2").stderr.splitlines() == ["no changes of the key", forgotten]
    assert forgotten in budget("log", "acme/budget").stderr
    budget("mutate", "acme/budget", "inc", "key=cells/C2", "by=7")
    assert "forgotten" not in budget("log", "acme/budget", "--after", "3").stderr


def test_history_follows_one_key(budget: Run) -> None:
    assert [line["version"] for line in lines(budget("history", "acme/budget", "cells/C2", "--json").stdout)] == [2, 1]
    assert "ada#1 put" in budget("history", "acme/budget", "cells/C2", "--at", "1").stdout
    assert "no changes of the key" in budget("history", "acme/budget", "nothing").stderr


def test_a_fork_is_replayed_and_merged_once(budget: Run) -> None:
    assert "at version 1" in budget("fork", "acme/budget", "acme/copy", "--at", "1").stdout
    assert "no mutations of its own" in budget("replay", "acme/copy", "acme/budget").stderr
    budget("mutate", "acme/copy", "inc", "key=cells/C2", "by=7")
    assert "107 → 112" in budget("replay", "acme/copy", "acme/budget").stdout
    assert lines(budget("replay", "acme/copy", "acme/budget", "--after", "2", "--json").stdout) == []
    assert lines(budget("merge", "acme/copy", "acme/budget", "--json").stdout)[0]["merged_in"] == 4
    budget("merge", "acme/copy", "acme/budget")
    assert budget("show", "acme/budget", "cells/C2").stdout == "112\n"
    assert json.loads(budget("fork", "acme/budget", "acme/copy2", "--json").stdout)["version"] == 4


def test_a_fork_stays_in_its_organisation(budget: Run) -> None:
    assert "its source's organisation" in budget("fork", "acme/budget", "zeta/copy", code=2).stderr
    assert [line["name"] for line in lines(budget("list", "--json").stdout)] == ["acme/budget"]


def test_snapshot_archive_forget_and_sweep_report_their_results(budget: Run) -> None:
    assert json.loads(budget("snapshot", "acme/budget", "--at", "2", "--json").stdout)["version"] == 2
    assert "archived 0 segments" in budget("archive", "acme/budget", "--upto", "2").stdout
    assert "from 2 on" in budget("forget", "acme/budget", "--below", "2").stdout
    assert [line["version"] for line in lines(budget("log", "acme/budget", "--json").stdout)] == [5, 4, 3]
    assert json.loads(budget("sweep", "acme", "--json").stdout)["blobs"] == 0
    assert "0 record versions" in budget("sweep").stdout


def test_a_dry_run_of_collect_lists_the_blobs_that_collect_deletes(budget: Run, tmp_path: Path) -> None:
    # The body is too large for a row of the index. So the store writes a file, and the test can set the file's time.
    body = b"an orphan" * 10_000
    with stratalog.open(tmp_path / "store") as store:
        owner = store.document("acme", "budget").log.record.owner
        key = f"{owner}/bodies/{sha256(body).hex()}"
        store.environment.blobs.put(key, body)
        long_ago = SystemClock().wall_ms() / 1000 - 3600
        os.utime(tmp_path / "store" / "blobs" / f"{key}.msgpack.zst", (long_ago, long_ago))
    listed = budget("collect", "acme", "--dry-run").stdout
    assert listed.splitlines()[0] == key
    assert "would delete 1" in listed
    assert "stopped before the end" in budget("collect", "--until", "0").stderr
    planned = lines(budget("collect", "--json").stdout)
    assert [(line["garbage"], line["looked_at"], line["is_finished"]) for line in planned] == [([key], 1, True)]


def test_maintain_uses_a_policy_file_and_the_steps_of_an_application(budget: Run, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"documents": {"retain_days": 90}}')
    (tmp_path / "steps.py").write_text(
        "from stratalog.server.application import Application\n"
        "app = Application(maintenance=[lambda store: store.create('acme', 'made-by-a-step')])\n"
    )
    report = json.loads(budget("maintain", "steps:app", "--policy", "policy.json", "--json").stdout)
    assert (report["logs"], report["steps"], report["failures"]) == (1, 1, [])
    assert "conflict" in budget("maintain", "steps:app", code=1).stderr
    head, logs, *_ = budget("maintain", "--dry-run", "--until", "600").stdout.splitlines()
    expected = "a dry run changes nothing; without steps and measurements a pass would have this result:"
    assert (head, logs) == (expected, "2  logs")
    (tmp_path / "policy.json").write_text('{"keep": 1}')
    budget("maintain", "--policy", "policy.json", code=2)


def test_verify_proves_all_documents_or_the_named_documents(budget: Run) -> None:
    budget("snapshot", "acme/budget")
    budget("create", "acme/second")
    shown = budget("verify").stdout
    assert "verified  acme/budget  version 3, 1 snapshots" in shown
    assert "verified  acme/second  version 0" in shown
    [named] = lines(budget("verify", "acme/budget", "--upto", "2", "--json").stdout)
    assert (named["name"], named["version"]) == ("acme/budget", 2)


@pytest.mark.parametrize("options", [[], ["--quick"]])
def test_verify_of_a_store_continues_after_a_history_whose_version_is_forgotten(
    budget: Run, options: list[str]
) -> None:
    with stratalog.open("store") as store:
        for name in ("apart", "whole"):
            store.create("acme", name).put("key", 1)
        document = store.document("acme", "budget")
        document.snapshot()
        assert document.forget_below(2) == 2
    shown = budget("verify", *options, "--upto", "1", code=3).stdout.splitlines()
    assert [line.split()[:3] for line in shown] == [
        ["verified", "acme/apart", "version"],
        ["not", "verified", "acme/budget"],
        ["verified", "acme/whole", "version"],
    ]
    reports = lines(budget("verify", *options, "--upto", "1", "--json", code=3).stdout)
    assert [(line["name"], line["verified"], line.get("reason", "")) for line in reports] == [
        ("acme/apart", True, ""),
        ("acme/budget", False, "the version is no longer kept"),
        ("acme/whole", True, ""),
    ]


@pytest.mark.parametrize(("options", "line"), [([], "missing entry acme/events"), (["--quick"], "missing version 1")])
def test_an_error_during_verify_loses_no_result(budget: Run, options: list[str], line: str) -> None:
    with stratalog.open("store") as store:
        log = store.create_log("acme", "events")
        log.append(stratalog.Event("seen", 1))
        log.append(stratalog.Event("seen", 2))
        store.environment.index.commit([Delete(entries_partition(log.record.prefix, 1), number(1))])
    assert "verified  acme/budget" in budget("verify", *options, "acme/budget", "acme/other", code=3).stdout
    result = budget("verify", *options, "acme/events", "acme/other", code=6)
    assert "FAILED  acme/events" in result.stdout
    assert line in result.stdout
    assert "log not found" in result.stderr


def test_an_error_does_not_hide_the_results_of_a_repair(budget: Run) -> None:
    with stratalog.open("store") as store:
        store.environment.index.commit([Delete(names_partition("budget"), "acme")])
    result = budget("repair", "acme/budget", "acme/other", code=3)
    assert result.stdout == "repaired name line !names/budget acme\nrepaired 1, cannot repair 0\n"
    assert "log not found" in result.stderr
    with stratalog.open("store") as store:
        prefix = store.document("acme", "budget").log.record.prefix
        store.environment.index.commit([Delete(entries_partition(prefix, 1), number(1))])
    result = budget("repair", "acme/budget", "acme/other", code=6)
    assert "repaired 0, cannot repair 3\ncontradicts name record acme/budget" in result.stdout
    assert "log not found" in result.stderr


def test_an_error_before_any_result_of_a_repair_is_the_whole_answer(budget: Run) -> None:
    result = budget("repair", "acme/typo", code=3)
    assert result.stdout == ""
    assert "log not found" in result.stderr


def test_the_versions_above_a_floor_that_rises_meanwhile_are_listed(
    budget: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    floor = Log.floor

    def rising(log: Log) -> int:
        before = floor(log)
        monkeypatch.setattr(Log, "floor", floor)
        with stratalog.open("store") as store:
            document = store.document("acme", "budget")
            document.forget_below(document.version - 1)
        floor(log)  # any later read by the handle meets the risen floor, also in a log of one segment
        return before

    monkeypatch.setattr(Log, "floor", rising)
    assert [line["version"] for line in lines(budget("log", "acme/budget", "--json").stdout)] == [3]


def test_a_repair_continues_after_a_history_whose_floor_keeps_rising(
    budget: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inspected(store: stratalog.Store, history: HistoryName) -> HistoryInspection:
        if history.name == "budget":
            raise stratalog.VersionForgotten("the floor rose")
        return inspect_history(store, history)

    budget("create", "acme/plan")
    with stratalog.open("store") as store:
        store.environment.index.commit([Delete(names_partition("plan"), "acme")])
    monkeypatch.setattr("stratalog.maintenance.repair.inspect_history", inspected)
    shown = budget("repair", code=3).stdout
    assert "repaired name line !names/plan acme" in shown
    assert "not verified  acme/budget  the floor rose" in shown


def test_a_repair_that_leaves_damage_names_the_command_that_restores_a_backup(budget: Run) -> None:
    assert "stratalog restore" not in budget("repair").stderr
    with stratalog.open("store") as store:
        prefix = store.document("acme", "budget").log.record.prefix
        store.environment.index.commit([Delete(entries_partition(prefix, 1), number(1))])
    assert "stratalog restore" in budget("repair", code=6).stderr


def test_verify_proves_logs_and_records_too(budget: Run) -> None:
    Path("report.txt").write_text("first")
    budget("records", "put", "acme/report", "report.txt")
    with stratalog.open("store") as store:
        store.create_log("acme", "events").append(stratalog.Event("seen", 1))
    shown = budget("verify").stdout
    assert "log, version 1, hash " in shown
    assert "record, version 1, hash " in shown
    [line] = lines(budget("verify", "--record", "acme/report", "--json").stdout)
    assert (line["kind"], line["verified"], line["findings"]) == ("record", True, [])


def test_a_put_that_expects_a_forgotten_version_is_a_conflict(budget: Run) -> None:
    for text in ("one", "two", "three"):
        budget("records", "put", "acme/report", "-", typed=text)
    budget("records", "prune", "acme/report", "--retain", "1")
    budget("records", "put", "acme/report", "-", "--expected", "1", typed="mine", code=4)
    assert "nothing was stored" in budget("records", "put", "acme/report", "-", "--expected", "3", typed="three").stdout
    shown = budget("records", "put", "acme/report", "-", "--expected", "3", typed="four").stdout
    assert "at version 4, 4 B" in shown
    assert "nothing was stored" not in shown


def test_a_put_of_the_bytes_of_the_version_after_the_expected_one_says_that_nothing_was_stored(budget: Run) -> None:
    for text in ("one", "two"):
        budget("records", "put", "acme/report", "-", typed=text)
    shown = budget("records", "put", "acme/report", "-", "--expected", "1", typed="two").stdout
    assert shown == "acme/report is at version 2, 3 B; it already had these bytes, so nothing was stored\n"


def test_a_checkpoint_is_signed_and_proven_later(budget: Run) -> None:
    key = budget("checkpoint-key", "example.com/ledger", "signing.key").stdout.strip()
    assert Path("signing.key").stat().st_mode & 0o777 == 0o600
    Path("note").write_text(budget("checkpoint", "acme/budget", "--key", "signing.key").stdout)
    budget("mutate", "acme/budget", "put", "key=cells/C3", "value=1")
    assert "proven  acme/budget" in budget("verify", "--against", "note", "--key", key).stdout
    Path("verifier.key").write_text(key)
    [line] = lines(budget("verify", "--against", "note", "--key", "verifier.key", "--json").stdout)
    assert (line["status"], line["version"], line["checkpoint"]["version"]) == ("proven", 4, 3)
    Path("note").write_text(Path("note").read_text().replace("\n3\n", "\n2\n"))
    budget("verify", "--against", "note", "--key", key, code=2)
    assert "contradicted" in budget("verify", "--against", "note", code=8).stdout


def test_lines_are_refused_with_the_checkpoint_of_one_history(budget: Run) -> None:
    budget("checkpoint-key", "example.com/ledger", "signing.key")
    Path("note").write_text(budget("checkpoint", "acme/budget", "--key", "signing.key").stdout)
    Path("list").write_text("")
    refused = budget("verify", "--against", "note", "--lines", "list", code=2)
    assert "--lines has no effect with the checkpoint of one history" in refused.stderr


def test_a_checkpoint_below_the_floor_is_not_provable(budget: Run) -> None:
    budget("checkpoint-key", "example.com/ledger", "signing.key")
    Path("note").write_text(budget("checkpoint", "acme/budget", "--key", "signing.key").stdout)
    budget("mutate", "acme/budget", "put", "key=cells/C3", "value=1")
    budget("mutate", "acme/budget", "put", "key=cells/C3", "value=2")
    budget("forget", "acme/budget", "--below", "5")
    assert "not provable" in budget("verify", "--against", "note", code=7).stdout


def test_the_checkpoint_of_a_store_needs_its_list_of_lines(budget: Run) -> None:
    budget("checkpoint-key", "example.com/ledger", "signing.key")
    budget("checkpoint", "--all", "--key", "signing.key", code=2)
    budget("checkpoint", "--key", "signing.key", code=2)
    Path("note").write_text(budget("checkpoint", "--all", "--key", "signing.key", "--lines", "list").stdout)
    budget("verify", "--against", "note", code=2)
    budget("verify", "acme/budget", "acme/other", "--against", "note", "--lines", "list", code=2)
    assert "proven  acme/budget" in budget("verify", "--against", "note", "--lines", "list").stdout
    with stratalog.open("store") as store:
        store.delete_log(store.log("acme", "budget"))
    assert "contradicted" in budget("verify", "--against", "note", "--lines", "list", code=8).stdout


def test_damage_of_one_history_does_not_end_the_verification_of_the_others(budget: Run) -> None:
    Path("report.txt").write_text("text")
    for id in ("a", "b"):
        budget("records", "put", f"acme/{id}", "report.txt")
    budget("checkpoint-key", "example.com/ledger", "signing.key")
    Path("note").write_text(budget("checkpoint", "--all", "--key", "signing.key", "--lines", "list").stdout)
    with stratalog.open("store") as store:
        index = store.environment.index
        record = record_partition("acme", record_key("a"))
        version = index.get(record, number(1))
        assert version is not None
        changed = {key: value for key, value in version.attributes.items() if key != "ch"}
        name = Item(name_partition("acme", "budget"), NAME_SORT, {})
        index.commit([Put(name), Put(Item(record, version.sort, changed))])
    rows = [line.split()[:2] for line in budget("verify", "--quick", code=6).stdout.splitlines()]
    assert rows == [["FAILED", "acme/budget"], ["FAILED", "acme/a"], ["verified", "acme/b"]]
    damaged_name = "altered version 0: an item is not a name record"
    damaged_version = "altered version 1: an item is not a version of a record: Object missing required field `ch`"
    shown = budget("verify", "--against", "note", "--lines", "list", code=1).stdout
    assert f"acme/budget  the end or the origin of the history is damaged; {damaged_name}" in shown
    assert f"acme/a       version 1 is damaged; {damaged_version}" in shown
    assert "proven        acme/b" in shown


def test_redact_erases_a_version_of_a_document_a_log_or_a_record(budget: Run) -> None:
    Path("report.txt").write_text("a person's name")
    budget("records", "put", "acme/report", "report.txt")
    with stratalog.open("store") as store:
        store.create_log("acme", "events").append(stratalog.Event("seen", "a person's name"))
    assert "delete or overwrite them first" in budget("redact", "acme/budget", "--version", "2", code=2).stderr
    budget("redact", "acme/budget", "--version", "1")
    budget("redact", "acme/events", "--version", "1")
    assert "erased version 1" in budget("redact", "acme/report", "--record", "--version", "1").stdout
    shown = budget("verify").stdout
    assert shown.count("redacted: 1") == 3
    assert "FAILED" not in shown
    budget("show", "acme/budget", "--at", "1", code=3)
    listed = budget("log", "acme/budget").stdout
    assert "redacted" in listed
    assert "maintenance" not in listed
    assert "redacted" in budget("records", "history", "acme/report").stdout


def test_history_prints_the_changes_that_are_kept_and_names_the_redacted_ones(budget: Run) -> None:
    with stratalog.open("store") as store:
        document = store.create("acme", "people")
        for value in ("first", "a person's name", "third"):
            document.mutate("put", {"key": "people/1", "value": value})
        stratalog.redact(document, 2)
    rows = [line.split() for line in budget("history", "acme/people", "people/1").stdout.splitlines()]
    assert [(row[0], "redacted" in row, row[-1]) for row in rows] == [
        ("3", False, '"third"'),
        ("2", True, "redacted"),
        ("1", False, '"first"'),
    ]
    printed = [json.loads(line) for line in budget("history", "acme/people", "people/1", "--json").stdout.splitlines()]
    assert [(change["version"], change["redacted"]) for change in printed] == [(3, False), (2, True), (1, False)]


def test_verify_reports_a_document_with_a_wrong_snapshot_as_failed_and_exits_with_6(budget: Run) -> None:
    budget("snapshot", "acme/budget")
    budget("verify", "--quick")
    with stratalog.open("store") as store:
        record, index = store.document("acme", "budget").log.record, store.environment.index
        [item] = index.query(snapshots_partition(record.prefix))
        other = store.create("acme", "other")
        other.snapshot()
        [wrong] = index.query(snapshots_partition(other.log.record.prefix))
        index.commit([Put(Item(item.partition, item.sort, {**item.attributes, "b": wrong.attributes["b"]}))])
    assert "FAILED" in budget("verify", "--quick", "acme/budget", code=6).stdout
    [line] = lines(budget("verify", "--quick", "acme/budget", "--json", code=6).stdout)
    assert (line["name"], line["verified"]) == ("acme/budget", False)


def test_verify_names_each_damaged_object_and_resume_skips_finished_histories(budget: Run, tmp_path: Path) -> None:
    note = {"key": "notes/1", "value": "a long note " * 500}
    budget("mutate", "acme/budget", "put", json.dumps(note), "--client", "ada")
    budget("create", "acme/other")
    file = str(tmp_path / "finished")
    budget("verify", "--resume", file)
    assert "skipped" in budget("verify", "--resume", file).stderr
    database = sqlite3.connect("store/index.sqlite")
    database.execute(
        "UPDATE blob_bodies SET body = x'00' WHERE id IN (SELECT id FROM blobs WHERE key LIKE '%/items/%')"
    )
    database.commit()
    budget("verify", "--quick", "acme/other")
    shown = budget("verify", code=6).stdout
    assert "FAILED" in shown
    assert "damaged value acme/budget@" in shown
    [line] = [line for line in lines(budget("verify", "--json", code=6).stdout) if line["name"] == "acme/budget"]
    [damage] = line["damages"]
    assert (damage["kind"], damage["fault"], damage["derivable"]) == ("value", "damaged", False)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_resumed_verification_reports_the_damage_of_finished_histories_again(
    budget: Run, tmp_path: Path, options: list[str]
) -> None:
    with stratalog.open("store") as store:
        prefix = store.document("acme", "budget").log.record.prefix
        store.environment.index.commit([Delete(entries_partition(prefix, 1), number(1))])
    for _ in range(2):
        shown = budget("verify", "--resume", str(tmp_path / "finished"), *options, code=6).stdout
        assert f"{entries_partition(prefix, 1)} {number(1)}" in shown


def test_export_and_import_keep_every_version(budget: Run) -> None:
    assert "exported acme/budget at version 3" in budget("export", "acme/budget", "out.jsonl").stdout
    assert "version 3" in budget("import", "acme/again", "out.jsonl").stdout
    budget("import", "acme/again", "out.jsonl", code=4)
    before = budget("log", "acme/budget", "--json").stdout
    assert budget("log", "acme/again", "--json").stdout == before


def test_export_and_import_go_through_pipes(budget: Run) -> None:
    piped = budget("export", "acme/budget", "-")
    assert "exported" in piped.stderr
    assert json.loads(budget("import", "acme/again", "-", "--json", typed=piped.stdout).stdout)["version"] == 3


def test_an_exported_state_can_be_imported(budget: Run) -> None:
    budget("export", "acme/budget", "state.jsonl", "--state", "--at", "1", "--json")
    assert Path("state.jsonl").read_text() == '{"key":"cells/C2","value":100}\n'
    budget("import", "acme/budget", "state.jsonl")
    budget("import", "acme/fresh", "state.jsonl")
    assert budget("show", "acme/budget", "cells/C2").stdout == budget("show", "acme/fresh", "cells/C2").stdout
    budget("export", "acme/budget", "x", "--at", "1", code=2)


def test_a_damaged_export_is_not_imported_and_a_failed_export_leaves_no_file(budget: Run) -> None:
    budget("export", "acme/budget", "out.jsonl")
    text = Path("out.jsonl").read_text()
    Path("out.jsonl").write_text(text.replace("105", "106"))
    budget("import", "acme/again", "out.jsonl", code=6)
    budget("show", "acme/again", code=3)
    budget("export", "acme/nothing", "never", code=3)
    assert not Path("never").exists()


def test_a_put_of_the_same_bytes_says_that_nothing_was_stored(budget: Run) -> None:
    put = ("records", "put", "acme/report", "-")
    assert budget(*put, typed="one").stdout == "acme/report is at version 1, 3 B\n"
    assert budget(*put, typed="one").stdout.endswith("3 B; it already had these bytes, so nothing was stored\n")
    assert budget(*put, typed="two").stdout == "acme/report is at version 2, 3 B\n"


def test_records_keep_versions_of_a_value(budget: Run) -> None:
    Path("body").write_bytes(b"one\n")
    assert "version 1" in budget("records", "put", "acme/report", "body", "--meta", "by=ada").stdout
    budget("records", "put", "acme/report", "-", "--expected", "1", "--source-time", "2026-01-01", typed="two\n")
    budget("records", "put", "acme/report", "-", "--expected", "0", typed="three", code=4)
    assert budget("records", "get", "acme/report").stdout == "two\n"
    assert json.loads(budget("records", "get", "acme/report", "--at", "1", "--json").stdout)["metadata"] == {
        "by": "ada"
    }
    budget("records", "get", "acme/report", "--output", "copy")
    assert Path("copy").read_bytes() == b"two\n"
    assert [line["version"] for line in lines(budget("records", "versions", "acme/report", "--json").stdout)] == [1, 2]
    head, first, _ = (line.split() for line in budget("records", "versions", "acme/report").stdout.splitlines())
    assert (head, first[0]) == (["version", "stored", "size", "sha256", "metadata"], "1")
    assert "two" in budget("records", "history", "acme/report").stdout
    assert lines(budget("records", "history", "acme/report", "--json").stdout)[0]["version"] == 2


def test_a_write_id_of_a_record_identifies_a_single_write(budget: Run) -> None:
    named = ("records", "put", "acme/report", "-", "--write-id", "w")
    for _ in range(2):
        assert "version 1" in budget(*named, typed="one\n").stdout
    for refused in (named, ("records", "delete", "acme/report", "--write-id", "w")):
        assert "write id" in budget(*refused, typed="two\n", code=4).stderr
    assert "version 2" in budget("records", "delete", "acme/report", "--write-id", "d").stdout
    assert "version 2" in budget("records", "delete", "acme/report", "--write-id", "d").stdout
    assert "version 3" in budget("records", "undelete", "acme/report", "--write-id", "u").stdout
    assert budget("records", "get", "acme/report").stdout == "one\n"


def test_an_undeletion_of_a_record_that_is_not_deleted_says_so(budget: Run) -> None:
    budget("records", "put", "acme/report", "-", typed="one\n")
    assert "not deleted" in budget("records", "undelete", "acme/report").stdout
    budget("records", "delete", "acme/report")
    for _ in range(2):
        assert "restored" in budget("records", "undelete", "acme/report", "--write-id", "u").stdout
    assert "not deleted" in budget("records", "undelete", "acme/report").stdout


def test_mutate_refuses_a_reserved_client_name(budget: Run) -> None:
    refused = budget("mutate", "acme/budget", "put", "key=a", "value=1", "--client", "replay/x/1", "--json", code=2)
    assert "reserved-name" in refused.stderr
    assert json.loads(budget("show", "acme/budget", "--json").stdout)["version"] == 3


def test_a_merge_whose_mutation_is_rejected_is_a_conflict(budget: Run) -> None:
    budget("fork", "acme/budget", "acme/copy", "--at", "1")
    budget("mutate", "acme/copy", "inc", "key=n")
    budget("mutate", "acme/budget", "put", "key=n", "value=text")
    assert "cannot be merged" in budget("merge", "acme/copy", "acme/budget", code=4).stderr


def test_a_redrive_of_all_dead_letters_says_that_there_are_none(budget: Run) -> None:
    assert budget("dead-letters", "redrive", "--all").stderr == "no dead letters of documents\n"
    assert budget("dead-letters", "redrive", "--all", "--json").stderr == ""


def test_the_body_of_a_record_is_written_to_standard_output(budget: Run) -> None:
    budget("records", "put", "acme/report", "-", typed="one\n")
    assert budget("records", "get", "acme/report").stdout == "one\n"
    assert budget("records", "get", "acme/report", "--output", "-").stdout == "one\n"
    assert not Path("-").exists()


def test_the_history_of_a_record_shows_text_and_no_other_bytes(budget: Run) -> None:
    for name, body in (("cut", "é" * 40), ("scan", b"\x89PNG\xff\x00" * 20)):
        Path(name).write_bytes(body if isinstance(body, bytes) else ("x" + body).encode())
        budget("records", "put", "acme/report", name)
    _, scan, cut = budget("records", "history", "acme/report").stdout.splitlines()
    assert scan.endswith("  (not UTF-8 text)")
    assert cut.endswith("\\xe9\\xe9\\ufffd")


def test_records_are_deleted_undeleted_pruned_and_listed(budget: Run) -> None:
    budget("records", "put", "acme/report", "-", typed="one\n")
    assert "version 2" in budget("records", "delete", "acme/report").stdout
    budget("records", "get", "acme/report", code=3)
    assert json.loads(budget("records", "undelete", "acme/report", "--json").stdout)["version"] == 3
    assert "from 3 on" in budget("records", "prune", "acme/report", "--retain", "1").stdout
    budget("records", "prune", "acme/report", "--before", "2020-01-01", "--json")
    assert "--retain or --before" in budget("records", "prune", "acme/report", code=2).stderr
    head, listed = (line.split() for line in budget("records", "list", "acme").stdout.splitlines())
    assert (head[:3], listed[:2]) == (["name", "version", "stored"], ["acme/report", "3"])
    assert lines(budget("records", "list", "acme", "--after", "report", "--json").stdout) == []
    assert "no records" in budget("records", "list", "zeta").stderr


@pytest.mark.parametrize(
    "listing",
    [
        ("list", "zeta"),
        ("log", "acme/budget", "--after", "3"),
        ("history", "acme/budget", "x"),
        ("records", "list", "zeta"),
    ],
)
def test_an_empty_list_prints_a_note_as_text_and_nothing_as_json(budget: Run, listing: tuple[str, ...]) -> None:
    text, plain = budget(*listing), budget(*listing, "--json")
    assert (text.stdout, text.stderr.count("\n")) == ("", 1)
    assert (plain.stdout, plain.stderr) == ("", "")


def test_an_error_is_a_single_line_or_a_single_json_object(budget: Run) -> None:
    text = budget("show", "acme/x", code=3).stderr
    assert (text.count("\n"), "document not found" in text) == (1, True)
    error = json.loads(budget("show", "acme/x", "--json", code=3).stderr)["error"]
    assert (error["code"], error["details"]["log"]) == ("not-found", "x")
    assert json.loads(budget("nonsense", "--json", code=2).stderr)["error"]["code"] == "usage"


def test_the_store_is_an_option_before_or_after_the_command_or_an_environment_variable(
    budget: Run, tmp_path: Path
) -> None:
    other = str(tmp_path / "other")
    budget("--store", other, "init")
    assert budget("list", "--store", other, "--json").stdout == budget("--store", other, "--json", "list").stdout == ""
    assert budget("list", "--json").stdout != ""


@pytest.mark.parametrize(("command", "code"), [("init", 0), ("list", 2), ("bogus", 2)])
def test_the_program_runs_as_a_process(tmp_path: Path, command: str, code: int) -> None:
    program = "from stratalog.cli import main; main()"
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "STRATALOG_STORE": str(tmp_path / "store"), "PYTHONPATH": paths}
    arguments = [sys.executable, "-c", program, command]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == code
    assert bool(done.stderr) == bool(code)


@pytest.mark.parametrize("group", [[], ["backup"], ["records"], ["dead-letters"], ["table"]])
def test_a_group_without_a_command_prints_its_help_and_no_error(run: Run, group: list[str]) -> None:
    done = run(*group, code=2)
    assert done.stderr.startswith(" ".join(["Usage: stratalog", *group]))
    assert "error" not in done.stderr.partition("Exit codes")[0]
    assert json.loads(run("--json", *group, code=2).stderr)["error"]["message"].startswith("Missing command")


def test_help_shows_the_whole_first_sentence_of_each_command(run: Run) -> None:
    groups: list[tuple[str, ...]] = [()]
    for path in groups:
        _, heading, listed = run(*path, "--help").stdout.partition("Commands:")
        assert heading
        assert "..." not in listed
        groups += [(*path, name) for name in groups_in(path)]
    assert len(groups) > 1


def groups_in(path: tuple[str, ...]) -> list[str]:
    """Return the names of the groups of commands within the group at ``path``."""
    group: click.Command | None = main
    for name in path:
        assert isinstance(group, click.Group)
        group = group.get_command(click.Context(group), name)
    assert isinstance(group, click.Group)
    context = click.Context(group)
    return [name for name in group.list_commands(context) if isinstance(group.get_command(context, name), click.Group)]


@pytest.mark.parametrize("arguments", [["mutate", "acme/budget"], ["show", "--att", "1"], ["list", "acme", "too-much"]])
def test_an_error_about_the_parts_of_a_command_names_its_help(run: Run, arguments: list[str]) -> None:
    assert f" See `stratalog {arguments[0]} --help`." in run(*arguments, code=2).stderr


@pytest.mark.parametrize(("words", "program"), [(["shwo"], "stratalog"), (["records", "show"], "stratalog records")])
def test_the_refusal_of_an_unknown_command_names_the_help(run: Run, words: list[str], program: str) -> None:
    assert f" See `{program} --help`." in run(*words, code=2).stderr


def test_a_mutation_without_arguments_is_refused_with_the_names_that_are_missing(budget: Run) -> None:
    assert "an argument is missing: key, value" in budget("mutate", "acme/budget", "put", code=2).stderr


def test_an_unknown_scheme_is_refused_with_the_known_schemes(run: Run) -> None:
    assert "postgresql:// and aws://" in run("list", "--store", "mysql://x", code=2).stderr


@pytest.mark.parametrize("target", ["store", "store/within", "file://./store", "store/../store"])
def test_a_store_is_not_copied_into_its_own_folder(budget: Run, target: str) -> None:
    assert "must not be the source" in budget("copy", "store", target, code=2).stderr
    assert not Path("store/within").exists()


@pytest.mark.parametrize(
    ("key", "way_out"),
    [("signing.key", "give its verifier key"), ("missing.key", "'missing.key' is neither a file nor a verifier key")],
)
def test_the_refusal_of_a_wrong_key_for_a_checkpoint_says_which_key_to_give(
    budget: Run, key: str, way_out: str
) -> None:
    budget("checkpoint-key", "example.com/ledger", "signing.key")
    Path("note").write_text(budget("checkpoint", "acme/budget", "--key", "signing.key").stdout)
    refused = budget("verify", "--against", "note", "--key", key, code=2)
    assert way_out in refused.stderr
    assert Path("signing.key").read_text().strip().split("+", 4)[-1] not in refused.stderr


def test_the_error_of_a_missing_option_with_choices_is_one_line(run: Run) -> None:
    @click.command("pick")
    @click.option("--form", type=click.Choice(["json", "xml"]), required=True)
    def pick(form: str) -> None:
        """Pick a form."""

    program = Program()
    program.add_command(pick)
    result = CliRunner().invoke(program, ["pick"])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "error: Missing option '--form'. Choose from: json, xml. See `stratalog pick --help`."
    ]


@pytest.mark.parametrize("options", [(), ("--quick",), ("--json",)])
def test_verify_says_that_an_empty_store_has_nothing_to_verify(options: tuple[str, ...], run: Run) -> None:
    run("init")
    result = run("verify", *options)
    assert (result.stdout, result.stderr) == ("", "the store has no documents, logs or records\n")


@pytest.mark.parametrize(
    "command",
    [
        ("delete", "NAME", "--yes"),
        ("redact", "NAME", "--version", "1"),
        ("verify", "NAME"),
        ("verify", "NAME", "--quick"),
        ("repair", "NAME"),
        ("checkpoint", "NAME", "--key", "signing.key"),
        ("restore", "backups", "--name", "NAME", "--store", "restored"),
        ("restore", "backups", "--name", "NAME", "--version", "1", "--store", "restored"),
    ],
)
def test_a_command_on_documents_and_logs_names_both_if_it_finds_neither(command: tuple[str, ...], budget: Run) -> None:
    budget("checkpoint-key", "acme.example", "signing.key")
    budget("backup", "backups")
    arguments = ["acme/typo" if argument == "NAME" else argument for argument in command]
    assert budget(*arguments, code=3).stderr == "error: document or log not found organisation='acme' log='typo'\n"
