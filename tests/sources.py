"""The folders of the project's code. The checks of all code, and of the settings for it, take them from this module."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "APPLICATIONS",
    "BUILDS",
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
"""The shipped code: one import package per distribution."""

BUILDS = [ROOT / "setup.py", *(path.parents[1] / "setup.py" for path in APPLICATIONS)]
"""The programs that build the distributions."""

LABORATORY = ROOT / "tests" / "simulation"
"""The simulation's worlds, planted bugs and reference models.

Unlike other tests, the simulation follows the style of shipped code.
"""

PROGRAMS = [ROOT / name for name in ("bench", "examples", "scripts")]
TESTS = [ROOT / "tests", *sorted(path for path in ROOT.glob("apps/*/tests") if path.is_dir())]


def files(*folders: Path) -> list[Path]:
    """Return every Python file below ``folders``, sorted within each folder."""
    return [path for folder in folders for path in sorted(folder.rglob("*.py"))]


def package_of(path: Path) -> Path:
    """Return the folder of the shipped package that contains ``path``."""
    return next(package for package in PACKAGES if path.is_relative_to(package))


def short_name(path: Path) -> str:
    """Return the path relative to the repository, for the name of a test."""
    return path.relative_to(ROOT).as_posix()
