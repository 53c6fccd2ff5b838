"""Removals of fixes: what a user sees of the pages of sheets and of the catalogue, and of the sync demo."""

from __future__ import annotations

from tests.removals.of_sheets import WEB, story
from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

CATALOGUE = "apps/catalogue/src/stratalog_catalogue/web/catalogue.js"
WORK = "apps/catalogue/src/stratalog_catalogue/web/work.js"
PAGES = "apps/catalogue/src/stratalog_catalogue/web"


def catalogue_story(name: str) -> str:
    """Return the browser test of that name."""
    return f"apps/catalogue/tests/test_e2e.py::test_the_story_passes_in_the_browser[{name}]"


REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B824",
        (Edit(f"{WEB}/edit.css", "grid-area: 2 / 2 / auto / -1; height", "grid-area: 2 / 2; height"),),
        (story("theThumbOfTheSliderFollowsTheMouse"),),
    ),
    Removal(
        "B825",
        (Edit(f"{WEB}/timeline.js", "    if (this.at === null) this.facts = null;\n", ""),),
        (story("theFactsOfTheNewestVersionAreNotShownForAnEarlierVersion"),),
    ),
    Removal(
        "B825",
        (Edit(f"{WEB}/timeline.js", 'facts.textContent = "Opening…"', 'facts.textContent = ""'),),
        (story("theFactsOfTheNewestVersionAreNotShownForAnEarlierVersion"),),
    ),
    Removal(
        "B826",
        (Edit(f"{WEB}/edit.js", 'find(".home").href = homeOf(organisation);', 'find(".home").href = "/web/sheet/";'),),
        (story("theLinkToAllSheetsKeepsTheOrganisation"),),
    ),
    Removal(
        "B827",
        (Edit(f"{WEB}/home.js", "  if (importing) hint(importing);\n  else if", "  if"),),
        (story("aRunningImportIsShownAboveALongList"),),
    ),
    Removal(
        "B827",
        (
            Edit(f"{WEB}/index.html", '<p id="hint" class="late"', '<p class="late"'),
            Edit(f"{WEB}/index.html", "</ol>\n", '</ol>\n      <p id="hint" role="status"></p>\n'),
        ),
        (story("aRunningImportIsShownAboveALongList"),),
    ),
    Removal(
        "B828",
        (Edit(CATALOGUE, "  scrollTo(0, 0);\n", '  find("#work").scrollIntoView();\n'),),
        (catalogue_story("aClosedWorkReturnsToItsLineInTheListOnANarrowScreen"),),
    ),
    Removal(
        "B828",
        (Edit(CATALOGUE, '  (line ?? find("#search")).focus({ preventScroll: true });\n', ""),),
        (catalogue_story("aClosedWorkReturnsToItsLineInTheListOnANarrowScreen"),),
    ),
    Removal(
        "B856",
        (Edit(CATALOGUE, "isSameList ? returnToLine(closed) : scrollTo(0, 0)", "scrollTo(0, 0)"),),
        (catalogue_story("aClosedWorkReturnsToItsLineInTheListOnANarrowScreen"),),
    ),
    Removal(
        "B857",
        (
            Edit(
                "examples/demo_workbook.py",
                "sheet.version > len(planned) + sum(1 for step in planned if step.label)",
                "sheet.version > 0",
            ),
        ),
        ("apps/sheet/tests/test_demo_workbook.py::test_an_interrupted_demo_is_continued",),
    ),
    Removal(
        "B857",
        (Edit("examples/demo_catalogue.py", '            records.put(COMPLETE, b"")\n', ""),),
        ("apps/catalogue/tests/test_demo.py::test_the_demo_continues_after_an_interruption_and_prints_its_results",),
    ),
    Removal(
        "B829",
        (Edit(CATALOGUE, '    find("#list").replaceChildren();\n', ""),),
        (catalogue_story("aFailedSearchShowsItsErrorInPlaceOfEarlierResults"),),
    ),
    Removal(
        "B830",
        (
            Edit(
                "examples/demo_sync.py",
                "for key, movie in movies() if key not in stored)",
                "for key, movie in movies() if not stored)",
            ),
        ),
        ("tests/test_demo.py::test_a_sync_demo_continues_an_interrupted_import_and_keeps_changes",),
    ),
    Removal(
        "B831",
        (Edit(f"{WEB}/edit.js", '    if (error.code !== "not-found") throw error;\n', "    throw error;\n"),),
        (story("aSheetThatWasNotImportedHasNoOriginalFile"),),
    ),
    Removal(
        "B832",
        (Edit(f"{WEB}/home.js", "document.hidden || running || refresh()", "document.hidden || refresh()"),),
        (story("aSlowListOfSheetsIsRequestedOnce"),),
    ),
    Removal(
        "B833",
        (Edit(f"{WEB}/home.js", 'if (isRetitling || find(".menu")) return;', "if (isRetitling) return;"),),
        (story("aRefreshOfTheListLeavesAnOpenMenu"),),
    ),
    Removal(
        "B837",
        (Edit(f"{WEB}/home.js", '  if (importing) throw new Error("Import one file at a time.");\n', ""),),
        (story("aRunningImportIsShownAboveALongList"),),
    ),
    Removal(
        "B837",
        (Edit(f"{WEB}/home.js", "  hint(importing);\n  toast", '  hint(importing = "");\n  toast'),),
        (story("aRunningImportIsShownAboveALongList"),),
    ),
    Removal(
        "B853",
        (Edit(WORK, "error.status === 404 ? UNMADE : error.message", "UNMADE"),),
        (catalogue_story("aWorkThatCannotBeReadShowsTheErrorAndItsVersions"),),
    ),
    Removal(
        "B854",
        (
            Edit(CATALOGUE, "limit: LIMIT + 1", "limit: LIMIT"),
            Edit(CATALOGUE, "works.length > LIMIT", "works.length >= LIMIT"),
        ),
        (catalogue_story("aListOfAllMatchingWorksIsNotCalledShortened"),),
    ),
    Removal(
        "B987",
        (
            Edit(f"{PAGES}/parts.js", 'throw new Error("The server cannot be reached.", { cause })', "throw cause"),
            Edit(CATALOGUE, "  if (listed !== before) searched = search();\n", "  searched = search();\n"),
        ),
        (catalogue_story("theLossOfTheServerIsReportedAndTheListStays"),),
    ),
    Removal(
        "B988",
        (Edit(f"{PAGES}/index.html", "Loading the works…", ""), Edit(WORK, "error.status === 404 ? UNKNOWN : ", "")),
        (catalogue_story("thePageSaysThatItLoadsAndThatARecordIsUnknown"),),
    ),
    Removal(
        "B989",
        (Edit(f"{PAGES}/catalogue.css", "@media print {", "@media speech {"),),
        (catalogue_story("aPrintedWorkIsNotCut"),),
    ),
    Removal(
        "B990",
        (Edit("src/stratalog/web/theme/base.css", "(forced-colors: active)", "(forced-colors: none)"),),
        (catalogue_story("iconsSelectionAndFocusAreSeenInTheUsersOwnColours"),),
    ),
    Removal(
        "B991",
        (Edit("scripts/website/conf.py", 'pygments_style = "a11y-light"', 'pygments_style = "friendly"'),),
        ("tests/test_contrast.py::test_the_code_on_the_documentation_site_can_be_read",),
    ),
    Removal(
        "B1043",
        (Edit(f"{WEB}/engine.js", "  queueWhileAnUndoWaits(model);\n", "  queues.set(model, []);\n"),),
        (
            story("commandsGivenWhileAnUndoWaitsAreExecutedAfterIt"),
            story("textTypedWhileAnUndoWaitsSurvivesAReload"),
            story("textTypedWhileAnUndoWaitsIsListedIfItsRowIsDeleted"),
        ),
    ),
    Removal(
        "B1043",
        (
            Edit(
                f"{WEB}/engine.js", "    if (isView) return withoutBlock(session, () => dispatch(type, payload));\n", ""
            ),
        ),
        (story("commandsGivenWhileAnUndoWaitsAreExecutedAfterIt"),),
    ),
    Removal(
        "B1043",
        (
            Edit(
                f"{WEB}/conflictWatch.js",
                "this.#noteDeleted(moveQueued(model, () => emit(prepared(model, message))))",
                "emit(prepared(model, message))",
            ),
        ),
        (
            story("commandsGivenWhileAnUndoWaitsAreExecutedAfterIt"),
            story("textTypedWhileAnUndoWaitsIsListedIfItsRowIsDeleted"),
            story("aFormulaTypedWhileAnUndoWaitsFollowsItsCells"),
        ),
    ),
    Removal(
        "B1043",
        (Edit(f"{WEB}/engine.js", ".with({ commands: queue })(alone)", ".with({ commands: [] })(alone)"),),
        (story("textTypedAfterRowsThatWaitIsInTheRowThatItsUserSaw"),),
    ),
    Removal(
        "B1043",
        (
            Edit(
                f"{WEB}/engine.js",
                "    if (!coreTypes.has(type) && !HISTORY.has(type)) return dispatch(type, payload);\n",
                "",
            ),
        ),
        (story("aCommandForTheSelectionChangesNoOtherCellsAfterAnUndo"),),
    ),
    Removal(
        "B1043",
        (Edit(f"{WEB}/conflictWatch.js", ", (isRedo) => this.missUndo(isRedo));", ");"),),
        (story("textTypedBetweenTwoUndosSurvivesARestore"),),
    ),
    Removal(
        "B1043",
        (Edit(f"{WEB}/workbook.js", "    if (this.#isComplete) this.#dropWaitingUndo();\n", ""),),
        (story("textTypedWhileAnUndoWaitsIsStoredWhenThePageStops"),),
    ),
    Removal(
        "B1044",
        (
            Edit(
                f"{WEB}/edit.js",
                "    canvases.now.endTyping(); // the offline cache stores changes, but no open edit\n",
                "",
            ),
        ),
        (story("textBeingTypedSurvivesAReload"),),
    ),
    Removal(
        "B1045",
        (Edit(f"{WEB}/ending.js", 'error.code === "not-found" || !name', 'error.code === "not-found"'),),
        (story("anAddressWithoutASheetOrAVersionIsUnderstood"),),
    ),
    Removal(
        "B1045",
        (Edit(f"{WEB}/edit.js", 'Number.parseInt(query.get("at") ?? "", 10) || null', 'Number(query.get("at"))'),),
        (story("anAddressWithoutASheetOrAVersionIsUnderstood"),),
    ),
    Removal(
        "B1046",
        (Edit(f"{WEB}/canvas.js", "    this.#block(!(activeElement", "    this.#block(false && !(activeElement"),),
        (
            story("theArrowKeysMoveTheSliderOverSeveralVersions"),
            story("theTitleFieldKeepsTheFocusWhenAnotherUserRestores"),
        ),
    ),
    Removal(
        "B1047",
        (Edit(f"{WEB}/panel.js", "    if (!isOpen && this.#element.contains(focused)) focused.blur();\n", ""),),
        (story("theGridHasTheFocusAfterThePanelIsClosed"),),
    ),
    Removal(
        "B1048",
        (Edit(f"{WEB}/edit.js", '  if (rest.length) badges.push(make("i", more, `+${rest.length}`));\n', ""),),
        (story("usersWithoutAPlaceInTheHeaderAreCounted"),),
    ),
    Removal(
        "B1049",
        (Edit(f"{WEB}/edit.css", ".slider input:focus-visible { outline-offset: -2px; }\n", ""),),
        (story("theArrowKeysMoveTheSliderOverSeveralVersions"),),
    ),
    Removal(
        "B1126",
        (Edit(f"{WEB}/canvas.js", "    this.#block(false); // an interrupted mount does not end\n", ""),),
        (story("aCanvasAcceptsInputAfterAnInterruptedMountWithoutTheFocus"),),
    ),
    Removal(
        "B1127",
        (Edit(f"{WEB}/access.js", '"figure", figureName', '"figure", "A chart or a picture"'),),
        (story("chartsAndTheSwitchOfANarrowPageHaveNames"),),
    ),
    Removal(
        "B1128",
        (Edit(f"{WEB}/edit.html", ' aria-label="Online"', ""),),
        (story("chartsAndTheSwitchOfANarrowPageHaveNames"),),
    ),
    Removal(
        "B1129",
        (Edit(f"{WEB}/ending.js", ', make("a", { href: home }, "All sheets")', ""),),
        (story("anAddressWithoutASheetOrAVersionIsUnderstood"),),
    ),
    Removal(
        "B1130",
        (Edit(f"{WEB}/offlineCache.js", "      this.#stored = null;", "     "),),
        (story("pendingChangesThatTheBrowserCouldNotStoreAreStoredAtTheNextCall"),),
    ),
    Removal(
        "B1131",
        (
            Edit(
                "apps/sheet/src/stratalog_sheet/pool.py",
                "            held[owner] = self._lent[owner] = self._in",
                "            self._lent[owner] = self._in",
            ),
            Edit(
                "apps/sheet/src/stratalog_sheet/pool.py",
                "            self._take(owner, held)\n",
                "            self._take(owner, held)\n            held[owner] = self._lent[owner]\n",
            ),
        ),
        ("apps/sheet/tests/test_engine.py::test_an_interrupt_during_the_loan_of_an_engine_leaves_the_engine_idle",),
    ),
)
