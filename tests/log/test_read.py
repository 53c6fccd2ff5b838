"""Reads of a log are bounded, in order and without gaps. A log finds the version at a given time."""

from __future__ import annotations

from itertools import islice

import pytest

from stratalog.errors import Corrupt, Invalid, NotFound, VersionForgotten
from stratalog.keys import entries_partition, number
from stratalog.log import Event, Log, Upcasters, fork_log, open_log
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.ports.index import Item, Put
from tests.log.helpers import DUE_SECONDS, NAME, ORGANISATION, another, clock_of, data, event, fill, new_log, scripted


def other(log: Log, upcasters: Upcasters | None = None) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME, upcasters=upcasters)


def timed_log() -> Log:
    """Return a log of ten entries, a second apart, in segments of four entries."""
    log = new_log(segment_entries_target=4)
    for _ in range(10):
        log.append(event())
        clock_of(log.environment).sleep(1)
    return log


def test_an_empty_log_reads_as_nothing() -> None:
    assert data(new_log()) == []


def test_a_read_is_bounded_on_both_sides() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    assert [entry.version for entry in log.read(2, 7)] == [3, 4, 5, 6, 7]


def test_a_read_ends_at_the_head_it_began_with() -> None:
    log = new_log()
    fill(log, 3)
    reading = log.read()
    fill(log, 2)
    assert [entry.version for entry in reading] == [1, 2, 3]


def test_entries_appended_between_two_pages_do_not_change_a_read() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    reader = other(log)
    scripted(reader.environment).page_items = 2
    reading = reader.read()
    begun = list(islice(reading, 3))
    fill(log, 6)
    assert [entry.version for entry in [*begun, *reading]] == list(range(1, 11))


def test_a_read_continues_in_the_archive_if_its_segment_is_freed_between_two_pages() -> None:
    log = new_log(segment_entries_target=4)
    fill(log, 10)
    reader = other(log)
    scripted(reader.environment).page_items = 2
    reading = reader.read()
    begun = list(islice(reading, 1))
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    free_segments(log)
    assert [entry.version for entry in [*begun, *reading]] == list(range(1, 11))


@pytest.mark.parametrize("version", [4, 2**53 - 2])
def test_a_version_beyond_the_head_is_not_found(version: int) -> None:
    log = new_log()
    fill(log, 3)
    with pytest.raises(NotFound):
        log.entry(version)
    with pytest.raises(NotFound):
        log.read(0, version)


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", True])
def test_a_version_is_a_whole_number_from_1(version: object) -> None:
    with pytest.raises(Invalid) as caught:
        new_log().entry(version)  # type: ignore[arg-type]
    assert caught.value.details["value"] == version


def test_the_version_at_a_time_is_the_newest_by_then() -> None:
    log = timed_log()
    times = [entry.created_ms for entry in log.read()]
    assert [log.version_at(time) for time in times] == list(range(1, 11))
    assert (log.version_at(times[0] - 1), log.version_at(times[4] + 500)) == (0, 5)


def test_the_version_at_a_time_is_found_in_archives_too() -> None:
    log = timed_log()
    times = [entry.created_ms for entry in log.read()]
    archive_segments(log)
    clock_of(log.environment).sleep(DUE_SECONDS)
    free_segments(log)
    assert [other(log).version_at(time) for time in times] == list(range(1, 11))


def test_the_version_at_a_time_above_the_floor_is_still_found() -> None:
    log = timed_log()
    times = [entry.created_ms for entry in log.read()]
    raise_floor(log, 8)
    assert log.version_at(times[9]) == 10
    with pytest.raises(VersionForgotten):
        log.version_at(times[2])


