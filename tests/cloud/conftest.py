"""The fixture for a store on AWS, which is on the shared emulators or in the user's account."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from stratalog.clock import SystemClock, new_id
from stratalog.testing.aws_local import aws_environment
from tests.cloud.choice import account_prefix, remove_bucket, remove_queues, remove_table

numbers = itertools.count()


@pytest.fixture
def aws_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a store that does not exist yet, on the emulators or in the user's account."""
    prefix = account_prefix(os.environ)
    if prefix:
        name = f"{prefix}-{new_id(SystemClock())}"
        yield f"aws://{name}"
        for remove in (remove_table, remove_bucket, remove_queues):
            remove(name)
        return
    services, objects, dynamo = map(request.getfixturevalue, ("aws", "bucket", "dynamo"))
    for name, value in aws_environment(services, objects, dynamo).items():
        monkeypatch.setenv(name, value)
    yield f"aws://store-{next(numbers)}"
