"""Chooses the tests that coverage measures: quick tests that are not property tests.

Tracing takes more time than the traced code. So this module turns tracing off in tests of services, browsers and killed
processes, which run the same code as quick tests, and in property tests, which run hundreds of examples. A line that
only these tests reach counts as not reached. `conftest.py` imports the pytest hook `pytest_runtest_protocol`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager

import pytest

from tests.selection import is_quick

__all__ = ["pytest_runtest_protocol", "unmeasured"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test and its fixtures, with tracing only for a quick test that is not a property test."""
    if is_quick(item) and not _is_property(item):
        return (yield)
    with unmeasured():
        return (yield)


@contextmanager
def unmeasured() -> Iterator[None]:
    """Turn tracing off, in this thread and in threads started inside the block.

    Coverage's option for greenlets is no alternative, since coverage then tracks greenlets in every thread. So each
    thread runs a little Python code when the thread ends. In Python 3.11 this code may never return if coverage traces
    the code and two threads end at the same time.
    """
    tracer, tracer_of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.settrace(tracer)
        threading.settrace(tracer_of_threads)  # type: ignore[arg-type]


def _is_property(item: pytest.Item) -> bool:
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))
