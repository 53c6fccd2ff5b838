"""The emulators start, answer, and end with their tests."""

from __future__ import annotations

import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stratalog.testing.emulators import (
    SEAWEED_SOCKETS,
    Command,
    Emulator,
    dynamodb_local,
    ministack,
    program,
    reserved_ports,
    seaweed,
    started,
)
from tests.processes import ChildProcess, environment, start


@pytest.mark.slow
def test_an_emulator_is_gone_after_its_block(tmp_path: Path) -> None:
    with ministack(tmp_path) as emulator:
        os.kill(emulator.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(emulator.pid, 0)


@pytest.mark.slow
def test_an_emulator_that_dies_is_described_with_its_signal(tmp_path: Path) -> None:
    with ministack(tmp_path) as emulator:
        assert emulator.describe_end() is None
        os.kill(emulator.pid, signal.SIGSEGV)
        os.waitid(os.P_PID, emulator.pid, os.WEXITED | os.WNOWAIT)
        assert "ended with signal SIGSEGV: " in (emulator.describe_end() or "")


@pytest.mark.slow
def test_an_emulator_has_its_ports_at_the_first_try(tmp_path: Path) -> None:
    with ministack(tmp_path), seaweed(tmp_path):
        assert sorted(path.name for path in tmp_path.glob("*.log")) == ["ministack-0.log", "seaweed-0.log"]


@pytest.mark.slow
def test_an_emulator_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ministack(tmp_path / "ministack") as services, seaweed(tmp_path / "seaweed") as objects:
        port = int(objects.url.rpartition(":")[2])
        assert services.url
        assert len(list(tmp_path.glob("emulator-*"))) == 2
    assert list(tmp_path.glob("emulator-*")) == []
    assert list(SEAWEED_SOCKETS.glob(f"seaweedfs-*-{port}.sock")) == []


def test_only_a_server_can_use_a_reserved_port_even_after_a_restart() -> None:
    with reserved_ports(2) as (port, other):
        assert port != other
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as server:
                socket.create_connection(server.getsockname()).close()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port))
            with socket.socket() as another, pytest.raises(OSError, match="in use"):
                another.bind(("127.0.0.1", port))


def test_the_error_of_an_emulator_that_ends_immediately_has_its_output(tmp_path: Path) -> None:
    def broken(ports: Sequence[int]) -> Command:
        return Command([sys.executable, "-c", "print('no such flag'); raise SystemExit(2)"], {}, "/")

    with pytest.raises(RuntimeError, match="no such flag"), started("broken", 1, broken, tmp_path):
        pass


def test_the_error_of_a_missing_program_names_the_command_that_installs_it() -> None:
    with pytest.raises(RuntimeError, match="scripts/bootstrap dev"):
        program("no-such-emulator")


def run_local(*command: str) -> ChildProcess:
    arguments = [sys.executable, "-m", "stratalog.testing.aws_local", *command]
    return start(arguments, env={**environment(), "AWS_PROFILE": "no-such-profile"})


@pytest.mark.slow
def test_aws_local_gives_a_program_a_store_and_returns_the_exit_code_of_the_program() -> None:
    program = (
        "import os, stratalog; store = stratalog.open(os.environ['STRATALOG_STORE']); store.create('acme', 'plan');"
        "print([line.id for line in store.list('acme')]); store.queue.receive(); store.close(); raise SystemExit(7)"
    )
    with run_local(sys.executable, "-c", program) as process:
        assert process.end(expected=7) == "['plan']\n"


@pytest.mark.slow
def test_sigterm_ends_a_program_and_its_local_aws() -> None:
    show = "import os, sys; print(os.getpid(), os.environ['AWS_ENDPOINT_URL'], os.environ['AWS_ENDPOINT_URL_S3'])"
    with run_local(sys.executable, "-uc", f"{show}; import time; time.sleep(60)") as process:
        pid, *urls = process.read_line().split()
        process.signal(signal.SIGTERM)
        process.end(expected=128 + signal.SIGTERM)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    for url in urls:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))


def test_a_folder_without_the_jar_of_dynamodb_local_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no DynamoDBLocal\.jar"), dynamodb_local(tmp_path, tmp_path):
        pass


def test_dynamodb_local_is_ready_when_it_refuses_a_request_without_a_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A licence forbids us to ship DynamoDB Local, so this test runs another program with the same answers."""
    java = tmp_path / "java"
    java.write_text(f"#!{sys.executable}\n{STAND_IN}")
    java.chmod(0o755)
    (tmp_path / "DynamoDBLocal.jar").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("stratalog.testing.emulators.sys.executable", str(tmp_path / "python"))
    with dynamodb_local(tmp_path, tmp_path) as emulator, pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(emulator.url)


STAND_IN = """
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(400)
assert "-inMemory" in sys.argv and "-disableTelemetry" in sys.argv
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("-port") + 1])), Handler).serve_forever()
"""


def test_the_object_store_listens_on_the_ports_that_were_reserved_for_it(bucket: Emulator) -> None:
    command = Path(f"/proc/{bucket.pid}/cmdline").read_text().split("\0")
    named = {int(argument.rpartition("=")[2]) for argument in command if ".port" in argument}
    assert {urlsplit(bucket.url).port} < listening_ports(bucket.pid) <= named


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports on which a process listens."""
    sockets = {os.readlink(descriptor) for descriptor in Path(f"/proc/{pid}/fd").iterdir() if descriptor.is_symlink()}
    rows = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
    ]
    listening = [row for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    return {int(row[1].rpartition(":")[2], 16) for row in listening}
