"""The emulators that tests share: one of each in a process of the test run, started when the first test asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cloud.emulators import Emulator, ministack


@pytest.fixture(scope="session")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """DynamoDB and SQS."""
    with ministack(tmp_path_factory.mktemp("ministack")) as emulator:
        yield emulator
