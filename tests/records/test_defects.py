"""The fourteen defects that were read in the system these records follow; each has a test that would catch it here."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.clock import SystemClock
from stratalog.errors import Corrupt, NotFound, OutcomeUnknown, Unavailable, VersionConflict
from stratalog.limits import BODY_PART_BYTES
from stratalog.log.place import Place, Settings
from stratalog.ports.index import Absent, Put, Write
from stratalog.records import Records
from tests.records.helpers import World

Commit = Callable[[], None]
LARGE = random.Random(5).randbytes(50_000)


def lost_after(commit: Commit) -> None:
    commit()
    raise OutcomeUnknown("the answer was lost")


def test_d1_a_race_lost_at_the_index_is_tried_again_though_the_body_is_in_blobs(world: World) -> None:
    def overtaken(commit: Commit) -> None:
        world.handle().put("b1", b"theirs")
        commit()

    world.records.put("b1", b"first")
    world.index.script = [overtaken]
    assert world.records.update("b1", lambda body: body + LARGE).version == 3
    assert world.records.get("b1").body == b"theirs" + LARGE


def test_d2_the_latest_version_is_read_consistently(world: World) -> None:
    world.records.put("b1", b"1")
    asked: list[bool] = []
    query = world.backend.query

    def watch(partition: str, **options: object) -> object:
        asked.append(bool(options.get("consistent", True)))
        return query(partition, **options)  # type: ignore[arg-type]

    world.backend.query = watch  # type: ignore[method-assign,assignment]
    world.handle().get("b1")
    world.handle().update("b1", lambda body: body + b"2")
    assert asked
    assert all(asked)


def test_d3_no_version_is_put_below_or_beyond_the_next_one(world: World) -> None:
    for body in (b"1", b"2", b"3"):
        world.records.put("b1", body)
    for expected in (0, 1, 5, 9):
        with pytest.raises(VersionConflict):
            world.handle().put("b1", b"shadowed", expected=expected)
    assert [one.version for one in world.records.versions("b1")] == [1, 2, 3]


def test_d4_a_dangling_pointer_is_never_taken_for_no_record(world: World) -> None:
    world.records.put("b1", LARGE)
    world.lose_blobs()
    with pytest.raises(Corrupt):
        world.handle().update("b1", lambda body: body, create=b"new")
    assert world.handle().put("b1", b"new").version == 2


def test_d5_nothing_is_written_where_the_latest_version_could_not_be_read(world: World) -> None:
    world.records.put("b1", b"1")
    handle = world.handle()

    def away(*arguments: object, **options: object) -> Iterator[object]:
        raise Unavailable("away")

    world.index.query = away  # type: ignore[method-assign,assignment]
    world.index.calls.clear()
    with pytest.raises(Unavailable):
        handle.put("b1", b"2")
    assert world.index.calls["commit"] == 0


def test_d6_learning_the_latest_version_opens_no_body(world: World) -> None:
    world.records.put("b1", LARGE)
    world.blobs.calls.clear()
    world.handle().put("b1", LARGE + b"2")
    world.handle().stat("b1")
    list(world.handle().versions("b1"))
    assert world.blobs.calls["get"] == 0


@pytest.mark.parametrize("size", [n * BODY_PART_BYTES + over for n in (1, 2, 3) for over in (-1, 0, 1, 8)])
def test_d7_no_part_is_missing_at_any_edge_of_a_part(world: World, size: int) -> None:
    body = Random(size).randbytes(1000) * (size // 1000 + 1)
    pieces = (body[start : min(size, start + 999_983)] for start in range(0, size, 999_983))
    assert world.records.put("b1", pieces, size=size).size == size
    assert b"".join(world.records.open("b1")) == body[:size]


def test_d8_an_upload_that_failed_leaves_nothing_that_is_not_collected(world: World) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(BODY_PART_BYTES + 1)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        world.records.put("b1", broken())
    world.pass_seconds()
    world.records.free("b1")
    assert world.blob_keys() == []


def test_d9_a_service_that_asks_to_be_spared_is_asked_again(world: World) -> None:
    """That 503 and SlowDown are Unavailable is the backends' own: tests/cloud/test_objectstore_failures.py."""
    refusals = [Unavailable("slow down"), Unavailable("slow down")]

    def refuse() -> None:
        if refusals:
            raise refusals.pop()

    world.blobs.before_put = refuse
    assert world.records.put("b1", LARGE).version == 1
    assert world.blobs.calls["put"] == 3


