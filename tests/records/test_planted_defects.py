"""Plant each of the fourteen defects of `test_defects`. The test for the planted defect must then fail.

Each `Planted` names the error with which the test must fail. If the planted defect breaks the program in another
way, the test raises another error, and the check here fails.
"""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from stratalog.backends import objectstore
from stratalog.backends.memory import MemoryIndex
from stratalog.clock import Observation, new_id
from stratalog.errors import ConditionFailed, ContentionError, Unavailable
from stratalog.limits import BODY_PART_BYTES
from stratalog.log import bodies
from stratalog.ports.index import NO_BLOBS, Index, Item, Put, Write
from stratalog.records import Records, content, decisions, history, put, store
from stratalog.records.content import RecordBody
from stratalog.records.put import Planned, RecordAppend, RecordHead
from stratalog.records.versions import RecordVersion, latest_item, version_from_item
from tests.records import test_defects
from tests.records.helpers import World

Plant = Callable[[World, pytest.MonkeyPatch], None]
NOT_RAISED = pytest.fail.Exception


class Planted(msgspec.Struct, frozen=True):
    """The test that must notice a defect, the function that plants the defect, and the error of the test."""

    test: str
    plant: Plant
    fails_with: type[BaseException] = AssertionError
    arguments: Mapping[str, Any] = {}


def race_is_any_error(world: World, patch: pytest.MonkeyPatch) -> None:
    """A lost race is reported as another error if the body is in blobs."""
    learn = RecordAppend._learn

    def rewrapped(self: RecordAppend, plan: Planned, head: RecordHead, conflict: ConditionFailed) -> bool:
        if "x" in plan.draft.attributes:
            raise ContentionError("the pointer could not be written")
        return learn(self, plan, head, conflict)

    patch.setattr(RecordAppend, "_learn", rewrapped)


def latest_is_stale(world: World, patch: pytest.MonkeyPatch) -> None:
    """The latest version is read with eventual consistency, from any replica."""

    def stale(index: Index, partition: str) -> Item | None:
        items = [item for item in index.query(partition, reverse=True, consistent=False) if item.sort.isdigit()]
        return items[0] if items else None

    replace_latest(patch, stale)


def expected_is_not_looked_at(world: World, patch: pytest.MonkeyPatch) -> None:
    """The put ignores the expected version. The put requires only that the version to write does not exist."""
    patch.setattr(store, "next_put", lambda call, wanted, expected: decisions.next_put(call, wanted, None))


def dangling_is_nothing(world: World, patch: pytest.MonkeyPatch) -> None:
    """If the body of the latest version is missing, the record counts as not found."""

    def latest(index: Index, partition: str) -> Item | None:
        item = latest_item(index, partition)
        return None if item is not None and "x" in item.attributes and not world.blob_keys() else item

    replace_latest(patch, latest)


def write_without_the_check(world: World, patch: pytest.MonkeyPatch) -> None:
    """If the latest version cannot be read, the put continues as if the record had no version."""
    reread = RecordAppend._reread

    def reread_or_not(self: RecordAppend) -> RecordHead:
        try:
            return reread(self)
        except Unavailable:
            self._fresh = True
            return RecordHead(None, Observation(self._environment.clock))

    patch.setattr(RecordAppend, "_reread", reread_or_not)


def latest_opens_its_body(world: World, patch: pytest.MonkeyPatch) -> None:
    """A read of the latest version's number also downloads the version's body."""

    def latest(index: Index, partition: str) -> Item | None:
        item = latest_item(index, partition)
        if item is not None and "x" in item.attributes:
            world.blobs.get(world.blob_keys()[0])
        return item

    replace_latest(patch, latest)


def parts_counted_in_short_floats(world: World, patch: pytest.MonkeyPatch) -> None:
    """The number of parts is computed with 32-bit floats."""
    parts = bodies._parts

    def fewer(body_parts: Iterable[bytes]) -> Iterator[bytes]:
        all_parts = list(parts(body_parts))
        (size,) = struct.unpack("f", struct.pack("f", sum(map(len, all_parts))))
        return iter(all_parts[: math.ceil(size / BODY_PART_BYTES)])

    patch.setattr(bodies, "_parts", fewer)


def failed_upload_stays(world: World, patch: pytest.MonkeyPatch) -> None:
    """A failed upload does not delete its pin, so the collector spares its blobs."""
    patch.setattr(RecordBody, "release", lambda self: None)


def slow_down_is_final(world: World, patch: pytest.MonkeyPatch) -> None:
    """The error 503 SlowDown is not retried."""
    raise_ours = objectstore._raise_ours

    def unmarked(operation: str, exc: Exception, writes: bool) -> None:
        if "SlowDown" in str(exc):
            raise Unavailable(f"the object store refused {operation}", reason="503 SlowDown") from exc
        raise_ours(operation, exc, writes)

    patch.setattr(objectstore, "_raise_ours", unmarked)


def key_is_fresh(world: World, patch: pytest.MonkeyPatch) -> None:
    """Every upload uses a new key."""
    prefix = content.body_prefix
    patch.setattr(content, "body_prefix", lambda name: f"{prefix(name)}/{new_id(world.clock)}")


