"""The index in one DynamoDB table: text keys ``P`` and ``S``, and the port's attributes under their own names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import msgspec

from stratalog.backends.billed_units import commit_operation, count_commit, count_read
from stratalog.backends.dynamodb_client import Attributes, CallEffect, DynamoAnswer, DynamoClient, DynamoValue, Kind
from stratalog.clock import new_id
from stratalog.errors import Closed, ConditionFailed, Corrupt, Invalid, Unavailable
from stratalog.ports.index import (
    NO_BLOBS,
    Absent,
    Attribute,
    Check,
    Condition,
    Delete,
    Equals,
    Item,
    Put,
    Write,
    check_commit,
    holds,
    no_turn,
)
from stratalog.ports.meter import Meter

__all__ = ["DynamoIndex"]

T = TypeVar("T")

TOKEN_CHARACTERS = 32
INTEGER = re.compile("-?[0-9]{1,20}")
"""An integer of 64 bits; see `Attribute`."""

Request = dict[str, Any]


class _Consumed(msgspec.Struct, frozen=True):
    CapacityUnits: float = 0


class _Written(msgspec.Struct, frozen=True):
    ConsumedCapacity: _Consumed | tuple[_Consumed, ...] | None = None


class _Got(msgspec.Struct, frozen=True):
    Item: Attributes | None = None


class _Page(msgspec.Struct, frozen=True):
    Items: tuple[Attributes, ...] = ()
    LastEvaluatedKey: Attributes | None = None


_written = msgspec.json.Decoder(_Written)
_got = msgspec.json.Decoder(_Got)
_page = msgspec.json.Decoder(_Page)


class DynamoIndex:
    """An index in the table ``table``, which `create_table` makes. Safe for threads and any number of processes.

    A commit of one put or delete is one request. A commit of one check is a consistent read. A commit of several writes
    is a transaction with a request token. A commit raises Invalid for an attribute called ``P`` or ``S``.

    The client's meter counts units by the published rules. For a write the meter counts DynamoDB's own figure if this
    figure is higher. DynamoDB bills an overwrite of a larger item by the old size, which the client does not have.
    """

    joint_commits = False
    blob_bytes_max = 0

    def __init__(self, client: DynamoClient, table: str) -> None:
        self._client = client
        self.table = table
        self._closed = False

    @property
    def meter(self) -> Meter:
        """The meter of the client."""
        return self._client.meter

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self._check_open()
        request = self._request(Key=_key(partition, sort), ConsistentRead=consistent)
        answer = self._call("GetItem", request, _got, CallEffect.READ).value
        item = _item(answer.Item) if answer and answer.Item else None
        count_read(self.meter, "GetItem", [item] if item else [], consistent=consistent)
        return item

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        self._check_open()
        if limit == 0 or (before is not None and (after or "") >= before):
            return
        request = self._request(ConsistentRead=consistent, ScanIndexForward=not reverse)
        request |= _bounds(partition, after or None, before, reverse)
        left = limit
        while left is None or left > 0:
            if left is not None:
                request["Limit"] = left
            items, next_key = self._page(request)
            yield from items
            if next_key is None:
                return
            request["ExclusiveStartKey"] = next_key
            left = None if left is None else left - len(items)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        self._check_open()
        check_commit(writes, blobs)
        if len(writes) > 1:
            self._commit_all(writes)
        elif isinstance(writes[0], Check):
            self._check_alone(writes[0])
        else:
            self._commit_single(writes[0])

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        self._check_open()
        return no_turn()

    def close(self) -> None:
        self._closed = True
        self._client.close()

    def _commit_single(self, write: Put | Delete) -> None:
        request = self._request(ReturnConsumedCapacity="TOTAL", **_written_as(write))
        self._settle([write], self._call(commit_operation([write]), request, _written, CallEffect.WRITE))

    def _commit_all(self, writes: Sequence[Write]) -> None:
        parts = [{_part(write): {"TableName": self.table, **_written_as(write)}} for write in writes]
        request = {
            "TransactItems": parts,
            "ClientRequestToken": new_id(self._client.clock, TOKEN_CHARACTERS),
            "ReturnConsumedCapacity": "TOTAL",
        }
        self._settle(writes, self._call(commit_operation(writes), request, _written, CallEffect.TOKEN))

    def _check_alone(self, check: Check) -> None:
        """Check a condition by a consistent read, without a write. A transaction would cost ten times as much."""
        item = self.get(check.partition, check.sort)
        if not holds(check.condition, item):
            raise ConditionFailed({0: item})

    def _settle(self, writes: Sequence[Write], answer: DynamoAnswer[_Written]) -> None:
        if answer.kind is Kind.DONE:
            # Pass no old items: the answer does not contain the items that were overwritten or removed.
            count_commit(self.meter, writes, {}, reported=_reported_units(answer.value))
            return
        failed = {
            position: _item(reason.Item) if reason.Item else None
            for position, reason in enumerate(answer.reasons)
            if reason.Code != "None"
        }
        count_commit(self.meter, writes, failed, wasted=True)
        raise ConditionFailed(failed)

    def _page(self, request: Request) -> tuple[list[Item], Attributes | None]:
        self._check_open()
        page = self._call("Query", request, _page, CallEffect.READ).value or _Page()
        items = [_item(attributes) for attributes in page.Items]
        count_read(self.meter, "Query", items, consistent=request["ConsistentRead"])
        return items, page.LastEvaluatedKey

    def _call(
        self, operation: str, request: Request, decoder: msgspec.json.Decoder[T], kind: CallEffect
    ) -> DynamoAnswer[T]:
        try:
            return self._client.call(operation, request, decoder, kind)
        except Unavailable as exc:
            if exc.details.get("code") == "ResourceNotFoundException":
                raise Unavailable("the table does not exist; `stratalog init` creates it", table=self.table) from exc
            raise

    def _request(self, **more: Any) -> Request:
        return {"TableName": self.table, **more}

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the index is closed")


def _reported_units(written: _Written | None) -> float:
    """Return the units that DynamoDB reports for a commit, in one figure or in one figure for each table."""
    consumed = written.ConsumedCapacity if written else None
    parts = consumed if isinstance(consumed, tuple) else (consumed,) if consumed else ()
    return sum(part.CapacityUnits for part in parts)


def _bounds(partition: str, after: str | None, before: str | None, reverse: bool) -> Request:
    """Return the part of a query request that contains its bounds.

    DynamoDB accepts one condition on the sort key. With two bounds, the condition is the bound where the query ends,
    and the exclusive start key is the bound where the query starts. `BETWEEN` would include the items at both bounds.
    DynamoDB would read and bill these two items, and the index would drop them.
    """
    values = {":p": DynamoValue(S=partition)}
    near, far = (before, after) if reverse else (after, before)
    request: Request = {"ExpressionAttributeValues": values, "KeyConditionExpression": "P = :p"}
    if near is not None and far is not None:
        request["ExclusiveStartKey"] = _key(partition, near)
    bound, sign = (far, "<>"[reverse]) if far is not None else (near, "><"[reverse])
    if bound is not None:
        values[":s"] = DynamoValue(S=bound)
        request["KeyConditionExpression"] += f" AND S {sign} :s"
    return request


def _part(write: Write) -> str:
    return {Put: "Put", Delete: "Delete", Check: "ConditionCheck"}[type(write)]


def _written_as(write: Write) -> Request:
    if isinstance(write, Put):
        request: Request = {"Item": _attributes(write.item)}
    else:
        request = {"Key": _key(write.partition, write.sort)}
    if write.condition is not None:
        request |= _expression(write.condition)
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return request


def _expression(condition: Condition) -> Request:
    if isinstance(condition, Absent):
        return {"ConditionExpression": "attribute_not_exists(P)"}
    sign = "=" if isinstance(condition, Equals) else "<"
    return {
        "ConditionExpression": f"#n {sign} :v",
        "ExpressionAttributeNames": {"#n": condition.name},
        "ExpressionAttributeValues": {":v": _value(condition.value)},
    }


def _key(partition: str, sort: str) -> Attributes:
    return {"P": DynamoValue(S=partition), "S": DynamoValue(S=sort)}


def _attributes(item: Item) -> Attributes:
    attributes = {name: _value(value) for name, value in item.attributes.items()}
    key = _key(item.partition, item.sort)
    if attributes.keys() & key.keys():
        raise Invalid("an attribute may not have the name of a key", names=sorted(key))
    return {**key, **attributes}


def _value(value: Attribute) -> DynamoValue:
    if type(value) is str:
        return DynamoValue(S=value)
    if type(value) is bytes:
        return DynamoValue(B=value)
    return DynamoValue(N=str(value))  # `check_commit` has refused any other type


def _item(attributes: Attributes) -> Item:
    values = {name: _plain(value) for name, value in attributes.items()}
    partition, sort = values.pop("P", None), values.pop("S", None)
    if not isinstance(partition, str) or not isinstance(sort, str):
        raise Corrupt("an item of the index has no key")
    return Item(partition, sort, values)


def _plain(value: DynamoValue) -> Attribute:
    if value.S is not None:
        return value.S
    if value.B is not None:
        return value.B
    if value.N is None or not INTEGER.fullmatch(value.N):
        raise Corrupt("a stored attribute is neither text, bytes nor an integer")
    return int(value.N)