def test_d10_a_lost_race_or_a_repeated_put_leaves_one_body_of_the_same_bytes(world: World) -> None:
    world.index.script = [lost_after]
    world.records.put("b1", LARGE)
    with pytest.raises(VersionConflict):
        world.handle().put("b1", LARGE + b"!", expected=0)
    world.records.put("b1", b"small")
    world.records.put("b1", LARGE)
    assert sum(1 for key in world.blob_keys() if world.blobs.get(key) == LARGE) == 1


def test_d11_a_put_answers_where_its_body_lies_and_reads_nothing_for_it(world: World) -> None:
    world.records.put("b1", b"1")
    world.index.calls.clear()
    stored = world.records.put("b1", LARGE)
    assert stored.ref is not None
    assert world.blobs.get(f"{world.organisation}/records/b1/bodies/{stored.ref.address.hex()}") == LARGE
    assert world.index.calls["read"] == 0


def test_d12_a_lost_answer_does_not_apply_an_update_twice(world: World) -> None:
    world.records.put("b1", b"1")
    world.index.script = [lost_after]
    assert world.records.update("b1", lambda body: body + b"+").version == 2
    assert world.records.get("b1").body == b"1+"


def test_d13_a_deletion_is_a_version_that_readers_see(world: World) -> None:
    world.records.put("b1", b"1")
    deleted = world.records.delete("b1")
    assert (deleted.version, world.records.stat("b1").deleted) == (2, True)
    with pytest.raises(NotFound) as gone:
        world.records.get("b1")
    assert gone.value.details["version"] == 2


class Lossy(MemoryIndex):
    """Memory whose answers are lost at random, before or after the effect."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = Random(seed)
        self.lost = 0

    def commit(self, writes: Sequence[Write]) -> None:
        fate = self.chance.random()
        if fate < 0.1:
            self.lost += 1
            raise OutcomeUnknown("the request was lost")
        super().commit(writes)
        if fate > 0.8:
            self.lost += 1
            raise OutcomeUnknown("the answer was lost")


@pytest.mark.parametrize("seed", range(3))
def test_64_updates_at_once_with_answers_lost_at_random_are_each_applied_once(seed: int) -> None:
    index, clock = Lossy(seed), SystemClock()
    place = Place(index, MemoryBlobs(clock), clock, Settings(append_seconds_max=120))
    Records(place, "acme").put("b1", b"")
    errors: list[Exception] = []

    def add(n: int) -> None:
        try:
            Records(place, "acme").update("b1", lambda body: body + bytes([n]))
        except Exception as exc:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(exc)

    threads = [threading.Thread(target=add, args=(n,)) for n in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Records(place, "acme").get("b1")
    assert errors == []
    assert index.lost > 0
    assert sorted(found.body) == list(range(64))
    assert found.version.version == 65


def test_d14_the_memory_backend_has_conditions_that_threads_race_on() -> None:
    clock = SystemClock()
    place = Place(MemoryIndex(), MemoryBlobs(clock), clock)
    seen: list[Write] = []
    commit = place.index.commit

    def watch(writes: Sequence[Write]) -> None:
        seen.extend(writes)
        commit(writes)

    place.index.commit = watch  # type: ignore[method-assign]
    Records(place, "acme").put("b1", b"1", expected=0)
    with pytest.raises(VersionConflict):
        Records(place, "acme").put("b1", b"2", expected=0)
    puts = [write for write in seen if isinstance(write, Put) and "!record/" in write.item.partition]
    assert [put.condition for put in puts] == [Absent()]
    assert Records(place, "acme").get("b1").version.version == 1
