"""DynamoDB keeps the contract of the index: the same suite as every backend, on an emulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.testing.emulators import Emulator
from stratalog.testing.index_contract import IndexContract
from tests.cloud.helpers import dynamo_index


class TestDynamoIndex(IndexContract):
    @pytest.fixture(autouse=True)
    def _emulator(self, aws: Emulator) -> Iterator[None]:
        self.aws = aws
        self.made: list[DynamoIndex] = []
        yield
        for index in self.made:
            index.close()

    def make(self) -> DynamoIndex:
        self.made.append(dynamo_index(self.aws))
        return self.made[-1]
