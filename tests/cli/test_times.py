"""Commands read and show times at the edges of the calendar."""

from __future__ import annotations

import click
import pytest

from stratalog.cli.naming import milliseconds
from stratalog.cli.output import local_time
from stratalog.limits import INTEGER_MAX
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
