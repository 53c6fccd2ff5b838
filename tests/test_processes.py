"""A report about a process that died has its command, its exit status or signal, and the end of its stderr."""

from __future__ import annotations

import os
import re
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from stratalog.testing.emulators import describe_status
from tests.aws.functions import Failed, Function
from tests.processes import ROOT, ProcessFailure, environment, kill_pause, run, start, unexpected_ends

CRASH = "import os, sys; print('on the brink', file=sys.stderr, flush=True); os.kill(os.getpid(), 11)"
SILENT = "import sys; sys.stdin.readline()"


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_a_status_is_described_as_an_exit_status_or_a_signal() -> None:
    assert [describe_status(status) for status in (0, 3, -11, -9, -250)] == [
        "exit status 0",
        "exit status 3",
        "signal SIGSEGV",
        "signal SIGKILL",
        "signal 250",
    ]


def test_a_command_that_crashes_is_named_with_its_signal_and_its_stderr() -> None:
    with pytest.raises(ProcessFailure, match=r"(?s)signal SIGSEGV: .*python.* -c .*on the brink") as failure:
        run(python(CRASH))
    assert "expected exit status 0" in str(failure.value)


def test_a_command_that_ends_as_expected_returns_its_output() -> None:
    done = run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), expected=3)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


def test_a_command_that_takes_too_long_is_named_and_killed() -> None:
    with pytest.raises(ProcessFailure, match=r"still running after 0\.01 s: process (\d+) still runs"):
        run(python("import signal; signal.pause()"), seconds=0.01)


def test_a_process_that_dies_before_it_prints_a_line_is_reported_with_its_signal() -> None:
    with start(python(CRASH)) as process, pytest.raises(ProcessFailure, match="signal SIGSEGV"):
        process.read_line()


def test_an_unrelated_test_failure_has_a_note_about_the_process_that_died() -> None:
    failure = ValueError("other")
    with suppress(ValueError), start(python(CRASH)) as process:
        await_end(process.pid)
        raise failure
    (note,) = failure.__notes__
    assert "signal SIGSEGV" in note
    assert "on the brink" in note


def test_a_kill_of_a_process_that_already_crashed_is_a_failure() -> None:
    with start(python(CRASH)) as process:
        await_end(process.pid)
        with pytest.raises(ProcessFailure, match="signal SIGSEGV"):
            process.kill()


def test_a_process_that_a_test_ends_is_no_failure() -> None:
    with start(python(SILENT)) as process:
        process.kill()
        assert process.status == -signal.SIGKILL
        process.kill()
    with start(python(SILENT)) as process:
        process.signal(signal.SIGTERM)
        assert process.end(-signal.SIGTERM) == ""
    assert unexpected_ends() == []


def test_a_test_and_its_process_exchange_lines() -> None:
    with start(python("print(input()); print('more'); print('last')")) as process:
        process.write_line("hello")
        assert process.read_line() == "hello\n"
        assert list(process.lines()) == ["more\n", "last\n"]
        process.end()


@pytest.mark.slow
def test_a_process_that_died_is_in_the_report_of_a_test_that_fails_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(
        f"""
import os, sys
from tests.processes import start
process = start([sys.executable, "-c", {CRASH!r}])
def test_it():
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert False, "unrelated"
"""
    )
    printed = run_pytest(tmp_path)
    assert "unrelated" in printed
    assert "process that died" in printed
    assert "signal SIGSEGV" in printed
    assert "on the brink" in printed


@pytest.mark.slow
def test_a_worker_that_crashes_is_named_with_its_test_its_signal_and_its_stacks(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(
        """
import os
def brink():
    os.kill(os.getpid(), 11)
def test_it():
    brink()
"""
    )
    printed = run_pytest(tmp_path, "-p", "xdist", "-n", "1")
    assert "crashed while running 'test_sample.py::test_it': signal SIGSEGV" in printed
    assert "in brink" in printed


def die(event: object, context: object) -> None:
    """A handler whose process crashes."""
    os.kill(os.getpid(), signal.SIGSEGV)


def test_a_function_that_dies_is_named_with_its_signal() -> None:
    function = Function("tests.test_processes.die", environment())
    with pytest.raises(Failed, match=r"tests\.test_processes\.die ended by itself: .*signal SIGSEGV"):
        function.call({})
    function.close()


def test_a_run_in_the_background_starts_processes_that_can_be_interrupted(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(
        "import signal\n\ndef test_it():\n    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN\n"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for a command in the background
    try:
        printed = run_pytest(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "1 failed" in printed


def test_processes_of_a_make_target_write_compiled_modules(tmp_path: Path) -> None:
    target = tmp_path / "show.mk"
    target.write_text("include Makefile\nshow: ; @printenv PYTHONDONTWRITEBYTECODE || echo unset\n")
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(["make", "--no-print-directory", "-f", str(target), "show"], cwd=ROOT, env=variables).stdout == "unset\n"


def test_each_file_and_module_of_a_make_target_exists() -> None:
    """A test file that was renamed stayed in a target's list, and no test of the target ran any more."""
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    printed = run(["make", "--dry-run", "--no-print-directory", "PREFIX=some", *targets], cwd=ROOT).stdout
    files = set(re.findall(r"(?<![\w/.-])(?:apps|bench|examples|scripts|tests)/[\w/]+\.py", printed))
    assert len(files) > 30
    assert [file for file in files if not (ROOT / file).exists()] == []
    modules = set(re.findall(r"-m ((?:apps|bench|tests)[\w.]*)", printed))
    assert len(modules) > 10
    assert [module for module in modules if find_spec(module) is None] == []


def test_make_clean_removes_each_file_at_the_root_that_git_ignores_except_stores() -> None:
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/")}
    removed = run(["make", "--dry-run", "--no-print-directory", "clean"], cwd=ROOT).stdout.split()
    assert len(ignored) > 8
    assert ignored - set(removed) == {"data", "store"}


def run_pytest(folder: Path, *options: str) -> str:
    """Run pytest with the hooks of `tests.crashes`, and return its output. The run must fail."""
    (folder / "conftest.py").write_text("from tests.crashes import *\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "."]
    variables = {name: value for name, value in environment().items() if not name.startswith(("PYTEST_", "COV_"))}
    return run(command, cwd=folder, env={**variables, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}, expected=1).stdout


def await_end(pid: int) -> None:
    """Wait for the end of a child without reaping it, so that a later wait still gets its status."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_the_pauses_between_the_kills_of_a_soak_grow_until_a_slow_process_makes_progress() -> None:
    assert [kill_pause(0.8, kills, 2) for kills in (0, 10)] == [0.8, 0.8]
    assert 60 < sum(kill_pause(0.8, kills, 2) for kills in range(40)) < 300
    assert kill_pause(0.8, 60, 2) > 60
