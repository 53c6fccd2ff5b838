"""A quick run starts no emulator, and coverage measures quick tests."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from tests.processes import ROOT, environment, run

SAMPLE = """
import pytest
@pytest.fixture
def aws(): pass
def test_plain(): pass
def test_emulator(aws): pass
@pytest.fixture
def postgres(): pass
def test_server(postgres): pass
@pytest.mark.parametrize("backend", ["memory", "aws", "postgres"])
def test_backend(backend): pass
@pytest.mark.slow
def test_slow(): pass
@pytest.mark.mutants
@pytest.mark.parametrize("number", range(8))
def test_planted(number): pass
"""


def collected(folder: Path, *options: str) -> set[str]:
    (folder / "conftest.py").write_text("from tests.selection import *\n")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: a\n    mutants: b\n")
    (folder / "test_sample.py").write_text(SAMPLE)
    variables = {name: value for name, value in environment().items() if not name.startswith(("PYTEST_", "COV_"))}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options]
    printed = run(command, cwd=folder, env={**variables, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}).stdout
    return {line.split("::")[1] for line in printed.splitlines() if "::" in line}


def test_a_quick_run_leaves_out_planted_bugs_slow_tests_and_tests_with_services(tmp_path: Path) -> None:
    assert collected(tmp_path, "--quick") == {"test_plain", "test_backend[memory]"}


TRACED = """
import sys
import pytest
from hypothesis import given, strategies
def is_traced(): return sys.gettrace() is not None
def test_plain(): assert is_traced()
@pytest.mark.slow
def test_slow(): assert not is_traced()
@given(strategies.booleans())
def test_property(value): assert not is_traced()
def test_what_comes_after_them(): assert is_traced()
"""


def test_coverage_measures_quick_tests_that_are_no_properties(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import sys\nfrom tests.measuring import *\nsys.settrace(lambda *event: None)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow: a\n")
    (tmp_path / "test_traced.py").write_text(TRACED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:cov"]
    variables = {name: value for name, value in environment().items() if not name.startswith(("PYTEST_", "COV_"))}
    printed = run(command, cwd=tmp_path, env={**variables, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}).stdout
    assert "4 passed" in printed


def test_garbage_collection_is_enabled_and_collected_tests_are_frozen() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
