"""Stories of the spreadsheet in headless Chromium: the page with the real engine, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from apps.sheet.tests.helpers import ENGINES
from stratalog.server.app import create_app
from stratalog.store import open_store
from stratalog_sheet.engine_files import install_engine
from stratalog_sheet.http import application
from tests.e2e.serving import Storyteller, node_with, passed_stories, serving
from tests.processes import COMMAND_LINE, run

HERE = Path(__file__).parent / "e2e"
STORIES = [
    "aWorkbookIsImportedAndItsOriginalIsDownloaded",
    "theOriginalIsDownloadedUnderItsFileName",
    "aFileThatExceedsALimitIsRefusedWithTheLimit",
    "aRefusedFileCanBeChosenAgainAndTwoFilesAreRefused",
    "twoWindowsShowEditsAndSelectionsOfEachUser",
    "aFormulaTypedOfflineFollowsARowInsertedMeanwhile",
    "aReloadPreservesPendingChanges",
    "theStatusIsShownOnceForABurstOfChanges",
    "aCachedSheetOpensOffline",
    "aChangeWhoseAnswerIsLostIsAppliedOnce",
    "anUndoRevertsOnlyTheUsersOwnEdit",
    "anUndoNeverBlocksASheetThatIsOffline",
    "aProgramsValueAppearsInAnOpenPage",
    "reopeningASheetFetchesOnlyNewEntries",
    "tabsOfABrowserAreSeparateClients",
    "typedTextIsNotInterpretedAsMarkup",
    "quickTypingReplacesTheContentOfACell",
    "aLateAnswerForAnotherPanelTabIsNotShown",
    "theListIsUsedWithoutAMouse",
    "theColourSchemeFollowsTheSystemUntilTheUserChooses",
    "theSliderShowsEveryVersion",
    "changedCellsStandOut",
    "theHistoryButtonListsAllEntries",
    "theVersionViewerDownloadsTheWorksheetThatItShows",
    "playShowsEachVersionUpToTheNewest",
    "blameShowsTheAuthorAndBothValuesOfEachChange",
    "blameOfAnEarlierVersionIsForTheCellAtThatVersion",
    "aRestoreAddsANewVersion",
    "aCopyIsMadeOfAnEarlierVersion",
    "aNamedVersionIsListedAndOpened",
    "aReadOnlyLinkAllowsNoChange",
    "aTitleEditedOnThePageIsShownToAllUsers",
    "aRefusedTitleStaysInTheFieldForCorrection",
    "escapeDoesNotHideATitleThatIsBeingSaved",
    "aTitleFieldThatTheUserLeavesDuringAFailingSaveCloses",
    "aNewTitleIsShownOffline",
    "sheetsAreRenamedAndDeletedWithoutAMouse",
    "lateChangesOfADeletedSheetCanBeDownloaded",
    "pendingChangesOfADeletedSheetAreShownOnReturn",
    "aNewSheetIsNotMistakenForADeletedSheetOfTheSameName",
    "aReaderCannotRenameOrDeleteASheet",
    "typedTextStaysInItsCellWhenRowsAndColumnsAreInsertedOrRemoved",
    "aPendingInsertionDoesNotMoveATypedCellTwice",
    "aTypedCellMovesWithAPendingInsertionThatTheEngineRebased",
    "anUndoneInsertionMovesTheTypedCellBack",
    "textTypedInADeletedRowOrSheetCanBeRestored",
    "offlineTextInADeletedRowIsPutIntoANewRow",
    "bothUsersAreShownTheConflictOfTheirOfflineEdits",
    "aReopenedWindowListsItsOverwrittenText",
    "anUndoRequestedOfflineIsOfferedOnReturn",
    "commandsGivenWhileAnUndoWaitsAreExecutedAfterIt",
    "textTypedWhileAnUndoWaitsSurvivesAReload",
    "textTypedWhileAnUndoWaitsSurvivesACrash",
    "textTypedWhileAnUndoWaitsIsListedIfItsRowIsDeleted",
    "aFormulaTypedWhileAnUndoWaitsFollowsItsCells",
    "textTypedAfterRowsThatWaitIsInTheRowThatItsUserSaw",
    "aCommandForTheSelectionChangesNoOtherCellsAfterAnUndo",
    "textTypedBetweenTwoUndosSurvivesARestore",
    "textTypedWhileAnUndoWaitsIsStoredWhenThePageStops",
    "aRefusedChangeIsListedWithItsReason",
    "textBeingTypedSurvivesARestore",
    "textBeingTypedSurvivesAReload",
    "pendingTextFollowsItsCellAcrossARestore",
    "pendingTextOfAClosedWindowFollowsItsCellAcrossARestore",
    "aSortAsksBeforeMovingAHeaderRow",
    "aPageWhoseEngineFailsTakesNoMoreEdits",
    "pendingChangesThatTheBrowserCouldNotStoreAreStoredAtTheNextCall",
    "aSheetOpensWithoutItsPendingChangesIfTheEngineFailsAtThem",
    "aSheetNamesTheCommittedChangesThatTheEngineCannotUse",
    "aReloadIsRepeatedWhileTheServerFails",
    "pendingTextFollowsItsCellAfterAFailedRequest",
    "aSentChangeBeforeARestoreIsNotRepeatedAfterAFailedRequest",
    "pendingTextFollowsItsCellIfAnotherTabHasLoadedARestoredVersion",
    "aCachedSheetOpensWhileTheServerIsUnavailable",
    "messagesShownTogetherDoNotCoverEachOther",
    "aFailedMoveOfTheSliderReturnsToTheShownVersion",
    "lateEntriesOfAnEarlierSliderMoveAreNotReadTwice",
    "aSheetIsShownAfterAFailedRequestForTheTemplates",
    "aLateVersionIsNotShownInPlaceOfTheChosenVersion",
    "aPageThatReloadsARestoredSheetWhileItOpensShowsTheSheetOnce",
    "thePageShowsTheNewestTitleAndVersionNamesAfterARestore",
    "aSecondRestoreBeforeTheFirstIsDrawnKeepsTheView",
    "aSheetWithPendingTextFromBeforeARestoreOpensOnlyWithTheServer",
    "aNamedVersionStaysInItsPlaceOnTheSlider",
    "aTablePastedFromAnotherProgramFillsOnlyItsOwnCells",
    "copiedCellsHaveTheirTextsInOtherPrograms",
    "cutCellsThatAnotherUserChangesAreNotPasted",
    "aPasteAfterAnotherUsersUndoClearsNoOtherCell",
    "cutCellsAreMovedByAPaste",
    "theThumbOfTheSliderFollowsTheMouse",
    "theFactsOfTheNewestVersionAreNotShownForAnEarlierVersion",
    "anAddressWithoutASheetOrAVersionIsUnderstood",
    "theArrowKeysMoveTheSliderOverSeveralVersions",
    "aCanvasAcceptsInputAfterAnInterruptedMountWithoutTheFocus",
    "chartsAndTheSwitchOfANarrowPageHaveNames",
    "theCellsAreLeftByKeyboardAndControlsHaveNames",
    "theTitleFieldKeepsTheFocusWhenAnotherUserRestores",
    "usersWithoutAPlaceInTheHeaderAreCounted",
    "theGridHasTheFocusAfterThePanelIsClosed",
    "theLinkToAllSheetsKeepsTheOrganisation",
    "aRunningImportIsShownAboveALongList",
    "aSlowListOfSheetsIsRequestedOnce",
    "aRefreshOfTheListLeavesAnOpenMenu",
    "aSheetThatWasNotImportedHasNoOriginalFile",
]

WITH_COMMAND = "anEditByTheCommandLineAppearsInAnOpenPage"
WITH_RESTORE = [
    "aServerRestoredFromABackupAcceptsPendingChanges",
    "aTabAheadOfARestoredServerReturnsToTheVersionOfTheServer",
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the URL of a server with the spreadsheet application and no sheets."""
    install_engine()
    with open_store("memory:") as store, serving(create_app(store, application(engines=ENGINES))) as server:
        yield server


