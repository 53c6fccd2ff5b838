"""Stories of users in headless Chromium: the demo's page with the browser client, against a real server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from stratalog.server.app import create_app
from stratalog.store import open_store
from tests.e2e.serving import Storyteller, find_chromium, node_with, passed_stories, serving

HERE = Path(__file__).parent / "browser"
EXAMPLES = Path(__file__).parents[2] / "examples"
MOVIES = 200
STORIES = [
    "twoWindowsEditAndAgree",
    "anOfflineEditIsSentOnReturn",
    "changesAreSentWhenALostNetworkReturns",
    "aRejectedChangeIsRevertedAndOfferedAgain",
    "anInvalidChangeIsRefusedBeforeAPush",
    "anUndoRevertsOnlyTheUsersOwnChange",
    "anEarlierVersionCanBeRestored",
    "aReloadKeepsWhatIsPending",
    "aCrashedBrowserLosesNoPendingMutation",
    "mutationsWithALostAnswerAreAppliedOnce",
    "tabsOfAProfileAreSeparateClients",
    "whatAClosedTabLeavesIsSentOnce",
    "faultsOfAllKindsEndInAgreement",
    "tokensAreSentOnlyInHeadersAndMessages",
    "aStoreOfTheFirstFormatIsRead",
    "aClientWithoutPokesPollsTheServer",
]


@pytest.fixture(scope="module")
def demo(monkeypatch_module: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server with the demo's application and the first movies of its data."""
    monkeypatch_module.syspath_prepend(str(EXAMPLES))
    import demo_sync

    first = list(islice(demo_sync.movies(), MOVIES))
    monkeypatch_module.setattr(demo_sync, "movies", lambda: iter(first))
    with open_store("memory:") as store:
        app = create_app(store, demo_sync.app)
        demo_sync.fill(store)
        with serving(app) as url:
            yield url
    sys.modules.pop("demo_sync", None)


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def node() -> str:
    """The path of Node. The fixture installs Playwright, which drives the browser."""
    return node_with(HERE)


@pytest.fixture(scope="module")
def chromium() -> str:
    return find_chromium()


def test_every_story_in_the_scripts_is_a_test_case(node: str) -> None:
    assert passed_stories(HERE, node) == STORIES


@pytest.fixture(scope="module")
def storyteller(node: str) -> Iterator[Storyteller]:
    with closing(Storyteller(HERE, node)) as made:
        yield made


@pytest.mark.parametrize("story", STORIES)
def test_the_story_passes_in_the_browser(story: str, storyteller: Storyteller, demo: str, tmp_path: Path) -> None:
    storyteller.tell(demo, story, tmp_path / "profile")
