"""The emulators start, answer, and are gone afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cloud.emulators import Command, ministack, program, started


def test_an_emulator_is_gone_after_its_block(tmp_path: Path) -> None:
    with ministack(tmp_path) as emulator:
        os.kill(emulator.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(emulator.pid, 0)


def test_an_emulator_that_ends_at_once_says_why(tmp_path: Path) -> None:
    def broken(ports: Sequence[int]) -> Command:
        return Command([sys.executable, "-c", "print('no such flag'); raise SystemExit(2)"], {}, "/")

    with pytest.raises(RuntimeError, match="no such flag"), started("broken", 1, broken, tmp_path):
        pass


def test_a_program_that_is_missing_is_named_with_its_remedy() -> None:
    with pytest.raises(RuntimeError, match="scripts/bootstrap dev"):
        program("no-such-emulator")
