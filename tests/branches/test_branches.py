"""A few of the random sessions that `python -m tests.branches` runs."""

from __future__ import annotations

import pytest

from stratalog.documents import document
from tests.branches.__main__ import KINDS, main, run


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_clients_continue_after_history_was_lost(kind: str) -> None:
    found = run(1, seed=11, kind=kind)
    assert found.wrong == []


def test_the_sessions_detect_a_server_that_does_not_resume_mutation_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "resumption_of", lambda *asked: None)
    assert run(3, seed=11, kind="python").wrong


def test_the_command_prints_the_number_of_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sessions", "1", "--seed", "3", "--kind", "python"]) == 0
    assert "1 sessions from seed 3, 0 wrong" in capsys.readouterr().out
