"""Stories of the real, unmodified Replicache client in Node, against a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from stratalog.server.app import create_app
from stratalog.server.application import Application
from stratalog.store import Store, open_store
from tests.e2e.serving import node_with, passed_stories, tell
from tests.e2e.serving import serving as serving_at

HERE = Path(__file__).parent / "replicache"
STORIES = [
    "twoClientsAgree",
    "aPokeMakesAClientPullNewChanges",
    "offlineEditsAreRebased",
    "rejectedChangesAreUndone",
    "mutationsWithALostAnswerAreAppliedOnce",
    "overAThousandOfflineMutationsAreAllApplied",
    "manyClientsAgreeAfterFaults",
    "tabsOfOneGroupAgree",
    "aReloadKeepsWhatIsPending",
    "aNewGroupContinuesWithTheCookieOfTheOldGroup",
    "mutationsOfAnOldGroupAreRecovered",
    "aClientOfACollectedGroupLosesItsStateAndStartsAgain",
    "aRecreatedDocumentReplacesTheClientState",
]


class Collecting:
    """The server's application, and a path to which a story sends the clients that the server shall collect."""

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
    """Serve the application, and yield the URL of its documents."""
    with serving_at(app, ws="none") as url:
        yield f"{url}/v1/organisations/acme/documents"


@pytest.fixture(scope="module")
def documents() -> Iterator[str]:
    """The URL of the documents of a server with a store in memory."""
    with open_store("memory:") as store, serving(Collecting(store)) as url:
        yield url


@pytest.fixture(scope="module")
def node() -> str:
    """The path of Node. The fixture installs the Replicache client that the lock file pins."""
    return node_with(HERE)


def test_every_story_in_the_scripts_is_a_test_case(node: str) -> None:
    assert passed_stories(HERE, node) == STORIES


@pytest.mark.parametrize("story", STORIES)
def test_the_story_passes_with_the_real_client(story: str, node: str, documents: str) -> None:
    url = f"{documents}/{story}"
    urlopen(Request(url, method="PUT")).close()
    tell(HERE, node, url, story)