def put_reads_back(world: World, patch: pytest.MonkeyPatch) -> None:
    """After a put, the writer reads the index to learn where the body is stored."""
    run = Records._run

    def run_and_read(self: Records, call: Any, *rest: Any, **options: Any) -> RecordVersion:
        return self.stat(call.name.id, run(self, call, *rest, **options).version)

    patch.setattr(Records, "_run", run_and_read)


def own_write_is_not_looked_for(world: World, patch: pytest.MonkeyPatch) -> None:
    """After a lost answer, the writer does not check whether its write took effect."""
    patch.setattr(RecordAppend, "_landed", lambda self, version: self._doubts.discard(version))


def own_write_is_anothers(world: World, patch: pytest.MonkeyPatch) -> None:
    """A writer does not recognise its own write."""
    own_write_is_not_looked_for(world, patch)
    patch.setattr(decisions.RecordCall, "wrote", lambda self, item: False)


def deletion_is_a_mark(world: World, patch: pytest.MonkeyPatch) -> None:
    """A deletion marks the latest version instead of adding a version."""

    def mark(self: Records, id: str) -> RecordVersion:
        item = latest_item(world.backend, world.partition(id))
        assert item is not None
        marked = Item(item.partition, item.sort, {**item.attributes, "k": "t"})
        world.backend.commit([Put(marked)])
        return version_from_item(self._name(id), marked)

    patch.setattr(Records, "delete", mark)


def no_condition(world: World, patch: pytest.MonkeyPatch) -> None:
    """The memory index ignores conditions."""
    patch.setattr(MemoryIndex, "_holds", lambda self, write, item: True)


def conditions_first_writes_later(world: World, patch: pytest.MonkeyPatch) -> None:
    """The memory index checks the conditions and writes later. Other threads may write in between."""

    def commit(self: MemoryIndex, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        failed = {
            position: item for position, write in enumerate(writes) if not self._holds(write, item := self._at(write))
        }
        if failed:
            raise ConditionFailed(failed)
        for write in writes:
            self._do(write)

    patch.setattr(MemoryIndex, "commit", commit)


def replace_latest(patch: pytest.MonkeyPatch, latest: Callable[[Index, str], Item | None]) -> None:
    """Replace the function with which records read the latest version."""
    for module in (put, history):
        patch.setattr(module, "latest_item", latest)


PLANTED = (
    Planted("d1_an_update_with_a_body_in_blobs_is_retried_after_a_lost_race", race_is_any_error, ContentionError),
    Planted("d2_the_latest_version_is_read_consistently", latest_is_stale),
    Planted("d3_a_put_whose_expected_version_is_not_the_latest_is_refused", expected_is_not_looked_at, NOT_RAISED),
    Planted(
        "d4_an_update_of_a_record_with_a_lost_body_raises_corrupt_and_creates_nothing",
        dangling_is_nothing,
        ContentionError,
    ),
    Planted("d5_a_put_that_cannot_read_the_latest_version_writes_nothing", write_without_the_check, ContentionError),
    Planted("d6_reading_the_latest_version_number_downloads_no_body", latest_opens_its_body),
    Planted(
        "d7_a_body_whose_size_is_near_a_part_boundary_reads_back_complete",
        parts_counted_in_short_floats,
        arguments={"size": 3 * BODY_PART_BYTES + 1},
    ),
    Planted("d8_the_collector_deletes_the_blobs_of_a_failed_upload", failed_upload_stays),
    Planted("d9_a_throttled_request_to_a_bucket_is_retried", slow_down_is_final, Unavailable),
    Planted("d10_repeated_puts_of_the_same_bytes_store_a_single_blob", key_is_fresh),
    Planted("d11_a_put_returns_the_reference_of_its_body_without_a_read", put_reads_back),
    Planted(
        "d12_a_lost_answer_does_not_apply_an_update_twice", own_write_is_not_looked_for, arguments={"followed": True}
    ),
    Planted("d12_a_lost_answer_does_not_apply_an_update_twice", own_write_is_anothers, arguments={"followed": False}),
    Planted("d13_a_deletion_is_a_version_that_readers_see", deletion_is_a_mark),
    Planted("d14_two_concurrent_updates_conflict_once_and_are_both_applied", no_condition),
    Planted(
        "d14_nothing_comes_between_the_conditions_and_the_writes_of_a_commit_in_memory", conditions_first_writes_later
    ),
)


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.plant.__name__)
def test_a_planted_defect_makes_its_test_fail(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    test = getattr(test_defects, f"test_{planted.test}")
    given = {"world": world, "monkeypatch": monkeypatch, **planted.arguments}
    planted.plant(world, monkeypatch)
    with pytest.raises(planted.fails_with):
        test(**{name: given[name] for name in inspect.signature(test).parameters})


def test_every_defect_is_planted() -> None:
    assert {planted.test.partition("_")[0] for planted in PLANTED} == {f"d{n}" for n in range(1, 15)}
