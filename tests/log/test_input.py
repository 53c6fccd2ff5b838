"""Invalid input and input beyond a limit raise typed errors. Their details contain the value, the limit, or both."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import Invalid, LimitExceeded
from stratalog.keys import escape, name_partition, unescape
from stratalog.limits import (
    AUTHOR_BYTES_MAX,
    ENTRY_BYTES_MAX,
    ENTRY_EVENTS_MAX,
    EVENT_TYPE_BYTES_MAX,
    ID_ESCAPED_BYTES_MAX,
    INTEGER_MAX,
    JSON_DEPTH_MAX,
    WRITE_ID_BYTES_MAX,
)
from stratalog.log import Event, create_log
from tests.log.helpers import ORGANISATION, event, new_environment, new_log


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("name", "error", "details"),
    [
        ("", Invalid, {"value"}),
        (7, Invalid, {"value"}),
        (None, Invalid, {"value"}),
        ("\ud800", Invalid, {"value"}),
        ("x" * (ID_ESCAPED_BYTES_MAX + 1), LimitExceeded, {"value", "limit"}),
        ("é" * 101, LimitExceeded, {"value", "limit"}),
        ("a/b" * 60, LimitExceeded, {"value", "limit"}),
    ],
)
def test_a_bad_id_is_refused(name: Any, error: type[Exception], details: set[str]) -> None:
    with pytest.raises(error) as caught:
        create_log(new_environment(), ORGANISATION, name)
    assert details <= set(caught.value.details)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("events", "error", "details"),
    [
        ([], LimitExceeded, {"value", "limit"}),
        ([event()] * (ENTRY_EVENTS_MAX + 1), LimitExceeded, {"value", "limit"}),
        ([Event("t" * (EVENT_TYPE_BYTES_MAX + 1))], LimitExceeded, {"value", "limit"}),
        ([Event(7)], Invalid, {"value"}),  # type: ignore[arg-type]
        ([Event("set", schema=0)], Invalid, {"value"}),
        ([event(float("nan"))], Invalid, {"value"}),
        ([event(float("inf"))], Invalid, {"value"}),
        ([event(INTEGER_MAX + 1)], Invalid, {"value", "limit"}),
        ([event("\ud800")], Invalid, {"value"}),
        ([event({1: 2})], Invalid, {"value"}),
        ([event({1, 2})], Invalid, {"value"}),
        ([event(nested(JSON_DEPTH_MAX + 1))], LimitExceeded, {"limit"}),
    ],
)
def test_bad_events_are_refused_and_nothing_is_written(
    events: list[Event], error: type[Exception], details: set[str]
) -> None:
    log = new_log()
    with pytest.raises(error) as caught:
        log.append(events)
    assert details <= set(caught.value.details)  # type: ignore[attr-defined]
    assert log.head().version == 0


def test_an_entry_that_is_too_large_is_refused() -> None:
    log = new_log()
    with pytest.raises(LimitExceeded) as caught:
        log.append(event("x" * ENTRY_BYTES_MAX))
    assert {"value", "limit"} <= set(caught.value.details)
    assert log.head().version == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"write_id": ""}, Invalid),
        ({"write_id": 7}, Invalid),
        ({"write_id": "w" * (WRITE_ID_BYTES_MAX + 1)}, LimitExceeded),
        ({"author": 7}, Invalid),
        ({"author": "\ud800"}, Invalid),
        ({"author": "a" * (AUTHOR_BYTES_MAX + 1)}, LimitExceeded),
    ],
)
def test_a_bad_author_or_write_id_is_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        new_log().append(event(), **arguments)
    assert "value" in caught.value.details  # type: ignore[attr-defined]


def test_the_deepest_value_allowed_is_stored() -> None:
    log = new_log()
    log.append(event(nested(JSON_DEPTH_MAX)))
    assert next(log.read()).events[0].data == nested(JSON_DEPTH_MAX)


ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16)


@given(ids)
def test_unescaping_an_escaped_id_returns_the_id(name: str) -> None:
    assert unescape(escape(name)) == name


@given(ids, ids, ids, ids)
def test_distinct_ids_never_share_a_key(organisation: str, name: str, organisation2: str, name2: str) -> None:
    same = name_partition(organisation, name) == name_partition(organisation2, name2)
    assert same == ((organisation, name) == (organisation2, name2))


@given(ids)
def test_a_key_is_no_relative_path_and_has_one_component(name: str) -> None:
    escaped = escape(name)
    assert not escaped.startswith(".")
    assert not set(escaped) & set("/@!\\\0 :")
