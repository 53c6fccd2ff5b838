"""A user's project that uses every public name passes mypy and pyright, and runs.

Both checkers run in their strictest mode. So a public name fails the test if one checker cannot determine its type.
The project is in `tests/user_project`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stratalog
import stratalog.client
from stratalog import StratalogError, errors
from tests.node import install, node_program
from tests.processes import ROOT, environment, run
from tests.user_project.failures import reaction
from tests.user_project.shop import run as run_shop

PROJECT = ROOT / "tests" / "user_project"
TOOLS = ROOT / "scripts" / "javascript"
PYRIGHT = TOOLS / "node_modules" / "pyright" / "index.js"
KNOWN_PERCENT_MIN = 94
"""The percentage of exported names whose types pyright must determine. Never lower this limit."""


@pytest.mark.parametrize("module", [stratalog, stratalog.client], ids=["stratalog", "stratalog.client"])
def test_the_project_uses_every_public_name(module: object) -> None:
    name: str = module.__name__  # type: ignore[attr-defined]
    used = {used for path in PROJECT.glob("*.py") for used in names_of(path, name)}
    assert used == set(module.__all__)  # type: ignore[attr-defined]


def test_the_project_runs() -> None:
    report = run_shop("memory:")
    expected = {
        "apples": 12,
        "apples at first": 10,
        "rejected": 1,
        "merged": 1,
        "cents": 250,
        "failures": 1,
        "changes": 3,
    }
    assert expected.items() <= report.items()


@pytest.mark.parametrize("kind", errors.BY_CODE.values())
def test_the_project_reacts_to_every_error(kind: type[StratalogError]) -> None:
    error = kind.__new__(kind, "message")
    assert not reaction(error).startswith("report ")


def test_the_types_are_shipped() -> None:
    assert (Path(stratalog.__file__).parent / "py.typed").exists()
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.slow
def test_mypy_passes_on_the_project_and_on_a_new_application(tmp_path: Path) -> None:
    settings, new = tmp_path / "mypy.ini", tmp_path / "myapp"
    settings.write_text("[mypy]\nstrict = true\n")
    run([sys.executable, "-m", "stratalog", "new", new.name], cwd=tmp_path, env=environment())
    options = ["--config-file", str(settings), "--cache-dir", str(tmp_path / "cache")]
    for folder in (PROJECT, new):
        run([sys.executable, "-m", "mypy", *options, str(folder)], cwd=ROOT, seconds=300)


@pytest.mark.slow
def test_pyright_passes_on_the_project() -> None:
    done = pyright("--project", str(PROJECT), "--pythonpath", sys.executable)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_pyright_knows_the_type_of_every_public_name() -> None:
    done = pyright("--verifytypes", "stratalog", "--ignoreexternal", "--outputjson")
    completeness = json.loads(done.stdout)["typeCompleteness"]
    doors = re.compile(r"stratalog\.(client\.)?\w+")
    unknown = [
        symbol["name"] for symbol in completeness["symbols"] if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]
    ]
    assert [name for name in unknown if doors.fullmatch(name)] == []
    assert completeness["completenessScore"] * 100 >= KNOWN_PERCENT_MIN


def names_of(path: Path, module: str) -> set[str]:
    """Return the names of ``module`` that a file imports from it or reads as its attributes."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == module:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == module:
            names.add(node.attr)
    return names


def pyright(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pyright. It finds packages by the first Python on the path, so put this Python first."""
    install(TOOLS)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = [node_program(), str(PYRIGHT), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "PATH": path}
    )
