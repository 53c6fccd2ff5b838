"""Short runs of the tampering campaign (`python -m tests.tampering`), with and without a broken verification."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.log import verification
from tests.tampering.__main__ import main, run


def test_every_alteration_is_found_and_redacted_bodies_verify() -> None:
    campaign = run(120, seed=7)
    assert campaign.missed == []
    assert campaign.redacted > 0
    assert campaign.rehashed >= 40
    assert campaign.detected_by_checkpoint_only.total() > 20
    assert campaign.detected_by_verify.total() + campaign.detected_by_checkpoint_only.total() == 120


def test_the_campaign_detects_a_verification_that_trusts_the_stored_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(self: Any, step: Any, computed: list[bytes]) -> None:
        self._befores = (step.hash,)

    monkeypatch.setattr(verification._Walk, "_misfit", believe)
    assert run(60, seed=7).missed


def test_the_command_prints_the_number_of_alterations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--alterations", "10", "--seed", "3"]) == 0
    assert "10 alterations" in capsys.readouterr().out
