"""A read that takes longer than the observation rule allows proves neither presence nor absence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.errors import NotFound, Unavailable
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log import Log, open_log
from stratalog.log.head import LOOKS_MAX
from stratalog.ports.index import Item
from tests.log.helpers import NAME, ORGANISATION, ScriptedIndex, event, fill, new_log, scripted


class SlowIndex(ScriptedIndex):
    """An index whose `get` first sleeps for ``seconds``."""

    seconds = 0.0
    sleep: Callable[[float], None]

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        self.sleep(self.seconds)
        return super().get(partition, sort)


def slow_reader() -> tuple[Log, SlowIndex]:
    """Return a handle of a log with three entries, and its index, whose next reads are too slow to be consistent."""
    log = new_log()
    fill(log, 3)
    slow = SlowIndex(scripted(log.environment).backend)
    slow.sleep = log.environment.clock.sleep
    log.environment.index = slow
    reader = open_log(log.environment, ORGANISATION, NAME)
    slow.seconds = OBSERVATION_SECONDS_MAX + 1
    return reader, slow


def test_the_head_and_an_entry_beyond_it_are_unavailable_if_each_read_is_too_slow() -> None:
    reader, slow = slow_reader()
    slow.sleep(slow.seconds)  # the head that the handle knows is then outdated
    calls: list[Callable[[], object]] = [reader.head, lambda: reader.entry(4), lambda: reader.append(event())]
    for call in calls:
        slow.calls.clear()
        with pytest.raises(Unavailable, match="too long"):
            call()
        assert slow.calls["get"] <= 2 * LOOKS_MAX


def test_an_entry_read_too_slowly_is_unavailable_not_absent() -> None:
    reader, slow = slow_reader()
    with pytest.raises(Unavailable, match="too long"):
        reader.entry(2)
    slow.seconds = 0
    assert reader.entry(2).version == 2
    with pytest.raises(NotFound):
        reader.entry(4)
