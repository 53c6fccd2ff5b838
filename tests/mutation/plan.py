"""The commands that test a changed module, the most specific tests first.

If at most `FILES_FIRST_MAX` test files import the module or have its name, the first command runs these files. The next
command runs the tests of the module's package. The next commands run random tests, and the last command runs the tests
of behaviour. A command that fails, hangs or exhausts its memory has noticed the change. The campaign then skips the
remaining commands.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PARTS", "commands_for", "modules_of"]

PARTS = {
    "log": ("tests/log",),
    "documents": ("tests/documents", "tests/protocol"),
    "records": ("tests/records",),
    "tree": ("tests/tree", "tests/documents"),
    "maintenance": ("tests/maintenance", "tests/tampering"),
    "sync": ("tests/server/test_pull.py", "tests/server/test_lost_branches.py", "tests/client"),
    "worker": ("tests/server",),
}
"""The sampled packages, each with the paths of its tests."""

FOLDERS = "backends cli client documents log maintenance records server tampering tree"
BEHAVIOUR = (*(f"tests/{name}" for name in FOLDERS.split()), "tests/test_bad_input.py", "tests/test_store.py")
"""The tests that run last. Tests of the source text are left out, since a change without an effect may fail them."""

FILES_FIRST_MAX = 12
SEEDS = 400
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "--quick", "-p", "no:cacheprovider", "-p", "no:xdist")


def modules_of(root: Path) -> Iterator[Path]:
    """Yield the paths of the sampled modules, in order."""
    for part in sorted(PARTS):
        yield from sorted((root / "src" / "stratalog" / part).rglob("*.py"))


def commands_for(path: str, root: Path, seed: int) -> Iterator[list[str]]:
    """Yield the commands that test a change of the module at ``path`` below ``root``. Random tests use ``seed``."""
    part = Path(path).parts[2]
    if files := _tests_naming(path, root):
        yield [*PYTEST, *files]
    yield [*PYTEST, *(folder for folder in PARTS[part] if (root / folder).exists())]
    seeds = ["--seeds", str(SEEDS), "--seed", str(seed), "--processes", "1"]
    yield [sys.executable, "-m", "tests.simulation.simulate", *seeds]
    if part in ("documents", "sync", "worker"):
        yield [sys.executable, "-m", "tests.client.convergence", "--sessions", "40", "--seed", str(seed)]
        yield [sys.executable, "-m", "tests.retries", "--retries", "300", "--seed", str(seed)]
    yield [*PYTEST, *BEHAVIOUR]


def _tests_naming(path: str, root: Path) -> list[str]:
    """Return the test files that import the module or have its name.

    Return an empty list if more than `FILES_FIRST_MAX` files match.
    """
    package, module = Path(path).parts[2:-1], Path(path).stem
    dotted = re.escape(".".join(["stratalog", *package, module]))
    imports = re.compile(rf"^(from|import) {dotted}\b", re.MULTILINE)
    files = [
        file.relative_to(root).as_posix()
        for file in sorted((root / "tests").rglob("test_*.py"))
        if file.stem == f"test_{module}" or imports.search(file.read_text())
    ]
    return files if len(files) <= FILES_FIRST_MAX else []
