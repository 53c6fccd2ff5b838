"""Lost answers, late answers and late effects: no acknowledged write is lost, and no write is applied twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.errors import OutcomeUnknown, Unavailable, VersionForgotten
from stratalog.keys import number
from stratalog.ports.index import Item
from stratalog.records import NewBody
from tests.records.helpers import World

Commit = Callable[[], None]
LARGE = bytes(range(256)) * 400
FREED = "a put's position was freed before its outcome was known"


@pytest.fixture
def world(world: World) -> World:
    world.records.put("b1", b"1")
    return world


def lost_after(commit: Commit) -> None:
    commit()
    raise OutcomeUnknown("the answer was lost")


def lost_before(commit: Commit) -> None:
    raise OutcomeUnknown("the request was lost")


def bodies(world: World, id: str = "b1") -> list[bytes]:
    return [world.handle().get(id, version.version).body for version in world.handle().versions(id)]


@pytest.mark.parametrize("lost", [lost_before, lost_after])
def test_a_put_whose_answer_is_lost_is_made_once(world: World, lost: Callable[[Commit], None]) -> None:
    world.index.script = [lost, lost]
    put = world.records.put("b1", b"2", principal="u-1")
    assert put == world.elsewhere().stat("b1")
    assert bodies(world) == [b"1", b"2"]


@pytest.mark.parametrize("lost", [lost_before, lost_after])
def test_the_first_put_whose_answer_is_lost_is_made_once(world: World, lost: Callable[[Commit], None]) -> None:
    world.index.script = [lost]
    assert world.records.put("b2", b"1").version == 1
    assert bodies(world, "b2") == [b"1"]


@pytest.mark.parametrize("lost", [lost_before, lost_after])
def test_an_update_whose_answer_is_lost_is_applied_once(world: World, lost: Callable[[Commit], None]) -> None:
    world.index.script = [lost, lost, lost]
    assert world.records.update("b1", lambda body: body + b"+").version == 2
    assert bodies(world) == [b"1", b"1+"]


def test_an_update_that_may_take_effect_late_never_raises_the_error_of_its_function(
    world: World,
) -> None:
    late: list[Commit] = []

    def delayed(commit: Commit) -> None:
        late.append(commit)
        raise OutcomeUnknown("the request is under way")

    calls = iter([b"2"])
    world.index.script = [delayed]
    with pytest.raises(OutcomeUnknown) as raised:
        world.records.update("b1", lambda body: next(calls))
    assert isinstance(raised.value.__cause__, StopIteration)
    late[0]()
    assert bodies(world) == [b"1", b"2"]


def test_an_update_whose_answer_is_lost_is_recognised_below_a_later_version(world: World) -> None:
    def lost_and_overtaken(commit: Commit) -> None:
        commit()
        world.handle().put("b1", b"other")
        raise OutcomeUnknown("the answer was lost")

    world.index.script = [lost_and_overtaken]
    assert world.records.update("b1", lambda body: body + b"+").version == 2
    assert bodies(world) == [b"1", b"1+", b"other"]


def test_a_put_of_a_stream_whose_answer_is_lost_is_made_once(world: World) -> None:
    world.index.script = [lambda commit: commit(), lost_after]
    body = LARGE * 100
    assert world.records.put("b1", iter([body])).version == 2
    assert world.records.get("b1").body == body


def test_an_update_that_takes_effect_late_is_applied_once(world: World) -> None:
    late: list[Commit] = []

    def on_its_way(commit: Commit) -> None:
        late.append(commit)
        raise OutcomeUnknown("no answer yet")

    def after_it(commit: Commit) -> None:
        late.pop()()
        commit()

    world.index.script = [on_its_way, after_it]
    assert world.records.update("b1", lambda body: body + b"+").version == 2
    assert bodies(world) == [b"1", b"1+"]


def test_a_put_raises_outcome_unknown_if_a_lost_request_may_have_taken_effect(world: World) -> None:
    def away(commit: Commit) -> None:
        raise Unavailable("the index is away")

    world.index.script = [lost_before, *[away] * 300]
    with pytest.raises(OutcomeUnknown):
        world.records.put("b1", b"2")


def test_a_put_to_an_unavailable_index_raises_unavailable_at_its_deadline(world: World) -> None:
    def away(commit: Commit) -> None:
        raise Unavailable("the index is away")

    world.index.script = [away] * 300
    with pytest.raises(Unavailable):
        world.records.put("b1", b"2")


def test_an_interrupted_update_is_applied_once_if_repeated_with_its_write_id(world: World) -> None:
    def crash(commit: Commit) -> None:
        commit()
        raise KeyboardInterrupt

    world.index.script = [crash]
    with pytest.raises(KeyboardInterrupt):
        world.records.update("b1", lambda body: body + b"+", write_id="job-1")
    assert world.handle().update("b1", lambda body: body + b"+", write_id="job-1").version == 2
    assert bodies(world) == [b"1", b"1+"]


def pruned_and_freed(world: World) -> None:
    """Let another writer put five versions, and then prune and free all versions except the newest."""
    other = world.handle()
    for n in range(5):
        other.put("b1", b"other %d" % n)
    other.prune("b1", retain=1)
    world.pass_seconds()
    other.free("b1")


def freed_before(world: World) -> Callable[[Commit], None]:
    def step(commit: Commit) -> None:
        pruned_and_freed(world)
        commit()

    return step


def test_a_put_at_a_freed_version_is_retried_and_its_orphaned_write_is_freed(world: World) -> None:
    world.index.script = [freed_before(world)]
    assert world.records.put("b1", b"late").version == 7
    assert bodies(world) == [b"other 4", b"late"]
    assert world.item(2) is not None
    assert world.records.free("b1") == 1
    assert world.item(2) is None
    assert bodies(world) == [b"other 4", b"late"]


def test_an_update_at_a_freed_version_is_applied_to_the_latest_version(world: World) -> None:
    world.index.script = [freed_before(world)]
    assert world.records.update("b1", lambda body: body + b"+").version == 7
    assert bodies(world) == [b"other 4", b"other 4+"]


def test_an_orphaned_write_of_a_crashed_writer_is_never_read_and_is_freed(world: World) -> None:
    def crash(commit: Commit) -> None:
        pruned_and_freed(world)
        commit()
        raise KeyboardInterrupt

    world.index.script = [crash]
    with pytest.raises(KeyboardInterrupt):
        world.records.put("b1", b"ghost")
    assert world.item(2) is not None
    assert bodies(world) == [b"other 4"]
    with pytest.raises(VersionForgotten):
        world.handle().get("b1", 2)
    world.handle().free("b1")
    assert world.item(2) is None


def test_a_put_sent_twice_at_a_version_freed_meanwhile_raises_outcome_unknown(world: World) -> None:
    """The first send may have taken effect, and another process may have freed the new version since.

    So a retry could apply the put twice.
    """
    world.index.script = [lost_before, freed_before(world)]
    with pytest.raises(OutcomeUnknown, match=FREED):
        world.records.put("b1", b"late")


def test_a_put_whose_version_is_freed_before_the_check_has_an_unknown_outcome(world: World) -> None:
    def lost_and_freed(commit: Commit) -> None:
        commit()
        pruned_and_freed(world)
        raise OutcomeUnknown("the answer was lost")

    # A single put would reach its deadline before it checks whether its write took effect. A put of a batch gets a new
    # deadline.
    world.index.joint_commits = True
    world.index.script = [lost_and_freed]
    (stored,) = world.records.put_many([NewBody(id="b1", body=b"mine")])
    assert isinstance(stored.error, OutcomeUnknown)
    assert FREED in str(stored.error)
    assert bodies(world) == [b"other 4"]


def test_a_failure_whose_answer_is_lost_is_counted_once(world: World) -> None:
    world.index.script = [lost_after, lost_after]
    assert world.records.fail("b1", "bad").failures == 1
    world.index.script = [lost_before]
    assert world.records.fail("b1", "bad").failures == 2


def test_a_put_whose_version_is_freed_during_the_check_raises_outcome_unknown(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer reads the item before another process frees the item, and reads the floor afterwards.

    The simulation of records found this case with seed 8257.
    """
    read = world.index.get

    def get(partition: str, sort: str, **options: bool) -> Item | None:
        item = read(partition, sort, **options)
        if sort == number(2):
            monkeypatch.setattr(world.index, "get", read)
            pruned_and_freed(world)
        return item

    world.index.script = [lost_after]
    monkeypatch.setattr(world.index, "get", get)
    with pytest.raises(OutcomeUnknown, match=FREED):
        world.records.put("b1", b"mine")


