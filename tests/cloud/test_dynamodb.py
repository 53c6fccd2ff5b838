"""DynamoDB keeps the contract of the index: the same suite as every backend."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.testing.index_contract import IndexContract
from tests.cloud.choice import account_prefix, remove_table
from tests.cloud.helpers import account_index, dynamo_index


@pytest.mark.slow
class TestDynamoIndex(IndexContract):
    @pytest.fixture(autouse=True)
    def _emulator(self, request: pytest.FixtureRequest) -> Iterator[None]:
        self.prefix = account_prefix(os.environ)
        self.dynamo = None if self.prefix else request.getfixturevalue("dynamo")
        self.made: list[DynamoIndex] = []
        yield
        for index in self.made:
            index.close()
            if self.prefix:
                remove_table(index.table)

    def make(self) -> DynamoIndex:
        self.made.append(dynamo_index(self.dynamo) if self.dynamo else account_index(self.prefix))
        return self.made[-1]
