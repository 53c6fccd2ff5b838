"""The web server limits how much each caller uses of its resources, and for how long. Most tests use real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as connect_websocket

from stratalog.cli.serve import listening_at
from stratalog.clock import SystemClock
from stratalog.limits import ANSWER_PIECE_BYTES, REQUEST_HEAD_BYTES_MAX
from stratalog.server.acceptor import Acceptor
from stratalog.server.app import create_app
from stratalog.server.application import ServerLimits
from stratalog.server.connections import OpenConnections
from stratalog.server.metrics import Metrics
from stratalog.server.security import Principal, StaticTokens
from stratalog.server.web_server import WebServer, connections_within, serve
from stratalog.store import open_store
from tests.processes import environment, start
from tests.server.api import BUDGET
from tests.server.jumping_loop import run_jumping
from tests.server.web_servers import HOST, SECONDS_MAX, RunningServer, connect, read_all, web_server
from tests.threads import until

HALF_HEAD = b"GET /health HTTP/1.1\r\n" + HOST + b"X-a: "
SHORT = ServerLimits(request_head_seconds_max=0.2, answer_silence_seconds_max=0.2)
# This program runs the command line in a process with few file descriptors.
WITH_FEW_DESCRIPTORS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
from stratalog.cli import main
main(sys.argv[3:])
"""


def test_a_connection_above_the_limit_is_answered_503_immediately() -> None:
    with web_server(connections_max=3) as running, ExitStack() as held:
        for _ in range(3):
            held.enter_context(connect(running.port)).sendall(HALF_HEAD)
        until(lambda: running.connections == 3)
        head, _, body = running.answer().partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"Retry-After: 1" in head
        error = json.loads(body)
        assert (error["code"], error["limit"], error["value"], error["scope"]) == ("unavailable", 3, 4, "process")
        held.close()
        until(lambda: running.connections == 0)
        assert running.answer().startswith(b"HTTP/1.1 200")


def test_unauthenticated_sockets_of_an_address_leave_room_for_another_address() -> None:
    tokens = StaticTokens({"t": Principal(id="ada")})
    asked = f"PUT {BUDGET} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n".encode()
    with web_server(connections_max=8, authenticate=tokens) as running, ExitStack() as held:
        ours = held.enter_context(connect(running.port, source="127.1.0.1"))
        ours.sendall(asked)
        assert ours.recv(12) == b"HTTP/1.1 201"
        # An address may use 2 of the 8 connections. Ada's connection counts for her principal, not for her address.
        for _ in range(2):
            held.enter_context(connect(running.port, source="127.1.0.1")).sendall(HALF_HEAD)
        until(lambda: running.connections == 3)
        with connect(running.port, source="127.1.0.1") as caller:
            head, _, body = read_all(caller).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert (json.loads(body)["limit"], json.loads(body)["scope"]) == (2, "address")
        assert running.answer().startswith(b"HTTP/1.1 200")


def test_a_known_callers_sockets_count_for_the_principal() -> None:
    tokens = StaticTokens({"t": Principal(id="ada")})
    asked = f"PUT {BUDGET} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n".encode()
    with web_server(authenticate=tokens) as running, connect(running.port) as ours, connect(running.port) as other:
        other.sendall(HALF_HEAD)
        ours.sendall(asked)
        assert ours.recv(12) == b"HTTP/1.1 201"
        budget = running.server.connections.budget
        until(lambda: budget.used == 2)
        assert budget.used_by(("principal", "ada")) == budget.used_by(("address", "127.0.0.1")) == 1


def test_idle_and_closing_sockets_of_a_principal_leave_room_for_another_caller() -> None:
    tokens = StaticTokens({"t": Principal(id="ada")})
    asked = f"GET {BUDGET} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n".encode()
    with web_server(connections_max=16, authenticate=tokens) as running, ExitStack() as held:

        def ask() -> bytes:
            caller = held.enter_context(connect(running.port, source="127.1.0.1"))
            caller.sendall(asked)
            return caller.recv(12)

        # A principal may have half of the sockets. Sockets above this share count for the address: a quarter.
        assert [ask() for _ in range(8)] == [b"HTTP/1.1 404"] * 8
        assert [ask() for _ in range(8)] == [b"HTTP/1.1 429"] * 8
        until(lambda: running.connections == 12)
        assert running.answer().startswith(b"HTTP/1.1 200")


