"""Commands read and show times at the edges of the calendar."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest

import stratalog
from stratalog.cli.naming import milliseconds
from stratalog.cli.output import local_time
from stratalog.limits import INTEGER_MAX
from stratalog.testing.clock import ManualClock
from tests.cli.conftest import Run

YEAR_1_MS = -62_135_596_800_000
YEAR_10000_MS = 253_402_300_800_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0001-01-01T00:00+05:00", YEAR_1_MS - 5 * HOUR_MS),
        ("9999-12-31T23:00-05:00", YEAR_10000_MS + 4 * HOUR_MS),
        ("1970-01-01T00:00:00.0015Z", 2),
        ("2026-11-21T10:00+01:00", 1_795_251_600_000),
    ],
)
def test_a_time_is_read_even_if_its_year_in_utc_is_0_or_10000(text: str, expected_ms: int) -> None:
    assert milliseconds(text) == expected_ms


def test_a_local_time_that_has_no_time_in_utc_is_refused() -> None:
    with pytest.raises(click.BadParameter):
        milliseconds("0001-01-01T00:00")


@pytest.mark.parametrize("option", ["prune --retain 1 --before", "put - --source-time"])
@pytest.mark.parametrize("text", ["", "yesterday", "1795251600000"])
def test_a_record_command_refuses_a_text_that_is_no_time(budget: Run, option: str, text: str) -> None:
    command, *arguments = option.split()
    budget("records", "put", "acme/report", "-", typed="figures")
    assert "is not an ISO time" in budget("records", command, "acme/report", *arguments, text, code=2).output


def test_a_time_before_all_versions_has_version_0(budget: Run) -> None:
    assert "version 0" in budget("show", "acme/budget", "--at", "0001-01-01T00:00+05:00").output


@pytest.mark.parametrize(
    "time_ms", [-INTEGER_MAX, YEAR_1_MS - 2 * 24 * HOUR_MS, YEAR_10000_MS + 24 * HOUR_MS, INTEGER_MAX]
)
def test_a_time_outside_the_calendar_is_shown_in_milliseconds(time_ms: int) -> None:
    assert local_time(time_ms) == f"{time_ms} ms"


def test_a_record_is_read_as_of_a_time(run: Run) -> None:
    clock, times = ManualClock(), list[str]()
    with stratalog.open("store", clock=clock) as store:
        for body in (b"one", b"two", b"three"):
            stored_ms = store.records("acme").put("report", body).created_ms
            times.append(datetime.fromtimestamp(stored_ms / 1000, tz=UTC).isoformat())
            clock.sleep(60)

    def get(time: str, code: int = 0) -> str:
        return run("records", "get", "acme/report", "--at", time, code=code).output

    assert [get(time) for time in times] == ["one", "two", "three"]
    assert "no version at that time" in get("0001-01-02", code=3)
    run("records", "prune", "acme/report", "--retain", "1")
    assert get(times[2]) == "three"
    assert "is forgotten" in get(times[1], code=3)


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "9" * 30])
def test_a_version_of_a_record_that_is_no_number_or_time_or_does_not_exist_is_refused(budget: Run, text: str) -> None:
    budget("records", "put", "acme/report", "-", typed="figures")
    result = budget("records", "get", "acme/report", "--at", text, code=2)
    assert f"{text!r} is not a version or an ISO time" in result.stderr
