"""Despite network faults, clients and server converge on one state, and no mutation is applied twice."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client import convergence
from tests.client.convergence import main
from tests.client.servers import Servers
from tests.client.session import CHANGES, FAULTS, Session, session_in_process
from tests.threads import until

CLIENTS = 3
clients = st.integers(0, CLIENTS - 1)
changes = st.tuples(st.just("change"), clients, st.sampled_from(CHANGES), st.integers(0, 9))
rounds = st.tuples(st.just("sync"), clients, st.lists(st.sampled_from(("", *FAULTS)), max_size=3))
restarts = st.tuples(st.just("restart"), clients)
arrivals = st.tuples(st.just("arrive"), clients)

appends = st.tuples(st.just("change"), clients, st.just("append"), st.just(0))
forgetting = st.tuples(st.just("forget"), clients)


@given(st.lists(st.one_of(changes, rounds, rounds, restarts, arrivals), max_size=40))
def test_any_schedule_ends_in_agreement(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder:
        session = session_in_process(Path(folder), CLIENTS)
        for step in steps:
            take(session, step)
        session.finish()
        session.close()


@given(st.lists(st.one_of(appends, rounds, restarts, arrivals, forgetting), max_size=40))
def test_no_mutation_of_a_forgotten_client_is_applied_twice(steps: list[tuple[object, ...]]) -> None:
    with TemporaryDirectory() as folder:
        session = session_in_process(Path(folder), CLIENTS)
        for step in steps:
            take(session, step)
        session.finish_with_forgotten()
        session.close()


def take(session: Session, step: tuple[object, ...]) -> None:
    """Execute one step of a schedule."""
    match step:
        case ("change", int(who), str(kind), int(number)):
            session.change(who, kind, number)
        case ("sync", int(who), list(faults)):
            session.members[who].sync(*faults)
        case ("restart", int(who)):
            session.members[who].restart()
        case ("forget", int(who)):
            session.forget(who)
        case ("arrive", int(who)):
            session.members[who].transport.deliver_late()


def test_random_sessions_end_in_agreement(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sessions", "40", "--seed", "1"]) == 0, capsys.readouterr().out


def test_a_session_that_ends_in_disagreement_is_reported_with_its_seed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.client.local.Local.note_sending", lambda local, batch: None)
    monkeypatch.setattr("stratalog.client.local._write", lambda connection, patch: None)
    assert main(["--sessions", "1", "--seed", "7"]) == 1
    repeat = "python -m tests.client.convergence --sessions 1 --seed 7"
    assert f"seed 7 failed; repeat it: {repeat}\n" in capsys.readouterr().out


def test_a_server_that_ends_by_itself_fails_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(seed: int, servers: Servers) -> Counter[str]:
        (server,) = servers.all
        os.kill(server._process.pid, signal.SIGSEGV)
        until(lambda: server.has_ended)
        return Counter()

    monkeypatch.setattr(convergence, "run_over_sockets", crash)
    assert main(["--sessions", "1", "--servers", "1"]) == 1
    assert "a server ended by itself during the sessions from seed 1" in capsys.readouterr().out


@pytest.mark.slow
def test_sessions_over_sockets_with_killed_servers_end_in_agreement(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sessions", "4", "--seed", "1", "--servers", "3"]) == 0, capsys.readouterr().out
