"""Removals of fixes: spreadsheets, their pages and their engines."""

from __future__ import annotations

from tests.removals.removal import Edit, Removal

__all__ = ["REMOVALS"]

SHEET = "apps/sheet/src/stratalog_sheet"
ENGINE = f"{SHEET}/engine.py"
WEB = f"{SHEET}/web"
TURNS = f"{SHEET}/warm_sheets.py"
TESTS = "apps/sheet/tests"

RUNS_IN_A_PROCESS = """\
            self._start()
            self._await_ready()
            return self._run(name, text)
"""
RUNS_HERE = """\
            if not hasattr(self, "_here"):
                self._here = EngineProcess(json.loads(self._options()))
            return self._here.run(name, text.decode(), 30)[1].encode()
"""


def story(name: str) -> str:
    """A story that a person in a browser goes through."""
    return f"{TESTS}/test_e2e.py::test_in_the_browser[{name}]"


REMOVALS: tuple[Removal, ...] = (
    Removal(
        "B111",
        (Edit(f"{SHEET}/branches.py", '        raise VersionLost("the', '        raise VersionConflict("the'),),
        (
            (
                f"{TESTS}/test_restored.py"
                "::test_what_open_sheets_do_after_a_restore[aTabThatIsAheadIsToldAndTheListOfVersionsIsTheServers]"
            ),
        ),
    ),
    Removal(
        "B129",
        (
            Edit(
                f"{WEB}/engine.js",
                '  if (stores.get(Stores.CellComposerStore).editionMode === "inactive") target.replaceChildren();\n',
                "",
            ),
        ),
        (story("whatIsTypedQuicklyIsAllThatACellHolds"),),
    ),
    Removal(
        "B130",
        (Edit(f"{WEB}/server.js", "    if (!this.incarnation) return path;\n", "    return path;\n"),),
        (story("anotherSheetOfTheNameIsNotTakenForTheOne"),),
    ),
    Removal(
        "B130",
        (
            Edit(
                f"{WEB}/workbook.js",
                "    if (!typed || typed === this.facts.incarnation) return;\n",
                "    return;\n",
            ),
        ),
        (story("whatWaitedForADeletedSheetIsShownOnReturn"),),
    ),
    Removal(
        "B131",
        (Edit(f"{WEB}/dom.js", '{ class: "told", role:', '{ class: "toast", role:'),),
        (story("aRefusedTitleStaysToBeCorrected"),),
    ),
    Removal(
        "B132",
        (Edit(f"{WEB}/workbook.js", "    if (this.#isSaving) return;\n", ""),),
        (story("aBurstOfChangesIsKeptOnce"),),
    ),
    Removal(
        "B133",
        (
            Edit(
                f"{SHEET}/titles.py",
                'return title_in(next(self._log.read_snapshot(snapshot))) if snapshot else ""',
                'return ""',
            ),
        ),
        (f"{TESTS}/test_titles.py::test_a_title_outlives_the_entry_that_gave_it",),
    ),
    Removal(
        "B134",
        (Edit(f"{SHEET}/events.py", "    check_bounds(commands)\n", ""),),
        (f"{TESTS}/test_poison.py::test_the_message_is_refused",),
    ),
    Removal(
        "B134",
        (
            Edit(
                f"{SHEET}/failed_versions.py",
                "            if failure is None or failure.kills < KILLS_MAX:\n",
                "            if True:\n",
            ),
        ),
        (f"{TESTS}/test_poison.py::test_a_sheet_that_cannot_be_opened_is_refused_fast_and_restored",),
    ),
    Removal(
        "B135",
        (
            Edit(ENGINE, RUNS_IN_A_PROCESS, RUNS_HERE),
            Edit(
                ENGINE,
                "from stratalog_sheet.limits import",
                "from stratalog_sheet.engine_process import EngineProcess\nfrom stratalog_sheet.limits import",
            ),
        ),
        (
            f"{TESTS}/test_engine.py::test_many_threads_make_and_use_engines_at_once",
            f"{TESTS}/test_engine.py::test_engines_end_with_the_process_that_started_them_which_holds_no_v8",
        ),
    ),
    Removal(
        "B136",
        (Edit(TURNS, "            async with turn.lock:\n", "            if True:\n"),),
        (f"{TESTS}/test_poison.py::test_a_sheet_whose_engine_is_at_work_holds_up_no_other",),
    ),
    Removal(
        "B136",
        (Edit(TURNS, "to_thread.run_sync(function, limiter=self._limiter)", "to_thread.run_sync(function)"),),
        (f"{TESTS}/test_poison.py::test_those_who_wait_for_an_engine_hold_no_thread_and_are_bounded",),
    ),
    Removal(
        "B137",
        (Edit(f"{SHEET}/sheets.py", "        except (LimitExceeded, Invalid):\n", "        except Invalid:\n"),),
        (f"{TESTS}/test_poison.py::test_maintenance_goes_on_after_a_sheet_that_cannot_be_opened",),
    ),
)
