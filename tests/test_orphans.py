"""The services of a program that was killed end too."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from stratalog.testing.orphans import run_if_killed
from tests.processes import run
from tests.threads import until

KILLED = """
import os, signal
from stratalog.testing.orphans import run_if_killed
with run_if_killed("touch ended"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_command_runs_if_the_process_is_killed(tmp_path: Path) -> None:
    run([sys.executable, "-c", KILLED], cwd=tmp_path, expected=-signal.SIGKILL)
    until((tmp_path / "ended").exists)


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_the_command_does_not_run_at_the_end_of_the_block(tmp_path: Path, error: type[BaseException] | None) -> None:
    with suppress(KeyboardInterrupt), run_if_killed(f"touch {tmp_path / 'ended'}"):
        if error is not None:
            raise error
    assert os.listdir(tmp_path) == []
