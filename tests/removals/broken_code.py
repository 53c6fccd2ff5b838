"""A pytest plugin that detects broken code after the removal of a fix.

A test should fail because of the bug that the fix had removed. An error such as NameError shows only that the removal
broke the code. `python -m tests.removals` loads the plugin in each run of pytest. The environment variable
`REMOVAL_RAISES` names errors that the bug itself raises. The plugin does not report these errors as broken code.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["ALLOWED", "CODE_IS_BROKEN", "pytest_exception_interact", "pytest_sessionfinish"]

CODE_IS_BROKEN = 90
"""The exit status for broken code. pytest itself never ends with this status."""

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
