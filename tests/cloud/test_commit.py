"""DynamoDB and S3 pass the contract tests of commits with blobs. A commit puts its blobs before its items."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stratalog.backends.dynamodb import DynamoIndex
from stratalog.clock import Clock, SystemClock, new_id
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index
from stratalog.testing.commit_contract import CommitContract
from tests.cloud.helpers import dynamo_index
from tests.cloud.seaweed import VERSIONED, blobs_in
from tests.records.helpers import DatedBlobs


@pytest.mark.slow
class TestCommitOnAws(CommitContract):
    @pytest.fixture(autouse=True)
    def _emulators(self, request: pytest.FixtureRequest) -> Iterator[None]:
        self.dynamo, self.bucket = map(request.getfixturevalue, ("dynamo", "bucket"))
        self.made: list[DynamoIndex] = []
        yield
        for index in self.made:
            index.close()

    def make(self, clock: Clock) -> tuple[Index, Blobs]:
        self.made.append(dynamo_index(self.dynamo))
        return self.made[-1], DatedBlobs(blobs_in(VERSIONED, self.bucket, new_id(SystemClock())), clock, {})
