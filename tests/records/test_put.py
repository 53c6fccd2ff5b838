"""Puts: versions 1, 2, 3 …, expected versions, no new version without a change, deletions, and the source's time."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from stratalog.errors import Invalid, LimitExceeded, NotFound, Unavailable, VersionConflict
from stratalog.keys import ORGANISATIONS_PARTITION
from stratalog.limits import INTEGER_MAX
from stratalog.ports.index import NO_BLOBS, Put, Write
from stratalog.records import Declined, RecordVersion
from tests.records.helpers import World

LARGE = random.Random(5).randbytes(50_000)


def numbers(world: World, id: str = "b1") -> list[int]:
    return [version.version for version in world.records.versions(id)]


def test_b1_b3_the_first_version_is_1(world: World) -> None:
    assert world.records.put("new", b"x", expected=0).version == 1
    assert world.records.put("other", b"x").version == 1


def test_b2_b11_another_body_for_an_existing_version_raises_a_version_conflict(world: World) -> None:
    world.records.put("b1", b"one")
    with pytest.raises(VersionConflict) as refused:
        world.records.put("b1", b"other", expected=0)
    assert (refused.value.details["expected"], refused.value.details["actual"]) == (0, 1)
    assert world.records.get("b1").body == b"one"


def test_b4_each_put_increments_the_version(world: World) -> None:
    assert [world.records.put("b1", bytes([n])).version for n in range(4)] == [1, 2, 3, 4]


def test_b9_the_same_value_at_the_same_version_is_stored_once(world: World) -> None:
    assert [world.records.put("b1", b"same", expected=0).version for _ in range(3)] == [1, 1, 1]
    assert numbers(world) == [1]


def test_b10_a_repeated_put_of_an_old_version_returns_that_version(world: World) -> None:
    first = world.records.put("b1", b"one", expected=0)
    world.records.put("b1", b"two", expected=1)
    world.records.put("b1", b"three", expected=2)
    assert world.handle().put("b1", b"one", expected=0) == first
    assert world.handle().put("b1", b"two", expected=1).version == 2
    assert numbers(world) == [1, 2, 3]


def test_b13_an_older_expected_version_is_refused(world: World) -> None:
    for body in (b"one", b"two", b"three"):
        world.records.put("b1", body)
    with pytest.raises(VersionConflict):
        world.records.put("b1", b"new", expected=1)


def test_an_expected_version_above_the_latest_is_refused(world: World) -> None:
    world.records.put("b1", b"one")
    with pytest.raises(VersionConflict):
        world.records.put("b1", b"two", expected=2)
    with pytest.raises(VersionConflict):
        world.records.put("new", b"two", expected=1)


def test_two_updates_with_the_same_write_id_write_a_single_version(world: World) -> None:
    world.records.put("b1", b"one")
    ids = ("job-7", "job-7", "job-8")
    updated = [world.handle().update("b1", lambda body: body + b"!", write_id=write_id) for write_id in ids]
    assert [version.version for version in updated] == [2, 2, 3]


def test_no_change_makes_no_version(world: World) -> None:
    first = world.records.put("b1", b"one", metadata={"a": 1}, source_time_ms=5)
    assert world.records.put("b1", b"one") == first
    assert world.records.put("b1", b"one", metadata={"a": 1}, source_time_ms=5) == first


def test_other_metadata_or_another_source_time_is_a_change(world: World) -> None:
    world.records.put("b1", b"one", metadata={"a": 1}, source_time_ms=5)
    assert world.records.put("b1", b"one", metadata={"a": 2}, source_time_ms=5).version == 2
    assert world.records.put("b1", b"one", metadata={"a": 2}, source_time_ms=6).version == 3
    assert world.records.put("b1", b"one", metadata={}).version == 4


def test_a_put_uses_the_equality_function_of_its_caller(world: World) -> None:
    first = world.records.put("b1", b"VALUE")
    assert world.records.put("b1", b"value", equal=lambda old, new: old.lower() == new.lower()) == first
    assert world.records.put("b1", b"value", equal=lambda old, new: old == new).version == 2


def test_a_stream_with_an_equality_function_is_refused(world: World) -> None:
    with pytest.raises(Invalid):
        world.records.put("b1", iter([b"value"]), equal=lambda old, new: True)


def test_a_steady_writer_makes_one_write_and_no_read(world: World) -> None:
    world.records.put("b1", b"one")
    world.index.calls.clear()
    world.records.put("b1", b"two")
    assert dict(world.index.calls) == {"commit": 1, "write": 1}


def test_the_first_put_adds_the_record_to_the_directory_in_the_same_commit(world: World) -> None:
    world.records.put("b1", b"one")
    assert world.index.calls["commit"] == 1
    assert [(line.id, line.kind) for line in world.records.list()] == [("b1", "record")]


def test_records_are_listed_in_order_of_id_and_after_a_given_id(world: World) -> None:
    for n in range(40):
        world.records.put(f"b{n:02d}", b"x")
    assert [line.id for line in world.records.list(after="b36")] == ["b37", "b38", "b39"]
    assert [line.id for line in world.records.list()] == [f"b{n:02d}" for n in range(40)]


@pytest.mark.parametrize("seconds", [-3600, 0])
def test_the_times_of_versions_never_go_back(world: World, seconds: int) -> None:
    first = world.records.put("b1", b"one")
    world.pass_seconds(seconds)
    assert world.handle().put("b1", b"two").created_ms == first.created_ms


def test_b20_update_stores_the_result_of_its_function_on_the_latest_body(world: World) -> None:
    world.records.put("b1", b"1", metadata={"a": 1}, source_time_ms=5)
    changed = world.records.update("b1", lambda body: body + b"2")
    assert (changed.version, changed.metadata, changed.source_time_ms) == (2, {"a": 1}, 5)
    assert world.records.get("b1", changed.version).body == b"12"


def test_b21_update_of_an_unknown_record_is_not_found_and_writes_nothing(world: World) -> None:
    with pytest.raises(NotFound, match="create="):
        world.records.update("b1", lambda body: body)
    assert world.index.calls["commit"] == 0


@pytest.mark.parametrize("error", [Declined("no"), ZeroDivisionError()])
def test_b22_b23_update_raises_the_error_of_its_function_and_writes_nothing(world: World, error: Exception) -> None:
    def function(body: bytes) -> bytes:
        raise error

    world.records.put("b1", b"one")
    with pytest.raises(type(error)) as raised:
        world.records.update("b1", function)
    assert raised.value is error
    assert numbers(world) == [1]


@pytest.mark.parametrize("port", ["index", "blobs"])
def test_b24_an_update_that_cannot_write_is_unavailable_and_writes_nothing(world: World, port: str) -> None:
    def fail(*_: object) -> None:
        raise Unavailable("away")

    world.records.put("b1", b"one")
    world.index.blob_bytes_max = 0  # so the writer puts the body before the commit
    if port == "index":
        world.index.script = [fail] * 200
    else:
        world.blobs.before_put = fail
    with pytest.raises(Unavailable):
        world.records.update("b1", lambda body: body + LARGE)
    world.index.script = []
    assert world.elsewhere().get("b1").body == b"one"
    assert numbers(world) == [1]


def test_b24_an_update_that_cannot_read_is_unavailable_and_does_not_call_its_function(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Unavailable("away")

    called: list[bytes] = []
    world.records.put("b1", b"one")
    monkeypatch.setattr(world.index, "query", fail)
    with pytest.raises(Unavailable):
        world.records.update("b1", lambda body: called.append(body) or body, create=b"new")
    assert called == []
    assert world.elsewhere().stat("b1").version == 1


def test_b25_update_of_a_missing_record_with_create_stores_the_created_body(world: World) -> None:
    created = world.records.update("b1", lambda body: body + b"!", create=b"start")
    assert (created.version, world.records.get("b1").body) == (1, b"start")


def test_b26_update_of_an_existing_record_with_create_applies_the_function(world: World) -> None:
    world.records.put("b1", b"here")
    world.records.update("b1", lambda body: body + b"!", create=b"start")
    assert world.records.get("b1").body == b"here!"


def test_an_update_that_changes_nothing_makes_no_version(world: World) -> None:
    world.records.put("b1", b"one")
    assert world.records.update("b1", lambda body: body).version == 1


def test_b27_puts_and_updates_in_sequence_each_add_a_version(world: World) -> None:
    records = world.records
    seen: list[tuple[int, bytes]] = []
    steps = [
        lambda: records.put("b1", b"a", expected=0),
        lambda: records.put("b1", b"b"),
        lambda: records.put("b1", b"c", expected=2),
        lambda: records.update("b1", lambda body: body + b"d", create=b"no"),
        lambda: records.update("b1", lambda body: body + b"e"),
    ]
    for step in steps:
        version = step().version
        seen.append((version, records.get("b1").body))
    assert seen == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"cd"), (5, b"cde")]


def race(world: World, others: int) -> None:
    """Let other handles put ``others`` versions just before the next commit takes effect."""

    def first(commit: object) -> None:
        for n in range(others):
            world.handle().put("b1", b"other %d" % n)
        assert callable(commit)
        commit()

    world.index.script = [first]


@pytest.mark.parametrize("behind", [1, 2])
def test_b28_b29_the_loser_of_a_race_is_put_after_the_winner(world: World, behind: int) -> None:
    world.records.put("b1", b"start")
    race(world, behind)
    assert world.records.put("b1", b"mine").version == 2 + behind
    assert numbers(world) == list(range(1, 3 + behind))


@pytest.mark.parametrize("behind", [1, 2])
def test_b28_b29_a_put_with_an_expected_version_that_loses_a_race_raises_the_actual_version(
    world: World, behind: int
) -> None:
    world.records.put("b1", b"start")
    race(world, behind)
    with pytest.raises(VersionConflict) as refused:
        world.records.put("b1", b"mine", expected=1)
    assert refused.value.details["actual"] == 1 + behind


@pytest.mark.parametrize("create", [None, b"new"])
@pytest.mark.parametrize("behind", [1, 2])
def test_b30_to_b33_an_update_that_loses_a_race_is_applied_to_the_body_of_the_winner(
    world: World, behind: int, create: bytes | None
) -> None:
    world.records.put("b1", b"start")
    race(world, behind)
    world.records.update("b1", lambda body: body + b"+mine", create=create)
    assert world.records.get("b1").body == b"other %d+mine" % (behind - 1)


def test_two_concurrent_creations_of_a_record_become_two_versions(world: World) -> None:
    race(world, 1)
    assert world.records.put("b1", b"mine").version == 2


def newer(world: World, body: bytes, time: int) -> int | None:
    stored = world.records.put_if_newer("b1", body, time)
    return stored.version if isinstance(stored, RecordVersion) else None


def test_an_older_or_equal_source_time_is_discarded(world: World) -> None:
    assert newer(world, b"ten", 10) == 1
    assert newer(world, b"nine", 9) is None
    assert newer(world, b"other ten", 10) is None
    assert newer(world, b"eleven", 11) == 2
    assert world.records.get("b1").body == b"eleven"


def test_an_unchanged_body_with_a_newer_source_time_excludes_older_bodies(world: World) -> None:
    newer(world, b"a", 10)
    newer(world, b"a", 20)
    assert newer(world, b"late", 15) is None


def test_a_discard_is_never_decided_from_a_cached_source_time(world: World) -> None:
    newer(world, b"a", 10)
    world.handle().put("b1", b"reset")
    assert newer(world, b"older, but the source's time was reset", 5) == 3


def test_a_deletion_is_a_version(world: World) -> None:
    world.records.put("b1", b"one", source_time_ms=7)
    gone = world.records.delete("b1")
    assert (gone.version, gone.deleted, gone.size, gone.source_time_ms) == (2, True, 0, 7)
    assert world.records.stat("b1") == gone
    with pytest.raises(NotFound) as missing:
        world.records.get("b1")
    assert missing.value.details["version"] == 2
    assert world.records.get("b1", 1).body == b"one"


def test_a_deleted_record_is_deleted_once(world: World) -> None:
    world.records.put("b1", b"one")
    assert world.records.delete("b1") == world.records.delete("b1")
    with pytest.raises(NotFound):
        world.records.delete("b2")


def test_a_deletion_can_require_an_expected_version(world: World) -> None:
    world.records.put("b1", b"one")
    world.records.put("b1", b"two")
    with pytest.raises(VersionConflict):
        world.records.delete("b1", expected=1)
    assert world.records.delete("b1", expected=2).version == 3
    assert world.records.delete("b1", expected=2).version == 3


@pytest.mark.parametrize("body", [b"small", b"large" + bytes(range(256)) * 400])
def test_undelete_restores_the_body_and_metadata_before_the_deletion(world: World, body: bytes) -> None:
    world.records.put("b1", body, metadata={"a": 1})
    world.records.delete("b1")
    back = world.records.undelete("b1")
    assert (back.version, back.deleted, back.metadata) == (3, False, {"a": 1})
    assert world.records.get("b1").body == body
    assert world.records.undelete("b1") == back


def test_a_deleted_record_can_be_put_again(world: World) -> None:
    world.records.put("b1", b"one")
    world.records.delete("b1")
    assert world.records.put("b1", b"one").version == 3
    world.records.delete("b1")
    assert world.records.update("b1", lambda body: body, create=b"new").version == 5


def test_metadata_is_bounded_and_checked(world: World) -> None:
    with pytest.raises(LimitExceeded):
        world.records.put("b1", b"x", metadata={"a": "x" * 2000})
    with pytest.raises(Invalid):
        world.records.put("b1", b"x", metadata={"a": object()})
    with pytest.raises(Invalid):
        world.records.put("b1", b"x", source_time_ms=True)
    assert world.index.calls["commit"] == 0


def test_b44_b45_an_id_of_more_than_1000_bytes_is_refused(world: World) -> None:
    for id in ("x" * 1001, "漢" * 334):
        with pytest.raises(LimitExceeded) as caught:
            world.records.put(id, b"x")
        assert caught.value.details["limit"] == 1000


@pytest.mark.parametrize("id", ["a//b", ".", "..", "a/../b", "a/", "ä", "a b", "~", "計画", "\n", "/" * 1000])
def test_b61_any_id_is_its_own_record(world: World, id: str) -> None:
    for other in ("a/b", "a", "b"):
        world.records.put(other, b"other")
    world.records.put(id, b"mine" + bytes(range(256)) * 400)
    assert world.records.get(id).body.startswith(b"mine")
    assert world.records.get("a").body == b"other"
    assert all(".." not in key.split("/") and "//" not in key for key in world.blob_keys())


def test_only_the_first_record_of_an_organisation_enters_the_organisation_in_the_directory(world: World) -> None:
    written: list[str] = []
    original = world.backend.commit

    def commit(writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        written.extend(write.item.partition for write in writes if isinstance(write, Put))
        original(writes, blobs)

    vars(world.backend)["commit"] = commit
    for number in range(5):
        world.records.put(f"b{number}", b"x")
        world.handle().put(f"c{number}", b"x")
    assert written.count(ORGANISATIONS_PARTITION) == 1


@pytest.mark.parametrize("time", [INTEGER_MAX + 1, -INTEGER_MAX - 1, True, 1.5, "1"])
def test_a_source_s_time_is_an_integer_that_every_client_can_hold(world: World, time: int) -> None:
    with pytest.raises(Invalid):
        world.records.put("b1", b"one", source_time_ms=time)
    assert world.records.put("b1", b"one", source_time_ms=-INTEGER_MAX).source_time_ms == -INTEGER_MAX
