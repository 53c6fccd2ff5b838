"""The access log and the security log name callers but never tokens, and limit their lines per second."""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from litestar.exceptions import WebSocketDisconnect
from litestar.testing import TestClient

from stratalog.server.app import create_app
from stratalog.server.application import Application, ServerLimits
from stratalog.server.audit import Audit, SecurityEvent
from stratalog.server.line_log import LineLog
from stratalog.server.security import Principal, StaticTokens
from stratalog.server.shares import Holder
from stratalog.store import open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, HOST, Client, until_closed
from tests.threads import SECONDS_MAX, until

TOKENS = StaticTokens({"secret-ada": Principal(id="u-ada", name="Ada"), "secret-bob": Principal(id="u-bob")})
ADA, BOB = ({"Authorization": f"Bearer secret-{name}"} for name in ("ada", "bob"))
EVE: Holder = ("address", "10.0.0.1")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@contextmanager
def audited(folder: Path, per_second: int = 1000, **settings: Any) -> Iterator[Client]:
    """A client of a server with both logs. The logs are complete after the block."""
    store = open_store("memory:")
    clock = store.environment.clock
    access, security = (LineLog(str(folder / name), ManualClock(), per_second) for name in ("access", "security"))
    application = Application(
        authenticate=TOKENS,
        authorize=lambda principal, action, organisation, name: principal.id == "u-ada" or action == "list",
        hosts=(HOST,),
        **settings,
    )
    with TestClient(create_app(store, application, audit=Audit(clock, access, security))) as client:
        yield client
    access.close()
    security.close()


def test_each_answer_is_a_line_of_the_access_log(tmp_path: Path) -> None:
    with audited(tmp_path) as client:
        client.put(BUDGET, headers=ADA)
        client.get(f"{BUDGET}?secret=1", headers=ADA)
        client.get("/health")
    lines = read(tmp_path / "access")
    logged = [(line["method"], line["path"], line["principal"], line["status"]) for line in lines]
    assert logged == [("PUT", BUDGET, "u-ada", 201), ("GET", BUDGET, "u-ada", 400), ("GET", "/health", "", 200)]
    assert {line["event"] for line in lines} == {"request"}


def test_a_request_with_ambiguous_framing_and_a_preflight_are_logged_and_counted(tmp_path: Path) -> None:
    page = {"Origin": "https://app.example", "Access-Control-Request-Method": "PUT"}
    with audited(tmp_path, origins=("https://app.example",)) as client:
        client.put(BUDGET, content=b"{}", headers={"Transfer-Encoding": "chunked", "Content-Length": "2", **ADA})
        client.options(BUDGET, headers=page)
        text = client.get("/metrics", headers=ADA).text
    logged = [(line["method"], line["path"], line["status"]) for line in read(tmp_path / "access")]
    assert logged[:2] == [("PUT", BUDGET, 400), ("OPTIONS", BUDGET, 204)]
    [refused] = [line for line in read(tmp_path / "security") if line["event"] != "signed-in"]
    assert (refused["event"], refused["path"], refused["status"]) == ("framing-refused", BUDGET, 400)
    assert 'method="PUT",path="other",status="400"} 1.0' in text


def test_the_security_log_records_sign_ins_and_refusals(tmp_path: Path) -> None:
    limits = ServerLimits(creations_per_second=0.001, creations_burst=1)
    with audited(tmp_path, limits=limits) as client:
        client.put(BUDGET, headers=ADA)
        client.put(BUDGET, headers=BOB)
        client.put(f"{BUDGET}2", headers=ADA)
        client.get(BUDGET, headers={"Authorization": "Bearer guess"})
        client.get(BUDGET, headers={"Host": "evil.example", **ADA})
        client.get("/nothing", headers=ADA)
        with client.websocket_connect(f"{BUDGET}/live") as socket:
            socket.send_json({"type": "hello", "token": "guess"})
            with pytest.raises(WebSocketDisconnect):
                socket.receive_json()
    logged = [(line["event"], line["principal"]) for line in read(tmp_path / "security")]
    assert logged == [
        ("signed-in", "u-ada"),
        ("signed-in", "u-bob"),
        ("forbidden", "u-bob"),
        ("limited", "u-ada"),
        ("invalid-token", ""),
        ("source-refused", ""),
        ("invalid-token", ""),
    ]


def test_a_live_connection_closed_for_a_revoked_right_is_in_the_security_log(tmp_path: Path) -> None:
    may_read = [True]
    limits = ServerLimits(live_heartbeat_seconds=0.01)
    store = open_store("memory:")
    log = LineLog(str(tmp_path / "security"), store.environment.clock, 1000)
    application = Application(
        authenticate=TOKENS,
        authorize=lambda principal, action, organisation, name: may_read[0],
        hosts=(HOST,),
        limits=limits,
    )
    with TestClient(create_app(store, application, audit=Audit(store.environment.clock, None, log))) as client:
        client.put(BUDGET, headers=ADA)
        with client.websocket_connect(f"{BUDGET}/live") as socket:
            socket.send_json({"type": "hello", "token": "secret-ada"})
            socket.receive_json()
            may_read[0] = False
            with pytest.raises(WebSocketDisconnect):
                until_closed(socket)
    log.close()
    assert [line["event"] for line in read(tmp_path / "security")] == ["signed-in", "revoked"]