def test_between_the_creation_of_a_fork_and_its_first_entry_version_at_returns_the_floor() -> None:
    log = timed_log()
    clock = clock_of(log.environment)
    fork = fork_log(log, "fork", 8)
    made_ms = clock.wall_ms()
    clock.sleep(1)
    fork.append(event())
    raise_floor(fork, 8)
    raise_floor(log, 8)
    fork = open_log(another(log.environment), ORGANISATION, "fork")
    assert (fork.floor(), fork.version_at(made_ms), fork.version_at(made_ms + 999)) == (8, 8, 8)
    with pytest.raises(VersionForgotten):
        fork.version_at(made_ms - 1)


def test_upcasters_convert_old_events_when_they_are_read() -> None:
    log = new_log()
    log.append(Event("set", 1))
    log.append(Event("set", 20, schema=2))
    upcasters = {("set", 1): lambda value: value * 10, ("set", 2): lambda value: [value]}
    assert [entry.events[0] for entry in other(log, upcasters).read()] == [
        Event("set", [10], 3),
        Event("set", [20], 3),
    ]


def test_a_read_of_50_entries_with_upcasters_makes_fewer_than_10_requests() -> None:
    log = new_log()
    fill(log, 50)
    reader = other(log, {("other", 1): lambda value: value})
    index = scripted(reader.environment)
    reader.head()
    before = index.calls.total()
    assert [entry.version for entry in reader.read()] == [*range(1, 51)]
    assert index.calls.total() - before < 10


def test_a_follower_yields_entries_that_are_appended_later() -> None:
    log = new_log()
    fill(log, 2)
    following = other(log).follow(1)
    assert next(following).version == 2
    fill(log, 1)
    assert next(following).version == 3


def test_a_follower_waits_at_the_head() -> None:
    log = new_log()
    fill(log, 1)
    follower = other(log)
    following = follower.follow()
    next(following)
    asleep_ms: list[int] = []
    sleep = clock_of(log.environment).sleep

    def wake(seconds: float) -> None:
        sleep(seconds)
        asleep_ms.append(round(seconds * 1000))
        if len(asleep_ms) == 3:
            fill(log, 1)

    vars(clock_of(log.environment))["sleep"] = wake
    assert next(following).version == 2
    assert asleep_ms[:3] == [500, 500, 500]


@pytest.mark.parametrize("size", [100, 5_000, 9 * 1024 * 1024])
def test_a_large_body_lies_in_blobs_and_reads_back(size: int) -> None:
    log = new_log(body_inline_bytes_max=64)
    text = "".join(chr(32 + position % 90) for position in range(size)) if size < 10_000 else "x" * size
    log.append(event(text))
    assert data(other(log)) == [text]
    assert len(list(log.environment.blobs.list(""))) == (3 if size > 8 * 1024 * 1024 else 1)


def test_a_small_body_is_no_blob() -> None:
    log = new_log()
    log.append(event("x" * 1000))
    assert list(log.environment.blobs.list("")) == []


def test_a_last_item_that_is_no_entry_is_corrupt() -> None:
    log = new_log()
    fill(log, 2)
    partition = entries_partition(log.record.prefix, 1)
    scripted(log.environment).backend.commit([Put(Item(partition, number(3), {"x": "?"}))])
    with pytest.raises(Corrupt, match="not an entry"):
        open_log(log.environment, ORGANISATION, NAME).head()


def test_a_flipped_bit_in_a_text_of_an_entry_is_corrupt() -> None:
    """The flipped bit makes the text invalid UTF-8. The decoder raises another error for a wrong structure."""
    log = new_log()
    log.append(event("text"))
    item = log.environment.index.get(entries_partition(log.record.prefix, 1), number(1))
    assert item is not None
    body = item.attributes["b"]
    assert isinstance(body, bytes)
    flipped = body.replace(b"text", b"\xf4ext")
    log.environment.index.commit([Put(Item(item.partition, item.sort, {**item.attributes, "b": flipped}))])
    with pytest.raises(Corrupt):
        log.entry(1)
    with pytest.raises(Corrupt):
        list(other(log).read())
