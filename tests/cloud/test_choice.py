"""The user chooses the services for the tests. Credentials alone do not choose an AWS account."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from stratalog.homes import make_store
from stratalog.store import open_store
from stratalog.testing.emulators import Emulator
from tests.cloud.choice import (
    ACCOUNT,
    LOCAL,
    account_prefix,
    chosen_dynamo,
    remove_bucket,
    remove_queues,
    remove_table,
)

OTHER = Emulator("http://127.0.0.1:1", 0)


def test_without_a_choice_the_tests_use_the_emulators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials alone do not choose the account. So a test run costs a user with credentials nothing."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody's")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "own")
    assert account_prefix({}) == ""
    with chosen_dynamo({}, OTHER, tmp_path) as chosen:
        assert chosen is OTHER


def test_a_chosen_folder_without_dynamodb_local_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="DynamoDBLocal"), chosen_dynamo({LOCAL: str(tmp_path)}, OTHER, tmp_path):
        pass


@pytest.mark.parametrize("prefix", ["Mine", "a", "-mine", "a" * 40, "mine_"])
def test_an_account_prefix_that_some_service_refuses_is_an_error(prefix: str) -> None:
    with pytest.raises(ValueError, match="lower-case"):
        account_prefix({ACCOUNT: prefix})


def test_an_account_needs_credentials(aws_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert account_prefix({ACCOUNT: "mine"}) == "mine"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(ValueError, match="no AWS credentials"):
        account_prefix({ACCOUNT: "mine"})


def test_the_cleanup_of_an_account_removes_table_bucket_and_queues(aws_store: str) -> None:
    name = aws_store.removeprefix("aws://")
    for remove in (remove_table, remove_bucket, remove_queues):
        remove(name)
    with open_store(aws_store) as store:
        store.create("acme", "plan").mutate("put", {"key": "notes/1", "value": "x" * 20_000})
        for stat in store.environment.blobs.list(""):
            store.environment.blobs.put(stat.key, store.environment.blobs.get(stat.key))
    for remove in (remove_table, remove_bucket, remove_queues):
        remove(name)
    with pytest.raises(ClientError):
        boto3.client("s3").head_bucket(Bucket=name)
    assert len(make_store(aws_store)) == 4
