"""Uses scripts/dataset.py to find Node for tests, and installs the npm packages that a folder's lock file pins."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

DATASET = Path(__file__).parents[1] / "scripts" / "dataset.py"
INSTALL = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]


def node_program() -> str:
    """Return the path of Node. Install Node if no suitable Node exists."""
    npm = _npm()
    program = npm[0] if len(npm) > 1 else shutil.which("node")
    assert program is not None
    return program


def install(folder: Path) -> None:
    """Install a folder's npm packages, once for all test processes. The processes lock the file `package-lock.json`."""
    with (folder / "package-lock.json").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_installed(folder):
            subprocess.run([*_npm(), *INSTALL], cwd=folder, check=True, timeout=300)


def _npm() -> list[str]:
    script = _dataset_script()
    npm: list[str] = script.npm_on_path() or script.npm_of_wheel() or script.npm_installed()
    return npm


def _is_installed(folder: Path) -> bool:
    """Return whether the packages of the lock file are installed in the pinned versions.

    Optional packages do not count, since they may be for other platforms.
    """
    wanted = json.loads((folder / "package-lock.json").read_text())["packages"]
    needed = (path for path, package in wanted.items() if path and not package.get("optional"))
    manifests = {path: folder / path / "package.json" for path in needed}
    return all(
        manifest.exists() and json.loads(manifest.read_text())["version"] == wanted[path]["version"]
        for path, manifest in manifests.items()
    )


def _dataset_script() -> ModuleType:
    """Import the script that finds npm for the demo's data."""
    spec = importlib.util.spec_from_file_location("dataset", DATASET)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script
