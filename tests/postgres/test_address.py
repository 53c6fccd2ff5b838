"""The address of a store in PostgreSQL: the parts for libpq, the parts for the store, and the URL to show."""

from __future__ import annotations

import pytest

from stratalog.backends.postgres_address import parse_address, without_password
from stratalog.clock import SystemClock
from stratalog.errors import Invalid, Unavailable
from stratalog.homes import open_ports


def test_libpq_gets_the_url_without_the_parts_of_the_store() -> None:
    address = parse_address("postgresql://ada:secret@db:5433/plans?schema=a&sslmode=require&blobs=s3://b/p")
    assert address.conninfo == "postgresql://ada:secret@db:5433/plans?sslmode=require"
    assert (address.schema, address.blobs) == ("a", "s3://b/p")


def test_a_url_without_a_host_leaves_the_host_to_libpq() -> None:
    assert parse_address("postgresql:///plans?schema=a").conninfo == "postgresql:///plans"


def test_the_schema_is_stratalog_unless_named() -> None:
    assert parse_address("postgresql://db/plans").schema == "stratalog"


@pytest.mark.parametrize(
    "url", ["postgresql://ada:secret@db/plans", "postgresql://ada@db/plans?password=secret", "postgres://a:secret@/p"]
)
def test_a_password_is_not_shown(url: str) -> None:
    address = parse_address(url)
    assert "secret" in address.conninfo
    assert "secret" not in address.shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:se#cret@db/plans",
        "postgresql://ada:se/cret@db/plans",
        "postgresql://ada:se%cret@db/plans",
        "postgresql://ada:cret@[db/plans",
        "postgresql://ada@db/plans?sslpassword=cret",
        "postgresql+psycopg://ada:secret@db/plans",
    ],
)
def test_no_error_of_a_malformed_url_shows_its_password(url: str) -> None:
    assert "cret" not in without_password(url)
    with pytest.raises((Invalid, Unavailable)) as refused:
        open_ports(url, True, SystemClock(), None)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann@db/app?application_name=me@work&password=secret", "postgresql:..."),
        ("postgresql://ann@db/app?password=se@cret", "postgresql:..."),
        ("postgresql://db/app#x?password=secret", "postgresql:..."),
        ("postgresql://ann:secret", "postgresql:..."),
        ("postgresql://db/app?blobs=s3://key:secret%40h/b", "postgresql://db/app"),
        (
            "postgresql://ann@[::1]:5433,two:5434/app?schema=a&passw%6Frd=secret",
            "postgresql://ann@[::1]:5433,two:5434/app?schema=a",
        ),
        ("postgresql:///app?host=/run/a&blobs=s3://b/c", "postgresql:///app?host=/run/a&blobs=s3://b/c"),
    ],
)
def test_a_shown_url_has_only_parts_that_are_no_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("postgresql://ann:secret@db/app?sslmode=require&schema=a", "postgresql://ann@db/app?sslmode=require&schema=a"),
        ("postgresql://ann@db/app?application_name=me@work", "postgresql://ann@db/app?application_name=me@work"),
        ("postgresql://ann:se?cr:et@db/app", "postgresql://ann@db/app"),
        (
            "postgresql://ann@db/app?passw%6Frd=se@cret&options=-c%20geqo%3Doff",
            "postgresql://ann@db/app?options=-c%20geqo%3Doff",
        ),
        ("postgresql:///app?user=ann@corp&scram_client_key=secret", "postgresql:///app?user=ann@corp"),
        ("postgresql://db?user=ann", "postgresql://db?user=ann"),
    ],
)
def test_the_location_has_each_part_of_the_url_but_the_secrets(url: str, location: str) -> None:
    """Tables compare the location with the location that they stored: another text is another store."""
    assert parse_address(url).location == location


def test_spaces_in_a_url_reach_libpq_as_percent_codes() -> None:
    assert parse_address("postgresql://db/plans?options=-c%20geqo%3Doff").conninfo.endswith("options=-c%20geqo%3Doff")


@pytest.mark.parametrize(
    "query", ["schema=", "schema=pg_catalog", f"schema={'x' * 64}", "schema=a%00", "schema=a&schema=b", "schema=a#b"]
)
def test_an_invalid_schema_in_a_url_is_refused_without_showing_the_password(query: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_address(f"postgresql://ada:secret@db/plans?{query}")
    assert "secret" not in str(refused.value)
