"""Copies of the checkout, in which commands test a change. The checkout itself stays unchanged."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

__all__ = ["SECONDS_MAX", "copies_of", "status_of"]

LEFT_BEHIND = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "node_modules", "mutation*.jsonl")
LINKED = ("apps/sheet/tests/e2e/node_modules", "tests/e2e/browser/node_modules", "tests/e2e/replicache/node_modules")
MEMORY_BYTES_MAX = 6 * 1024**3
CPU_SECONDS_MAX = 600
"""The limit of CPU time for a process that loops. Wall-clock time would depend on the machine's other work."""

SECONDS_MAX = 1800
"""The limit of wall-clock time for a command that hangs."""


@contextmanager
def copies_of(root: Path, count: int) -> Iterator[SimpleQueue[Path]]:
    """Make ``count`` copies of the checkout at ``root``, each for one command at a time. Delete them at the end."""
    with TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(count):
            copy = Path(folder, str(number))
            shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
            for name in LINKED:
                if (root / name).exists():
                    (copy / name).symlink_to(root / name)
            copies.put(copy)
        yield copies


def status_of(copy: Path, command: Sequence[str], variables: Mapping[str, str] | None = None) -> int | None:
    """Run a command on the copy's own sources. Return its exit status, or None if it ran longer than `SECONDS_MAX`.

    The function adds ``variables`` to the command's environment.
    """
    sources = [copy / "src", *sorted(copy.glob("apps/*/src")), copy]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "PYTHONDONTWRITEBYTECODE": "1",
        **(variables or {}),
    }
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_bound,
    )
    try:
        return process.wait(SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end_group(process.pid)
        process.wait()


def _bound() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MAX, CPU_SECONDS_MAX))
    # Limit the data and not the address space, since Node and Chromium reserve far more addresses than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def _end_group(pid: int) -> None:
    """Kill the processes that a command left running, so that none of them imports the next mutant."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
