"""A plugin of pytest: a test that fails by a name that is not there shows broken code, and no bug.

`python -m tests.removals` gives it to each pytest that it runs. The variable `ALLOWED` names errors that the bug itself
shows; they count as failures.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["ALLOWED", "CODE_IS_BROKEN", "pytest_exception_interact", "pytest_sessionfinish"]

CODE_IS_BROKEN = 90
"""The exit status then. pytest's own end at 5."""

ALLOWED = "REMOVAL_RAISES"
BROKEN = (AttributeError, ImportError, NameError, SyntaxError)
_broken = pytest.StashKey[bool]()


def pytest_exception_interact(node: Any, call: pytest.CallInfo[Any]) -> None:
    """Note what ended a test."""
    allowed = os.environ.get(ALLOWED, "").split()
    if call.excinfo is not None and call.excinfo.errisinstance(BROKEN) and call.excinfo.typename not in allowed:
        node.config.stash[_broken] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say it by the exit status."""
    if session.config.stash.get(_broken, False):
        session.exitstatus = CODE_IS_BROKEN
