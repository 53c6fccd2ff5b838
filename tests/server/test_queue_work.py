"""`stratalog work` and `stratalog dead-letters`. Some workers are real processes, which a test kills or signals."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import stratalog
from stratalog.cli import main
from stratalog.limits import MUTATION_TRIES_MAX
from stratalog.protocol.sync import Push
from stratalog.store import Store
from stratalog.worker.execution import SUSPECT_RECEIVES
from stratalog.worker.queued_pushes import QueuedPushes
from tests import http_calls
from tests.processes import COMMAND_LINE, ChildProcess
from tests.processes import start as start_process
from tests.server.queue_path import named, put
from tests.threads import until

pytestmark = pytest.mark.slow

VISIBILITY = "0.3"
APPLICATION = """
import os
import time
from pathlib import Path

from stratalog.protocol import BUILT_IN_MUTATORS
from stratalog.server.application import Application

def slow(draft, args):
    Path("started").touch()
    while Path("hold").exists():
        time.sleep(0.01)
    draft.put("slow", draft.get("slow", 0) + 1)

def poison(draft, args):
    if Path("poisonous").exists():
        os._exit(9)
    draft.put("poison", "harmless")

app = Application(mutators={**BUILT_IN_MUTATORS, "slow": slow, "poison": poison})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queueapp.py").write_text(APPLICATION)
    with stratalog.open(tmp_path / "data") as store:
        store.create("acme", "plan")
    return tmp_path


@contextmanager
def opened(folder: Path) -> Iterator[Store]:
    with stratalog.open(folder / "data") as store:
        yield store


def queue(folder: Path, *mutations: Any) -> None:
    with opened(folder) as store:
        document = store.document("acme", "plan")
        assert QueuedPushes(store).push(document, Push("g", list(mutations), document.origin)).queued


def content(folder: Path) -> dict[str, Any]:
    with opened(folder) as store:
        return dict(store.document("acme", "plan").scan())


@contextmanager
def worker(folder: Path, *arguments: str) -> Iterator[ChildProcess]:
    """Run a worker in its own process. Yield the process after the worker has reported its start."""
    with announced_worker(folder, *arguments) as (process, _):
        yield process


@contextmanager
def announced_worker(folder: Path, *arguments: str) -> Iterator[tuple[ChildProcess, dict[str, Any]]]:
    """Run a worker as `worker` does. Also yield the report that the worker made at its start."""
    command = [*COMMAND_LINE, "--json", "work", "queueapp:app", "--visibility", VISIBILITY, *arguments]
    with start_process(command, cwd=folder) as process:
        started = json.loads(process.read_line())
        assert "pid" in started
        yield process, started


def counts_of(process: ChildProcess) -> dict[str, int]:
    """Return the counts that a worker prints when it ends."""
    counts: dict[str, int] = json.loads(process.end())
    return counts


def run(folder: Path, *arguments: str, code: int = 0) -> list[Any]:
    result = CliRunner().invoke(main, ["--json", "--store", str(folder / "data"), *arguments])
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_worker_applies_the_queued_pushes_and_prints_its_counts(folder: Path) -> None:
    queue(folder, put("ada", 1), named("ada", 2, "nonsense"))
    printed = run(folder, "work", "--drain")
    assert printed[-1] == {"applied": 1, "messages": 1, "rejected": 1}
    assert content(folder) == {"k": 1}


def test_a_worker_leaves_no_message_behind(folder: Path) -> None:
    for id in range(1, 41):
        queue(folder, put("ada", id, f"k{id}"))
    done = run(folder, "work", "--drain")[-1]
    assert (done["applied"], done["messages"]) == (40, 40)
    with opened(folder) as store:
        assert store.queue.receive() == []
    assert len(content(folder)) == 40


def test_a_worker_finishes_its_current_message_after_sigterm(folder: Path) -> None:
    (folder / "hold").touch()
    queue(folder, named("ada", 1, "slow"))
    queue(folder, put("ada", 2))
    with worker(folder) as process:
        until((folder / "started").exists)
        process.signal(signal.SIGTERM)
        (folder / "hold").unlink()
        assert counts_of(process) == {"applied": 1, "messages": 1}
    assert content(folder) == {"slow": 1}
    run(folder, "work", "--drain")
    assert content(folder) == {"slow": 1, "k": 1}


