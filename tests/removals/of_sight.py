"""Removals of fixes: what a user sees of the pages of sheets and of the catalogue, and of the sync demo."""

from __future__ import annotations

from tests.removals.of_sheets import WEB, story
from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

CATALOGUE = "apps/catalogue/src/stratalog_catalogue/web/catalogue.js"
WORK = "apps/catalogue/src/stratalog_catalogue/web/work.js"


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
)
