"""The folders that hold our code, in one place: every check that reads code or settings takes them from here."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "APPLICATIONS",
    "LABORATORY",
    "LIBRARY",
    "PACKAGES",
    "PROGRAMS",
    "ROOT",
    "TESTS",
    "files",
    "package_of",
    "short_name",
]

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "src" / "stratalog"
APPLICATIONS = sorted(path for path in ROOT.glob("apps/*/src/stratalog_*") if path.is_dir())
PACKAGES = [LIBRARY, *APPLICATIONS]
"""What is shipped: one import package a distribution."""

LABORATORY = ROOT / "tests" / "simulation"
"""Worlds, planted bugs and reference models. They keep the style of what is shipped; their tests do not have to."""

PROGRAMS = [ROOT / name for name in ("bench", "examples", "scripts")]
TESTS = [ROOT / "tests", *sorted(path for path in ROOT.glob("apps/*/tests") if path.is_dir())]


def files(*folders: Path) -> list[Path]:
    """Every Python file below ``folders``, in order."""
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def package_of(path: Path) -> Path:
    """The folder of the shipped package that holds ``path``."""
    return next(package for package in PACKAGES if path.is_relative_to(package))


def short_name(path: Path) -> str:
    """The path below the repository, for the name of a test."""
    return path.relative_to(ROOT).as_posix()
