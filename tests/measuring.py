"""Chooses the tests that coverage measures: quick tests that are no properties.

Tracing takes more time than the traced code. So it is off where it adds little: in tests of services, browsers and
killed processes, which run the same code as quick tests, and in property tests with hundreds of examples. A line that
only these tests reach counts as not reached. `pytest_runtest_protocol` is a hook, which `conftest.py` imports.
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
    """Run a test and its fixtures, measured or not."""
    if is_quick(item) and not _is_property(item):
        return (yield)
    with unmeasured():
        return (yield)


@contextmanager
def unmeasured() -> Iterator[None]:
    """Turn tracing off, in this thread and in threads started inside the block.

    Coverage's own option for greenlets is no alternative: it tracks them in every thread. A thread that ends then runs
    Python code from a pending call of the interpreter. In Python 3.11 that may never return if it is traced and two
    threads end at the same time.
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
