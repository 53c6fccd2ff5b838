"""Send many requests while many live connections are open.

After a warm-up, the server's memory may grow by 10 percent, its p99 by 50 percent, and its descriptors not at all.

``python -m tests.hostile.endurance --requests 1000000 --connections 1000``. The exit code is 0 if no figure grew more
and no request failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import msgspec

from stratalog.protocol.sync import Pushed
from tests.hostile.application import HONEST_TOKENS
from tests.hostile.checks import percentile
from tests.hostile.honest import DOCUMENTS, FOLDER, JSON, Honest
from tests.hostile.http_calls import HttpCaller
from tests.hostile.server import Served, served, two_cores

__all__ = ["Window", "growth_of", "main", "measure"]

WINDOWS = 20
WARM_UP_WINDOWS = 4
CALLERS = 8
CALLERS_AT_ONCE = 64
KEYS = 50
PUSH = 1
"""The position of the push among the six requests that a caller repeats."""
BYTES_GROWTH_MAX = 1.1
P99_GROWTH_MAX = 1.5


class Window(msgspec.Struct, frozen=True):
    """The measurements of one part of the run."""

    requests: int
    p99_ms: float
    resident_bytes: int
    descriptors: int


async def measure(server: Served, requests: int, connections: int) -> tuple[list[Window], list[str]]:
    """Send the requests. Return the measurements of each window, and the errors of the callers."""
    honest = Honest()
    await honest.prepare(server.port)
    ready = asyncio.Semaphore(0)
    listening = [asyncio.create_task(honest.listen(server.port, number, ready)) for number in range(connections)]
    for _ in range(connections):
        await ready.acquire()
    await _ask_in_parallel(server.port, honest.errors)
    callers = [_Caller(server.port, number, honest.errors) for number in range(CALLERS)]
    windows = []
    for _ in range(WINDOWS):
        each = max(1, requests // WINDOWS // CALLERS)
        seconds = await asyncio.gather(*(caller.ask(each) for caller in callers))
        spent = [second for part in seconds for second in part]
        p99_ms = percentile(spent, 0.99) * 1000
        window = Window(len(spent), p99_ms, server.resident_bytes, server.descriptors)
        windows.append(window)
        print(
            f"{sum(done.requests for done in windows):>9} requests  p99 {p99_ms:6.1f} ms  "
            f"{window.resident_bytes >> 20} MiB  {window.descriptors} descriptors",
            flush=True,
        )
    for caller in callers:
        caller.close()
    for task in listening:
        task.cancel()
    await asyncio.gather(*listening, return_exceptions=True)
    return windows, honest.errors


async def _ask_in_parallel(port: int, errors: list[str]) -> None:
    """Send many requests in parallel, so that the server opens its connections to the index before the first window."""
    callers = [_Caller(port, number, errors) for number in range(CALLERS_AT_ONCE)]
    await asyncio.gather(*(caller.ask(6) for caller in callers))
    for caller in callers:
        caller.close()


class _Caller:
    """A caller with one connection. The caller repeats a push, a pull, three reads and a health check."""

    def __init__(self, port: int, number: int, errors: list[str]) -> None:
        self._http = HttpCaller(port)
        self._name = f"caller-{number}"
        self._token = HONEST_TOKENS[number % len(HONEST_TOKENS)]
        self._errors = errors
        self._asked = 0
        self._pushed = dict.fromkeys(DOCUMENTS, 0)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    async def ask(self, count: int) -> list[float]:
        """Send ``count`` requests, and return the duration of each request in seconds."""
        spent = []
        for _ in range(count):
            began = time.monotonic()
            try:
                status, answer = await self._next()
                if status != 200 or (self._asked % 6 == PUSH and not _is_committed(answer)):
                    self._errors.append(f"{status} {answer[:200]!r}")
            except (OSError, EOFError, TimeoutError) as exc:
                self._errors.append(repr(exc))
            spent.append(time.monotonic() - began)
        return spent

    async def _next(self) -> tuple[int, bytes]:
        self._asked += 1
        kind, name = self._asked % 6, DOCUMENTS[self._asked // 6 % len(DOCUMENTS)]
        path = f"{FOLDER}/{name}"
        if kind == 0:
            return await self._http.call("GET", "/health")
        if kind == PUSH:
            return await self._push(path, name)
        if kind == 2:
            body = json.dumps({"group": "reader", "cookie": None}).encode()
            return await self._http.call("POST", f"{path}/pull", body, self._token, **JSON)
        return await self._http.call("GET", path, b"", self._token)

    async def _push(self, path: str, name: str) -> tuple[int, bytes]:
        # The clients use few keys, so that the documents have all these keys before the warm-up ends.
        self._pushed[name] += 1
        id = self._pushed[name]
        args = {"key": f"n/{id % KEYS}", "value": id}
        mutation = {"client": self._name, "id": id, "name": "put", "args": args}
        body = json.dumps({"group": self._name, "mutations": [mutation]}).encode()
        return await self._http.call("POST", f"{path}/push", body, self._token, **JSON)


def _is_committed(answer: bytes) -> bool:
    """Return whether the server committed a push now or before. Two callers of the same name repeat some pushes."""
    pushed = msgspec.json.decode(answer, type=Pushed)
    return [outcome.status in ("applied", "seen") for outcome in pushed.outcomes] == [True]


def growth_of(windows: Sequence[Window]) -> list[str]:
    """Return a sentence for each measurement that grew too much after the warm-up."""
    settled = windows[WARM_UP_WINDOWS:]
    quarter = max(1, len(settled) // 4)
    first, last = settled[:quarter], settled[-quarter:]
    before, after = (max(window.resident_bytes for window in part) for part in (first, last))
    sentences = []
    if after > before * BYTES_GROWTH_MAX:
        sentences.append(f"memory grew from {before >> 20} to {after >> 20} MiB")
    descriptors = [max(window.descriptors for window in part) for part in (first, last)]
    if descriptors[1] > descriptors[0]:
        sentences.append(f"descriptors grew from {descriptors[0]} to {descriptors[1]}")
    p99 = [median(window.p99_ms for window in part) for part in (first, last)]
    if p99[1] > p99[0] * P99_GROWTH_MAX:
        sentences.append(f"p99 grew from {p99[0]:.1f} to {p99[1]:.1f} ms")
    return sentences


def main(arguments: Sequence[str] | None = None) -> int:
    """Send the requests, print the windows, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.endurance", description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=1000, help="live connections during the run")
    parser.add_argument("--json", type=Path, help="file for the measurements")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder, core = stack.enter_context(tempfile.TemporaryDirectory()), stack.enter_context(two_cores())
        server = stack.enter_context(served(Path(folder), core, sheets=False))
        windows, errors = asyncio.run(measure(server, given.requests, given.connections))
    failures = [*growth_of(windows), *([f"{len(errors)} errors, the first: {errors[0]}"] if errors else [])]
    print("\n".join(f"failed: {failure}" for failure in failures) or "every check passed")
    if given.json:
        figures = {"windows": windows, "failures": failures}
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
