#!/usr/bin/env python3
"""Run ESLint and TypeScript over our JavaScript: the files that scripts/javascript/tsconfig.json includes.

TypeScript checks the library's own files a second time, with strict null checks. The first run installs ESLint,
TypeScript and pyright from npm, in the versions that scripts/javascript/package-lock.json pins. A change of
package-lock.json makes the next run install the tools again. scripts/dataset.py finds or installs Node and npm. If the
tools are installed and find no fault, the script prints nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import dataset

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "scripts" / "javascript"
LOCK = FOLDER / "package-lock.json"
MODULES = FOLDER / "node_modules"
STAMP = MODULES / ".installed"
ESLINT = MODULES / "eslint" / "bin" / "eslint.js"
TYPESCRIPT = MODULES / "typescript" / "bin" / "tsc"
INSTALL = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
TIMEOUT_SECONDS = 300


def main() -> None:
    npm = dataset.npm_on_path() or dataset.npm_of_wheel() or dataset.npm_installed()
    install(npm)
    node = npm[0] if len(npm) > 1 else "node"
    checks: list[list[str | Path]] = [
        [ESLINT, "--config", FOLDER / "eslint.config.js", *patterns()],
        [TYPESCRIPT, "--project", FOLDER],
        [TYPESCRIPT, "--project", FOLDER / "client.json"],
    ]
    # Run all checks even if the first one fails, so that one call shows all faults.
    codes = [subprocess.run([node, *map(str, check)], cwd=ROOT, check=False).returncode for check in checks]
    sys.exit(any(codes))  # not the largest code: the code of a check that a signal ended is below 0


def patterns() -> list[str]:
    """Return glob patterns of the files to check, relative to the repository's root. tsconfig.json has the patterns."""
    included = json.loads((FOLDER / "tsconfig.json").read_text())["include"]
    return [pattern.removeprefix("../../") for pattern in included]


def install(npm: list[str]) -> None:
    """Install the tools that package-lock.json pins, unless they are installed. Only one process at a time installs."""
    pinned = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    with LOCK.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if STAMP.exists() and STAMP.read_text() == pinned:
            return
        print("check_javascript: installing ESLint, TypeScript and pyright (once; 100 MB)", file=sys.stderr)
        subprocess.run([*npm, *INSTALL], cwd=FOLDER, stdout=subprocess.DEVNULL, check=True, timeout=TIMEOUT_SECONDS)
        STAMP.write_text(pinned)


if __name__ == "__main__":
    main()
