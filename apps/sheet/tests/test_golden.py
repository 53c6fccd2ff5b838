"""The stored format is fixed: golden entries and parts can still be read, and equal facts have equal bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stratalog import Entry, Event
from stratalog.codec import decode, encode
from stratalog.errors import Corrupt, Unsupported
from stratalog_sheet.events import (
    SCHEMAS,
    Created,
    Fact,
    Forked,
    Imported,
    Named,
    Renamed,
    Restored,
    Revision,
    change_of,
    event_of,
    fact_of,
)
from stratalog_sheet.state import join_state, split_state, title_in

FILE = Path(__file__).parents[3] / "formats/golden/sheet-v1.json"
MESSAGE = {
    "type": "REMOTE_REVISION",
    "version": 1,
    "serverRevisionId": "first",
    "nextRevisionId": "second",
    "clientId": "ann",
    "commands": [{"type": "UPDATE_CELL", "sheetId": "sheet1", "col": 2, "row": 7, "content": "100"}],
}
UNDO = {
    "type": "REVISION_UNDONE",
    "version": 1,
    "serverRevisionId": "second",
    "nextRevisionId": "third",
    "undoneRevisionId": "second",
}
STATE = {
    "version": "19.3.2",
    "sheets": [
        {
            "id": "a",
            "name": "A",
            "cells": {"A1": "x", "C1": "=A1", "B9": "2"},
            "cols": {str(n): {"size": n} for n in range(40)},
        },
        {"id": "b", "name": "B", "cells": {}},
    ],
    "styles": {"1": {"bold": True}},
    "revisionId": "second",
}
FACTS: list[Fact] = [
    Created("Plan", "first", b'{"revisionId":"first"}'),
    Imported("Plan", "first", b'{"revisionId":"first"}', "plan.xlsx", b"PK"),
    Revision(MESSAGE),
    Revision(UNDO, 2),
    Restored(1, "third", "fourth"),
    Named(2, "as sent"),
    Forked("What if", "plan", 3),
    Renamed("Budget", "Plan"),
    Revision(MESSAGE, titled=3),
    Restored(1, "third", "fourth", 3),
    Named(2, "as sent", 3),
    Revision({**UNDO, "rebase": "ordered"}, 2),
]


def written() -> dict[str, Any]:
    return {
        "events": [encode(event_of(fact)).hex() for fact in FACTS],
        "state": STATE,
        "parts": [part.hex() for part in split_state(json.dumps(STATE).encode())],
        "titled parts": [part.hex() for part in split_state(json.dumps(STATE).encode(), "Budget")],
    }


def golden() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


def entry_of(event: Event) -> Entry:
    return Entry(1, 2, "ann", "write", (event,))


def test_the_same_facts_still_have_the_same_bytes() -> None:
    assert written()["events"] == golden()["events"]


def test_the_golden_events_can_still_be_read() -> None:
    events = [Event(*decode(bytes.fromhex(text))) for text in golden()["events"]]
    assert [fact_of(entry_of(event)) for event in events] == FACTS


def test_every_event_type_is_in_the_golden_file() -> None:
    assert {decode(bytes.fromhex(text))[0] for text in golden()["events"]} == set(SCHEMAS)


def test_the_golden_parts_still_join_into_the_golden_state() -> None:
    for name, title in (("parts", ""), ("titled parts", "Budget")):
        parts = [bytes.fromhex(text) for text in golden()[name]]
        assert json.loads(join_state(parts)) == golden()["state"] == STATE
        assert title_in(parts[0]) == title


def test_a_state_is_still_split_into_the_golden_parts() -> None:
    assert written()["parts"] == golden()["parts"]
    assert written()["titled parts"] == golden()["titled parts"]


def test_only_an_undo_with_ordered_rebase_has_event_schema_2() -> None:
    assert [event_of(fact).schema for fact in FACTS] == [1] * (len(FACTS) - 1) + [2]


@pytest.mark.parametrize("event", [Event("future", {}), Event("named", {"version": 1, "label": "x"}, 2)])
def test_an_event_of_a_newer_type_or_schema_is_unsupported(event: Event) -> None:
    with pytest.raises(Unsupported):
        fact_of(entry_of(event))


def test_an_event_with_a_field_of_a_wrong_type_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        fact_of(entry_of(Event("named", {"version": "one"})))


def test_changes_sent_to_readers_omit_states_and_files() -> None:
    change = change_of(entry_of(event_of(FACTS[1])))
    assert change.data == {"title": "Plan", "revision": "first", "file_name": "plan.xlsx"}
    assert change_of(entry_of(event_of(FACTS[2]))).message == MESSAGE
    assert change_of(entry_of(event_of(FACTS[-2]))).data == {"version": 2, "label": "as sent"}
