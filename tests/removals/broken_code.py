"""A pytest plugin. A test that ends with an error such as NameError shows broken code and not the removed fix's bug.

`python -m tests.removals` loads it in each pytest that it runs. The environment variable `ALLOWED` names errors that
the bug itself raises. These count as failures of the test.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["ALLOWED", "CODE_IS_BROKEN", "pytest_exception_interact", "pytest_sessionfinish"]

CODE_IS_BROKEN = 90
"""The exit status for broken code. pytest's own go up to 5."""

ALLOWED = "REMOVAL_RAISES"
BROKEN = (AttributeError, ImportError, NameError, SyntaxError)
_broken = pytest.StashKey[bool]()


def pytest_exception_interact(node: Any, call: pytest.CallInfo[Any]) -> None:
    """Record whether broken code ended a test."""
    allowed = os.environ.get(ALLOWED, "").split()
    if call.excinfo is not None and call.excinfo.errisinstance(BROKEN) and call.excinfo.typename not in allowed:
        node.config.stash[_broken] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Set the exit status if broken code ended a test."""
    if session.config.stash.get(_broken, False):
        session.exitstatus = CODE_IS_BROKEN
