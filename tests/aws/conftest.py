"""The fixture of a local deployment: a gateway and functions in front of the shared emulators."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stratalog.store import open_store
from stratalog.testing.aws_local import aws_environment
from stratalog.testing.emulators import Emulator
from tests.aws.deployed import Deployed
from tests.cloud.conftest import numbers
from tests.cloud.sqs_service import Service


@pytest.fixture
def deployed(aws: Emulator, bucket: Emulator, sqs: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    """A deployment with an empty store on the emulators. A test starts the functions, and can move the clock of SQS."""
    environment = {**aws_environment(aws, bucket), "AWS_ENDPOINT_URL_SQS": sqs.client.meta.endpoint_url}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    url = f"aws://deployed-{next(numbers)}"
    with open_store(url) as store, Deployed(url, store, sqs) as running:
        yield running
