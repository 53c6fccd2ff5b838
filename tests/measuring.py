"""Which tests coverage measures: the quick ones, with the examples that they name themselves.

Tracing takes more time than the code that it traces. So it is left out where it adds little: tests of services,
browsers and killed processes, which also run what quick tests run, and the hundreds of examples of a property. A line
that only these reach counts as not reached. `pytest_runtest_protocol` is a hook, which `conftest.py` imports.
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
    """Run a test with what it sets up, measured or not."""
    if is_quick(item) and not _is_property(item):
        return (yield)
    with unmeasured():
        return (yield)


@contextmanager
def unmeasured() -> Iterator[None]:
    """Trace nothing, in this thread and those started meanwhile.

    Coverage's own remedy for greenlets is to tell them apart in every thread. A thread that ends then runs Python from
    a pending call of the interpreter, which in Python 3.11 and while traced may go on for ever, where two threads end
    together.
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
