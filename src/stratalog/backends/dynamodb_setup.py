"""Makes a client of DynamoDB with the settings that AWS's tools find, and creates or checks the table."""

from __future__ import annotations

from functools import partial

import msgspec

from stratalog.backends.aws_access import AwsAccess, find_access
from stratalog.backends.dynamodb_client import CallEffect, DynamoClient, DynamoRetryPolicy
from stratalog.backends.dynamodb_http import Endpoint
from stratalog.backends.service_request import wait_until_ready
from stratalog.clock import Clock
from stratalog.errors import Invalid, Unavailable
from stratalog.ports.meter import Meter

__all__ = ["create_table", "open_client", "table_is_ready"]

KEYS = [("P", "HASH"), ("S", "RANGE")]


class _Key(msgspec.Struct, frozen=True):
    AttributeName: str
    KeyType: str


class _Table(msgspec.Struct, frozen=True):
    TableStatus: str
    KeySchema: tuple[_Key, ...] = ()


class _Described(msgspec.Struct, frozen=True):
    Table: _Table


_anything = msgspec.json.Decoder(msgspec.Raw)
_described = msgspec.json.Decoder(_Described)


def open_client(
    clock: Clock,
    *,
    region: str = "",
    endpoint: str = "",
    access: AwsAccess | None = None,
    retry_policy: DynamoRetryPolicy | None = None,
    meter: Meter | None = None,
) -> DynamoClient:
    """Return a client with the region, endpoint and credentials that AWS's own tools would use.

    An ``endpoint`` that is not empty takes precedence. So does a ``region``, but only without ``access``, which has a
    region of its own. Raises Invalid if the credentials or the region are missing.
    """
    access = access or find_access(region)
    if not access.region:
        raise Invalid("no AWS region is set; set AWS_DEFAULT_REGION, or add ?region= to the URL")
    if not access.has_credentials:
        raise Invalid("no AWS credentials were found in the environment, the configuration or the machine's role")
    host = Endpoint(endpoint or access.dynamodb_url())
    return DynamoClient(host, access.region, access.credentials, clock, retry_policy=retry_policy, meter=meter)


def table_is_ready(client: DynamoClient, table: str) -> bool:
    """Return whether the index's table exists and is active. Raises Unavailable, or Invalid for other keys."""
    try:
        description = client.call("DescribeTable", {"TableName": table}, _described, CallEffect.READ).value
    except Unavailable as exc:
        if exc.details.get("code") != "ResourceNotFoundException":
            raise
        return False
    if description is None or description.Table.TableStatus != "ACTIVE":
        return False
    _check_keys(table, description.Table)
    return True


def create_table(client: DynamoClient, table: str) -> bool:
    """Create the index's table, billed per request, and wait until it is active. Return False if it existed before.

    Raises Invalid if a table of that name with other keys exists. Raises Unavailable, for example if the table is not
    active after `READY_SECONDS_MAX` seconds.
    """
    made = _request_table(client, table)
    # DescribeTable is eventually consistent: directly after the creation it may not find the table.
    wait_until_ready(client.clock, partial(table_is_ready, client, table), "table", table)
    return made


def _request_table(client: DynamoClient, table: str) -> bool:
    request = {
        "TableName": table,
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in KEYS],
        "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in KEYS],
        "BillingMode": "PAY_PER_REQUEST",
    }
    try:
        # The client retries this call like a read, since a second creation changes nothing. If an answer was lost, the
        # result may be False although this call created the table.
        client.call("CreateTable", request, _anything, CallEffect.READ)
    except Unavailable as exc:
        if exc.details.get("code") != "ResourceInUseException":
            raise
        return False
    return True


def _check_keys(table: str, description: _Table) -> None:
    keys = [(key.AttributeName, key.KeyType) for key in description.KeySchema]
    if keys != KEYS:
        raise Invalid("the table does not belong to Stratalog: its keys differ", table=table, keys=keys)
