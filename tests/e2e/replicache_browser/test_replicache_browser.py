"""Test the real, unmodified Replicache client on a plain page in Chromium, against a real server.

`stories.mjs` contains the test scenarios, which are called stories.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from stratalog.server.app import create_app
from stratalog.server.pages import HEADERS, POLICY
from stratalog.store import Store, open_store
from tests.e2e.serving import Storyteller, passed_stories, serving
from tests.e2e.test_browser import HERE as DRIVER
from tests.e2e.test_replicache import HERE as CLIENT
from tests.node import install, node_program

HERE = Path(__file__).parent
FOLDERS = {"page": HERE / "page", "node_modules": CLIENT / "node_modules"}
KINDS = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript"}
IMPORT_MAP = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
STORIES = [
    "twoWindowsAgree",
    "tabsOfOneProfileAgree",
    "offlineEditsAreRebased",
    "aRejectedMutationIsReverted",
    "aReloadKeepsWhatIsPending",
    "whatAClosedTabLeavesIsSentOnce",
    "aNewReleaseSendsPendingMutationsOfTheOldRelease",
    "mutationsWithALostAnswerAreAppliedOnce",
]


class Connection(H11Protocol):
    """A connection of the server. The class keeps all open connections, so that `Cutting` can abort them."""

    transports: ClassVar[dict[Any, asyncio.Transport]] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.transports[self.client] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        del self.transports[self.client]
        super().connection_lost(exc)


class Cutting:
    """An ASGI application with the server and the files of the page.

    A story can lose the answers to its pushes, or have its pushes refused.
    """

    def __init__(self, store: Store) -> None:
        self._app: Any = create_app(store)
        self._cuts: Counter[str] = Counter()
        self._refusing: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        folder, _, name = scope.get("path", "").removeprefix("/").partition("/")
        document, _, call = name.partition("/documents/")[2].partition("/")
        if folder in FOLDERS:
            await _answer(send, *_page(FOLDERS[folder] / name))
        elif call in ("control/cuts", "control/refusing"):
            numbers = self._cuts if call == "control/cuts" else self._refusing
            await self._control(numbers, document, scope["method"], receive, send)
        elif call == "replicache/push" and self._refusing[document]:
            await _answer(send, b"", {}, status=503)
        elif call == "replicache/push" and self._cuts[document]:
            await self._push_unanswered(document, scope, receive)
        else:
            await self._app(scope, receive, send)

    async def _control(self, numbers: Counter[str], document: str, method: str, receive: Any, send: Any) -> None:
        if method == "PUT":
            numbers[document] = int((await receive())["body"])
        await _answer(send, str(numbers[document]).encode(), {})

    async def _push_unanswered(self, document: str, scope: Any, receive: Any) -> None:
        self._cuts[document] -= 1

        async def lose(_: Any) -> None:
            pass

        await self._app(scope, receive, lose)
        Connection.transports[scope["client"]].abort()
        while (await receive())["type"] != "http.disconnect":
            pass


def _page(file: Path) -> tuple[bytes, dict[str, str]]:
    """Return a file with the headers of the server's pages. The content policy also allows the file's import map."""
    body = file.read_bytes()
    digests = [base64.b64encode(sha256(text).digest()).decode() for text in IMPORT_MAP.findall(body)]
    sources = " ".join(["script-src 'self'", *(f"'sha256-{digest}'" for digest in digests)])
    policy = POLICY.replace("script-src 'self'", sources)
    return body, {**HEADERS, "Content-Security-Policy": policy, "Content-Type": KINDS[file.suffix]}


async def _answer(send: Any, body: bytes, headers: dict[str, str], status: int = 200) -> None:
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a running server."""
    with open_store("memory:") as store, serving(Cutting(store), http=Connection) as url:
        yield url


@pytest.fixture(scope="module")
def node() -> str:
    """The path of Node. The fixture installs Playwright and the Replicache client."""
    for folder in (DRIVER, CLIENT):
        install(folder)
    return node_program()


def test_every_story_in_the_scripts_is_a_test_case(node: str) -> None:
    assert passed_stories(HERE, node) == STORIES


@pytest.fixture(scope="module")
def storyteller(node: str) -> Iterator[Storyteller]:
    with closing(Storyteller(HERE, node)) as made:
        yield made


@pytest.mark.parametrize("story", STORIES)
def test_the_story_passes_with_the_real_client_in_the_browser(
    story: str, storyteller: Storyteller, server: str, tmp_path: Path
) -> None:
    urlopen(Request(f"{server}/v1/organisations/acme/documents/{story}", method="PUT")).close()
    storyteller.tell(server, story, tmp_path)