def test_the_share_of_sockets_of_an_address_does_not_apply_to_a_trusted_proxy() -> None:
    tokens = StaticTokens({"t": Principal(id="ada")})
    proxies = ("127.1.0.1",)
    with (
        web_server(connections_max=8, authenticate=tokens, trusted_proxies=proxies) as running,
        ExitStack() as held,
    ):
        for source in ["127.1.0.1"] * 4 + ["127.1.0.2"] * 2:
            held.enter_context(connect(running.port, source=source)).sendall(HALF_HEAD)
        until(lambda: running.connections == 6)
        with connect(running.port, source="127.1.0.2") as caller:
            assert read_all(caller).startswith(b"HTTP/1.1 429 Too Many Requests\r\n")


def test_serve_tunes_thread_switching_and_garbage_collection_and_restores_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []

    def note(server: WebServer) -> None:
        seen.append((sys.getswitchinterval(), gc.get_freeze_count(), gc.get_threshold()))

    monkeypatch.setattr(WebServer, "run", note)
    before = sys.getswitchinterval(), gc.get_threshold()
    with listening_at("127.0.0.1", 0) as listening, open_store("memory:") as store:
        serve(create_app(store), listening)
    [(interval, frozen, thresholds)] = seen
    assert (interval < before[0], frozen > 10_000) == (True, True)
    # The garbage collector examines young objects a few at a time, and all objects rarely.
    assert prod(thresholds[:2]) < prod(before[1][:2]) < prod(before[1]) < prod(thresholds) / 10
    assert (sys.getswitchinterval(), gc.get_threshold()) == before
    assert gc.get_freeze_count() < 10_000


def test_connections_with_an_incomplete_head_are_dropped_after_the_deadline() -> None:
    with web_server(SHORT, connections_max=20) as running, ExitStack() as held:
        callers = [held.enter_context(connect(running.port)) for _ in range(20)]
        for caller in callers:
            caller.sendall(HALF_HEAD)
        assert {read_all(caller) for caller in callers} == {b""}
        until(lambda: running.connections == 0)
        # The deadline is so short that a busy machine may not send the next head in time.
        until(lambda: running.answer().startswith(b"HTTP/1.1 200"))


@pytest.mark.parametrize(("stops", "expected"), [(1, [1, 102.5]), (2, [1, 202, 203])])
def test_after_a_stop_of_the_process_requests_are_read_before_overdue_connections_are_dropped(
    stops: int, expected: list[float]
) -> None:
    """The process is stopped for a hundred intervals, the second time half an interval after the first stop."""
    drops: list[float] = []

    async def story() -> None:
        loop: Any = asyncio.get_running_loop()
        with listening_at("127.0.0.1", 0) as listening, open_store("memory:") as store:
            server = WebServer(create_app(store), listening, 10)
            interval = server._check_seconds

            async def note(now: float) -> None:
                drops.append(now / interval)

            server.connections.drop_overdue = note  # type: ignore[method-assign]
            checking = asyncio.create_task(server._check())
            await asyncio.sleep(interval)
            for _ in range(stops):
                await asyncio.sleep(0.5 * interval)
                loop.jumped_seconds += 100 * interval
            await asyncio.sleep(1.25 * interval)
            checking.cancel()

    run_jumping(story())
    assert drops == pytest.approx(expected)


def test_pipelining_callers_that_read_nothing_have_few_waiting_bytes_and_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "large.js").write_bytes(b"x" * 3_000_000)
    requests = (b"GET /web/test/large.js HTTP/1.1\r\n" + HOST + b"\r\n") * 60
    # The rate is high, because the test sends requests without a pause until the server has dropped the other callers.
    limits = ServerLimits(answer_silence_seconds_max=2, rate_requests_burst=1_000_000)
    with web_server(limits, pages=tmp_path) as running, ExitStack() as held:
        for _ in range(50):
            held.enter_context(connect(running.port, receive_bytes=2048)).sendall(requests)
        waiting = watch_buffers(running.server)
        while dropped(running.server, "answer") < 50:
            assert running.answer().startswith(b"HTTP/1.1 200")
        assert 0 < max(waiting) <= 2 * ANSWER_PIECE_BYTES


