"""A few random sessions of `python -m tests.branches`, and tests of the program itself."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from stratalog.documents import document
from tests.branches.__main__ import KINDS, main, run
from tests.branches.members import Member, Report
from tests.branches.servers import BranchServer
from tests.branches.session import Session


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_clients_continue_after_history_was_lost(kind: str) -> None:
    result = run(1, seed=11, kind=kind)
    assert result.wrong == []


def test_the_sessions_detect_a_server_that_does_not_resume_mutation_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "resumption_of", lambda *asked: None)
    assert run(3, seed=11, kind="python").wrong


def test_the_command_prints_the_number_of_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sessions", "1", "--seed", "3", "--kind", "python"]) == 0
    assert "1 sessions from seed 3, 0 wrong" in capsys.readouterr().out


def test_a_pending_mutation_that_two_tabs_list_is_noted_for_the_tab_that_made_it(tmp_path: Path) -> None:
    """A tab of Replicache may read another tab's stored state at any time, and then lists its pending mutations too."""
    pending = [{"key": "list", "item": ("tab0", 0)}, {"key": "list", "item": ("tab1", 0)}]
    tabs = [cast(Member, Listing(name, pending)) for name in ("tab0", "tab1")]
    with closing(BranchServer(tmp_path)) as server:
        session = Session(Random(1), server, [tabs])
        session._note_pending(tabs)
    assert session._pending == {"tab0": {("tab0", 0)}, "tab1": {("tab1", 0)}}


class Listing:
    """A member that reports only the given pending mutations."""

    def __init__(self, name: str, pending: list[Any]) -> None:
        self.name = name
        self._pending = pending

    def report(self) -> Report:
        return Report({}, self._pending)
