"""Emulators of cloud services as processes of this test run: on loopback, on free ports, ended by their own id.

`started` knows nothing of what it starts. Emulators keep what they hold in memory or in the folder they are given, so
each run of the tests begins with nothing.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

__all__ = ["Emulator", "free_ports", "ministack", "program", "started"]

READY_SECONDS_MAX = 30
STARTS_MAX = 3


class Emulator(msgspec.Struct, frozen=True):
    """A running service: its URL, and the process id for tests that kill it themselves."""

    url: str
    pid: int


class Command(msgspec.Struct, frozen=True):
    """How a service is started, and the path on its first port that answers 200 once it is ready."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    health: str


@contextmanager
def ministack(folder: Path) -> Iterator[Emulator]:
    """DynamoDB, SQS and S3 in memory; ``folder`` takes what it prints."""
    with started("ministack", 1, _ministack_on, folder) as emulator:
        yield emulator


@contextmanager
def started(name: str, ports: int, command: Callable[[Sequence[int]], Command], folder: Path) -> Iterator[Emulator]:
    """The service that ``command`` makes of so many free ports, ready; it is ended when the block is left.

    A port that was free may be taken before the service has bound it, so a service that ends at once is started again
    on others.
    """
    for start in range(STARTS_MAX):
        chosen = free_ports(ports)
        process = _launch(command(chosen), folder / f"{name}-{start}.log")
        try:
            if _is_ready(process, chosen[0], command(chosen).health):
                yield Emulator(f"http://127.0.0.1:{chosen[0]}", process.pid)
                return
        finally:
            _stop(process)
    last = (folder / f"{name}-{STARTS_MAX - 1}.log").read_text(errors="replace")[-2000:]
    raise RuntimeError(f"{name} did not start: {last}")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def program(name: str) -> str:
    """The path of a program that a package of the `dev` extra brought, beside this interpreter or on the path."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed; it comes with the dev extra: scripts/bootstrap dev")
    return found


def _ministack_on(ports: Sequence[int]) -> Command:
    environment = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(ports[0]),
        "SERVICES": "dynamodb,sqs,s3",
        "IOT_MTLS_ENABLED": "0",
        "PERSIST_STATE": "0",
        "LOG_LEVEL": "WARNING",
    }
    return Command([program("ministack")], environment, "/_ministack/health")


def _launch(command: Command, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            command.arguments,
            env={**os.environ, **command.environment},
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _is_ready(process: subprocess.Popen[bytes], port: int, health: str) -> bool:
    """Whether the service answers before it ends or its time is up."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while process.poll() is None and time.monotonic() < deadline:
        if _status(port, health) == 200:
            return process.poll() is None  # else it is another's answer, on a port that was taken meanwhile
        time.sleep(0.05)
    return False


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End it at once: nothing it holds is wanted, and a polite end takes some of them seconds."""
    process.kill()
    process.wait()
