"""`create_table` waits for a new table and checks an existing table. `open_client` waits for credentials."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import CredentialRetrievalError

from stratalog.backends.aws_access import SessionAccess
from stratalog.backends.dynamodb import DynamoIndex
from stratalog.backends.dynamodb_setup import create_table, open_client
from stratalog.errors import Invalid, OutcomeUnknown, Unavailable
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock
from tests.cloud.canned import CannedEndpoint, canned_client, done, refused

KEYS = [{"AttributeName": "P", "KeyType": "HASH"}, {"AttributeName": "S", "KeyType": "RANGE"}]
MADE = done({"TableDescription": {}})
EXISTS = refused("ResourceInUseException")
LOST = OutcomeUnknown("the response of the service was lost")


def described(status: str, keys: Any = KEYS) -> Any:
    return done({"Table": {"TableStatus": status, "KeySchema": keys}})


def test_create_table_waits_until_a_new_table_is_active() -> None:
    client, endpoint = canned_client(MADE, described("CREATING"), described("CREATING"), described("ACTIVE"))
    assert create_table(client, "table")
    assert [operation for operation, _ in endpoint.sent] == ["CreateTable", *["DescribeTable"] * 3]


def test_create_table_waits_for_a_new_table_that_a_read_does_not_find_yet() -> None:
    missing = refused("ResourceNotFoundException")
    client, endpoint = canned_client(MADE, missing, missing, described("CREATING"), described("ACTIVE"))
    assert create_table(client, "table")
    assert [operation for operation, _ in endpoint.sent] == ["CreateTable", *["DescribeTable"] * 4]


def test_a_table_is_paid_by_request_and_has_text_keys_only() -> None:
    client, endpoint = canned_client(MADE, described("ACTIVE"))
    create_table(client, "table")
    assert endpoint.sent[0][1] == {
        "TableName": "table",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in "PS"],
        "KeySchema": KEYS,
        "BillingMode": "PAY_PER_REQUEST",
    }


def test_create_table_accepts_an_existing_table() -> None:
    client, _ = canned_client(EXISTS, described("ACTIVE"))
    assert not create_table(client, "table")


def test_create_table_retries_after_a_lost_response() -> None:
    client, endpoint = canned_client(LOST, EXISTS, LOST, described("ACTIVE"))
    create_table(client, "table")
    assert [operation for operation, _ in endpoint.sent] == ["CreateTable"] * 2 + ["DescribeTable"] * 2


def test_a_table_with_other_keys_is_refused() -> None:
    client, _ = canned_client(EXISTS, described("ACTIVE", KEYS[:1]))
    with pytest.raises(Invalid):
        create_table(client, "table")


def test_a_table_that_never_becomes_ready_is_unavailable() -> None:
    client, endpoint = canned_client(MADE, described("CREATING"))
    with pytest.raises(Unavailable):
        create_table(client, "table")
    assert len(endpoint.sent) > 100


def test_create_table_reports_a_denied_permission() -> None:
    client, _ = canned_client(refused("AccessDeniedException", Message="not authorized"))
    with pytest.raises(Unavailable, match="not authorized"):
        create_table(client, "table")


def test_a_call_retries_until_its_credentials_can_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [CredentialRetrievalError(provider="role", error_msg="throttled")] * 2

    class Role(Credentials):
        def get_frozen_credentials(self) -> Any:
            if failures:
                raise failures.pop()
            return super().get_frozen_credentials()

    endpoint = CannedEndpoint([done()])
    monkeypatch.setattr("botocore.session.Session.get_credentials", lambda _: Role("test", "test"))
    monkeypatch.setattr("stratalog.backends.dynamodb_setup.Endpoint", lambda _: endpoint)
    index = DynamoIndex(open_client(ManualClock(), access=SessionAccess("eu-west-1")), "table")
    index.commit([Put(Item("p", "s", {}))])
    assert len(endpoint.sent) == 1
    assert index.meter.read()["PutItem", "unsent"] == 2
