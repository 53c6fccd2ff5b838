"""A list names each damaged part of the store, and has all others."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import stratalog
from stratalog.cli import program
from stratalog.keys import (
    NAME_SORT,
    ORGANISATIONS_PARTITION,
    directory_partition,
    name_partition,
    names_partition,
    number,
    record_key,
    record_partition,
)
from stratalog.log import Event
from stratalog.log.directory import RECORDS, directory_put
from tests.cli.conftest import Run

UNDECODABLE = "body = x'c1'"
DAMAGED_KEY = "sort = CAST(x'ff' AS TEXT)"


@pytest.fixture
def store(run: Run) -> str:
    """Make a store with three logs and three records. Return the prefix of the log ``b``."""
    run("init")
    with stratalog.open("store") as opened:
        for name in "abc":
            log = opened.create_log("acme", name)
            for version in range(3):
                log.append(Event("seen", version))
            opened.records("acme").put(name, name.encode())
        return opened.log("acme", "b").record.prefix


def damage(change: str, partition: str, sort: str) -> None:
    database = apsw.Connection(str(Path("store") / "index.sqlite"))
    database.execute(f"UPDATE items SET {change} WHERE partition = ? AND sort = ?", (partition, sort))
    assert database.changes() == 1


def names(listed: str) -> list[str]:
    return [name for name in ("acme/a", "acme/b", "acme/c") if f"{name} " in listed]


@pytest.mark.parametrize(("change", "is_listed"), [(UNDECODABLE, True), (DAMAGED_KEY, False)])
def test_a_list_names_a_damaged_line_of_the_directory(run: Run, store: str, change: str, is_listed: bool) -> None:
    line = directory_put("acme", RECORDS, "b", "", 0).item
    damage(change, directory_partition("acme", "logs", 0), "b")
    damage(change, line.partition, line.sort)
    for command in (("list",), ("records", "list", "acme")):
        result = run(*command, code=6)
        assert names(result.stdout) == (["acme/a", "acme/b", "acme/c"] if is_listed else ["acme/a", "acme/c"])
        assert "acme/b: a line of the directory" in result.stderr.replace("\\xff", "b")


def test_a_list_names_a_damaged_log_or_record(run: Run, store: str) -> None:
    damage(UNDECODABLE, name_partition("acme", "b"), NAME_SORT)
    damage(UNDECODABLE, record_partition("acme", record_key("b")), number(1))
    for command in (("list",), ("records", "list", "acme")):
        result = run(*command, code=6)
        assert names(result.stdout) == ["acme/a", "acme/c"]
        assert "damaged: acme/b" in result.stderr


@pytest.mark.parametrize("damages", ["log", "line"])
def test_a_list_of_a_name_names_the_damaged_part_and_lists_the_other_organisations(
    run: Run, store: str, damages: str
) -> None:
    run("create", "zeta/b")
    if damages == "log":
        damage(UNDECODABLE, name_partition("acme", "b"), NAME_SORT)
    else:
        damage(UNDECODABLE, names_partition("b"), "acme")
    result = run("list", "--named", "b", code=6)
    assert names(result.stdout) == ([] if damages == "log" else ["acme/b"])
    assert "zeta/b " in result.stdout
    assert "damaged: acme/b" in result.stderr
    run("list", "zeta", "--named", "b")


def test_a_list_whose_only_log_or_record_is_damaged_does_not_say_that_there_is_none(run: Run, store: str) -> None:
    run("create", "zeta/b")
    with stratalog.open("store") as opened:
        opened.records("zeta").put("b", b"")
    damage(UNDECODABLE, name_partition("zeta", "b"), NAME_SORT)
    damage(UNDECODABLE, record_partition("zeta", record_key("b")), number(1))
    for command in (("list", "zeta"), ("records", "list", "zeta")):
        result = run(*command, code=6)
        assert result.stdout == ""
        assert result.stderr.startswith("damaged: zeta/b")


def test_a_list_counts_the_damaged_parts_that_it_does_not_name(
    run: Run, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list in JSON names no more of them."""
    monkeypatch.setattr(program, "DAMAGED_PARTS_PRINTED_MAX", 1)
    for name in "ab":
        damage(UNDECODABLE, name_partition("acme", name), NAME_SORT)
    for options in ((), ("--json",)):
        lines = run("list", *options, code=6).stderr.splitlines()
        assert lines[0].startswith("damaged: acme/a: ")
        assert lines[1:] == ["damaged: 1 more part"]


def test_a_list_of_versions_has_the_rows_before_a_damaged_version(run: Run, store: str) -> None:
    with stratalog.open("store") as opened:
        for version in range(3):
            opened.records("acme").put("plan", b"%d" % version)
    damage(UNDECODABLE, record_partition("acme", record_key("plan")), number(2))
    result = run("records", "versions", "acme/plan", code=6)
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["1"]


@pytest.mark.parametrize("lists", ["organisation", "log", "record"])
def test_a_command_for_the_whole_store_names_a_damaged_key_of_its_lists(
    run: Run, store: str, lists: str, tmp_path: Path
) -> None:
    run("create", "zeta/b")
    line = directory_put("acme", RECORDS, "b", "", 0).item
    keys = {
        "organisation": (ORGANISATIONS_PARTITION, "zeta"),
        "log": (directory_partition("acme", "logs", 0), "b"),
        "record": (line.partition, line.sort),
    }
    damage(DAMAGED_KEY, *keys[lists])
    assert "\\xff" in run("verify", "--quick", code=6).stderr
    assert "\\xff" in run("sweep", code=1).stderr
    assert "\\xff" in run("maintain", code=1).stderr
    if lists == "organisation":
        assert "\\xff" in run("list", code=6).stderr
        assert "\\xff" in run("usage", code=6).stderr
        assert "\\xff" in run("collect", code=1).stderr
    run("checkpoint-key", "example.com/ledger", "signing.key")
    refused = run("checkpoint", "--all", "--lines", "lines", "--key", "signing.key", code=6)
    assert "\\xff" in refused.stderr
