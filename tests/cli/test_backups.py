"""The backup commands of the guide run exactly as printed, and the commands report their errors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random

import pytest

import stratalog
from stratalog.backends.memory import MemoryBlobs
from stratalog.backups.backup import back_up
from stratalog.backups.repository import BackupRepository
from stratalog.backups.view import BackupIndex, store_over
from stratalog.cli import backups, program
from stratalog.keys import ORGANISATIONS_PARTITION
from stratalog.ports.index import Delete
from stratalog.testing.clock import ManualClock
from tests.cli.conftest import Run

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "backup.md").read_text()


def commands() -> list[list[str]]:
    """Return each command of the guide's blocks as arguments, without its comment."""
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True)[1:] for block in blocks for line in block.splitlines()]


def test_the_commands_of_the_guide_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands run in order. The guide restores the state at a time before any write, so that store is empty."""
    monkeypatch.setenv("STRATALOG_STORE", "./data")
    for arguments in commands():
        id = ids(run, "./backups")[0] if "ID" in arguments else ""
        run(*[id if argument == "ID" else argument for argument in arguments])
    assert json.loads(run("list", "--json", "--store", "./restored").stdout)["name"] == "acme/plan"
    names = [json.loads(line)["name"] for line in run("list", "--json").stdout.splitlines()]
    assert names == ["acme/plan", "acme/plan-1", "acme/plan-before"]
    assert run("list", "--json", "--store", "./restored-4").stdout == ""


def test_backups_are_listed_and_an_old_one_is_restored(budget: Run) -> None:
    budget("backup", "b")
    budget("create", "acme/later")
    budget("backup", "make", "b", "--json")
    first, second = ids(budget, "b")
    assert first < second
    budget("restore", "b", "--backup", first, "--store", "old")
    budget("restore", "b", "--store", "new")
    assert len(budget("list", "--store", "old", "--json").stdout.splitlines()) == 1
    assert len(budget("list", "--store", "new", "--json").stdout.splitlines()) == 2
    assert budget("log", "acme/budget", "--store", "new").stdout == budget("log", "acme/budget").stdout


def test_the_options_of_a_backup_may_stand_before_its_target(budget: Run) -> None:
    made = budget("backup", "--json", "--check", "b")
    assert [json.loads(made.stdout)["id"]] == ids(budget, "b")
    assert "Commands:" in budget("backup", "--help").stdout
    assert "No such option '--json'" in budget("backup", "--json", "list", "b", code=2).stderr


def test_a_folder_without_a_backup_is_refused_with_the_command_that_makes_one(budget: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = budget("backup", "verify", str(tmp_path / "empty"), code=3).stderr
    assert refused == "error: this folder or bucket has no backup; to make one: stratalog backup TO\n"


def test_a_restore_to_a_time_before_the_first_write_says_that_the_store_is_empty(budget: Run) -> None:
    assert ": 1 log, 0 records, 0 blobs; " in budget("backup", "b").stdout
    restored = budget("restore", "b", "--time", "2020-01-01", "--store", "before")
    assert "the restored store is empty" in restored.stderr
    assert budget("restore", "b", "--store", "after").stderr == ""


def test_a_restore_of_a_record_alone_is_refused_with_the_reason(budget: Run) -> None:
    budget("records", "put", "acme/report", "-", typed="one")
    budget("backup", "b")
    for options in (["--as", "copy"], ["--version", "1"], ["--time", "2026-01-01"]):
        assert "whole store" in budget("restore", "b", "--name", "acme/report", *options, code=2).stderr


def test_a_version_is_restored_beside_the_document(budget: Run) -> None:
    budget("backup", "b")
    line = budget("restore", "b", "--name", "acme/budget", "--version", "1", "--as", "draft").stdout
    assert "as acme/draft: version 1" in line
    assert budget("show", "acme/draft", "cells/C2").stdout.strip() == "100"
    budget("restore", "b", "--name", "acme/budget", "--as", "draft", code=4)
    budget("restore", "b", "--name", "acme/nothing", code=3)
    twice = budget("restore", "b", "--name", "acme/budget", "--as", "acme/x", code=2)
    assert "to restore as acme/x, give --as x" in twice.stderr
    budget("restore", "b", "--name", "acme/budget", "--version", "9", "--as", "x", code=3)


@pytest.mark.parametrize("times_ms", [(1000, 2000, 3000), (1000, 9000, 3000, 4000), (1000, 10, 3000)])
def test_a_restore_to_a_time_has_each_write_up_to_that_time_although_the_clock_of_a_backup_was_wrong(
    times_ms: tuple[int, ...],
) -> None:
    """One entry is written before each backup. The backups begin at 1000, 2000 and so on by the clock of the store."""
    entries, made = ManualClock(wall_ms=0), ManualClock(wall_ms=0)
    store, repository = stratalog.open("memory:", clock=entries), BackupRepository(MemoryBlobs(made), made)
    log = store.create_log("acme", "events")
    for position, time_ms in enumerate(times_ms):
        entries.sleep(0.5)
        log.append(stratalog.Event("written", position))
        entries.sleep(0.5)
        made.set_wall(time_ms)
        back_up(store, repository)
    for time_ms in range(0, 1000 * len(times_ms) + 1, 250):
        chosen = backups._chosen(repository, None, time_ms)
        view = store_over(BackupIndex(repository, chosen.root), repository, chosen)
        written = [entry.version for entry in log.read() if entry.created_ms <= time_ms]
        assert view.log("acme", "events").head().version >= len(written), time_ms


def test_a_restore_to_a_time_names_documents_whose_state_was_redacted_since(run: Run) -> None:
    clock = ManualClock()
    with stratalog.open("store", clock=clock) as store:
        plans = [store.create("acme", name) for name in ("plan", "other")]
        for value in (1, 2, 3):
            for plan in plans:
                plan.mutate("put", {"key": "a", "value": value})
            clock.sleep(60)
        stratalog.redact(plans[0], 2)
        second_ms = plans[0].log.entry(2).created_ms
    run("backup", "b")
    at = datetime.fromtimestamp(second_ms / 1000, UTC).isoformat()
    result = run("restore", "b", "--store", "then", "--time", at, "--json", code=1)
    assert json.loads(result.stdout)["without_state"] == ["acme/plan"]
    assert "acme/plan has no state of that time" in result.stderr
    assert run("show", "acme/other", "a", "--store", "then").stdout.strip() == "2"
    result = run("restore", "b", "--store", "now", "--time", "2100-01-01", "--json")
    assert json.loads(result.stdout)["without_state"] == []


def test_a_backup_command_that_cannot_succeed_reports_the_reason(budget: Run) -> None:
    assert "the folder does not exist" in budget("backup", "list", "nowhere", code=2).stderr
    assert "must be a folder or s3://" in budget("backup", "memory:", code=2).stderr
    budget("backup", "b")
    budget("restore", "b", code=4)
    budget("restore", "b", "--version", "1", code=2)
    budget("restore", "b", "--name", "acme/budget", "--version", "1", "--time", "2026-01-01", code=2)
    budget("restore", "b", "--backup", "none", "--store", "x", code=3)
    (Path("empty")).mkdir()
    budget("restore", "empty", "--store", "x", code=3)
    assert "no backups yet" in budget("backup", "list", "empty").stderr


def test_verifying_a_damaged_backup_exits_with_6_and_names_the_object(budget: Run) -> None:
    budget("backup", "b")
    [pack, *_] = Path("b/!backup/packs").glob("*.zst")
    pack.write_bytes(b"broken")
    shown = budget("backup", "verify", "b", code=6)
    assert "!backup/packs/" in shown.stderr
    [answer] = [json.loads(budget("backup", "verify", "b", "--json", code=6).stdout)]
    assert answer["findings"]


def test_commands_that_a_lost_chunk_of_the_repository_stops_exit_with_6(budget: Run) -> None:
    with stratalog.open("store") as store:
        for number in range(30):
            store.records("acme").put(f"r{number}", b"x")
    budget("backup", "b")
    chunks = list(Path("b/!backup/chunks").rglob("*.zst"))
    assert chunks
    for chunk in chunks:
        chunk.unlink()
    for command in (("backup", "b"), ("backup", "prune", "b", "--retain", "1"), ("restore", "b", "--store", "new")):
        assert "missing" in budget(*command, code=6).stderr


@pytest.mark.parametrize("arguments", [(), ("--name", "acme/budget", "--as", "other")])
def test_a_restore_whose_backup_is_pruned_meanwhile_exits_with_4(
    budget: Run, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    def pruned(restore: Callable[..., object]) -> Callable[..., object]:
        def after_a_prune(*arguments: object) -> object:
            shutil.rmtree("b/!backup")
            return restore(*arguments)

        return after_a_prune

    budget("backup", "b")
    for name in ("restore_store", "restore_log"):
        monkeypatch.setattr(backups, name, pruned(getattr(backups, name)))
    assert "a backup was pruned" in budget("restore", "b", "--store", "new", *arguments, code=4).stderr


def test_a_backup_of_a_damaged_store_is_made_and_exits_with_6(budget: Run) -> None:
    Path("large").write_bytes(b"x" * 200_000)
    budget("records", "put", "acme/large", "large")
    [blob] = Path("store/blobs/acme/records/large/bodies").glob("*.zst")
    blob.write_bytes(b"broken")
    assert "acme/records/large" in budget("backup", "b", code=6).stderr
    assert "acme/records/large" in budget("restore", "b", "--store", "new", code=6).stderr


def test_a_lost_entry_body_is_named_by_each_command_that_copies_it(budget: Run) -> None:
    """Each command ends with exit code 6, and copies the rest."""
    with stratalog.open("store") as store:
        store.create_log("acme", "events").append(stratalog.Event("seen", Random(1).randbytes(200_000)))
    [blob] = Path("store/blobs").glob("acme/events@*/bodies/*.zst")
    blob.unlink()
    key = blob.name.partition(".")[0]
    assert "acme/events" in budget("backup", "b", code=6).stderr
    shown = json.loads(budget("restore", "b", "--store", "new", "--json", code=6).stdout)
    assert f"/bodies/{key}" in " ".join(failure["what"] for failure in shown["failures"])
    assert "acme/events" in budget("restore", "b", "--name", "acme/events", "--as", "again", code=6).stderr
    assert "acme/events" in budget("copy", "store", "copied", code=6).stderr


def test_a_restore_from_a_backup_that_made_a_lost_line_anew_exits_with_0(budget: Run) -> None:
    """After the first backup the store loses the line of its organisation. The second backup makes this line anew."""
    budget("backup", "b")
    with stratalog.open("store") as store:
        store.environment.index.commit([Delete(ORGANISATIONS_PARTITION, "acme")])
    assert "organisation" in budget("backup", "b", code=6).stderr
    restored = budget("restore", "b", "--store", "new", "--json")
    assert json.loads(restored.stdout)["failures"] == []
    assert budget("list", "--store", "new").stdout


def test_a_part_that_a_backup_made_anew_is_damaged_in_the_store_and_not_missing_in_the_backup(budget: Run) -> None:
    budget("backup", "b")
    assert "damaged" not in budget("backup", "list", "b").stdout
    with stratalog.open("store") as store:
        store.environment.index.commit([Delete(ORGANISATIONS_PARTITION, "acme")])
    assert budget("backup", "b", code=6).stderr.startswith("damaged in the store: !organisations acme: ")
    assert "1 damaged in the store" in budget("backup", "list", "b").stdout


def test_a_backup_command_prints_some_damaged_parts_and_the_number_of_the_others(
    budget: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "DAMAGED_PARTS_PRINTED_MAX", 1)
    with stratalog.open("store") as store:
        for number in range(3):
            store.create_log("acme", f"log {number}").append(stratalog.Event("seen", Random(number).randbytes(200_000)))
    for blob in Path("store/blobs").glob("acme/log*/bodies/*.zst"):
        blob.unlink()
    printed = budget("backup", "b", code=6).stderr
    assert "/bodies/" in printed
    assert "/log%201@" not in printed
    assert "2 more parts" in printed
    assert len(json.loads(budget("backup", "b", "--json", code=6).stdout)["failures"]) == 3


def test_a_restore_of_a_log_that_the_backup_does_not_have_makes_no_store(budget: Run) -> None:
    budget("backup", "b")
    budget("restore", "b", "--name", "acme/none", "--store", "new", code=3)
    assert not Path("new").exists()


def test_a_restore_of_a_log_that_cannot_be_restored_makes_no_store(budget: Run) -> None:
    """The new name is too long, or a version was redacted since the last version of the restored state."""
    with stratalog.open("store") as store:
        document = store.document("acme", "budget")
        document.put("secret", 1)
        version = document.version
        document.put("secret", 2)
        stratalog.redact(document, version)
    budget("backup", "b")
    restore = partial(budget, "restore", "b", "--name", "acme/budget", "--store", "new")
    assert "too long" in restore("--as", "x" * 300, code=2).stderr
    assert "redacted" in restore("--version", str(version), code=3).stderr
    assert not Path("new").exists()


def test_a_damaged_manifest_is_named_and_hides_no_other_backup_and_a_backup_is_made_anew(budget: Run) -> None:
    """A backup without --anew needs the manifest of the newest backup, which is its base."""
    for _ in range(2):
        budget("backup", "b")
    first, second = ids(budget, "b")
    [manifest] = Path("b/!backup/manifests", second).glob("*.zst")
    manifest.write_bytes(manifest.read_bytes()[:10])
    listed = budget("backup", "list", "b", "--json", code=6)
    assert [json.loads(line)["id"] for line in listed.stdout.splitlines()] == [first]
    assert second in listed.stderr
    assert second in budget("backup", "b", code=6).stderr
    assert "!backup/manifests" in budget("restore", "b", "--store", "none", code=6).stderr
    assert "the manifest of a backup is damaged" in budget("backup", "prune", "b", "--retain", "2", code=6).stderr
    budget("restore", "b", "--backup", first, "--store", "new")
    budget("backup", "b", "--anew")
    budget("backup", "b")
    budget("backup", "verify", "b")


def test_a_damaged_copy_of_a_blob_is_named_by_its_key(budget: Run) -> None:
    """The file is too short to be decompressed, so no hash can be compared."""
    with stratalog.open("store") as store:
        store.create_log("acme", "events").append(stratalog.Event("seen", Random(1).randbytes(200_000)))
    budget("backup", "b")
    [copy] = Path("b/!backup/blobs").glob("acme/events@*/bodies/*.zst")
    copy.write_bytes(copy.read_bytes()[:10])
    [failure] = json.loads(budget("restore", "b", "--store", "new", "--json", code=6).stdout)["failures"][:1]
    assert failure["key"].endswith(copy.name.partition(".")[0])


@pytest.mark.parametrize("damaged", ["parent", "fork"])
def test_a_restore_of_one_log_reports_only_the_lost_blobs_that_this_log_needs(budget: Run, damaged: str) -> None:
    """The fork needs the blob of its parent's first version, but not that of a version after the fork."""
    with stratalog.open("store") as store:
        parent = store.create_log("acme", "parent")
        parent.append(stratalog.Event("seen", Random(0).randbytes(200_000)))
        fork = store.fork_log(parent, "fork", 1)
        blobs = set(Path("store/blobs").glob("acme/parent@*/bodies/*.zst"))
        (parent if damaged == "parent" else fork).append(stratalog.Event("seen", Random(1).randbytes(200_000)))
    [blob] = set(Path("store/blobs").glob("acme/parent@*/bodies/*.zst")) - blobs
    blob.unlink()
    lost = blob.name.partition(".")[0]
    assert lost in budget("backup", "b", code=6).stderr
    for name in ("parent", "fork"):
        shown = budget(
            "restore",
            "b",
            "--name",
            f"acme/{name}",
            "--as",
            "again",
            "--store",
            f"of {name}",
            "--json",
            code=6 if name == damaged else 0,
        )
        assert [lost in each["what"] for each in json.loads(shown.stdout)["failures"]] == [True] * (name == damaged)


def ids(run: Run, repository: str) -> list[str]:
    return [json.loads(line)["id"] for line in run("backup", "list", repository, "--json").stdout.splitlines()]


@pytest.mark.parametrize("target", ["store", "store/backups", "file://./store"])
def test_a_backup_inside_the_folder_of_its_store_is_refused(budget: Run, target: str) -> None:
    before = sorted(Path("store").rglob("*"))
    assert "would be lost with the store" in budget("backup", target, code=2).stderr
    assert sorted(Path("store").rglob("*")) == before
    assert budget("backup", "store-backups").exit_code == 0