def watch_buffers(server: WebServer) -> list[int]:
    """Return a list that gets the unsent bytes of each connection whenever the server looks for overdue connections."""
    connections, sizes = server.connections, list[int]()
    drop_overdue = connections.drop_overdue

    async def watched(now: float) -> None:
        sizes.extend(each.get_write_buffer_size() for each in connections._open)
        await drop_overdue(now)

    connections.drop_overdue = watched  # type: ignore[method-assign]
    return sizes


def dropped(server: WebServer, deadline: str) -> float:
    """Return the number of connections that the server has dropped for this deadline."""
    registry = server._service.metrics.registry
    return registry.get_sample_value("stratalog_connections_dropped_total", {"deadline": deadline}) or 0


def test_a_caller_with_a_small_receive_buffer_gets_the_complete_answer(tmp_path: Path) -> None:
    body = bytes(range(256)) * 10_000
    (tmp_path / "large.js").write_bytes(body)
    with web_server(pages=tmp_path) as running, connect(running.port, receive_bytes=2048) as caller:
        caller.sendall(b"GET /web/test/large.js HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        assert read_all(caller).partition(b"\r\n\r\n")[2] == body


def test_a_request_with_two_framings_is_refused_and_the_next_request_is_not_read() -> None:
    smuggled = b"GET /metrics HTTP/1.1\r\n" + HOST + b"\r\n"
    path = b" /v1/organisations/acme/documents/x/pull HTTP/1.1\r\n"
    with web_server() as running:
        for headers in (
            b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            b"Content-Length: 0\r\ntransfer-encoding: chunked\r\nAccess-Control-Request-Method: PUT\r\n",
        ):
            for method in (b"POST", b"OPTIONS"):
                answer = running.answer(method + path + HOST + headers + b"\r\n0\r\n\r\n" + smuggled)
                assert answer.startswith(b"HTTP/1.1 400 ")
                assert answer.count(b"HTTP/1.1 ") == 1
                assert b"connection: close\r\n" in answer.lower()


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 4\r\nContent-Length: 5\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"X-Name : a\r\n",
        b"Host: other\r\n",
    ],
)
def test_an_ambiguous_head_is_refused_and_the_connection_is_closed(head: bytes) -> None:
    with web_server() as running:
        answer = running.answer(b"POST /v1/x HTTP/1.1\r\n" + HOST + head + b"\r\n0\r\n\r\nGET /health HTTP/1.1\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.split()[1] in (b"400", b"501")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Content-Length: 5\r\n", b"400"),
        (b"Transfer-Encoding: chunked\r\n", b"400"),
        (b"".join(b"X-%d: 1\r\n" % number for number in range(130)), b"431"),
        (b"X-Long: " + b"a" * 9000 + b"\r\n", b"431"),
    ],
    ids=["length", "chunks", "many headers", "a long header"],
)
def test_a_websocket_handshake_with_a_head_that_only_http_accepts_is_refused_and_the_connection_closed(
    head: bytes, status: bytes
) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    path = b"GET /v1/organisations/acme/documents/x/live HTTP/1.1\r\n"
    with web_server() as running:
        answer = running.answer(path + HOST + upgrade + b"dGhlIHNhbXBsZSBub25jZQ==\r\n" + head + b"\r\nhello")
        assert answer.split()[1] == status
        until(lambda: running.connections == 0)


def test_a_head_that_is_too_large_is_refused_and_the_connection_closed() -> None:
    with web_server() as running:
        answer = running.answer(b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * REQUEST_HEAD_BYTES_MAX)
    assert answer.startswith(b"HTTP/1.1 400 ")


def watch_log(held: ExitStack, caplog: pytest.LogCaptureFixture) -> None:
    """Add the records of uvicorn's log to ``caplog`` until ``held`` ends. This log does not propagate its records."""
    log = logging.getLogger("uvicorn.error")
    log.addHandler(caplog.handler)
    held.callback(log.removeHandler, caplog.handler)


