"""Runs removals in parallel, each in a copy of the checkout."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tests.mutation.copies import copies_of, status_of
from tests.removals.broken_code import ALLOWED, CODE_IS_BROKEN
from tests.removals.removal import Removal

__all__ = ["Trial", "command_for", "is_noticed", "run_trials"]

PLUGIN = "tests.removals.broken_code"
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", PLUGIN)
SEEDS = 2000
CONTRACTS = "src/stratalog/testing/"
TESTS_FAILED = 1
"""pytest's exit status if tests ran and failed. It has another one for a module that cannot be imported."""


class Trial(msgspec.Struct, frozen=True):
    """The result of one test or world (``judge``) for one removal.

    The judge should pass with the fix (``passes_unchanged``) and fail without it (``failed``).
    """

    bug: str
    judge: str
    failed: bool
    status: int | None
    passes_unchanged: bool

    @property
    def breaks_code(self) -> bool:
        """Whether broken code, such as a missing name, ended the test, so the failure proves nothing about the bug."""
        return self.status == CODE_IS_BROKEN


def command_for(judge: str, root: Path) -> list[str]:
    """Return the command that runs a test, a test of a contract on every backend, or a world."""
    if judge.startswith("world "):
        seeds = ["--seeds", str(SEEDS), "--seed", "1", "--processes", "1"]
        return [sys.executable, "-m", "tests.simulation.simulate", "--world", judge.removeprefix("world "), *seeds]
    path, _, name = judge.partition("[")[0].partition("::")
    if path.startswith(CONTRACTS):
        return [*PYTEST, "tests/backends", "-k", name]
    if re.search(rf"^def {name}\(", (root / path).read_text(), re.MULTILINE):
        return [*PYTEST, judge]
    return [*PYTEST, path, "-k", name]


def run_trials(root: Path, removals: Sequence[Removal], processes: int) -> Iterator[Trial]:
    """Run the tests of each removal without and with it, in order. Raises RemovalError where an edit does not fit."""
    with copies_of(root, processes) as copies, ThreadPoolExecutor(processes) as pool:

        def attempt(removal: Removal) -> list[Trial]:
            copy = copies.get()
            try:
                return list(_try(copy, removal))
            finally:
                copies.put(copy)

        for trials in pool.map(attempt, removals):
            yield from trials


def is_noticed(status: int | None) -> bool:
    """Return whether tests with this exit status noticed the bug: they failed, hung (None), or a signal ended them."""
    return status is None or status == TESTS_FAILED or status < 0


def _try(copy: Path, removal: Removal) -> Iterator[Trial]:
    passing = {judge: status_of(copy, command_for(judge, copy)) == 0 for judge in removal.fails}
    originals = {edit.path: (copy / edit.path).read_bytes() for edit in removal.edits}
    try:
        for edit in removal.edits:
            edit.apply(copy)
        for judge in removal.fails:
            status = status_of(copy, command_for(judge, copy), {ALLOWED: " ".join(removal.raises)})
            yield Trial(removal.bug, judge, is_noticed(status), status, passing[judge])
    finally:
        for path, content in originals.items():
            (copy / path).write_bytes(content)
