"""What every test shares: emulators, the reports of processes that die, and how Hypothesis looks for examples.

`make test` must give the same verdict for the same commit, so examples follow from the test alone. To look further:
`pytest --hypothesis-profile=search`, which prints how to run a failure again.
"""

from __future__ import annotations

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
from tests.measuring import pytest_runtest_protocol, unmeasured
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


@pytest.fixture
def untraced() -> Iterator[None]:
    """Without the measuring of coverage.

    It is for long computations whose lines other tests reach. It is also for actors on greenlets, whose frames coverage
    takes for those of one thread.
    """
    with unmeasured():
        yield
