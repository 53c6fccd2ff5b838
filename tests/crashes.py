"""Reports of processes that die during a test run: workers of pytest-xdist, and processes that tests started.

A worker writes the stacks of its threads to a file when a fatal signal ends the worker. The controller, which is the
process that starts the workers, reads that file and names the signal and the test. `conftest.py` imports the pytest
hooks of this module.
"""

from __future__ import annotations

import faulthandler
import signal
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from stratalog.testing.emulators import describe_status
from tests.processes import unexpected_ends

__all__ = [
    "pytest_configure",
    "pytest_configure_node",
    "pytest_handlecrashitem",
    "pytest_runtest_makereport",
    "pytest_unconfigure",
]

EXIT_SECONDS_MAX = 60
STACK_CHARACTERS_MAX = 8000
STACKS = "stacks_path"

_stacks: dict[str, Any] = {}


@pytest.hookimpl(trylast=True)  # after pytest's own plugin, which sends the stacks to stderr
def pytest_configure(config: pytest.Config) -> None:
    """In a worker, make Python write the stacks to the controller's file on a fatal signal.

    Also handle SIGINT again if this process ignores it, as a shell's background command does. Otherwise the processes
    that tests start would ignore SIGINT too, and the tests could not interrupt them.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    path = getattr(config, "workerinput", {}).get(STACKS)
    if path:
        _stacks["file"] = Path(path).open("w")  # noqa: SIM115 - open until the worker ends
        faulthandler.enable(file=_stacks["file"])


def pytest_unconfigure(config: pytest.Config) -> None:
    """In a worker, close and remove the file for stacks, since the worker has not crashed."""
    file = _stacks.pop("file", None)
    if file is not None:
        faulthandler.disable()
        file.close()
        Path(file.name).unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the controller, create the file for a worker's stacks before the worker starts."""
    handle, path = tempfile.mkstemp(prefix="stratalog-stacks-", suffix=".txt")
    open(handle, "w").close()
    node.workerinput[STACKS] = path


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: Any, sched: Any) -> None:
    """In the controller, add the worker's exit status and stacks to the report of the test that crashed."""
    ended, stacks = _exit_of(report.node), _stacks_of(report.node)
    report.longrepr = f"{report.longrepr}: {ended}\n{stacks or 'no stacks were written'}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name each process that died by itself in the report of a test that failed."""
    report = yield
    if report.failed:
        report.sections += [("process that died", text) for text in unexpected_ends()]
    return report


def _exit_of(worker: Any) -> str:
    """Return how the worker's process ended, from its exit status."""
    process = getattr(getattr(worker.gateway, "_io", None), "popen", None)
    if process is None:
        return "its exit status is unknown"
    try:
        return describe_status(process.wait(EXIT_SECONDS_MAX))
    except subprocess.TimeoutExpired:
        return "its process still runs"


def _stacks_of(worker: Any) -> str:
    path = Path(worker.workerinput[STACKS])
    if not path.exists():
        return ""
    stacks = path.read_text(errors="replace")
    path.unlink()
    return stacks[:STACK_CHARACTERS_MAX]
