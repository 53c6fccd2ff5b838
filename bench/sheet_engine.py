"""Benchmarks of the spreadsheet's engine: the first call in a server, a warm call, and memory.

A warm call goes to an engine's process. The benchmark compares it with a call of a V8 in the caller's own process. This
caller is the program ``python -m bench.sheet_engine``. The program reads a number from each line of its input, and
makes that number of calls of its own V8.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from bench.figures import Measured
from bench.measure import alternated
from bench.server import MEGABYTE, READY_SECONDS_MAX, resident_bytes, running_program
from bench.workplace import FULL, Workplace
from stratalog_sheet import Engine
from stratalog_sheet.engine import install_engine
from stratalog_sheet.engine_process import EngineProcess
from stratalog_sheet.state import BLANK

__all__ = ["MEASURES"]

SHEET = "/v1/organisations/bench/sheets/plan"
CELL = {"key": "bench", "sheet": None, "col": 0, "row": 0}
OPEN = {"key": "bench", "data": {**BLANK, "revisionId": "first"}, "messages": [], "client": "bench"}
SECONDS_MAX = 60
RUNNING_SECONDS = 2
"""The pause before the first request that needs an engine. During the pause the server starts an engine.

The quick scale has no pause."""


def first_call(work: Workplace) -> Measured:
    """Milliseconds of a server's first request that needs an engine."""
    return Measured(statistics.median(_first_ms(work) for _ in range(max(1, work.scale.rounds // 3))))


def warm_call(work: Workplace) -> Measured:
    """Milliseconds of reading a cell of a warm model: in an engine's process, and in the caller's own process."""
    if "warm call" not in work.results:
        work.results["warm call"] = _warm_call(work)
    measured: Measured = work.results["warm call"]
    return measured


def warm_call_more(work: Workplace) -> Measured:
    """Additional milliseconds of a warm call, compared with a call in the caller's process."""
    measured = warm_call(work)
    assert measured.reference is not None
    return Measured(measured.value - measured.reference)


def server_memory(work: Workplace) -> Measured:
    """Megabytes of a server's process after it has read a cell, without the processes of its engines."""
    with _served(work) as (client, pid):
        _read_cell(client)
        return Measured(resident_bytes(pid) / MEGABYTE)


def engine_memory(work: Workplace) -> Measured:
    """Megabytes of one engine's process with a small model."""
    install_engine()
    engine = Engine()
    try:
        engine.call("open", **OPEN)
        assert engine.pid is not None
        return Measured(resident_bytes(engine.pid) / MEGABYTE)
    finally:
        engine.close()


MEASURES: dict[str, Callable[[Workplace], Measured]] = {
    "sheet-first": first_call,
    "sheet-call": warm_call,
    "sheet-call-more": warm_call_more,
    "sheet-server": server_memory,
    "sheet-engine": engine_memory,
}


def _warm_call(work: Workplace) -> Measured:
    install_engine()
    count = 10 * work.scale.commits
    engine = Engine()
    try:
        engine.call("open", **OPEN)
        with _in_process(engine) as other:
            ours, theirs = alternated(
                max(1, work.scale.rounds // 3),
                lambda: [engine.raw("cell", **CELL) for _ in range(count)],
                lambda: other(count),
            )
        return Measured(ours / count * 1000, theirs / count * 1000)
    finally:
        engine.close()


def _first_ms(work: Workplace) -> float:
    with _served(work) as (client, _):
        if work.scale == FULL:
            time.sleep(RUNNING_SECONDS)
        begun = time.perf_counter()
        _read_cell(client)
        return (time.perf_counter() - begun) * 1000


def _read_cell(client: httpx.Client) -> None:
    client.get(f"{SHEET}/cells/A1").raise_for_status()


@contextmanager
def _served(work: Workplace) -> Iterator[tuple[httpx.Client, int]]:
    """Run a server with a sheet that has not needed an engine yet."""
    install_engine()
    program = ["-c", "from stratalog.cli import main; main()"]
    serve = ["sheet", "serve", "--port", "0", "--json", "--store", str(work.fresh())]
    with running_program([*program, *serve]) as (url, pid):
        base = url.split("/web/")[0]
        with httpx.Client(base_url=base, timeout=READY_SECONDS_MAX) as client:
            client.get("/health").raise_for_status()
            client.put(f"{SHEET}/", json={"title": "Plan"}).raise_for_status()
            yield client, pid


@contextmanager
def _in_process(engine: Engine) -> Iterator[Callable[[int], None]]:
    """Run a process that contains the same V8. Yield a function that makes a given number of calls there."""
    command = [sys.executable, "-m", "bench.sheet_engine", engine._options()]
    root = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True) as process:

        def call(count: int) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{count}\n")
            process.stdin.flush()
            process.stdout.readline()

        try:
            call(1)
            yield call
        finally:
            process.kill()


def main() -> None:
    """Read numbers from the lines of the input, and call the V8 of this process that number of times."""
    machine = EngineProcess(json.loads(sys.argv[1]))
    machine.run("open", _text(OPEN), SECONDS_MAX)
    for line in sys.stdin:
        for _ in range(int(line)):
            machine.run("cell", _text(CELL), SECONDS_MAX)
        print(flush=True)


def _text(arguments: dict[str, Any]) -> str:
    return msgspec.json.encode(arguments).decode()


if __name__ == "__main__":
    main()
