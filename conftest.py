"""What every test shares: emulators, the reports of processes that die, and how Hypothesis looks for examples.

`make test` must give the same verdict for the same commit, so examples follow from the test alone. To look further:
`pytest --hypothesis-profile=search`, which prints how to run a failure again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.crashes import (
    pytest_configure,
    pytest_configure_node,
    pytest_handlecrashitem,
    pytest_runtest_makereport,
    pytest_unconfigure,
)
from tests.emulators import aws, bucket, dynamo, sqs
from tests.selection import pytest_addoption, pytest_collection_modifyitems

__all__ = [
    "aws",
    "bucket",
    "dynamo",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_handlecrashitem",
    "pytest_runtest_makereport",
    "pytest_unconfigure",
    "sqs",
    "untraced",
]

settings.register_profile(
    "steady",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("steady")


@pytest.fixture
def untraced() -> Iterator[None]:
    """Without the measuring of coverage, in this thread and those started meanwhile.

    It is for long computations whose lines other tests reach, since tracing makes them three to ten times slower. It is
    also for actors on greenlets, whose frames coverage takes for those of one thread.

    Coverage's own remedy is to tell greenlets apart in every thread. A thread that ends then runs Python from a pending
    call of the interpreter, which in Python 3.11 and while traced may go on for ever, where two threads end together.
    """
    tracer, tracer_of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    yield
    sys.settrace(tracer)
    threading.settrace(tracer_of_threads)  # type: ignore[arg-type]
