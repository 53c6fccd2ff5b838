"""Several processes serve one port. Hints, presence and metrics reach all processes.

The supervisor restarts a process that has ended. All processes end with their supervisor.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from websockets.sync.client import ClientConnection, connect

from stratalog.cli import main
from stratalog.clock import SystemClock
from stratalog.limits import (
    PROCESS_RESTART_SECONDS_MAX,
    PROCESS_RESTART_SECONDS_MIN,
    SERVER_PROCESSES_MAX,
    SIBLING_UNSENT_BYTES_MAX,
)
from stratalog.server.handovers import preferred_process
from stratalog.server.processes import Supervisor, _Member
from tests import http_calls
from tests.processes import COMMAND_LINE, ChildProcess, start
from tests.server.api import BUDGET, mutation
from tests.threads import until

SECONDS_MAX = 120
# Without hints between the processes, no test would wait long enough for a poke.
SLOW_POLLS = ("--settings", '{"server": {"live_poll_seconds": 600}}')


class Server:
    """A server of two processes."""

    def __init__(self, described: dict[str, Any], supervisor: ChildProcess, entered: ExitStack) -> None:
        self.url: str = described["url"]
        self.processes: list[int] = described["processes"]
        self.supervisor = supervisor
        self._entered = entered

    @contextmanager
    def only(self, process: int) -> Iterator[None]:
        """Stop the other process until the end of the block, so that it accepts no connection."""
        (other,) = (pid for number, pid in enumerate(self.processes) if number != process)
        os.kill(other, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(other, signal.SIGCONT)

    def listen(self, process: int) -> ClientConnection:
        """Open a live connection to one of the processes, and take its first message."""
        with self.only(process):
            live = self._entered.enter_context(connect(self.url.replace("http", "ws") + f"{BUDGET}/live"))
            assert json.loads(live.recv(SECONDS_MAX))["type"] == "ready"
        return live


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[Server]:
    command = [*COMMAND_LINE, "serve", "--json", "--port", "0", "--processes", "2", *arguments]
    with start(command, cwd=folder) as supervisor, ExitStack() as entered:
        server = Server(json.loads(supervisor.read_line()), supervisor, entered)
        http_calls.put(server.url + BUDGET).raise_for_status()
        yield server
        if not supervisor.was_ended:
            supervisor.signal(signal.SIGTERM)
            supervisor.end()


def shown(live: ClientConnection) -> list[Any]:
    """Return the states in the next `here` message. In `stratalog.live.1` each of these messages has all states."""
    while True:
        message = json.loads(live.recv(SECONDS_MAX))
        if message["type"] == "here":
            return sorted(message["present"].values())


def show(live: ClientConnection, state: str) -> None:
    live.send(json.dumps({"type": "presence", "state": state}))


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_commit_in_one_process_pokes_the_listeners_of_the_other_immediately(tmp_path: Path) -> None:
    with served(tmp_path, *SLOW_POLLS) as server:
        first, second = server.listen(0), server.listen(1)
        for process, version in ((0, 1), (1, 2)):
            body = {"group": "g", "mutations": [mutation("ada", version, key="k", value=version)]}
            with server.only(process):
                http_calls.post(f"{server.url}{BUDGET}/push", json=body).raise_for_status()
            for live in (first, second):
                assert json.loads(live.recv(SECONDS_MAX)) == {"type": "poke", "version": version}


def test_connections_to_different_processes_share_their_presence(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        first = server.listen(0)
        show(first, "ada")
        assert shown(first) == ["ada"]
        # Until now, the second process has no listener of the document. So it requests the states of the first
        # process.
        second = server.listen(1)
        assert shown(second) == ["ada"]
        show(second, "bob")
        assert shown(first) == ["ada", "bob"]
        first.close()
        while (states := shown(second)) != ["bob"]:
            assert states == ["ada", "bob"]


def test_a_killed_process_restarts_and_its_presence_is_removed(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        first, second = server.listen(0), server.listen(1)
        show(first, "ada")
        assert shown(second) == ["ada"]
        os.kill(server.processes[0], signal.SIGKILL)
        assert shown(second) == []
        metrics(server)
        assert "process 0 of the server has ended with status -9" in server.supervisor.stderr


def metrics(server: Server) -> list[str]:
    """Return the lines of the metrics once both processes are in them. A process that answers late is not."""
    lines: list[str] = []

    def is_complete() -> bool:
        lines[:] = http_calls.get(f"{server.url}/metrics").text.splitlines()
        refused = [line for line in lines if line.startswith("stratalog_connections_refused_total")]
        return {line.partition('process="')[2][0] for line in refused} == {"0", "1"}

    until(is_complete)
    return lines


@contextmanager
def contended(folder: Path) -> Iterator[tuple[Server, int]]:
    """Serve a document. Yield the server and its not preferred process, which knows that the document is contended."""
    preferred = preferred_process("acme", "budget", {0, 1})
    other = 1 - preferred
    with served(folder) as server:
        for number, process in enumerate((other, preferred, other)):
            with server.only(process), http_calls.Client(base_url=server.url) as writer:
                assert pushed(writer, f"writer-{number}", 1) == number + 1
        yield server, other


@contextmanager
def connected(server: Server, process: int) -> Iterator[httpx.Client]:
    """Yield a client with a connection to one of the processes. An idle connection ends after some seconds."""
    with http_calls.Client(base_url=server.url) as client:
        with server.only(process):
            client.get("/health").raise_for_status()
        yield client


def pushed(client: httpx.Client, name: str, id: int) -> int:
    """Push one mutation, and return the version that applied it."""
    answer = client.post(f"{BUDGET}/push", json={"group": "g", "mutations": [mutation(name, id, key="k", value=id)]})
    (outcome,) = answer.raise_for_status().json()["outcomes"]
    assert outcome["status"] == "applied"
    return int(outcome["version"])


def handovers(server: Server, outcome: str) -> float:
    """Return the number of handovers of both processes with this outcome."""
    counts = [line for line in metrics(server) if line.startswith(f'stratalog_handovers_total{{outcome="{outcome}"')]
    return sum(float(line.rpartition(" ")[2]) for line in counts)


def test_a_push_to_a_contended_document_moves_to_the_preferred_process(tmp_path: Path) -> None:
    ids = count(1)

    def is_moved() -> bool:
        with connected(server, other) as client:
            id = next(ids)
            assert pushed(client, "ada", id) == id + 3
            if handovers(server, "moved") == 0:
                return False
            # The connection is in the preferred process now, so the other process may stop.
            with server.only(1 - other):
                id = next(ids)
                assert pushed(client, "ada", id) == id + 3
            return True

    with contended(tmp_path) as (server, other):
        # The other process may not take the offered connection in time, and the connection may end as idle before the
        # push. So try several times.
        until(is_moved)


def test_a_stopped_preferred_process_delays_a_push_only_a_little(tmp_path: Path) -> None:
    with contended(tmp_path) as (server, other), connected(server, other) as client:
        with server.only(other):
            assert [pushed(client, "ada", 1), pushed(client, "ada", 2)] == [4, 5]
        # The other process took the token back and ran the push. The preferred process, which continues now, finds the
        # offer without the token, and drops the offer.
        until(lambda: handovers(server, "late") > 0)
        assert pushed(client, "ada", 3) == 6


@pytest.mark.parametrize("ended_by", [signal.SIGTERM, signal.SIGKILL])
def test_the_processes_end_with_their_supervisor(ended_by: signal.Signals, tmp_path: Path) -> None:
    with served(tmp_path) as server:
        server.supervisor.signal(ended_by)
        server.supervisor.end(0 if ended_by is signal.SIGTERM else -9)
        until(lambda: not any(map(runs, server.processes)))


def test_more_processes_than_the_limit_are_refused() -> None:
    result = CliRunner().invoke(main, ["serve", "--processes", str(SERVER_PROCESSES_MAX + 1)])
    assert result.exit_code == 2
    assert f"1<=x<={SERVER_PROCESSES_MAX}" in result.stderr


def test_a_process_that_cannot_start_ends_the_server(tmp_path: Path) -> None:
    command = [*COMMAND_LINE, "serve", "--port", "0", "--processes", "2", "--access-log", str(tmp_path)]
    with start(command, cwd=tmp_path) as supervisor:
        assert "serving" not in supervisor.end(2)
        assert "error: cannot open the log file" in supervisor.stderr


MEMBER = """
import json, os, socket, sys, time
told = json.loads(os.environ["STRATALOG_SERVER_PROCESS"])
stream = socket.socket(fileno=told["stream"])
stream.sendall(b'{"type":"started","process":%d}\\n' % told["process"])
"""


def test_a_process_that_takes_no_messages_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    """Process 0 waits until process 1 has started, and then floods process 1, which reads nothing."""
    program = (
        MEMBER
        + f"""
