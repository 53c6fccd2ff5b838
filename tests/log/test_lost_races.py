"""Calls that lose every race against other writers back off, and end after the time budget of a write."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from stratalog.clock import Observation
from stratalog.errors import ContentionError
from stratalog.log import Log, delete_log, fork_log
from stratalog.log.names import name_put, require_name
from stratalog.log.redaction import erase_entry
from stratalog.ports.index import Write
from tests.log.helpers import NAME, ORGANISATION, ScriptedIndex, fill, new_log, scripted

COMMITS_MAX = 500


def always_change_the_log(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    """Change the name record before this commit and before every later commit."""
    index.script = [always_change_the_log]
    assert index.calls["commit"] < COMMITS_MAX
    change_the_log(index, writes)


def change_the_log(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    """Change the name record before the commit."""
    record = require_name(index, ORGANISATION, NAME)
    index.backend.commit([name_put(msgspec.structs.replace(record, revision=record.revision + 1))])
    index.backend.commit(writes)


@pytest.mark.parametrize(
    "call",
    [
        lambda log: fork_log(log, "fork", 2),
        delete_log,
        lambda log: erase_entry(log.environment, log.record, 2),
    ],
    ids=["fork", "delete", "erase"],
)
def test_a_call_that_loses_every_race_raises_contention_error_at_its_deadline(call: Callable[[Log], object]) -> None:
    log = new_log(append_seconds_max=5.0)
    fill(log, 3)
    begun = Observation(log.environment.clock)
    scripted(log.environment).script = [always_change_the_log]
    with pytest.raises(ContentionError):
        call(log)
    assert 5 <= begun.age_seconds() < 8
    scripted(log.environment).script = []
    call(log)


def test_a_deletion_that_lost_a_race_takes_the_turn_and_does_not_back_off() -> None:
    log = new_log()
    fill(log, 3)
    index = scripted(log.environment)
    index.grants_turns = True
    index.script = [change_the_log]
    begun = Observation(log.environment.clock)
    delete_log(log)
    assert (index.turns, begun.age_seconds()) == ([log.record.prefix], 0)
