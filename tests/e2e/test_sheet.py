"""Stories of the spreadsheet, told to headless Chromium: the page on the real engine, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.apps.sheet.http import application
from stratalog.apps.sheet.place import install_engine
from stratalog.assembly import open_store
from stratalog.server.app import create_app
from tests.e2e.serving import find_chromium, node_with, serving, tell, told_stories

HERE = Path(__file__).parent / "sheet"
STORIES = [
    "aWorkbookIsImportedAndKept",
    "twoWindowsShowWhatTheOtherDoes",
    "aFormulaTypedOfflineMovesWithARowOfAnother",
    "aReloadKeepsWhatWaits",
    "lostAnswersAreAppliedOnce",
    "anUndoTakesBackOnesOwnAndNoOther",
    "anUndoNeverBlocksASheetThatIsOffline",
    "aProgramsValueAppearsAtOnce",
    "reopeningFetchesOnlyWhatIsNew",
    "tabsOfOneBrowserAreClientsOfTheirOwn",
    "whatIsTypedIsNoMarkup",
    "theListIsUsedWithoutAMouse",
    "darkIsFollowedAndChosen",
    "theSliderShowsEveryVersion",
    "changedCellsStandOut",
    "playRunsToNow",
    "blameTellsWhoWhenAndFromWhat",
    "aVersionIsRestoredAsANewOne",
    "aCopyBeginsAtAnyVersion",
    "aVersionIsNamedAndFoundAgain",
    "aLinkForReadingChangesNothing",
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The URL of a server with the spreadsheet and no sheets."""
    install_engine()
    with open_store("memory:") as store, serving(create_app(store, application())) as found:
        yield found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> str:
    return node_with(HERE, tmp_path_factory.getbasetemp().parent)


def test_every_story_is_told(node: str) -> None:
    assert told_stories(HERE, node) == STORIES


@pytest.mark.parametrize("story", STORIES)
def test_in_the_browser(story: str, node: str, url: str, tmp_path: Path) -> None:
    tell(HERE, node, url, story, find_chromium(), str(tmp_path))