if told["process"] == 0:
    stream.recv(1)
    for _ in range({SIBLING_UNSENT_BYTES_MAX // 2**20 + 2}):
        stream.sendall(b"x" * (2**20 - 1) + b"\\n")
time.sleep(600)
"""
    )
    ending = threading.Thread(target=end_after, args=(lambda: "takes no messages" in caplog.text,))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        supervisor = Supervisor([sys.executable, "-c", program], 2, listening, SystemClock(), lambda ids: None)
        ending.start()
        assert supervisor.run() == 0
    ending.join()
    assert "process 1 of the server takes no messages, and is killed" in caplog.text


def test_a_stopping_supervisor_closes_the_listening_socket_before_it_ends_the_processes(tmp_path: Path) -> None:
    """After its signal, the process closes its own descriptor of the socket, and tries to connect."""
    outcome = tmp_path / "outcome"
    program = (
        "import pathlib, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        + MEMBER
        + f"""
listening = socket.socket(fileno=told["listening"])
address = listening.getsockname()
signal.sigwait([signal.SIGTERM])
listening.close()
pathlib.Path({str(outcome)!r}).write_text(str(socket.socket().connect_ex(address)))
"""
    )
    started = threading.Event()
    ending = threading.Thread(target=end_after, args=(started.is_set,))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        supervisor = Supervisor([sys.executable, "-c", program], 1, listening, SystemClock(), lambda ids: started.set())
        ending.start()
        assert supervisor.run() == 0
    ending.join()
    assert int(outcome.read_text()) == errno.ECONNREFUSED


def end_after(condition: Callable[[], bool]) -> None:
    """Signal this process once the condition is true, or after the time limit of `until`."""
    try:
        until(condition)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def test_the_pause_before_a_restart_doubles_as_long_as_a_process_ends_early() -> None:
    member = _Member(0)
    pauses = []
    for _ in range(8):
        member.began_ms = 0
        member.end(1000)
        pauses.append(member.pause_seconds)
    assert pauses[:3] == [
        2 * PROCESS_RESTART_SECONDS_MIN,
        4 * PROCESS_RESTART_SECONDS_MIN,
        8 * PROCESS_RESTART_SECONDS_MIN,
    ]
    assert pauses[-1] == PROCESS_RESTART_SECONDS_MAX
    member.end(1000 * PROCESS_RESTART_SECONDS_MAX)
    assert member.pause_seconds == PROCESS_RESTART_SECONDS_MIN
