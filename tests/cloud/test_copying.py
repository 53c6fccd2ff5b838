"""The copy command copies a store to AWS and back. A copy whose process is killed resumes in the next run."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from random import Random

import pytest

import stratalog
from stratalog.testing.clock import ManualClock
from tests.cli.conftest import Run, run
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, contents_of, grow
from tests.processes import run as run_process

__all__ = ["run"]

HUGE = 9 * 1024 * 1024
SEED = 63
STEPS = 60
KILLED_COPY = """
import os, signal, sys
from stratalog.cli import main
from stratalog.log.directory import LOGS, list_directory
from stratalog.maintenance.family_copy import FamilyCopy

documents, publish = int(sys.argv.pop(1)), FamilyCopy._publish

def publish_or_die(copy, log):
    if len(list(list_directory(copy._target, log.organisation, LOGS))) == documents:
        os.kill(os.getpid(), signal.SIGKILL)
    publish(copy, log)

FamilyCopy._publish = publish_or_die
main()
"""
"""A command line whose process dies after the copy of a document's blobs and entries, before the copy of its name."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a history that includes an archive, a floor, a fork, and a body of two parts."""
    clock = ManualClock(seed=SEED)
    with open_inline(tmp_path / "folder", settings=SETTINGS, clock=clock) as store:
        grow(store, Random(SEED), STEPS)
        store.records("acme").put("huge", Random(SEED).randbytes(HUGE))
        counted = store.environment.counters
        names = [(organisation, line.id) for organisation in store.organisations() for line in store.list(organisation)]
        assert any(store.log(*name).record.lineage for name in names), "the history has no fork"
    assert all(counted[what] for what in ("archive", "floor", "deletion", "redaction", "roll-over", "snapshot"))
    return tmp_path / "folder"


def test_a_store_moves_to_aws_and_back(folder: Path, tmp_path: Path, aws_store: str, run: Run) -> None:
    there = json.loads(run("copy", str(folder), aws_store, "--json").stdout)
    assert there["items_written"] > 0
    again = json.loads(run("copy", str(folder), aws_store, "--json").stdout)
    assert again == {**there, "items_written": 0, "blobs_written": 0}
    back = json.loads(run("copy", aws_store, str(tmp_path / "back"), "--json").stdout)
    assert back == there
    with (
        stratalog.open(folder) as source,
        stratalog.open(aws_store, create=False) as target,
        stratalog.open(tmp_path / "back") as third,
    ):
        expected = contents_of(source)
        assert contents_of(target) == expected
        assert contents_of(third) == expected


def test_a_copy_is_refused_without_a_source_store_or_if_the_target_has_other_data(
    folder: Path, tmp_path: Path, aws_store: str, run: Run
) -> None:
    assert "the folder has no store" in run("copy", str(tmp_path / "none"), aws_store, code=2).stderr
    assert "the table does not exist" in run("copy", f"{aws_store}-none", str(tmp_path / "back"), code=5).stderr
    assert not (tmp_path / "back").exists()
    run("--store", str(tmp_path / "other"), "init")
    run("--store", str(tmp_path / "other"), "create", "elsewhere/plan")
    assert (
        "the target holds data that is not from the source: copy into a new store organisation='elsewhere'"
        in run("copy", str(folder), str(tmp_path / "other"), code=4).stderr
    )


def test_a_copy_resumes_after_its_process_is_killed(tmp_path: Path, aws_store: str, run: Run) -> None:
    source = tmp_path / "source"
    with stratalog.open(source) as store:
        chance = Random(SEED)
        for number in range(30):
            document = store.create("acme", f"plan-{number:02d}")
            document.mutate("put", {"key": "notes/1", "value": chance.randbytes(20_000)})
            document.mutate("put", {"key": "notes/2", "value": number})
    for count in (5, 12, 20):
        kill_after(count, str(source), aws_store)
    done = json.loads(run("copy", str(source), aws_store, "--json").stdout)
    assert 0 < done["items_written"] < 30 * 6
    with stratalog.open(source) as ours, stratalog.open(aws_store, create=False) as theirs:
        assert contents_of(theirs) == contents_of(ours)


def kill_after(documents: int, source: str, target: str) -> None:
    """Copy in a process that is killed in the middle of a document, when the target has ``documents`` documents."""
    command = [sys.executable, "-c", KILLED_COPY, str(documents), "copy", source, target]
    run_process(command, expected=-signal.SIGKILL)
    with stratalog.open(target) as store:
        assert len(list(store.list("acme"))) == documents
