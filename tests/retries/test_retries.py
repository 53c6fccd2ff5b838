"""Short runs of `python -m tests.retries`, with and without a broken comparison of requests."""

from __future__ import annotations

import pytest

from stratalog.log import pending_entry
from stratalog.records import decisions
from tests.retries.__main__ import main, run
from tests.retries.kinds import KINDS


def test_honest_retries_are_recognised_and_hostile_uses_are_conflicts() -> None:
    result = run(600, seed=7)
    assert result.wrong == []
    assert result.honest.keys() == result.hostile.keys() == KINDS.keys()


@pytest.mark.parametrize("module", [pending_entry, decisions])
@pytest.mark.parametrize("same", [True, False])
def test_the_campaign_detects_a_comparison_with_a_constant_result(
    module: object, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "same_request", lambda stored, asked: same)
    assert [where for where in run(100, seed=7).wrong if where.startswith("hostile" if same else "honest")]


def test_the_command_prints_the_number_of_retries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--retries", "20", "--seed", "3"]) == 0
    assert "20 honest retries" in capsys.readouterr().out
