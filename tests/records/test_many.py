"""`put_many` has the effect of single puts at a lower cost. A failed joint commit neither loses nor repeats a put."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stratalog
from stratalog.errors import ConditionFailed, Corrupt, Invalid, LimitExceeded, NotFound, OutcomeUnknown, Unavailable
from stratalog.keys import number
from stratalog.limits import BODY_PART_BYTES
from stratalog.ports.index import Put, Write
from stratalog.records import NewBody
from tests.records.helpers import LONG_SECONDS, World

Commit = Callable[[], None]
LARGE = random.Random(5).randbytes(50_000)


def bodies(count: int, text: str = "body") -> list[NewBody]:
    return [NewBody(id=f"b{n:04d}", body=f"{text} {n}".encode()) for n in range(count)]


def state(world: World) -> dict[str, list[bytes]]:
    handle = world.handle()
    return {
        line.id: [handle.get(line.id, version.version).body for version in handle.versions(line.id)]
        for line in handle.list()
    }


def test_many_new_records_share_commits(world: World) -> None:
    stored = list(world.records.put_many(bodies(450)))
    assert [(result.id, result.new) for result in stored] == [(body.id, True) for body in bodies(450)]
    assert world.index.calls["commit"] < 15 or not world.index.joint_commits
    assert state(world) == {body.id: [body.body] for body in bodies(450)}


def test_a_batch_of_unchanged_bodies_makes_no_commit(world: World) -> None:
    list(world.records.put_many(bodies(100)))
    world.index.calls.clear()
    assert not any(result.new for result in world.handle().put_many(bodies(100)))
    assert world.index.calls["commit"] == 0


@pytest.mark.parametrize("newer_only", [False, True])
@pytest.mark.parametrize("changed_only", [False, True])
def test_would_put_predicts_the_result_of_put_many(world: World, newer_only: bool, changed_only: bool) -> None:
    chance = random.Random(f"{newer_only} {changed_only}")
    for _ in range(60):
        body = NewBody(
            id=f"b{chance.randrange(3)}",
            body=chance.choice((b"a", b"b", LARGE)),
            source_time_ms=chance.randrange(5),
            newer_only=newer_only,
            changed_only=changed_only,
        )
        if chance.random() < 0.2:
            with suppress(NotFound):
                world.records.delete(body.id)
        world.index.calls.clear()
        expected = world.handle().would_put(body)
        assert world.index.calls["commit"] == 0
        (stored,) = world.handle().put_many([body])
        assert stored.new == expected


@pytest.mark.parametrize("size", [50_000, BODY_PART_BYTES + 1])
@pytest.mark.parametrize("newer_only", [False, True])
def test_a_dry_run_of_a_large_body_writes_nothing(world: World, size: int, newer_only: bool) -> None:
    body = NewBody(id="b", body=random.Random(5).randbytes(size), source_time_ms=1, newer_only=newer_only)
    assert world.handle().would_put(body)
    assert (world.index.calls["commit"], world.blobs.calls["put"]) == (0, 0)


def test_would_put_refuses_an_invalid_body(world: World) -> None:
    with pytest.raises(Invalid, match="newer_only"):
        world.records.would_put(NewBody(id="b", body=b"", newer_only=True))
    with pytest.raises(LimitExceeded):
        world.records.would_put(NewBody(id="b" * 2000, body=b""))


def test_bodies_of_one_record_keep_their_order(world: World) -> None:
    stored = list(world.records.put_many(NewBody(id="b1", body=b"%d" % n) for n in range(5)))
    assert [result.version.version for result in stored if result.version] == [1, 2, 3, 4, 5]
    assert state(world) == {"b1": [b"0", b"1", b"2", b"3", b"4"]}


def test_put_many_stores_a_large_body_as_a_blob(world: World) -> None:
    (stored,) = world.records.put_many([NewBody(id="b1", body=LARGE)])
    assert stored.version is not None
    assert stored.version.ref is not None
    assert world.records.get("b1").body == LARGE


def test_an_invalid_body_does_not_stop_the_rest_of_its_batch(world: World) -> None:
    odd = [NewBody(id="x" * 1001, body=b""), NewBody(id="b2", body=b"", newer_only=True)]
    stored = list(world.records.put_many([*bodies(1), *odd, NewBody(id="b3", body=b"3")]))
    assert [type(result.error) for result in stored] == [type(None), LimitExceeded, Invalid, type(None)]
    assert sorted(state(world)) == ["b0000", "b3"]


def test_put_many_stores_newer_bodies_and_discards_stale_bodies(world: World) -> None:
    def put(body: bytes, time: int, changed_only: bool = False) -> bool:
        new_body = NewBody(id="b1", body=body, source_time_ms=time, newer_only=True, changed_only=changed_only)
        return next(world.handle().put_many([new_body])).new

    assert [put(b"a", 5), put(b"b", 5), put(b"b", 4), put(b"b", 6)] == [True, False, False, True]
    assert [put(b"b", 7, True), put(b"b", 8), put(b"c", 9, True)] == [False, True, True]


def refused(commit: Commit) -> None:
    raise ConditionFailed({0: None})


def unavailable(commit: Commit) -> None:
    raise Unavailable("away")


def lost_before(commit: Commit) -> None:
    raise OutcomeUnknown("the request was lost")


def lost_after(commit: Commit) -> None:
    commit()
    raise OutcomeUnknown("the answer was lost")


@pytest.mark.parametrize("fault", [refused, unavailable, lost_before, lost_after])
def test_each_body_is_stored_once_after_any_failure_of_the_joint_commit(
    world: World, fault: Callable[[Commit], None]
) -> None:
    world.index.script = [fault]
    assert all(result.new for result in world.records.put_many(bodies(20)))
    assert state(world) == {body.id: [body.body] for body in bodies(20)}


def test_a_body_of_a_batch_that_loses_a_race_is_put_after_the_winner(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = world.index.commit

    def overtaken(writes: Sequence[Write], *blobs: Any) -> None:
        if any(isinstance(write, Put) and write.item.partition == world.partition("b0003") for write in writes):
            monkeypatch.setattr(world.index, "commit", commit)
            world.handle().put("b0003", b"theirs")
        commit(writes, *blobs)

    monkeypatch.setattr(world.index, "commit", overtaken)
    assert all(result.new for result in world.records.put_many(bodies(5)))
    assert state(world)["b0003"] == [b"theirs", b"body 3"]


def test_a_batch_whose_answer_comes_too_late_is_stored_once(world: World) -> None:
    def slow(commit: Commit) -> None:
        commit()
        world.pass_seconds(LONG_SECONDS)

    world.index.script = [slow]
    assert all(result.new for result in world.records.put_many(bodies(5)))
    assert state(world) == {body.id: [body.body] for body in bodies(5)}


def test_puts_of_a_batch_are_committed_singly_where_joint_commits_cost_more(world: World) -> None:
    world.index.joint_commits = False
    assert all(result.new for result in world.records.put_many(bodies(60)))
    assert state(world) == {body.id: [body.body] for body in bodies(60)}
    assert world.index.calls["commit"] == 60


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([b"1", b"2", LARGE])), max_size=20),
    st.lists(st.sampled_from([refused, unavailable, lost_before, lost_after, None]), max_size=8),
    st.booleans(),
)
def test_a_batch_stores_the_same_versions_as_single_puts(
    puts: list[tuple[str, bytes]], faults: list[Callable[[Commit], None] | None], joint: bool
) -> None:
    world, plain = World(), World()
    world.index.joint_commits = joint
    for id, body in puts:
        plain.records.put(id, body)
    world.index.script = [fault or (lambda commit: commit()) for fault in faults]
    assert [result.error for result in world.records.put_many(NewBody(id=id, body=body) for id, body in puts)] == [
        None
    ] * len(puts)
    assert state(world) == state(plain)


def test_records_are_listed_by_id_prefix(world: World) -> None:
    ids = ["a", "a/", "a/1", "a/2", "a-1", "b/1", "é/1", "é/2", ".x", ".y", "~", "~1"]
    list(world.records.put_many(NewBody(id=id, body=b"") for id in ids))
    for prefix in ("a", "a/", "b", "é/", ".", "~", "c", "%"):
        assert {line.id for line in world.records.list(prefix=prefix)} == {id for id in ids if id.startswith(prefix)}
    assert [line.id for line in world.records.list("a/1", prefix="a/")] == ["a/2"]


def test_the_failures_of_a_record_can_be_read(world: World) -> None:
    assert world.records.failure("b1") is None
    counted = world.records.fail("b1", "bad", pointer="inbox/7")
    assert world.records.failure("b1") == counted
    assert not counted.dead


def test_a_damaged_version_of_one_record_does_not_stop_the_rest_of_its_batch(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store, stratalog.open(tmp_path) as other:
        records = store.records("acme")
        records.put("b0000", b"old")
        other.records("acme").put("b0000", b"new")  # the first handle knows version 1 only
        with closing(apsw.Connection(str(tmp_path / "index.sqlite"))) as file:
            file.execute("UPDATE items SET body = ? WHERE sort = ?", (b"\xc1", number(2)))
        stored = list(records.put_many(bodies(2)))
    assert [(result.new, type(result.error)) for result in stored] == [(False, Corrupt), (True, type(None))]