def test_no_token_is_in_a_log(tmp_path: Path) -> None:
    with audited(tmp_path) as client:
        client.put(BUDGET, headers=ADA)
        client.put(f"{BUDGET}?token=secret-ada", headers=ADA)
        client.get(f"{BUDGET}?token=secret-ada")
        client.get(BUDGET, headers={"Authorization": "Bearer secret-guess"})
        with client.websocket_connect(f"{BUDGET}/live", subprotocols=["bearer.secret-ada"]) as socket:
            socket.receive_json()
    for name in ("access", "security"):
        assert "secret" not in (tmp_path / name).read_text()


def line(number: int) -> SecurityEvent:
    return SecurityEvent("forbidden", number, "10.0.0.1", "")


def test_a_caller_s_log_lines_are_limited_and_displace_no_line_of_another_caller(tmp_path: Path) -> None:
    log = LineLog(str(tmp_path / "log"), ManualClock(), 100)
    for number in range(5000):
        log.write(EVE, line(number))
    log.write(("address", "10.0.0.2"), line(-1))
    log.close()
    lines = read(tmp_path / "log")
    assert len([logged for logged in lines if logged["event"] == "forbidden"]) == 101
    assert lines[-1]["time_ms"] == -1 or lines[-2]["time_ms"] == -1
    assert sum(logged["count"] for logged in lines if logged["event"] == "omitted") == log.omitted == 4900


def test_the_log_lines_of_all_callers_together_are_limited(tmp_path: Path) -> None:
    log = LineLog(str(tmp_path / "log"), ManualClock(), 10)
    for number in range(5000):
        log.write(("address", f"10.0.{number // 250}.{number % 250}"), line(number))
    log.close()
    assert len([logged for logged in read(tmp_path / "log") if logged["event"] == "forbidden"]) == 100


def test_a_log_is_appended_to_and_is_created_again_after_a_rename(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for number in range(2):
        log = LineLog(str(path), ManualClock(), 100)
        log.write(EVE, line(number))
        log.close()
    assert [logged["time_ms"] for logged in read(path)] == [0, 1]
    assert path.stat().st_mode & 0o077 == 0
    log = LineLog(str(path), ManualClock(), 100)
    path.rename(tmp_path / "log.1")
    log.write(EVE, line(2))
    log.close()
    assert [logged["time_ms"] for logged in read(path)] == [2]
    assert path.stat().st_mode & 0o077 == 0


def test_a_log_is_written_again_after_its_folder_was_moved_and_recreated(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = LineLog(str(folder / "log"), ManualClock(), 100)
    folder.rename(tmp_path / "moved")
    log.write(EVE, line(0))
    until(lambda: log.omitted == 1)
    folder.mkdir()
    log.write(EVE, line(1))
    log.close()
    assert [logged["event"] for logged in read(folder / "log")] == ["omitted", "forbidden"]


def test_a_line_that_a_full_disk_refuses_is_counted() -> None:
    log = LineLog("/dev/full", ManualClock(), 100)
    log.write(EVE, line(0))
    log.close()
    assert log.omitted >= 1


def test_lines_that_two_threads_omit_concurrently_are_both_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the log's thread counts a line that it could not write, the caller's thread counts a refused line."""
    counting, counted = threading.Event(), threading.Event()

    class Slow(int):
        def __iadd__(self, more: int) -> Slow:  # type: ignore[misc]
            if threading.current_thread() is not threading.main_thread() and not counting.is_set():
                counting.set()
                assert counted.wait(SECONDS_MAX)
            return Slow(int(self) + more)

    def fail(line: bytes) -> None:
        monkeypatch.undo()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = LineLog(str(tmp_path / "log"), ManualClock(), 1)
    log._refused, log._unwritten = Slow(), Slow()
    monkeypatch.setattr(log._file, "write", fail)
    log.write(EVE, line(0))
    assert counting.wait(SECONDS_MAX)
    log.write(EVE, line(1))
    counted.set()
    log.close()
    assert log.omitted == 2


class AlmostFull(io.FileIO):
    """A file on a full disk. The disk has room for 10 bytes of the second line, and later has room for all bytes."""

    calls = 0

    def write(self, data: Any, /) -> int:
        self.calls += 1
        if self.calls == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data[:10] if self.calls == 2 else data)


def test_a_line_cut_by_a_full_disk_is_counted_and_the_next_line_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.server.line_log.io.FileIO", AlmostFull)
    log = LineLog(str(tmp_path / "log"), ManualClock(), 100)
    for number in range(3):
        log.write(EVE, line(number))
    log.close()
    assert log.omitted == 1
    first, cut, *others = (tmp_path / "log").read_bytes().splitlines()
    assert len(cut) == 10
    assert json.loads(first)["time_ms"] == 0
    assert [json.loads(text)["event"] for text in others] == ["omitted", "forbidden"]


def test_lines_left_out_are_a_metric(tmp_path: Path) -> None:
    with audited(tmp_path, per_second=1) as client:
        counted = [client.get("/metrics", headers=ADA).text for _ in range(4)]
    # The logs use a stopped clock, so a log writes one line of a caller and omits the later lines.
    counts = [0, 0, 1, 2]
    for text, count in zip(counted, counts, strict=True):
        assert f'stratalog_log_lines_omitted_total{{log="access"}} {count}.0' in text
