"""The attacked server: a child process on its own core. This process measures the child's memory, files and log."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.processes import ChildProcess, environment, start

__all__ = ["Served", "served", "two_cores"]

_PROGRAM = """
import os, sys
if sys.argv[1]:
    os.sched_setaffinity(0, {int(sys.argv[1])})
from stratalog.cli import main
main(sys.argv[2:])
"""


class Served:
    """A server process, its port and its store."""

    def __init__(self, process: ChildProcess, port: int, store: Path) -> None:
        self.process = process
        self.port = port
        self.store = store

    @property
    def resident_bytes(self) -> int:
        """The resident memory of the server's process, without its children, or 0 if the process has ended."""
        with suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{self.process.pid}/status").read_text()
            if matched := re.search(r"VmRSS:\s+(\d+) kB", status):
                return int(matched[1]) * 1024
        return 0

    @property
    def descriptors(self) -> int:
        """The number of files and sockets that the server's process has open, or 0 if the process has ended."""
        with suppress(FileNotFoundError, ProcessLookupError):
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        return 0

    @property
    def log_bytes(self) -> int:
        """The number of bytes that the server has logged on its stderr."""
        return len(self.process.stderr.encode())

    @property
    def is_running(self) -> bool:
        """True while the process runs."""
        return self.process.status is None


@contextmanager
def served(folder: Path, core: int | None, *, sheets: bool) -> Iterator[Served]:
    """Serve a new store in ``folder`` until the end of the block, then kill the process.

    The process runs on ``core``, or on any core if ``core`` is None.
    """
    store = folder / "data"
    command = [sys.executable, "-c", _PROGRAM, "" if core is None else str(core)]
    command += ["serve", "tests.hostile.application:app", "--json", "--port", "0", "--store", str(store)]
    variables = {**environment(), **({"HOSTILE_SHEETS": "1"} if sheets else {})}
    with start(command, cwd=folder, env=variables) as process:
        url = json.loads(process.read_line())["url"]
        yield Served(process, int(url.rpartition(":")[2]), store)


@contextmanager
def two_cores() -> Iterator[int | None]:
    """Keep this process on one core until the end of the block, and yield another core.

    If there is only one core, yield None and change nothing.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        yield None
        return
    os.sched_setaffinity(0, {cores[1]})
    try:
        yield cores[0]
    finally:
        os.sched_setaffinity(0, set(cores))
