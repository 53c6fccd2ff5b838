"""`stratalog serve` as users run it. Many tests start real processes and open real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from click.testing import CliRunner
from websockets.sync.client import connect

from stratalog.cli import main
from stratalog.cli.serve import listening_at
from tests import http_calls
from tests.processes import COMMAND_LINE, ChildProcess, start
from tests.processes import run as run_process
from tests.server.api import BUDGET, mutation

SECONDS_MAX = 120
APPLICATION = """
from stratalog.protocol import BUILT_IN_MUTATORS, Rejected
from stratalog.server.application import Application
from stratalog.server.security import Principal, StaticTokens

def shout(draft, args):
    if not args["text"]:
        raise Rejected("nothing to shout")
    draft.put("shout", args["text"].upper())

app = Application(
    mutators={**BUILT_IN_MUTATORS, "shout": shout},
    authenticate=StaticTokens({"secret": Principal(id="u-ada", name="Ada")}),
)
broken = 7
"""


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[tuple[str, ChildProcess]]:
    """Run a server in its own process. Yield its URL and the process. SIGTERM ends the process if it still runs."""
    with start([*COMMAND_LINE, "serve", "--json", "--port", "0", *arguments], cwd=folder) as process:
        yield json.loads(process.read_line())["url"], process
        if not process.was_ended:
            process.signal(signal.SIGTERM)
            process.end()


def run(*arguments: str, code: int) -> str:
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code == code, result.output
    return result.stderr


def test_a_commit_on_a_server_pokes_the_listeners_of_another_server_of_the_store(tmp_path: Path) -> None:
    with served(tmp_path) as (first, _), served(tmp_path) as (second, _):
        assert http_calls.put(first + BUDGET).status_code == 201
        with connect(second.replace("http", "ws") + f"{BUDGET}/live") as listening:
            assert json.loads(listening.recv(SECONDS_MAX))["type"] == "ready"
            body = {"group": "g", "mutations": [mutation("ada", 1, key="k", value=1)]}
            assert http_calls.post(f"{first}{BUDGET}/push", json=body).json()["outcomes"][0]["status"] == "applied"
            assert json.loads(listening.recv(SECONDS_MAX)) == {"type": "poke", "version": 1}
        assert http_calls.get(f"{second}{BUDGET}/item?key=k").json()["value"] == 1


def test_a_server_uses_the_mutators_and_tokens_of_its_application(tmp_path: Path) -> None:
    (tmp_path / "myapp.py").write_text(APPLICATION)
    with served(tmp_path, "myapp:app") as (url, _), http_calls.Client(base_url=url) as client:
        assert client.put(BUDGET).status_code == 401
        client.headers["Authorization"] = "Bearer secret"
        assert client.put(BUDGET).status_code == 201
        body = {
            "group": "g",
            "mutations": [mutation("ada", 1, "shout", text="hey"), mutation("ada", 2, "shout", text="")],
        }
        outcomes: Any = client.post(f"{BUDGET}/push", json=body).json()["outcomes"]
        assert [(outcome["status"], outcome["reason"]) for outcome in outcomes] == [
            ("applied", None),
            ("rejected", "nothing to shout"),
        ]
        assert client.get(f"{BUDGET}/item?key=shout").json()["value"] == "HEY"


def test_an_acknowledged_push_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        http_calls.put(url + BUDGET)
        body = {"group": "g", "mutations": [mutation("ada", 1, key="k", value=1)]}
        assert http_calls.post(f"{url}{BUDGET}/push", json=body).status_code == 200
        process.kill()
    with served(tmp_path) as (url, _):
        again: Any = http_calls.post(f"{url}{BUDGET}/push", json=body).json()["outcomes"]
        assert again[0]["status"] == "seen"


def test_a_server_with_the_queued_option_applies_no_push_itself(tmp_path: Path) -> None:
    with served(tmp_path, "--queued") as (url, _):
        http_calls.put(url + BUDGET)
        body = {"group": "g", "mutations": [mutation("ada", 1, key="k", value=1)]}
        queued = http_calls.post(f"{url}{BUDGET}/push", json=body)
        assert (queued.status_code, queued.json()["queued"]) == (202, True)
        assert http_calls.get(url + BUDGET).json()["version"] == 0


def test_a_port_in_use_is_reported_in_a_single_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        message = run("--port", port, code=2)
    assert (
        message == f"error: cannot listen on 127.0.0.1 port {port}: {os.strerror(98)}; --port 0 takes any free port\n"
    )


def test_accepted_connections_have_tcp_nodelay() -> None:
    with listening_at("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_a_non_local_host_requires_an_application_with_authentication() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        assert "needs an application with authentication" in run("--host", host, "--port", "0", code=2)


def test_an_invalid_application_argument_is_reported_with_the_reason(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "another_app.py").write_text(APPLICATION)
    monkeypatch.chdir(tmp_path)
    for text, reason in {
        "app": "MODULE:NAME",
        "nowhere:app": "No module named 'nowhere'",
        "another_app:broken": "is not a stratalog.server.Application",
    }.items():
        assert reason in run(text, code=2)


def test_without_the_server_s_libraries_serve_names_the_extra_to_install(monkeypatch: Any) -> None:
    monkeypatch.delitem(sys.modules, "stratalog.server.web_server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install "stratalog[server]"' in run(code=2)


def test_the_command_line_imports_none_of_the_server_s_libraries() -> None:
    extras = "{'litestar', 'uvicorn', 'anyio', 'jwt', 'httpx', 'prometheus_client', 'websockets'}"
    code = f"import sys, stratalog, stratalog.cli; print({extras} & set(sys.modules))"
    assert run_process([sys.executable, "-c", code]).stdout == "set()\n"


def test_init_without_options_creates_the_store_in_the_folder_data(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRATALOG_STORE", raising=False)
    assert CliRunner().invoke(main, ["init"]).output == "made folder data\nstore ready at ./data\n"


def test_a_signal_ends_a_stream_of_events_and_then_the_server(tmp_path: Path) -> None:
    with served(tmp_path) as (url, process):
        assert http_calls.put(url + BUDGET).status_code == 201
        with httpx.stream("GET", f"{url}{BUDGET}/events", timeout=SECONDS_MAX) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: ready"
            process.signal(signal.SIGTERM)
            assert "event: gone" not in list(lines)
        process.end()
        assert process.stderr == ""