def test_the_heartbeats_of_a_worker_hide_the_message_whose_mutation_runs(folder: Path) -> None:
    (folder / "hold").touch()
    queue(folder, named("ada", 1, "slow"))
    with worker(folder), closing(sqlite3.connect(folder / "data/index.sqlite")) as database:

        def hidden_until() -> int:
            return int(database.execute("SELECT visible_ms FROM message_groups").fetchone()[0])

        until((folder / "started").exists)
        first = hidden_until()
        until(lambda: hidden_until() > first)
        (folder / "hold").unlink()
        until(lambda: content(folder) == {"slow": 1})


def test_a_worker_serves_its_counters_as_metrics(folder: Path) -> None:
    with announced_worker(folder, "--metrics-port", "0") as (_, started):
        text = http_calls.get(f"http://127.0.0.1:{started['metrics_port']}/metrics").text
    assert 'stratalog_core_total{what="mutation_rejected_after_the_last_attempt"} 0.0' in text


def test_the_message_of_a_killed_worker_is_applied_by_another_worker(folder: Path) -> None:
    (folder / "hold").touch()
    queue(folder, put("ada", 1), named("ada", 2, "slow"))
    queue(folder, put("ada", 3, "after"))
    with worker(folder) as process:
        until((folder / "started").exists)
        process.kill()
    (folder / "hold").unlink()
    applied = 0
    while not applied:  # until the message of the killed worker is visible again
        with worker(folder, "--drain") as process:
            applied = counts_of(process).get("applied", 0)
    assert applied == 3
    assert content(folder) == {"k": 1, "slow": 1, "after": 1}


def test_a_mutation_that_kills_every_worker_is_rejected_and_redriven_after_its_repair(folder: Path) -> None:
    (folder / "poisonous").touch()
    queue(folder, put("ada", 1), named("ada", 2, "poison"), put("ada", 3, "after"))
    kills = 0
    while content(folder).get("after") is None:
        with worker(folder, "--drain") as process:
            process.end(expected=None)
            kills += process.status == 9
        assert kills < 10
    # On a slow machine the queue may deliver the message again before the worker runs it, which counts as a delivery.
    assert 0 < kills <= SUSPECT_RECEIVES - 1 + MUTATION_TRIES_MAX
    assert content(folder) == {"k": 1, "after": 1}
    (letter,) = run(folder, "dead-letters", "list")
    assert (letter["document"], letter["client"], letter["mutation"]) == ("plan", "ada", 2)
    (folder / "poisonous").unlink()
    redrive = ["dead-letters", "redrive", "--all", "--application", "queueapp:app"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert [line["outcome"]["status"] for line in run(folder, *redrive)] == ["applied"]
        assert [line["outcome"]["status"] for line in run(folder, *redrive)] == ["seen"]
        edit = ["dead-letters", "redrive", letter["id"], "--args", '{"by": 2}', "--application", "queueapp:app"]
        for status in ("applied", "seen"):
            (edited,) = run(folder, *edit)
            assert (edited["letter"].startswith(f"{letter['id']}/"), edited["outcome"]["status"]) == (True, status)
    assert [line["edited"] for line in run(folder, "dead-letters", "list")] == [False, True]
    assert content(folder)["poison"] == "harmless"


def test_a_redrive_of_an_unknown_letter_or_with_invalid_options_reports_an_error(folder: Path) -> None:
    assert run(folder, "dead-letters", "list") == []
    (error,) = run(folder, "dead-letters", "redrive", "0000000000000007", code=1)
    assert error["letter"] == "0000000000000007"
    assert "dead letter not found" in error["error"]
    run(folder, "dead-letters", "redrive", code=2)
    run(folder, "dead-letters", "redrive", "--all", "--args", "{}", code=2)