@pytest.fixture(scope="module")
def node() -> str:
    return node_with(HERE)


@pytest.fixture(scope="module")
def storyteller(node: str) -> Iterator[Storyteller]:
    with closing(Storyteller(HERE, node)) as made:
        yield made


def test_every_story_in_the_scripts_is_a_test_case(node: str) -> None:
    assert sorted(passed_stories(HERE, node)) == sorted([*STORIES, WITH_COMMAND, *WITH_RESTORE])


@pytest.mark.parametrize("story", STORIES)
def test_the_story_passes_in_the_browser(story: str, storyteller: Storyteller, url: str, tmp_path: Path) -> None:
    storyteller.tell(url, story, tmp_path)


@pytest.mark.parametrize("home", ["folder", "postgres"])
def test_a_cell_set_by_the_command_line_appears_in_an_open_page(
    home: str, storyteller: Storyteller, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Another process writes to the same store, and the server polls the head."""
    url_of_store = request.getfixturevalue("postgres") if home == "postgres" else str(tmp_path / "store")
    install_engine()
    with (
        open_store(url_of_store) as store,
        serving(create_app(store, application(engines=ENGINES))) as url,
        storyteller.telling(url, WITH_COMMAND, tmp_path) as person,
    ):
        assert person.read_line() == "open\n"
        cell = [f"local/{WITH_COMMAND}", "B2", "by command", "--author", "Clerk"]
        run([*COMMAND_LINE, "sheet", "set", *cell, "--store", url_of_store])
