"""A write id belongs to one request. A retry of the request finds its entry. Another request is a conflict."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from stratalog.errors import KeyReused, OutcomeUnknown, VersionConflict
from stratalog.log import Event, Log, open_log
from stratalog.log.pending_entry import prepare_entry, same_request
from stratalog.ports.index import Write
from tests.log.helpers import (
    NAME,
    ORGANISATION,
    ScriptedIndex,
    after,
    another,
    clock_of,
    data,
    event,
    new_log,
    scripted,
)

LARGE = "x" * 5000


def other(log: Log, upcasters: dict[tuple[str, int], object] | None = None) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME, upcasters=upcasters)  # type: ignore[arg-type]


@pytest.mark.parametrize("inline_bytes", [0, 64, 100_000])
@pytest.mark.parametrize("content", ["small", LARGE, {"n": 1.0, "b": b"x"}])
def test_other_events_under_a_used_write_id_are_a_conflict(inline_bytes: int, content: object) -> None:
    log = new_log(body_inline_bytes_max=inline_bytes)
    log.append(event(content), expected=0, write_id="mine")
    for events in (event("else"), [event(content), event(content)], Event("other", content), Event("set", content, 2)):
        with pytest.raises(KeyReused) as caught:
            other(log).append(events, expected=0, write_id="mine")
        assert caught.value.details == {"log": NAME, "version": 1, "write_id": "mine"}
        assert caught.value.code == "key-reused"
    assert log.head().version == 1


def test_a_later_retry_with_another_encoding_and_another_author_name_is_recognised() -> None:
    log = new_log()
    log.append(event({"n": 1, "b": b"xy", "l": [2]}), expected=0, write_id="mine", author="Ada")
    clock_of(log.environment).sleep(60)
    again = other(log).append(
        event({"l": (2.0,), "b": memoryview(b"xy"), "n": 1.0}), expected=0, write_id="mine", author="Ada Lovelace"
    )
    assert (again.version, again.author) == (1, "Ada")
    assert log.head().version == 1


def test_a_retry_is_compared_with_the_stored_events_and_not_with_upcast_events() -> None:
    log = new_log()
    log.append(event("old"), expected=0, write_id="mine")
    upcast = other(log, {("set", 1): lambda before: f"new {before}"})
    assert upcast.append(event("old"), expected=0, write_id="mine").version == 1
    with pytest.raises(KeyReused):
        upcast.append(Event("set", "new old", 2), expected=0, write_id="mine")


def test_another_write_id_at_the_expected_version_stays_a_version_conflict() -> None:
    log = new_log()
    log.append(event("once"), expected=0, write_id="mine")
    with pytest.raises(VersionConflict):
        other(log).append(event("once"), expected=0, write_id="yours")


def test_an_append_raises_key_reused_if_a_rival_commits_its_write_id_first() -> None:
    log = new_log()
    first = other(log)
    scripted(log.environment).script.append(after(lambda: first.append(event("theirs"), write_id="both")))
    with pytest.raises(KeyReused):
        log.append(event("ours"), write_id="both")
    assert data(log) == ["theirs"]


def test_an_append_in_doubt_at_two_versions_is_found_although_a_rival_used_its_write_id() -> None:
    """The interrupted leader leaves version 2 in doubt. The lost answer leaves version 1 in doubt too."""
    log = new_log()
    rival = other(log)
    leader = prepare_entry(log.environment, log.record.owner, [event("leader")])
    ours = prepare_entry(log.environment, log.record.owner, [event("ours")], write_id="both")

    def interrupt(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        raise KeyboardInterrupt

    def lose_the_answer(index: ScriptedIndex, writes: Sequence[Write]) -> None:
        index.backend.commit(writes)
        rival.append(event("theirs"), write_id="both")
        raise OutcomeUnknown("scripted")

    scripted(log.environment).script = [interrupt, lose_the_answer]
    with pytest.raises(KeyboardInterrupt):
        log._appender._run([leader, ours])
    log._appender._run([ours])
    assert ours.answer().version == 1
    assert data(log) == ["ours", "theirs"]


def test_an_entry_of_another_principal_is_another_request() -> None:
    class Entry(msgspec.Struct):
        events: tuple[Event, ...]
        principal: str

    log = new_log()
    asked = prepare_entry(log.environment, log.record.owner, [event(1)], write_id="mine")
    assert same_request(Entry((event(1),), ""), asked)  # type: ignore[arg-type]
    assert not same_request(Entry((event(1),), "eve"), asked)  # type: ignore[arg-type]
