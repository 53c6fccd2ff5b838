"""A record becomes a dead letter after a number of failures.

The dead letter keeps the reason and the input of the last failure until a caller resolves it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from stratalog.clock import Observation
from stratalog.errors import (
    ContentionError,
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from stratalog.keys import failures_partition, number, record_key
from stratalog.limits import BODY_PART_BYTES, GRACE_SECONDS, RECORD_UPLOAD_SECONDS_MAX, UNKNOWN_OWNER_SECONDS_MAX
from stratalog.log.callbacks import never
from stratalog.log.environment import Environment, LogSettings
from stratalog.maintenance.collection import collect
from stratalog.ports.index import Delete, Write
from stratalog.records import failures
from stratalog.records.content import RecordBody
from stratalog.records.failures import DEAD_RECORD
from tests.records.helpers import World

LARGE = random.Random(5).randbytes(50_000)
CHANGES = 500
"""A caller that waits before each try reaches its deadline before another process makes this many changes."""


@pytest.fixture
def world(world: World) -> World:
    world.records = world.handle(failures_max=3)
    return world


def dead(world: World) -> list[str]:
    return [letter.id for letter in world.records.dead_letters()]


def test_a_record_becomes_a_dead_letter_at_the_failure_limit(world: World) -> None:
    assert [world.records.fail("b1", "bad").dead for _ in range(4)] == [False, False, True, True]
    assert dead(world) == ["b1"]


def test_a_dead_letter_has_the_count_reason_times_pointer_and_body_of_its_failures(world: World) -> None:
    start = world.clock.now_ms
    for n in range(3):
        world.records.fail("b1", f"bad {n}", pointer=f"https://source/b1?try={n}", body=b"body %d" % n)
        world.pass_seconds(60)
    (letter,) = world.records.dead_letters()
    assert (letter.failures, letter.reason, letter.pointer) == (3, "bad 2", "https://source/b1?try=2")
    assert (letter.first_ms, letter.last_ms) == (start, start + 120_000)
    assert b"".join(world.records.open_dead_letter("b1")) == b"body 2"


def test_the_body_of_a_dead_letter_is_spared_by_the_collector(world: World) -> None:
    world.records.put("b1", b"good")
    for body in (LARGE[1:], LARGE):
        world.records.fail("b1", "bad", body=body)
    world.pass_seconds()
    world.records.free("b1")
    assert b"".join(world.records.open_dead_letter("b1")) == LARGE
    assert len(world.blob_keys()) == 1


@pytest.mark.parametrize("id", ["b1", "a b~%", "漢" * 333])
@pytest.mark.parametrize("has_version", [False, True])
def test_the_body_of_a_dead_letter_without_its_failures_is_spared_by_the_collector(
    world: World, id: str, has_version: bool
) -> None:
    if has_version:
        world.records.put(id, b"good")
    for _ in range(3):
        world.records.fail(id, "bad", body=LARGE)
        world.records.fail(id[:-1] + "字", "bad", body=LARGE)
    world.index.commit([Delete(failures_partition(world.organisation), record_key(id))])
    for _ in range(2):
        world.pass_seconds(UNKNOWN_OWNER_SECONDS_MAX + GRACE_SECONDS)
        collect(world.environment, world.organisation, stop=never)
        world.records.free(id)
    assert len(world.blob_keys()) == 2


def test_a_failure_that_is_repeated_with_its_write_id_is_counted_once(world: World) -> None:
    first = world.records.fail("b1", "bad", body=LARGE, write_id="again")
    world.pass_seconds(60)
    assert world.records.fail("b1", "bad", body=LARGE, write_id="again") == first
    assert b"".join(world.records.open_dead_letter("b1")) == LARGE
    assert world.records.fail("b1", "bad", write_id="another").failures == 2


def test_a_record_that_becomes_a_dead_letter_is_counted_and_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        world.records.fail("b1", "bad")
    assert world.environment.counters[DEAD_RECORD] == 1
    assert caplog.messages == [f"{DEAD_RECORD}: record=b1 failures=3"]


def test_a_failure_whose_body_cannot_be_put_again_raises_outcome_unknown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refresh(content: RecordBody) -> None:
        raise Unavailable("out of reach")

    monkeypatch.setattr(RecordBody, "refresh", refresh)
    with pytest.raises(OutcomeUnknown, match="counted"):
        world.records.fail("b1", "bad", body=LARGE)
    assert world.records.fail("b1", "bad").failures == 2


@pytest.mark.parametrize("lost", ["body", "commit"])
def test_a_dead_letter_whose_failure_had_an_unknown_outcome_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    def fail(*_: object) -> None:
        raise OutcomeUnknown("lost") if lost == "commit" else Unavailable("out of reach")

    def commit_and_fail(environment: Environment, writes: Sequence[Write], *_: object) -> None:
        environment.index.commit(writes)
        fail()

    for _ in range(2):
        world.records.fail("b1", "bad", body=LARGE)
    with monkeypatch.context() as patched:
        if lost == "commit":
            patched.setattr(failures, "commit_once", commit_and_fail)
        else:
            patched.setattr(RecordBody, "refresh", fail)
        with pytest.raises(OutcomeUnknown):
            world.records.fail("b1", "bad", body=LARGE, write_id="again")
    assert world.environment.counters[DEAD_RECORD] == (lost == "body")
    world.records.fail("b1", "bad", body=LARGE, write_id="again")
    assert world.environment.counters[DEAD_RECORD] >= 1


def test_a_failure_whose_upload_outlives_its_pin_is_not_counted(world: World) -> None:
    def slow() -> Iterator[bytes]:
        yield bytes(2 * BODY_PART_BYTES + 1)
        world.pass_seconds(RECORD_UPLOAD_SECONDS_MAX + 1)
        world.handle().free("b1")
        yield b"end"

    world.records.put("b1", b"good")
    commits = world.index.calls["commit"]
    with pytest.raises(LimitExceeded, match="aborted"):
        world.records.fail("b1", "bad", body=slow())
    assert world.records.failure("b1") is None
    assert world.index.calls["commit"] - commits < 10


def test_a_failure_does_not_change_the_record(world: World) -> None:
    world.records.fail("b1", "bad")
    with pytest.raises(NotFound):
        world.records.get("b1")
    stored = world.records.put("b1", b"good")
    assert stored.version == 1
    world.records.fail("b1", "worse")
    assert world.records.stat("b1") == stored


def test_the_failure_count_restarts_after_a_resolution(world: World) -> None:
    for _ in range(3):
        world.records.fail("b1", "bad")
    world.records.resolve_dead_letter("b1")
    assert dead(world) == []
    assert world.records.fail("b1", "bad").failures == 1
    world.records.resolve_dead_letter("b1")
    with pytest.raises(NotFound):
        world.records.resolve_dead_letter("b1")


def test_two_concurrent_failures_are_both_counted(world: World) -> None:
    def first(commit: object) -> None:
        world.handle(failures_max=3).fail("b1", "theirs")
        assert callable(commit)
        commit()

    world.index.script = [first]
    assert world.records.fail("b1", "mine").failures == 2


def test_a_dead_letter_remains_dead_in_a_process_with_a_higher_failure_limit(world: World) -> None:
    for _ in range(3):
        world.records.fail("b1", "bad")
    assert world.handle(failures_max=5).fail("b1", "worse").dead
    assert [letter.reason for letter in world.records.dead_letters()] == ["worse"]
    world.records.resolve_dead_letter("b1")
    assert dead(world) == []


@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 1), (1, 3)])
def test_a_failure_counted_after_a_resolution_whose_answer_is_lost_is_not_forgotten(
    world: World, before: int, after: int
) -> None:
    for _ in range(before):
        world.records.fail("b1", "old")

    def resolve_and_fail_again(commit: Callable[[], None]) -> None:
        commit()
        world.pass_seconds(1)
        for _ in range(after):
            world.records.fail("b1", "new")
        raise OutcomeUnknown("the answer was lost")

    world.index.script = [resolve_and_fail_again]
    world.records.resolve_dead_letter("b1")
    letter = world.records.failure("b1")
    assert letter is not None
    assert (letter.failures, letter.reason) == (after, "new")
    assert dead(world) == (["b1"] if after == 3 else [])


def test_a_resolution_whose_request_is_lost_forgets_the_failures_counted_meanwhile(world: World) -> None:
    for _ in range(3):
        world.records.fail("b1", "old")

    def fail_again(commit: Callable[[], None]) -> None:
        world.pass_seconds(1)
        world.records.fail("b1", "new")
        raise OutcomeUnknown("the request was lost")

    world.index.script = [fail_again]
    world.records.resolve_dead_letter("b1")
    assert world.records.failure("b1") is None
    assert dead(world) == []


def test_a_resolution_that_loses_every_race_raises_contention_error_at_its_deadline() -> None:
    world = World(LogSettings(append_seconds_max=5.0))
    world.records.fail("b1", "old")

    changes = [0] * CHANGES

    def fail_first(commit: Callable[[], None]) -> None:
        changes.pop()
        world.handle().fail("b1", "new")
        world.index.script = [fail_first] if changes else []
        commit()

    world.index.script = [fail_first]
    begun = Observation(world.clock)
    with pytest.raises(ContentionError):
        world.records.resolve_dead_letter("b1")
    assert changes
    assert 5 <= begun.age_seconds() < 7
    world.index.script = []
    world.records.resolve_dead_letter("b1")
    assert world.records.failure("b1") is None


def test_dead_letters_are_listed_in_order_and_after_a_given_id(world: World) -> None:
    for id in ("c", "a", "b"):
        for _ in range(3):
            world.records.fail(id, "bad")
    assert dead(world) == ["a", "b", "c"]
    assert [letter.id for letter in world.records.dead_letters(after="a")] == ["b", "c"]


def test_opening_a_dead_letter_without_a_body_raises_not_found(world: World) -> None:
    world.records.fail("b1", "bad")
    with pytest.raises(NotFound):
        world.records.open_dead_letter("b1")


def test_a_failure_needs_a_reason_within_bounds(world: World) -> None:
    with pytest.raises(Invalid):
        world.records.fail("b1", "")
    with pytest.raises(LimitExceeded):
        world.records.fail("b1", "x" * 2000)
    with pytest.raises(LimitExceeded):
        world.records.fail("b1", "bad", pointer="x" * 3000)
    with pytest.raises(Invalid):
        world.handle(failures_max=0)


@pytest.mark.parametrize("id", ["b1", "-1", number(0), number(1)])
def test_a_lost_body_of_a_dead_letter_is_corrupt_for_any_record_id(world: World, id: str) -> None:
    """A failure is not a version. So neither the floor nor a redaction explains that a failure's body is missing."""
    for position in range(3):
        world.records.put(id, b"%d" % position)
    world.records.prune(id, retain=1)
    for _ in range(3):
        world.records.fail(id, "bad", body=LARGE)
    world.lose_blobs()
    with pytest.raises(Corrupt):
        b"".join(world.records.open_dead_letter(id))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_body_whose_failure_was_resolved_or_replaced_while_it_is_read_is_not_found(
    world: World, replaced: bool
) -> None:
    world.records.fail("b1", "bad", body=LARGE)
    body = world.records.open_dead_letter("b1")
    if replaced:
        world.records.fail("b1", "bad", body=LARGE[1:])
    else:
        world.records.resolve_dead_letter("b1")
    world.pass_seconds()
    world.records.free("b1")
    with pytest.raises(NotFound, match="replaced" if replaced else "resolved"):
        b"".join(body)
