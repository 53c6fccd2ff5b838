"""Honest callers: requests at a steady rate, live connections, and a check of all writes at the end."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from itertools import compress
from pathlib import Path

import msgspec
from websockets.asyncio.client import connect

import stratalog
from tests.hostile.application import HONEST_TOKENS
from tests.hostile.http_calls import HttpCaller

__all__ = ["DOCUMENTS", "FOLDER", "JSON", "Honest", "lost_writes"]

DOCUMENTS = tuple(f"plan-{number}" for number in range(10))
FOLDER = "/v1/organisations/acme/documents"
JSON = {"Content_Type": "application/json"}
LIVE_START_SECONDS_MAX = 60
KEYS = 60
"""The number of keys of each document. A constant number makes a pull cost the same at the start and at the end."""


class Honest(msgspec.Struct):
    """The honest callers of a run, and their measurements."""

    seconds: list[float] = []
    """The duration of each request except health checks, from its planned start."""
    health_seconds: list[float] = []
    errors: list[str] = []
    acknowledged: dict[str, set[tuple[str, str]]] = {}
    """The key and value of each write that the server acknowledged, by the document's name."""
    pokes: int = 0
    label: str = "run"
    """The prefix of the client names and of the written values. Each run has its own prefix."""

    async def prepare(self, port: int) -> None:
        """Create the documents and their keys."""
        async with HttpCaller(port) as caller:
            for name in DOCUMENTS:
                status, _ = await caller.call("PUT", f"{FOLDER}/{name}", token=HONEST_TOKENS[0])
                assert status == 201, status
                self.acknowledged[name] = set()
                await self._write(caller, name, self.label, [(f"n/{number}", "new") for number in range(KEYS)])

    async def listen(self, port: int, number: int, ready: asyncio.Semaphore) -> None:
        """Keep one live connection until the task is cancelled. Record an error if the connection ends earlier."""
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
        except Exception as exc:  # noqa: BLE001 - nothing else reports how the connection ended
            self.errors.append(f"live connection: {exc!r}")
            ready.release()

    async def ask(self, port: int, requests_per_second: float, until: float) -> None:
        """Send requests at a steady rate, even if responses are slow.

        Of ten requests, two are pushes and one is a health check.
        """
        free = [HttpCaller(port) for _ in HONEST_TOKENS]
        asking: set[asyncio.Task[None]] = set()
        began, number = time.monotonic(), 0

        async def ask(due: float, number: int) -> None:
            # If all connections wait for responses, open another connection, so that the request starts on time.
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
                # Each write has its own client, so that no write waits for the response to another write. Of each
                # hundred requests, two write to this document. So a key is written once in 3,000 requests.
                key, value = (number // 100 * 2 + number % 10 // 5) % KEYS, f"{self.label}-{number}"
                await self._write(caller, name, value, [(f"n/{key}", value)], token)
            elif number % 5 == 1:
                body = json.dumps({"group": f"reader-{number % 10}", "cookie": None}).encode()
                await self._expect(caller, "POST", f"{path}/pull", body, token, **JSON)
            else:
                await self._expect(caller, "GET", path, b"", token)
        except Exception as exc:  # noqa: BLE001 - nobody waits for the task, so each failure is recorded here
            self.errors.append(f"request {number}: {exc!r}")
        took = time.monotonic() - due
        (self.health_seconds if number % 10 == 7 else self.seconds).append(took)

    async def _write(
        self, caller: HttpCaller, name: str, client: str, values: list[tuple[str, str]], token: str = HONEST_TOKENS[0]
    ) -> None:
        """Push one mutation for each key and value, and record the mutations that the server applied.

        Record an error if the server did not apply all of them.
        """
        mutations = [
            {"client": client, "id": id, "name": "put", "args": {"key": key, "value": value}}
            for id, (key, value) in enumerate(values, 1)
        ]
        body = json.dumps({"group": client, "mutations": mutations}).encode()
        answer = await self._expect(caller, "POST", f"{FOLDER}/{name}/push", body, token, **JSON)
        applied: list[bool] = []
        with suppress(KeyError, ValueError):
            applied = [outcome["status"] == "applied" for outcome in json.loads(answer)["outcomes"]]
        self.acknowledged[name].update(compress(values, applied))
        if applied != [True] * len(values):
            self.errors.append(f"push of {client}: {answer[:200]!r}")

    async def _expect(
        self, caller: HttpCaller, method: str, path: str, body: bytes = b"", token: str = "", **headers: str
    ) -> bytes:
        status, answer = await caller.call(method, path, body, token, **headers)
        if status != 200:
            self.errors.append(f"{method} {path}: {status} {answer[:200]!r}")
        return answer


def lost_writes(store: Path | stratalog.Store, acknowledged: dict[str, set[tuple[str, str]]]) -> list[str]:
    """Return the acknowledged writes that are not in the histories of the store's documents."""
    if isinstance(store, Path):
        with stratalog.open(store) as opened:
            return lost_writes(opened, acknowledged)
    lost = []
    for name, writes in acknowledged.items():
        document = store.document("acme", name)
        stored = {(key, change.value) for key in {key for key, _ in writes} for change in document.history(key)}
        lost += [f"{name} {key} {value}" for key, value in sorted(writes - stored)]
    return lost
