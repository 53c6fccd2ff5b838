"""Each check covers every package, so a package that moves to another folder does not escape the checks."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests import test_docs, test_layers, test_process_fork, test_style
from tests.sources import BUILDS, LIBRARY, PACKAGES, PROGRAMS, ROOT, TESTS, files, short_name
from tests.web import test_style as test_script_style

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]

MADE = {"build", "data", "dist", "htmlcov"}
"""Folders that the project's commands create. They need no checks."""

each_package = pytest.mark.parametrize("package", PACKAGES, ids=short_name)


def test_every_python_file_lies_in_a_folder_that_the_checks_know() -> None:
    ours = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    paths = [*ROOT.glob("*.py"), *files(*(folder for folder in ours if folder.name not in MADE))]
    known = [*PACKAGES, *PROGRAMS, *TESTS, *BUILDS, ROOT / "conftest.py"]
    assert [str(path) for path in paths if not any(path.is_relative_to(folder) for folder in known)] == []


@each_package
def test_the_types_of_a_package_are_checked(package: Path) -> None:
    checked = [folder for pattern in SETTINGS["mypy"]["files"] for folder in ROOT.glob(pattern)]
    assert any(package.is_relative_to(folder) for folder in checked)


@each_package
def test_the_coverage_of_a_package_is_measured(package: Path) -> None:
    assert package.name in SETTINGS["coverage"]["run"]["source"]


@each_package
def test_the_imports_of_a_package_are_checked(package: Path) -> None:
    linted = SETTINGS["importlinter"]
    assert package.name in linted.get("root_packages", [linted.get("root_package")])


@each_package
def test_the_style_of_a_package_is_checked(package: Path) -> None:
    assert package / "__init__.py" in test_style.FILES


@each_package
def test_the_locks_of_a_package_are_checked(package: Path) -> None:
    assert package / "__init__.py" in test_process_fork.FILES


@each_package
def test_a_page_may_name_files_of_a_package(package: Path) -> None:
    assert package in test_docs.FOLDERS


@each_package
def test_the_style_of_the_scripts_of_a_package_is_checked(package: Path) -> None:
    scripts = {path for path in package.rglob("*.*js") if "node_modules" not in path.parts}
    assert scripts <= set(test_script_style.SCRIPTS)


def test_every_module_of_the_library_is_in_a_layer() -> None:
    assert test_layers.SOURCE == LIBRARY
    named = set(re.findall(r"\w+", " ".join(SETTINGS["importlinter"]["contracts"][0]["layers"])))
    there = {path.relative_to(LIBRARY).with_suffix("").parts[0] for path in files(LIBRARY)}
    assert there - named == {"__init__", "testing"}
