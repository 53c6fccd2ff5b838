"""The real, unmodified Replicache client, run by Node against a real server, tells its stories without a fault."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import uvicorn

from stratalog.assembly import Store, open_store
from stratalog.server.app import create_app
from stratalog.server.application import Application
from tests.node import install, node_program

HERE = Path(__file__).parent / "replicache"
STORY_SECONDS_MAX = 90
STORIES = [
    "twoClientsAgree",
    "pokesBringWhatIsNew",
    "offlineEditsAreRebased",
    "rejectionsAreTakenBack",
    "lostAnswersAreAppliedOnce",
    "aThousandMutationsInOnePush",
    "manyThroughTroubleAgree",
    "tabsOfOneGroup",
    "aReloadKeepsWhatIsPending",
    "aForkedGroupGoesOnWithItsCookie",
    "mutationsOfAnOldGroupAreRecovered",
    "aCollectedGroupBeginsAgain",
    "aDocumentMadeAnewReplacesTheState",
]


class Collecting:
    """The server's application, and a path at which a story may have clients collected."""

    def __init__(self, store: Store, application: Application | None = None) -> None:
        self._store = store
        self._app: Any = create_app(store, application)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if not path.endswith("/control/collect"):
            await self._app(scope, receive, send)
            return
        _, _, _, organisation, _, document, *_ = path.split("/")
        named = json.loads((await receive())["body"])
        self._store.document(organisation, document).collect_clients(named["clients"], named["groups"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@contextmanager
def serving(app: Collecting) -> Iterator[str]:
    """The URL of the documents of a server that runs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1/organisations/acme/documents"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def documents() -> Iterator[str]:
    """The same with a store in memory."""
    with open_store("memory:") as store, serving(Collecting(store)) as url:
        yield url


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Node that has the client at hand, which npm installs once as the lock file pins it."""
    install(HERE, tmp_path_factory.getbasetemp().parent)
    return node_program()


def test_every_story_is_told(node: str) -> None:
    listed = subprocess.run([node, "stories.mjs"], cwd=HERE, capture_output=True, text=True, check=True)
    assert listed.stdout.split() == STORIES


@pytest.mark.parametrize("story", STORIES)
def test_the_real_client(story: str, node: str, documents: str) -> None:
    url = f"{documents}/{story}"
    urlopen(Request(url, method="PUT")).close()
    told = subprocess.run(
        [node, "stories.mjs", url, story], cwd=HERE, capture_output=True, text=True, timeout=STORY_SECONDS_MAX
    )
    assert told.returncode == 0, told.stderr
