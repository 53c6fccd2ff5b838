"""If a scrub has read a value, `forget_below` only checks that the value exists.

`forget_below` reads all other values of the base.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.codec import encode
from stratalog.documents import Document
from stratalog.documents.scrubbed_values import ScrubbedValues
from stratalog.documents.values import Values
from stratalog.errors import Corrupt
from stratalog.log import Environment
from stratalog.log import bodies as bodies_module
from stratalog.log.blob_batch import BlobBatch
from stratalog.maintenance import scrub as scrub_module
from stratalog.maintenance.scrub import scrub
from stratalog.ports import blob_stats
from stratalog.testing.clock import ManualClock
from tests.damage import CUT, FLIP, LOSE, damage_blob, damaged_blob
from tests.documents.helpers import World, inc, large, put

DAY_SECONDS = 86_400
FLOOR = 20
OWNER = "acme/doc@k1"
VALUE_COUNT = 5
KEYS = ("books/a", "books/b", "shelf/c")


def grown() -> tuple[World, Document]:
    """A document with large values that are two days old."""
    world = World(segment_entries_target=8)
    document = world.create()
    document.apply([put(f"k/{key:04}", "v" * 60) for key in range(400)])
    document.apply([put(f"books/{number}", large(str(number))) for number in range(VALUE_COUNT)])
    for _ in range(30):
        document.apply([inc()])
    world.clock.sleep(2 * DAY_SECONDS)
    return world, document


def values_read(world: World, act: Callable[[], object]) -> int:
    recorder = world.watched()
    act()
    return len({key for key in recorder.named("blob get") if "/items/" in key})


def test_forget_below_reads_chunks_but_not_values_that_a_scrub_has_read() -> None:
    world, document = grown()
    assert scrub(world.environment, 30).is_round_finished
    assert values_read(world, lambda: document.forget_below(FLOOR)) == 0
    assert any("/chunks/" in key for key in world.recorder.named("blob get"))
    world.clock.sleep(DAY_SECONDS)
    freed: list[int] = []
    assert values_read(world, lambda: freed.append(document.free_segments())) == 0
    assert freed[0] > 0


def test_forget_below_checks_that_each_part_of_a_scrubbed_value_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies_module, "BODY_PART_BYTES", 1000)
    world, document = grown()
    scrub(world.environment, 30)
    manifests = VALUE_COUNT
    assert values_read(world, lambda: document.forget_below(FLOOR)) == manifests
    (part, *_) = (key for key in world.blob_keys("/items/") if len(world.blobs.get(key)) == 1000)
    damage_blob(world.blobs.backend, part, LOSE)
    with pytest.raises(Corrupt, match="missing"):
        document.forget_below(FLOOR + 4)


def no_scrub(world: World, document: Document) -> None:
    """Do nothing, so that no scrub has read the values."""


def old_scrub(world: World, document: Document) -> None:
    scrub(world.environment, 30)
    world.clock.sleep(30 * DAY_SECONDS)


def scrub_of_the_future(world: World, document: Document) -> None:
    scrub(world.environment, 30)
    world.clock.set_wall(world.clock.wall_ms() - 1000)


def scrub_that_met_damage(world: World, document: Document) -> None:
    """The damaged blob does not belong to the base. A scrub that found any damage does not count."""
    document.apply([put("elsewhere/1", large("elsewhere"))])
    key = world.blob_keys("/items/elsewhere/")[0]
    world.clock.sleep(2 * DAY_SECONDS)
    with damaged_blob(world.blobs.backend, key, FLIP):
        scrub(world.environment, 30)


def unfinished_scrub(world: World, document: Document) -> None:
    scrub(world.environment, 30, stop=iter([False, True]).__next__)


def put_again(world: World) -> None:
    """Write every value again, so that no scrub has read the blobs that exist now."""
    for key in world.blob_keys("/items/"):
        world.blobs.put(key, world.blobs.get(key))


def scrub_before_the_values(world: World, document: Document) -> None:
    scrub(world.environment, 30)
    put_again(world)


def scrub_within_a_day(world: World, document: Document) -> None:
    """The clocks of storage and process may differ by a day. So a scrub within a day of the writes does not count."""
    put_again(world)
    world.clock.sleep(DAY_SECONDS / 2)
    scrub(world.environment, 30)


@pytest.mark.parametrize(
    "happen",
    [
        no_scrub,
        old_scrub,
        scrub_of_the_future,
        scrub_that_met_damage,
        unfinished_scrub,
        scrub_before_the_values,
        scrub_within_a_day,
    ],
)
def test_forget_below_reads_every_value_if_no_scrub_counts(happen: Callable[[World, Document], None]) -> None:
    world, document = grown()
    happen(world, document)
    assert values_read(world, lambda: document.forget_below(FLOOR)) == VALUE_COUNT


def test_a_scrub_round_with_damage_in_its_first_pass_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub_module, "SCRUB_PASS_BYTES_MIN", 1)
    world, document = grown()
    with damaged_blob(world.blobs.backend, world.blob_keys()[0], CUT):
        assert scrub(world.environment, 30).failures
    while not scrub(world.environment, 30).is_round_finished:
        pass
    assert values_read(world, lambda: document.forget_below(FLOOR)) == VALUE_COUNT


def test_the_floor_does_not_rise_if_a_value_was_lost_after_the_scrub() -> None:
    world, document = grown()
    scrub(world.environment, 30)
    damage_blob(world.blobs.backend, world.blob_keys("/items/")[2], LOSE)
    with pytest.raises(Corrupt, match="missing"):
        document.forget_below(FLOOR)
    assert world.open().log.floor() == 0


@st.composite
def folders(draw: st.DrawFn) -> list[tuple[int, str]]:
    """A list of values: the number and the kind of each value."""
    kinds = st.sampled_from(("old", "young", "lost", "unneeded"))
    return list(enumerate(draw(st.lists(kinds, max_size=60))))


@settings(max_examples=150, deadline=None)
@given(blobs=folders(), page=st.integers(1, 8), count_min=st.integers(0, 4))
def test_only_young_and_lost_values_are_read(blobs: list[tuple[int, str]], page: int, count_min: int) -> None:
    clock = ManualClock()
    backend = MemoryBlobs(clock)
    values, before_ms = Values(backend, OWNER), clock.wall_ms() + 1000
    environment = Environment(MemoryIndex(), backend, clock)
    stored: dict[bytes, str] = {}
    for order in ("old", "lost", "unneeded", "young"):
        if order == "young":
            clock.sleep(2)
        for number, kind in blobs:
            if kind == order:
                batch = BlobBatch(environment, held_bytes_max=0)
                value = values.store(KEYS[number % len(KEYS)], encode(f"{number} " * 600), batch)
                stored[value] = kind
    for value, kind in stored.items():
        if kind == "lost":
            (reading,) = values.read_back(value)
            damage_blob(backend, reading.key, LOSE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob_stats, "PAGE_BLOBS", page)
        patch.setattr(blob_stats, "PAGE_WANTED_MIN", count_min)
        scrubbed = ScrubbedValues(values, backend, before_ms)
        assert [list(scrubbed.read_back(value)) for value, kind in stored.items() if kind != "unneeded"] == [
            [] for kind in stored.values() if kind != "unneeded"
        ]
        readings = list(scrubbed.read_rest())
        scrubbed.close()
    kinds = list(stored.values())
    assert len(readings) == kinds.count("young") + kinds.count("lost")
    assert sum(reading.damage is not None for reading in readings) == kinds.count("lost")
