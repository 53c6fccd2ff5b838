"""Honest callers: requests at a steady rate, live connections, and writes that are read back at the end."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import stratalog
from tests.hostile.application import HONEST_TOKENS
from tests.hostile.http_calls import HttpCaller

__all__ = ["DOCUMENTS", "FOLDER", "JSON", "Honest", "lost_writes"]

DOCUMENTS = tuple(f"plan-{number}" for number in range(10))
FOLDER = "/v1/organisations/acme/documents"
JSON = {"Content_Type": "application/json"}
LIVE_START_SECONDS_MAX = 60


class Honest(msgspec.Struct):
    """The honest callers of a run, and what they measured."""

    seconds: list[float] = []
    """How long each request took, from the time it was due."""
    health_seconds: list[float] = []
    errors: list[str] = []
    acknowledged: dict[str, dict[str, int]] = {}
    """Document → key → value of every write that the server acknowledged."""
    pokes: int = 0
    label: str = "run"
    """The prefix of the client names. Each run has its own."""

    async def prepare(self, port: int) -> None:
        """Create the documents."""
        async with HttpCaller(port) as caller:
            for name in DOCUMENTS:
                status, _ = await caller.call("PUT", f"{FOLDER}/{name}", token=HONEST_TOKENS[0])
                assert status == 201, status
                self.acknowledged[name] = {}

    async def listen(self, port: int, number: int, ready: asyncio.Semaphore) -> None:
        """Keep one live connection until the task is cancelled. An earlier end counts as an error."""
        name, token = DOCUMENTS[number % len(DOCUMENTS)], HONEST_TOKENS[number % len(HONEST_TOKENS)]
        url = f"ws://127.0.0.1:{port}{FOLDER}/{name}/live"
        try:
            async with connect(
                url,
                subprotocols=["stratalog.live.1", f"bearer.{token}"],
                open_timeout=LIVE_START_SECONDS_MAX,  # type: ignore[list-item]
            ) as live:
                await live.recv()
                ready.release()
                while True:
                    self.pokes += '"poke"' in str(await live.recv())
        except (OSError, ConnectionClosed, TimeoutError, EOFError) as exc:
            self.errors.append(f"live connection: {exc!r}")
            ready.release()

    async def ask(self, port: int, requests_per_second: float, until: float) -> None:
        """Send requests at a steady rate, however slow the responses are: 2 of 10 are pushes, 1 is a health check."""
        free = [HttpCaller(port) for _ in HONEST_TOKENS]
        asking: set[asyncio.Task[None]] = set()
        began, number = time.monotonic(), 0

        async def ask(due: float, number: int) -> None:
            # If all connections wait for responses, open another, so that the request starts on time.
            caller = free.pop() if free else HttpCaller(port)
            await self._ask(caller, number, due)
            free.append(caller)

        while (due := began + number / requests_per_second) < until:
            await asyncio.sleep(due - time.monotonic())
            task = asyncio.create_task(ask(due, number))
            asking.add(task)
            task.add_done_callback(asking.discard)
            number += 1
        await asyncio.gather(*asking)
        for caller in free:
            caller.close()

    async def _ask(self, caller: HttpCaller, number: int, due: float) -> None:
        token, name = HONEST_TOKENS[number % len(HONEST_TOKENS)], DOCUMENTS[(number // 10) % len(DOCUMENTS)]
        path = f"{FOLDER}/{name}"
        try:
            if number % 10 == 7:
                await self._expect(caller, "GET", "/health")
            elif number % 5 == 0:
                await self._write(caller, path, name, number, token)
            elif number % 5 == 1:
                body = json.dumps({"group": f"reader-{number % 10}", "cookie": None}).encode()
                await self._expect(caller, "POST", f"{path}/pull", body, token, **JSON)
            else:
                await self._expect(caller, "GET", path, b"", token)
        except (OSError, EOFError, TimeoutError) as exc:
            self.errors.append(f"request {number}: {exc!r}")
        took = time.monotonic() - due
        (self.health_seconds if number % 10 == 7 else self.seconds).append(took)

    async def _write(self, caller: HttpCaller, path: str, name: str, number: int, token: str) -> None:
        # Each write has its own client, so that no write waits for the response to another.
        client = f"{self.label}-{number}"
        mutation = {"client": client, "id": 1, "name": "put", "args": {"key": f"n/{client}", "value": number}}
        body = json.dumps({"group": client, "mutations": [mutation]}).encode()
        answer = await self._expect(caller, "POST", f"{path}/push", body, token, **JSON)
        with suppress(KeyError, IndexError, ValueError):
            if json.loads(answer)["outcomes"][0]["status"] == "applied":
                self.acknowledged[name][f"n/{client}"] = number

    async def _expect(
        self, caller: HttpCaller, method: str, path: str, body: bytes = b"", token: str = "", **headers: str
    ) -> bytes:
        status, answer = await caller.call(method, path, body, token, **headers)
        if status != 200:
            self.errors.append(f"{method} {path}: {status} {answer[:200]!r}")
        return answer


def lost_writes(store: Path | stratalog.Store, acknowledged: dict[str, dict[str, int]]) -> list[str]:
    """Return the acknowledged writes that the store does not have."""
    if isinstance(store, Path):
        with stratalog.open(store) as opened:
            return lost_writes(opened, acknowledged)
    lost = []
    for name, values in acknowledged.items():
        document = store.document("acme", name)
        lost += [f"{name} {key}" for key, value in values.items() if document.get(key) != value]
    return lost