def test_a_put_whose_version_is_half_freed_before_the_check_has_an_unknown_outcome(world: World) -> None:
    """The other writer has freed all earlier versions, and frees this version next. The version's item still exists."""

    def crash(commit: Commit) -> None:
        raise KeyboardInterrupt

    def lost_and_given_up(commit: Commit) -> None:
        commit()
        other = world.handle()
        other.put("b1", b"other")
        other.prune("b1", retain=2)
        world.pass_seconds()
        other.free("b1")
        other.put("b1", b"another")
        other.prune("b1", retain=1)
        world.pass_seconds()
        world.index.script = [lambda begin: begin(), crash]
        with pytest.raises(KeyboardInterrupt):
            other.free("b1")
        assert world.item(2) is not None
        raise OutcomeUnknown("the answer was lost")

    world.index.joint_commits = True
    world.index.script = [lost_and_given_up]
    (stored,) = world.records.put_many([NewBody(id="b1", body=b"mine")])
    assert isinstance(stored.error, OutcomeUnknown)
    assert FREED in str(stored.error)
    assert bodies(world) == [b"another"]


def test_a_joint_put_sent_twice_at_a_version_freed_meanwhile_has_an_unknown_outcome(world: World) -> None:
    world.index.joint_commits = True
    world.index.script = [lost_before, freed_before(world)]
    (stored,) = world.records.put_many([NewBody(id="b1", body=b"late")])
    assert isinstance(stored.error, OutcomeUnknown)
    assert FREED in str(stored.error)
    assert bodies(world) == [b"other 4"]
