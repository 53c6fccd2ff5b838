"""Fixtures, pytest hooks and settings of Hypothesis that all tests share.

`make test` must give the same result for the same commit, so the examples of a test are fixed. To search for other
examples, run `pytest --hypothesis-profile=search`. When an example fails, Hypothesis prints a decorator that repeats
this example.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.crashes import (
    pytest_configure,
    pytest_configure_node,
    pytest_handlecrashitem,
    pytest_runtest_makereport,
    pytest_unconfigure,
)
from tests.emulators import aws, bucket, dynamo, postgres, postgres_process, sqs
from tests.measuring import pytest_runtest_protocol, unmeasured
from tests.memory_on_postgresql import close_schemas, memory_on_postgresql
from tests.selection import pytest_addoption, pytest_collection_modifyitems

__all__ = [
    "aws",
    "bucket",
    "close_schemas",
    "dynamo",
    "memory_on_postgresql",
    "postgres",
    "postgres_process",
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_handlecrashitem",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the workers of ``-n auto``: one more than cores, since tests wait for processes, sockets and disks."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude the collected tests from garbage collection. Each pass over their 600,000 objects takes 0.3 s of CPU.

    Passes during the collection would free almost nothing, and take a fifth of its time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.fixture
def untraced() -> Iterator[None]:
    """Run a test without measuring coverage.

    Use this fixture for long computations whose lines other tests reach, and for actors on greenlets. Coverage mixes up
    the frames of greenlets, since greenlets share a thread.
    """
    with unmeasured():
        yield
