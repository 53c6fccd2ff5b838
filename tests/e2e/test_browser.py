"""A person's stories, told to headless Chromium: the demo's page on the browser client, against a real server."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import uvicorn

from stratalog.assembly import open_store
from stratalog.server.app import create_app
from tests.node import install, node_program

HERE = Path(__file__).parent / "browser"
EXAMPLES = Path(__file__).parents[2] / "examples"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
STORY_SECONDS_MAX = 120
MOVIES = 200
STORIES = [
    "twoWindowsEditAndAgree",
    "offlineAndBack",
    "aLostNetworkIsNoticedWhenItReturns",
    "aRejectionIsShownAndTakenBack",
    "whatIsImpossibleIsRefusedAtOnce",
    "anUndoTakesBackOneChangeAndNoOther",
    "thePastCanBeBroughtBack",
    "aReloadKeepsWhatIsPending",
    "aBrowserThatDiesLosesNothing",
    "lostAnswersAreAppliedOnce",
    "tabsOfOneProfileAreClientsOfTheirOwn",
    "whatAClosedTabLeavesIsSentOnce",
    "troubleOfAllKindsEndsInAgreement",
    "tokensTravelInHeadersAndMessagesAlone",
    "aStoreOfTheFirstFormatIsRead",
    "aServerThatPokesNobodyIsAskedNowAndThen",
]


@pytest.fixture(scope="module")
def demo(monkeypatch_module: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server with the demo's application and the first of its movies."""
    monkeypatch_module.syspath_prepend(str(EXAMPLES))
    import demo_sync

    first = list(islice(demo_sync.movies(), MOVIES))
    monkeypatch_module.setattr(demo_sync, "movies", lambda: iter(first))
    with open_store("memory:") as store, socket.socket() as listening:
        app = create_app(store, demo_sync.app)
        demo_sync.fill(store)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(
            uvicorn.Config(app, log_level="warning", ws="websockets-sansio", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            sys.modules.pop("demo_sync", None)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Node that can drive a browser."""
    install(HERE, tmp_path_factory.getbasetemp().parent)
    return node_program()


@pytest.fixture(scope="module")
def chromium() -> str:
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert found, "the browser tests need Chromium; `make test` installs it as root, else: apt-get install chromium"
    return found


def test_every_story_is_told(node: str) -> None:
    listed = subprocess.run([node, "stories.mjs"], cwd=HERE, capture_output=True, text=True, check=True)
    assert listed.stdout.split() == STORIES


@pytest.mark.parametrize("story", STORIES)
def test_in_the_browser(story: str, node: str, chromium: str, demo: str, tmp_path: Path) -> None:
    told = subprocess.run(
        [node, "stories.mjs", demo, story, chromium, str(tmp_path / "profile")],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=STORY_SECONDS_MAX,
    )
    assert told.returncode == 0, told.stderr
