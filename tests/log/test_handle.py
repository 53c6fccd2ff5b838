"""A handle that threads share never returns to an older head, floor or name record.

A read that answers after another call simulates a slow thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stratalog.errors import NotFound
from stratalog.log import Log, open_log
from stratalog.log.head import Head
from stratalog.log.names import require_name
from stratalog.log.retention import raise_floor
from stratalog.ports.index import Item
from tests.log.helpers import NAME, ORGANISATION, another, event, fill, new_log, scripted


def other(log: Log) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME)


def delay_query(log: Log, meanwhile: Callable[[], object]) -> None:
    """Run ``meanwhile`` after the next query has read its items and before the query returns them."""
    index = scripted(log.environment)
    query = index.query

    def slow(partition: str, **options: Any) -> Iterator[Item]:
        items = list(query(partition, **options))
        index.query = query  # type: ignore[method-assign]
        meanwhile()
        return iter(items)

    index.query = slow  # type: ignore[method-assign, assignment]


def test_a_slow_read_of_the_head_does_not_replace_a_newer_head() -> None:
    log = new_log()
    fill(log, 2)
    rival = other(log)

    def meanwhile() -> None:
        rival.append(event())
        assert log.head().version == 3

    delay_query(log, meanwhile)
    assert log.head().version == 3
    assert known(log).version == 3


def test_a_slow_read_of_the_head_does_not_replace_the_head_of_a_later_append() -> None:
    log = new_log()
    fill(log, 2)
    delay_query(log, lambda: log.append(event()))
    log.head()
    assert known(log).version == 3


def test_a_slow_read_of_the_same_version_does_not_age_the_cached_head() -> None:
    log = new_log()
    fill(log, 2)

    def meanwhile() -> None:
        log.environment.clock.sleep(60)
        log.head()

    delay_query(log, meanwhile)
    log.head()
    assert known(log).seen.age_seconds() == 0


def test_a_slow_read_of_an_older_head_does_not_reset_contention() -> None:
    log = new_log()
    fill(log, 2)
    rival = other(log)

    def meanwhile() -> None:
        fill(rival, 3)
        log.head()

    delay_query(log, meanwhile)
    log.head()
    assert log._appender.contention.contended


def test_a_slow_reading_of_the_floor_does_not_lower_it() -> None:
    log = new_log(segment_entries_target=1)
    fill(log, 6)
    index = scripted(log.environment)
    get = index.get

    def slow(partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        item = get(partition, sort)
        index.get = get  # type: ignore[method-assign]
        raise_floor(other(log), 4)
        assert log.floor() == 4
        return item

    index.get = slow  # type: ignore[method-assign]
    assert log.floor() == 4


def test_a_name_record_read_slowly_does_not_replace_a_newer_one() -> None:
    log = new_log(segment_entries_target=2)
    record = log.record
    fill(log, 5)
    appender = log._appender
    newest = require_name(log.environment.index, record.organisation, record.name)
    assert appender.name == newest
    assert appender.names.offer(record) == newest


def test_a_reader_with_an_old_head_reads_the_head_again_before_raising_not_found() -> None:
    log = new_log()
    fill(log, 2)
    old = log.head()
    fill(other(log), 2)
    assert [entry.version for entry in log.read(0, 4, head=old)] == [1, 2, 3, 4]
    with pytest.raises(NotFound) as caught:
        list(log.read(0, 5, head=old))
    assert caught.value.details["head"] == 4


def known(log: Log) -> Head:
    head = log.known_head()
    assert head is not None
    return head
