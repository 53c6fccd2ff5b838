"""A command that a signal ends leaves no temporary file, and its caller sees the signal."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.processes import start

PAUSED = """
import signal
from stratalog.cli import main, output_file

@main.command("pause")
def pause():
    with output_file("found.parquet") as out:
        out.write(b"half")
        print("writing", flush=True)
        signal.pause()

main(["pause"])
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP), (signal.SIGINT, 1)]
)
def test_a_signal_ends_a_command_without_a_partly_written_file(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    # A parent may start its children with signals ignored. The command would leave these signals as they are.
    code = f"import signal\nsignal.signal({int(number)}, signal.{'default_int_handler' if status == 1 else 'SIG_DFL'})"
    with start([sys.executable, "-c", code + PAUSED], cwd=tmp_path) as process:
        assert process.read_line() == "writing\n"
        assert len([*tmp_path.iterdir()]) == 1
        process.signal(number)
        process.end(status)
        assert "Traceback" not in process.stderr
    assert [*tmp_path.iterdir()] == []


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    ignored = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with start([sys.executable, "-c", ignored + PAUSED], cwd=tmp_path) as process:
        assert process.read_line() == "writing\n"
        process.signal(signal.SIGHUP)
        process.signal(signal.SIGTERM)
        process.end(-signal.SIGTERM)
