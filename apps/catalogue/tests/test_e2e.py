"""Stories of the catalogue's page in headless Chromium: search, a work, its versions and their differences, counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import stratalog
from apps.catalogue.tests.helpers import PACKAGE, Catalogue
from stratalog.server.app import create_app
from stratalog_catalogue.http import application
from tests.e2e.serving import Storyteller, node_with, passed_stories, serving

HERE = Path(__file__).parent / "e2e"
STORIES = [
    "aSearchedWorkIsShownWithItsVersions",
    "anyTwoVersionsAreCompared",
    "jsonRecordsAreComparedByValue",
    "aRecordIsDownloadedUnchanged",
    "aDeletedRecordShowsItsEarlierVersions",
    "aWorkThatCannotBeReadShowsTheErrorAndItsVersions",
    "theCatalogueIsReadWithoutAMouse",
    "theStartPageCountsTheWorksOfEachSource",
    "aCatalogueWithoutWorksSaysHowToBegin",
    "longNamesLargeCountsAndLongWordsAreNotCutAtAnyWidth",
    "deadLettersBeyondTheLimitAreMentioned",
    "anAddressRestoresTheShownSearchAndWork",
    "aClickOnANameSearchesForTheName",
    "aClickOnANameOnANarrowScreenShowsTheBeginningOfItsList",
    "textOfARecordIsNotInterpretedAsMarkup",
    "theColourSchemeFollowsTheSystemUntilTheReaderChooses",
    "aNarrowScreenShowsEitherTheListOrAWork",
    "aClosedWorkReturnsToItsLineInTheListOnANarrowScreen",
    "aFailedSearchShowsItsErrorInPlaceOfEarlierResults",
    "theLossOfTheServerIsReportedAndTheListStays",
    "thePageSaysThatItLoadsAndThatARecordIsUnknown",
    "aPrintedWorkIsNotCut",
    "iconsSelectionAndFocusAreSeenInTheUsersOwnColours",
    "theFocusFollowsTheOrderOfThePageAndIsSeen",
    "aListOfAllMatchingWorksIsNotCalledShortened",
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a server whose catalogue has polled three states of packages and two of films."""
    with stratalog.open("memory:") as store:
        fill(Catalogue(store, tmp_path_factory.mktemp("sources")))
        with serving(create_app(store, application())) as server:
            yield server


def fill(catalogue: Catalogue) -> None:
    catalogue.add()
    catalogue.add("films", format="json", transformer="film", id="Title", complete=False)
    for day, (version, director) in enumerate([("5.8", "R. Scott"), ("5.9", "Ridley Scott"), ("6.0", "")], 1):
        names = {"bash": "5.2", "zsh": version} | ({"dash": "0.5"} if day == 1 else {})
        text = "\n".join(PACKAGE.format(name=name, version=at) for name, at in names.items())
        catalogue.write(text.replace("default-mta", "bash"), day=day)
        if director:
            films = [{"Title": "Alien", "Director": director}, {"Title": "<img src=x onerror=alert(1)>"}, {}]
            catalogue.write(json.dumps(films), source="films", name="films.json", day=day)
        catalogue.poll()
    catalogue.scan()


@pytest.fixture(scope="module")
def node() -> str:
    return node_with(HERE)


@pytest.fixture(scope="module")
def storyteller(node: str) -> Iterator[Storyteller]:
    with closing(Storyteller(HERE, node)) as made:
        yield made


def test_the_list_of_stories_matches_the_browser_script(node: str) -> None:
    assert sorted(passed_stories(HERE, node)) == sorted(STORIES)


@pytest.mark.parametrize("story", STORIES)
def test_the_story_passes_in_the_browser(story: str, storyteller: Storyteller, url: str, tmp_path: Path) -> None:
    storyteller.tell(url, story, tmp_path)
