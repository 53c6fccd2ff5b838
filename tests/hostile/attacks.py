"""Each attack is a function. To add an attack, write its function and add the function to `ATTACKS`.

An attack runs until it is cancelled, and counts the requests that it sends. Attackers have the addresses
127.1.0.1 to 127.1.0.32. Some attackers have the token of mallory, who may use the organisation `evil`. The other
attackers have no token or a forged token.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import itertools
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache

import msgspec
import zstandard

from tests.hostile.application import HOSTILE_TOKEN
from tests.hostile.http_calls import HttpCaller, head_of, open_socket

__all__ = ["ATTACKS", "SHEET_ATTACKS", "Attack", "prepare", "prepare_sheets"]

EVIL = "/v1/organisations/evil"
LARGE_VALUES = 14
LARGE_VALUE_BYTES = 1_000_000
JSON = {"Content_Type": "application/json"}
FAILURES = (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError)
Call = tuple[str, str, bytes, str, Mapping[str, str]]
_sources = itertools.cycle(f"127.1.0.{number}" for number in range(1, 33))


class Attack(msgspec.Struct):
    """A running attack: the port that it attacks, and the number of requests that it has sent."""

    port: int
    sent: int = 0

    async def hold(self, count: int, request: bytes, *, drip: bytes = b"", receive_bytes: int | None = None) -> None:
        """Keep ``count`` connections that send ``request``, then ``drip`` every second, and read nothing.

        Open dropped connections again. Without ``drip``, close each connection after 30 seconds and open it again.
        """

        async def hold_connection() -> None:
            while True:
                with suppress(*FAILURES):
                    await self._hold(request, drip, receive_bytes)
                await asyncio.sleep(0.2)

        await asyncio.gather(*(hold_connection() for _ in range(count)))

    async def _hold(self, request: bytes, drip: bytes, receive_bytes: int | None) -> None:
        loop = asyncio.get_running_loop()
        with await open_socket(self.port, next(_sources), receive_bytes) as caller:
            await loop.sock_sendall(caller, request)
            self.sent += 1
            while drip:
                await asyncio.sleep(1)
                await loop.sock_sendall(caller, drip)
            await asyncio.sleep(30)

    async def ask(
        self, count: int, pause_seconds: float, *calls: tuple[str, str, bytes, str, Mapping[str, str]]
    ) -> None:
        """Let ``count`` callers repeat these calls for ever, one call after another, with a pause after each call."""

        async def ask_repeatedly() -> None:
            async with HttpCaller(self.port, next(_sources)) as caller:
                for method, path, body, token, headers in itertools.cycle(calls):
                    self.sent += 1
                    with suppress(*FAILURES):
                        await caller.call(method, path, body, token, **headers)
                    await asyncio.sleep(pause_seconds)

        await asyncio.gather(*(ask_repeatedly() for _ in range(count)))


async def prepare(port: int) -> None:
    """Create mallory's document of large values, and the bodies of `bombs`."""
    _packed_bombs()
    async with HttpCaller(port) as caller:
        await caller.call("PUT", f"{EVIL}/documents/large", token=HOSTILE_TOKEN)
        for number in range(LARGE_VALUES):
            args = {"key": f"notes/{number}", "value": "x" * LARGE_VALUE_BYTES}
            mutation = {"client": "mallory", "id": number + 1, "name": "put", "args": args}
            body = json.dumps({"group": "mallory", "mutations": [mutation]}).encode()
            status, _ = await caller.call("POST", f"{EVIL}/documents/large/push", body, HOSTILE_TOKEN, **JSON)
            assert status == 200, status