@pytest.mark.parametrize(
    "path", [b"PUT /v1/organisations/acme/records/x", b"POST /v1/organisations/acme/documents/x/push"]
)
def test_a_request_that_a_stopping_server_cancels_is_answered_with_an_unknown_outcome_and_no_traceback(
    path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as held:
        with web_server() as running:
            watch_log(held, caplog)
            caller = held.enter_context(connect(running.port))
            caller.sendall(path + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\nhalf")
            until(lambda: running.server._service.connections.connections.used == 1)
            running.server.config.timeout_graceful_shutdown = 0
        answer = read_all(caller)
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b'"code":"outcome-unknown"' in answer
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_stopping_server_refuses_new_connections_while_it_finishes_a_request() -> None:
    with web_server() as running, connect(running.port) as caller:
        put = b"PUT /v1/organisations/acme/records/x HTTP/1.1\r\n"
        caller.sendall(put + HOST + b"Content-Length: 4\r\n\r\nha")
        until(lambda: running.server._service.connections.connections.used == 1)
        (connection,) = running.server.server_state.connections
        running.server.should_exit = True
        until(lambda: connection._is_stopping)  # type: ignore[union-attr]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", running.port), SECONDS_MAX)
        caller.sendall(b"lf")
        assert read_all(caller).startswith(b"HTTP/1.1 200 ")


def test_a_stopping_server_closes_its_handovers_before_it_stops_to_accept() -> None:
    """A connection that another process hands over later would not know that the server stops."""
    cancelled: list[int] = []
    with web_server() as running:
        server = running.server

        class Handovers:
            def close(self) -> None:
                cancelled.append(server._running[0].cancelling())

        server._handovers = Handovers()  # type: ignore[assignment]
    assert cancelled == [0]


def stop_connections(server: WebServer, after: Callable[[], Any] = lambda: None) -> None:
    """End all connections on the server's loop, as uvicorn does. The loop reads no bytes before ``after`` returns."""

    async def stop() -> None:
        after()
        for connection in list(server.server_state.connections):
            connection.shutdown()

    asyncio.run_coroutine_threadsafe(stop(), server._running[0].get_loop()).result(SECONDS_MAX)


def test_a_stopping_server_answers_the_running_request_and_says_that_it_closes_the_connection() -> None:
    with web_server() as running, connect(running.port) as caller:
        put = b"PUT /v1/organisations/acme/records/x HTTP/1.1\r\n"
        caller.sendall(put + HOST + b"Content-Length: 4\r\n\r\nha")
        until(lambda: running.server._service.connections.connections.used == 1)
        stop_connections(running.server)
        stop_connections(running.server)  # each further piece of an upload stops the connection again
        caller.sendall(b"lf")
        head, _, body = read_all(caller).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert head.lower().count(b"\r\nconnection: close") == 1
    assert json.loads(body)["size"] == 4


@pytest.mark.parametrize(("request_end", "status"), [(b"\r\n", b"HTTP/1.1 200"), (b"X-half: ", b"")])
def test_a_stopping_server_answers_a_complete_request_that_waits_unread(request_end: bytes, status: bytes) -> None:
    with web_server() as running, connect(running.port) as caller:
        caller.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
        until(lambda: b'"ok"' in caller.recv(65536, socket.MSG_PEEK))
        caller.recv(65536)
        again = b"GET /health HTTP/1.1\r\n" + HOST + request_end
        stop_connections(running.server, lambda: caller.sendall(again))
        head, _, _ = read_all(caller).partition(b"\r\n\r\n")
    assert head[:12] == status
    assert b"\r\nconnection: close" in head.lower() or not status


def test_a_server_stops_while_it_closes_the_connection_of_a_response_that_was_cut_short() -> None:
    with web_server() as running, connect(running.port) as caller:
        caller.sendall(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n")
        until(lambda: b'"ok"' in caller.recv(65536, socket.MSG_PEEK))
        (connection,) = running.server.server_state.connections

        def cut() -> None:
            connection.conn.send_failed()  # type: ignore[union-attr]
            connection.transport.close()

        stop_connections(running.server, cut)


def test_a_second_ctrl_c_ends_the_server_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as held:
        with web_server() as running:
            watch_log(held, caplog)
            caller = held.enter_context(connect(running.port))
            caller.sendall(b"PUT /v1/organisations/acme/records/x HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\n")
            until(lambda: running.server._service.connections.connections.used == 1)
            running.server.force_exit = True
        assert running.server.lifespan.shutdown_event.is_set()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_second_ctrl_c_while_the_application_ends_does_not_end_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = 0
    with web_server() as running:
        server, end = running.server, running.server.lifespan.shutdown

        async def ended() -> None:
            nonlocal ends
            ends += 1
            await end()
            server.force_exit = True

        monkeypatch.setattr(server.lifespan, "shutdown", ended)
    assert ends == 1


def test_a_flood_of_invalid_http_writes_about_a_log_line_per_second() -> None:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    log, handler = logging.getLogger("uvicorn.error"), Lines()
    with web_server() as running, ExitStack() as ending:
        log.addHandler(handler)
        ending.callback(log.removeHandler, handler)
        clock = running.server._throttle._clock
        began_ms = clock.boot_ms()
        for _ in range(300):
            assert running.answer(b"\0\0\0\0\r\n\r\n").startswith(b"HTTP/1.1 400 ")
        seconds = (clock.boot_ms() - began_ms) / 1000
    assert 1 <= len(lines) <= 2 + seconds


def test_without_free_descriptors_the_server_retries_accept_once_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Other code uses all descriptors. The system reports a waiting connection, but `accept` fails."""
    tries: list[float] = []

    class Exhausted(socket.socket):
        def accept(self) -> Any:
            tries.append(asyncio.get_running_loop().time())
            raise OSError(24, "Too many open files")

    async def story() -> None:
        metrics = Metrics(open_store("memory:").environment)
        connections = OpenConnections(ServerLimits(), 10, metrics, SystemClock())
        with Exhausted() as listening:
            accepting = asyncio.create_task(Acceptor(listening, unused, connections, metrics).accept())
            await asyncio.sleep(10.5)
            accepting.cancel()

    def unused(allocation: Any, received: bytes) -> Any:
        raise AssertionError

    run_jumping(story())
    assert tries == [float(second) for second in range(11)]
    assert {record.getMessage() for record in caplog.records} == {"cannot accept connections: Too many open files"}


def test_connections_leave_descriptors_to_the_store() -> None:
    assert connections_within(1 << 20, 10_000) == 10_000
    assert connections_within(4096, 10_000) == 4096 - 256
    assert connections_within(4096, 100) == 100
    assert connections_within(256, 10_000) == 64
    assert connections_within(resource.RLIM_INFINITY, 10_000) == 10_000


def test_a_process_with_few_descriptors_raises_its_limit_and_survives_more_callers(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", WITH_FEW_DESCRIPTORS, "64", "256"]
    command += ["serve", "--json", "--port", "0", "--store", str(tmp_path / "data")]
    command += ["--settings", json.dumps({"server": {"request_head_seconds_max": SECONDS_MAX}})]
    with start(command, cwd=tmp_path, env=environment()) as process, ExitStack() as held:
        url = json.loads(process.read_line())["url"]
        running = RunningServer(None, int(url.rpartition(":")[2]))  # type: ignore[arg-type]
        held_sockets = [held.enter_context(connect(running.port)) for _ in range(300)]
        for caller in held_sockets:
            try:
                caller.sendall(HALF_HEAD)
            except ConnectionError:
                continue
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (256, 256)
        refused = running.answer()
        assert refused.startswith(b"HTTP/1.1 503 ")
        held.close()
        until(lambda: running.answer().startswith(b"HTTP/1.1 200 "))
        process.signal(signal.SIGTERM)
        process.end()
        lines = process.stderr.splitlines()
        assert lines[0] == "at most 64 connections, not 10000: the process may open 256 files"
        assert all("a connection was refused: the server has too many connections" in line for line in lines[1:])
        assert len(lines) < 100


def test_websockets_count_as_connections_until_they_end() -> None:
    with web_server(connections_max=2) as running:
        url = f"ws://127.0.0.1:{running.port}{BUDGET}/live"
        running.answer(b"PUT " + BUDGET.encode() + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        until(lambda: running.connections == 0)
        with connect_websocket(url) as first, connect_websocket(url) as second:
            assert [json.loads(each.recv())["type"] for each in (first, second)] == ["ready", "ready"]
            assert running.answer().startswith(b"HTTP/1.1 503 ")
        until(lambda: running.connections == 0)
        assert running.answer().startswith(b"HTTP/1.1 200 ")


def test_a_large_message_closes_a_websocket_with_the_documented_code_and_another_origin_is_answered_403() -> None:
    with web_server() as running:
        url = f"ws://127.0.0.1:{running.port}{BUDGET}/live"
        running.answer(b"PUT " + BUDGET.encode() + b" HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
        for size, code in ((5000, 4413), (9000, 1009)):
            with connect_websocket(url) as caller:
                caller.recv()
                caller.send("x" * size)
                with pytest.raises(ConnectionClosed) as closed:
                    caller.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == code
        with pytest.raises(InvalidStatus) as refused:
            connect_websocket(url, additional_headers={"Origin": "https://evil.example"})
        assert refused.value.response.status_code == 403
