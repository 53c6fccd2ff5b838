"""A write id is bound to one request for a record. A retry finds its version, and any other request is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.errors import KeyReused, OutcomeUnknown
from stratalog.records import NewBody, Records, RecordVersion
from tests.records.helpers import World

Write = Callable[[Records], RecordVersion]
META = {"title": "é", "n": 1}


@pytest.fixture
def records(world: World) -> Records:
    return world.handle()


def put(records: Records) -> RecordVersion:
    return records.put("r", b"body", metadata=META, source_time_ms=5, write_id="W")


def newer(records: Records) -> RecordVersion:
    made = records.put_if_newer("r", b"body", 5, metadata=META, write_id="W")
    assert made is not None
    return made


def update(records: Records) -> RecordVersion:
    return records.update("r", lambda body: body + b"+", create=b"body", write_id="W")


def delete(records: Records) -> RecordVersion:
    return records.delete("r", write_id="W")


def undelete(records: Records) -> RecordVersion:
    return records.undelete("r", write_id="W")


def many(records: Records) -> RecordVersion:
    return only(records, NewBody(id="r", body=b"body", metadata=META, source_time_ms=5, write_id="W"))


def many_newer(records: Records) -> RecordVersion:
    body = NewBody(id="r", body=b"body", metadata=META, source_time_ms=5, newer_only=True, write_id="W")
    return only(records, body)


def only(records: Records, body: NewBody) -> RecordVersion:
    [stored] = records.put_many([body])
    if stored.error is not None:
        raise stored.error
    assert stored.version is not None
    return stored.version


WRITES: dict[str, Write] = {
    "put": put,
    "newer": newer,
    "update": update,
    "delete": delete,
    "undelete": undelete,
    "many": many,
    "many newer": many_newer,
}
SAME = ({"put", "many"}, {"newer", "many newer"}, {"update"}, {"delete"}, {"undelete"})
"""Sets of writes that make the same request."""

OTHERS: dict[str, Write] = {
    "body": lambda records: records.put("r", b"other", metadata=META, source_time_ms=5, write_id="W"),
    "metadata": lambda records: records.put("r", b"body", metadata={"n": 2}, source_time_ms=5, write_id="W"),
    "no metadata": lambda records: records.put("r", b"body", source_time_ms=5, write_id="W"),
    "source time": lambda records: records.put("r", b"body", metadata=META, source_time_ms=6, write_id="W"),
    "no source time": lambda records: records.put("r", b"body", metadata=META, write_id="W"),
    "body, expected": lambda records: records.put("r", b"other", metadata=META, expected=1, write_id="W"),
    "body of a stream": lambda records: records.put("r", iter([b"oth", b"er"]), write_id="W"),
    "body, newer": lambda records: records.put_if_newer("r", b"other", 9, write_id="W") or records.stat("r"),
    "body of many": lambda records: only(records, NewBody(id="r", body=b"other", write_id="W")),
}


def before(records: Records, write: str) -> None:
    """Put the versions that a write needs: a version to update or delete, or a deletion to undo."""
    records.put("r", b"first")
    if write == "undelete":
        records.delete("r")


@pytest.mark.parametrize("write", WRITES)
def test_a_retry_of_any_operation_is_recognised_by_another_handle(world: World, write: str) -> None:
    before(world.elsewhere(), write)
    first = WRITES[write](world.elsewhere())
    same = next(group for group in SAME if write in group)
    assert [WRITES[again](world.elsewhere()) for again in sorted(same)] == [first] * len(same)


@pytest.mark.parametrize("write", WRITES)
def test_the_write_id_of_an_operation_is_refused_for_another_operation(records: Records, write: str) -> None:
    before(records, write)
    stored = WRITES[write](records)
    same = next(group for group in SAME if write in group)
    for other in WRITES.keys() - same:
        with pytest.raises(KeyReused) as caught:
            WRITES[other](records)
        assert caught.value.details == {"record": "r", "version": stored.version, "write_id": "W"}
    assert records.stat("r") == stored


@pytest.mark.parametrize("other", OTHERS)
def test_a_put_is_bound_to_its_body_metadata_and_source_time(records: Records, other: str) -> None:
    stored = put(records)
    with pytest.raises(KeyReused):
        OTHERS[other](records)
    assert records.stat("r") == stored


def test_a_retried_put_with_another_body_type_is_recognised(world: World) -> None:
    stored = put(world.elsewhere())
    world.pass_seconds(60)
    forms: list[bytes | bytearray | memoryview | list[bytes]] = [
        bytearray(b"body"),
        memoryview(b"body"),
        [b"bo", b"dy"],
    ]
    for body in forms:
        again = world.elsewhere().put("r", body, metadata={"n": 1.0, "title": "é"}, source_time_ms=5, write_id="W")
        assert again == stored


def test_a_retry_with_a_body_that_the_caller_calls_equal_is_recognised(records: Records) -> None:
    stored = records.put("r", b"BODY", write_id="W")
    assert records.put("r", b"body", equal=lambda a, b: a.lower() == b.lower(), write_id="W") == stored
    with pytest.raises(KeyReused):
        records.put("r", b"other", equal=lambda a, b: a.lower() == b.lower(), write_id="W")


def test_a_retried_update_is_recognised_although_its_function_returns_another_body(world: World) -> None:
    world.elsewhere().put("n", b"1")
    first = world.elsewhere().update("n", lambda body: str(int(body) + 1).encode(), write_id="W")
    assert world.elsewhere().update("n", lambda body: str(int(body) + 1).encode(), write_id="W") == first
    assert world.elsewhere().get("n").body == b"2"


def test_a_second_body_of_a_batch_with_a_used_write_id_is_refused(records: Records) -> None:
    bodies = [NewBody(id="r", body=body, write_id="W") for body in (b"a", b"b", b"a")]
    first, second, third = records.put_many(bodies)
    assert (first.new, third.version) == (True, first.version)
    assert isinstance(second.error, KeyReused)
    assert records.get("r").body == b"a"


def test_the_bodies_of_a_regrouped_batch_are_recognised(world: World) -> None:
    bodies = [NewBody(id=f"r{position}", body=b"x", write_id=f"W{position}") for position in range(5)]
    stored = [result.version for result in world.elsewhere().put_many(bodies)]
    anew = [*bodies[3:], NewBody(id="new", body=b"y", write_id="N"), *bodies[:3]]
    again = {result.id: result.version for result in world.elsewhere().put_many(anew)}
    assert [again[body.id] for body in bodies] == stored


@pytest.mark.parametrize("is_lost", [False, True], ids=["refused", "lost"])
def test_a_put_raises_key_reused_if_a_rival_uses_its_write_id_first(world: World, is_lost: bool) -> None:
    """A lost request leaves the put in doubt. The version of the rival must not settle it."""
    other = world.elsewhere()

    def first(commit: Callable[[], None]) -> None:
        other.put("r", b"theirs", write_id="W")
        if is_lost:
            raise OutcomeUnknown("the request was lost")
        commit()

    world.index.script.append(first)
    with pytest.raises(KeyReused):
        world.records.put("r", b"ours", write_id="W")
    assert [other.get("r", version.version).body for version in other.versions("r")] == [b"theirs"]