async def slow_heads(attack: Attack) -> None:
    """Request heads that arrive a byte a second and never end."""
    await attack.hold(100, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: ", drip=b"a")


async def half_bodies(attack: Attack) -> None:
    """Requests with a token whose bodies arrive a byte a second and never end."""
    head = head_of("POST", f"{EVIL}/documents/large/push", 1_000_000, HOSTILE_TOKEN, **JSON)
    await attack.hold(60, head + b'{"group": "', drip=b"g")


async def half_packed_bodies(attack: Attack) -> None:
    """Requests without a token whose large compressed bodies never end."""
    head = head_of("POST", "/web/client/stratalog.js", 3_900_000, Content_Encoding="gzip")
    await attack.hold(40, head + os.urandom(200_000), drip=b"x")


@cache
def _packed_bombs() -> tuple[bytes, bytes, bytes]:
    # On a busy machine, the compression takes seconds. During a run it would stop the honest callers.
    packed = gzip.compress(b"\0" * 16_000_000, 9)
    zstd = zstandard.ZstdCompressor(level=9).compress(b" " * 200_000_000)
    nested = gzip.compress(b'{"group":"g","cookie":[' + b"{}," * 5_300_000 + b"{}]}", 6)
    return packed, zstd, nested


async def bombs(attack: Attack) -> None:
    """Small compressed bodies that decompress to large bodies."""
    packed, zstd, nested = _packed_bombs()
    pull = f"{EVIL}/documents/large/pull"
    await attack.ask(
        2,
        0.2,
        ("GET", "/health", packed, "", {"Content_Encoding": "gzip"}),
        ("POST", pull, zstd, HOSTILE_TOKEN, {**JSON, "Content_Encoding": "zstd"}),
        ("POST", pull, nested, HOSTILE_TOKEN, {**JSON, "Content_Encoding": "gzip"}),
    )


async def floods(attack: Attack) -> None:
    """Many requests of 16 callers: a request with a forged token, then a request without a token, and so on."""
    forged = base64.b64encode(os.urandom(30)).decode()
    calls = (("GET", f"{EVIL}/documents/large", b"", forged, {}), ("GET", "/health", b"", "", {}))
    await attack.ask(16, 0.03, *calls)


async def garbage(attack: Attack) -> None:
    """Connections that send other bytes than HTTP, or a request with two contradictory lengths."""
    lengths = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n"
    for request in itertools.cycle((b"\0\1\2\3\r\n\r\n", b"POST /v1 HTTP/1.1\r\nHost: a\r\n" + lengths)):
        with suppress(*FAILURES), await open_socket(attack.port, next(_sources)) as caller:
            await asyncio.get_running_loop().sock_sendall(caller, request)
            attack.sent += 1
            async with asyncio.timeout(1):
                await asyncio.get_running_loop().sock_recv(caller, 4096)
        await asyncio.sleep(0.05)


async def non_readers(attack: Attack) -> None:
    """Callers that request page files and the OpenAPI document many times in parallel, and read nothing."""
    request = (
        b"GET /schema/openapi.json HTTP/1.1\r\nHost: a\r\n\r\nGET /web/client/stratalog.js HTTP/1.1\r\nHost: a\r\n\r\n"
    )
    await attack.hold(100, request * 30, receive_bytes=2048)


async def silent_listeners(attack: Attack) -> None:
    """WebSockets that send pings and read nothing, and event streams that read nothing."""
    key = base64.b64encode(os.urandom(16)).decode()
    protocols = f"stratalog.live.1, bearer.{HOSTILE_TOKEN}"
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Key": key}
    upgrade |= {"Sec_WebSocket_Version": "13", "Sec_WebSocket_Protocol": protocols}
    head = head_of("GET", f"{EVIL}/documents/large/live", 0, **upgrade)
    ping = b"\x89\xfd\0\0\0\0" + b"p" * 125
    events = head_of("GET", f"{EVIL}/documents/large/events", 0, HOSTILE_TOKEN)
    await asyncio.gather(
        attack.hold(50, head, drip=ping * 20, receive_bytes=2048), attack.hold(50, events, receive_bytes=2048)
    )


async def large_questions(attack: Attack) -> None:
    """Requests for the largest responses that the server allows."""
    document = f"{EVIL}/documents/large"
    questions = ("versions?states=true&limit=50", "versions?limit=1000", "state", "items?limit=1000")
    await attack.ask(2, 0.2, *(("GET", f"{document}/{question}", b"", HOSTILE_TOKEN, {}) for question in questions))


async def unread_questions(attack: Attack) -> None:
    """Requests for an entire state, five in parallel. The callers do not read the responses."""
    await attack.hold(20, head_of("GET", f"{EVIL}/documents/large/state", 0, HOSTILE_TOKEN) * 5, receive_bytes=2048)


async def prepare_sheets(port: int) -> None:
    """Create mallory's two sheets. A formula of `slow` takes minutes. The rows of `huge` exceed the engine's memory."""
    slow = "=SUM(MMULT(RANDARRAY(1800,1800),RANDARRAY(1800,1800)))"
    cell = {"type": "UPDATE_CELL", "col": 0, "row": 0, "content": slow}
    rows = {"type": "ADD_COLUMNS_ROWS", "dimension": "ROW", "base": 1, "quantity": 2**31 - 1, "position": "before"}
    async with HttpCaller(port) as caller:
        for name, command in {"slow": cell, "huge": rows}.items():
            path = f"{EVIL}/sheets/{name}"
            await caller.call("PUT", path, b'{"title": "evil"}', HOSTILE_TOKEN, **JSON)
            _, answer = await caller.call("GET", f"{path}/load", b"", HOSTILE_TOKEN)
            loaded = json.loads(answer)["data"]
            message = {
                "type": "REMOTE_REVISION",
                "version": 1,
                "serverRevisionId": loaded["revisionId"],
                "nextRevisionId": f"evil-{name}",
                "clientId": "mallory",
                "commands": [command | {"sheetId": loaded["sheets"][0]["id"]}],
            }
            await caller.call(
                "POST", f"{path}/append", json.dumps({"message": message}).encode(), HOSTILE_TOKEN, **JSON
            )


async def poisoned_sheets(attack: Attack) -> None:
    """Readers of the sheet with the slow formula, and of the sheet that exceeds the engine's memory."""
    paths = (f"{EVIL}/sheets/slow/cells/A1", f"{EVIL}/sheets/huge/cells/A1")
    await attack.ask(18, 0.1, *(("GET", path, b"", HOSTILE_TOKEN, {}) for path in paths))


async def costly_formulas(attack: Attack) -> None:
    """Cells whose formulas cost the engine much time or memory."""
    formulas = ("=MUNIT(1500)", "=SEQUENCE(3000,3000)", '=REPT("a",1E9)', "=SUMPRODUCT(A1:ZZ100000)", "=FACT(1E9)")
    bodies = [json.dumps({"content": formula}).encode() for formula in formulas]
    path = f"{EVIL}/sheets/costly"
    calls = [("PUT", path, b'{"title": "costly"}', HOSTILE_TOKEN, JSON)]
    calls += [("PUT", f"{path}/cells/B{row}", body, HOSTILE_TOKEN, JSON) for row, body in enumerate(bodies, 2)]
    await attack.ask(2, 0.1, *calls)


ATTACKS: tuple[Callable[[Attack], Awaitable[None]], ...] = (
    slow_heads,
    half_bodies,
    half_packed_bodies,
    bombs,
    floods,
    garbage,
    non_readers,
    silent_listeners,
    large_questions,
    unread_questions,
)
SHEET_ATTACKS: tuple[Callable[[Attack], Awaitable[None]], ...] = (poisoned_sheets, costly_formulas)
