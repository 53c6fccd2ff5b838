"""Logs over HTTP: an application's own events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.server.api import Client, problem

SHEET = "/v1/organisations/acme/logs/sheet"


@pytest.fixture
def sheet(client: Client) -> Client:
    assert client.put(SHEET).status_code == 201
    return client


def append(client: Client, *kinds: str, **rest: Any) -> Any:
    return client.post(f"{SHEET}/append", json={"events": [{"type": kind} for kind in kinds], **rest})


def test_events_that_are_appended_together_are_one_entry(sheet: Client) -> None:
    first = append(sheet, "opened", "set").json()
    assert (first["version"], [event["type"] for event in first["events"]]) == (1, ["opened", "set"])
    append(sheet, "set")
    page = sheet.get(f"{SHEET}/entries?limit=1").json()
    assert (page["entries"], page["next"]) == ([first], 1)
    assert [entry["version"] for entry in sheet.get(f"{SHEET}/entries?after=1").json()["entries"]] == [2]


def test_an_append_with_a_stale_expected_version_is_refused(sheet: Client) -> None:
    append(sheet, "set", expected=0)
    assert problem(append(sheet, "set", expected=0)) == (409, "version-conflict")
    assert sheet.get(SHEET).json()["version"] == 1


def test_a_repeated_append_with_a_write_id_returns_the_first_entry(sheet: Client) -> None:
    first = append(sheet, "set", expected=0, write_id="mine")
    assert append(sheet, "set", expected=0, write_id="mine").json() == first.json()
    assert sheet.get(SHEET).json()["version"] == 1


def test_the_newest_version_of_a_log_at_a_time_is_found(sheet: Client) -> None:
    first = append(sheet, "set").json()["created_ms"]
    last = append(sheet, "set").json()["created_ms"]
    versions = [sheet.get(f"{SHEET}/version?time_ms={time_ms}").json()["version"] for time_ms in (first - 1, last)]
    assert versions == [0, 2]


def test_an_application_stores_and_reads_snapshots_of_a_log(sheet: Client) -> None:
    append(sheet, "set")
    append(sheet, "set")
    assert problem(sheet.get(f"{SHEET}/snapshot")) == (404, "not-found")
    stored = sheet.put(f"{SHEET}/snapshot?version=1", json={"body": {"cells": [1]}})
    assert stored.json()["version"] == 1
    read = sheet.get(f"{SHEET}/snapshot").json()
    assert (read["version"], read["body"]) == (1, {"cells": [1]})
    assert [snapshot["version"] for snapshot in sheet.get(f"{SHEET}/snapshots").json()["snapshots"]] == [1]
    assert problem(sheet.put(f"{SHEET}/snapshot?version=9", json={"body": 1})) == (404, "not-found")
    assert problem(sheet.put(f"{SHEET}/snapshot?version=1", json={"body": "x" * 300_000})) == (422, "limit-exceeded")


def test_a_snapshot_in_parts_is_refused_and_one_saved_over_http_is_returned(sheet: Client) -> None:
    append(sheet, "set")
    append(sheet, "set")
    assert sheet.put(f"{SHEET}/snapshot?version=1", json={"body": "state"}).status_code == 200
    log = sheet.app.state.service.store.log("acme", "sheet")
    assert log.save_snapshot(2, [b"the first part", b"the second part"])
    assert problem(sheet.get(f"{SHEET}/snapshot")) == (400, "invalid")
    assert sheet.get(f"{SHEET}/snapshot?at=1").json()["body"] == "state"


def test_a_snapshot_with_the_form_of_a_list_of_parts_is_refused(sheet: Client) -> None:
    """It would count as a state in parts that are missing."""
    append(sheet, "set")
    body = {"body": ["app-snapshot", 1, None, None]}
    assert problem(sheet.put(f"{SHEET}/snapshot?version=1", json=body)) == (400, "invalid")
    assert sheet.get(f"{SHEET}/snapshots").json()["snapshots"] == []


@pytest.mark.parametrize(
    "body",
    [2**70, float("nan"), msgspec.msgpack.Ext(5, b"x"), msgspec.msgpack.Ext(-1, b"\0\0\0\1"), {1: 2}, {None: 2}],
    ids=["large integer", "NaN", "extension", "time", "number as name", "null as name"],
)
def test_a_snapshot_that_is_no_value_is_refused_and_a_later_snapshot_is_saved(sheet: Client, body: Any) -> None:
    append(sheet, "set")
    path = f"{SHEET}/snapshot?version=1"
    if body == 2**70:
        refused = sheet.put(path, json={"body": body})
    else:
        packed = {"Content-Type": "application/msgpack"}
        refused = sheet.put(path, content=msgspec.msgpack.encode({"body": body}), headers=packed)
    assert problem(refused) == (400, "invalid")
    assert sheet.put(path, json={"body": "state"}).status_code == 200
    assert sheet.get(f"{SHEET}/snapshot").json()["body"] == "state"


@pytest.mark.parametrize("schema", [2**53, 2**70])
def test_an_event_with_a_schema_version_out_of_range_is_refused(sheet: Client, schema: int) -> None:
    event = {"type": "set", "schema": schema}
    assert problem(sheet.post(f"{SHEET}/append", json={"events": [event]})) == (400, "invalid")
    assert sheet.get(SHEET).json()["version"] == 0


def test_a_log_is_forked_and_deleted(sheet: Client) -> None:
    append(sheet, "set")
    assert sheet.post(f"{SHEET}/fork", json={"name": "copy"}).json()["first"] == 1
    assert sheet.delete(SHEET).status_code == 204
    assert problem(sheet.get(SHEET)) == (404, "not-found")
    assert len(sheet.get("/v1/organisations/acme/logs/copy/entries").json()["entries"]) == 1


def test_the_endpoints_of_logs_refuse_a_document(client: Client) -> None:
    client.put("/v1/organisations/acme/documents/budget")
    budget = "/v1/organisations/acme/logs/budget"
    assert problem(client.post(f"{budget}/append", json={"events": [{"type": "set"}]})) == (400, "invalid")
    assert problem(client.delete(budget)) == (400, "invalid")


def test_a_second_put_of_a_log_returns_the_log_and_its_entries_stay(sheet: Client) -> None:
    append(sheet, "set")
    before = sheet.get(SHEET).json()
    again = sheet.put(SHEET)
    assert (again.status_code, again.json()) == (200, before)
    assert len(sheet.get(f"{SHEET}/entries").json()["entries"]) == 1
