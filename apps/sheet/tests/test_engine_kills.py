"""A short run of `engine_kills`, and tests of how it runs servers and reports failures."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from apps.sheet.tests import engine_kills
from apps.sheet.tests.convergence.run import Diverged
from apps.sheet.tests.engine_kills import Refusal, ServedRun, Server, main, play, serving
from stratalog.errors import Unavailable

SESSIONS = 6
KILLS = 2
SEED = 7
PRINT_URL = """print('{"url": "http://a/web/"}', flush=True)"""
ORPHANING = """
import subprocess, sys
command = [sys.executable, "-c", "import time; time.sleep(600)", "engine_process"]
subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
print('{"url": "http://a/web/"}', flush=True)
"""


def test_clients_agree_and_the_server_lives_when_engines_are_killed() -> None:
    counts, killed = play(SESSIONS, KILLS, SEED)
    assert killed == KILLS
    assert counts["edits"] > SESSIONS


@pytest.mark.parametrize("error", [Refusal("invalid"), httpx.ReadTimeout("late"), Unavailable("busy")])
def test_a_failure_of_the_run_names_its_session_and_seed(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_once(run: ServedRun, clients: int, steps: int) -> None:
        if run.seed == SEED + 2:
            raise error

    server = SimpleNamespace(url="http://localhost", kills=0)
    monkeypatch.setattr(engine_kills, "serving", lambda folder: nullcontext(server))
    monkeypatch.setattr(ServedRun, "play", fail_once)
    assert main(["--sessions", "4", "--kills", "0", "--seed", str(SEED)]) == 1
    assert f"session 2 of the run, with seed {SEED + 2}" in capsys.readouterr().out


def test_an_engine_that_ended_since_it_was_listed_is_not_counted_as_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def kill(pid: int, number: int) -> None:
        tried.append(pid)
        if pid == 1:
            raise ProcessLookupError

    server = Server.__new__(Server)
    server.kills = 0
    monkeypatch.setattr(os, "kill", kill)
    for listed, killed in (([[1], [2]], True), ([[1], []], False)):
        listings = iter(listed)
        monkeypatch.setattr(Server, "engines", lambda self, listings=listings: next(listings))
        assert server.kill_engine(random.Random(0)) == killed
    assert (tried, server.kills) == ([1, 2, 1], 1)


def test_a_kill_is_repeated_until_there_is_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = iter([False, False, True])
    server = SimpleNamespace(kill_engine=lambda chance: next(engines))
    run = ServedRun.__new__(ServedRun)
    run._server, run._chance = cast(Server, server), random.Random(0)
    monkeypatch.setattr(ServedRun, "_answer", lambda *_: None)
    run._kill_amid_a_call()
    assert list(engines) == []


def test_a_refused_rename_leaves_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run: ServedRun, method: str, path: str, **options: object) -> None:
        raise Refusal("limit-exceeded")

    run = ServedRun.__new__(ServedRun)
    run._title = "before"
    monkeypatch.setattr(ServedRun, "_ask", refuse)
    assert run._rename("after") == {"error": "limit-exceeded"}
    assert run._title == "before"
    monkeypatch.setattr(ServedRun, "_ask", lambda *_, **options: {"version": 2})
    assert run._rename("after") == {"version": 2}
    assert run._title == "after"


def test_an_internal_error_of_the_server_fails_the_run() -> None:
    answers = iter([httpx.Response(409, json={"code": "conflict"}), httpx.Response(500, json={"code": "internal"})])
    run = ServedRun.__new__(ServedRun)
    run._requests, run._kills = 0, Counter()
    run._http = httpx.Client(transport=httpx.MockTransport(lambda _: next(answers)), base_url="http://server")
    assert run._or_code("GET", "/") == {"error": "conflict"}
    with pytest.raises(Diverged, match="500"):
        run._or_code("GET", "/")


def test_a_server_that_prints_much_is_not_blocked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_kills, "PROGRAM", f"{PRINT_URL}; print('x' * 1_000_000, flush=True)")
    server = Server("")
    assert server.process.wait(60) == 0
    server.end()


def test_a_server_that_does_not_end_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    monkeypatch.setattr(engine_kills, "PROGRAM", f"{ignore}; {PRINT_URL}; time.sleep(600)")
    monkeypatch.setattr(engine_kills, "END_SECONDS_MAX", 0.5)
    with pytest.raises(Diverged, match="did not end"):
        Server("").end()


def test_too_few_kills_fail_with_the_seed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(engine_kills, "play", lambda *_: (Counter(edits=9), 1))
    assert main(["--kills", "2", "--seed", "5"]) == 1
    assert capsys.readouterr().out == "seed 5: only 1 of 2 engines were killed\n"
    assert main(["--kills", "1", "--seed", "5"]) == 0
    assert "all agree" in capsys.readouterr().out


def test_an_engine_that_outlives_a_dead_server_is_reported_and_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_kills, "PROGRAM", ORPHANING)
    monkeypatch.setattr(engine_kills, "ENGINE_END_SECONDS_MAX", 0.5)
    with pytest.raises(Diverged, match="the server died") as caught, serving("orphans-of-a-test") as server:
        server.process.wait(60)
    [note] = caught.value.__notes__
    assert "engines outlived the server" in note
    while server.engines():  # the kernel ends a killed process soon
        time.sleep(0.01)
