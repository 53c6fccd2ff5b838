"""The address of a store in PostgreSQL: a URL for libpq with up to two more parameters, ``schema`` and ``blobs``."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from stratalog.errors import Invalid

__all__ = ["PostgresAddress", "parse_address"]

SCHEMA_DEFAULT = "stratalog"
SCHEMA_BYTES_MAX = 63
OWN_PARTS = {"schema", "blobs"}


class PostgresAddress(msgspec.Struct, frozen=True):
    """The parts of a `postgresql://` URL: the connection string for libpq, the schema, and the URL of larger blobs.

    Without ``blobs`` all blobs are rows. ``shown`` is the URL without its password.
    """

    conninfo: str
    schema: str = SCHEMA_DEFAULT
    blobs: str = ""
    shown: str = ""


def parse_address(url: str) -> PostgresAddress:
    """Return the address in `postgresql://…?schema=…&blobs=…`; libpq gets all other parts. Raises Invalid."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    given = {name: value for name, value in pairs if name in OWN_PARTS}
    if parts.fragment or len(given) < sum(name in OWN_PARTS for name, _ in pairs):
        raise Invalid("the URL of a store in PostgreSQL names a part twice, or has a fragment", url=_shown(url))
    schema = given.get("schema", SCHEMA_DEFAULT)
    if not 0 < len(schema.encode()) <= SCHEMA_BYTES_MAX or "\0" in schema or schema.startswith("pg_"):
        raise Invalid("a schema's name must have 1 to 63 bytes and not begin with pg_", schema=schema)
    query = urlencode([pair for pair in pairs if pair[0] not in OWN_PARTS])
    conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, query, ""))
    return PostgresAddress(conninfo, schema, given.get("blobs", ""), _shown(url))


def _shown(url: str) -> str:
    """Return the URL without its password."""
    parts = urlsplit(url)
    credentials, at, host = parts.netloc.rpartition("@")
    pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "password"]
    netloc = credentials.partition(":")[0] + at + host
    return urlunsplit((parts.scheme, netloc, parts.path, urlencode(pairs), parts.fragment))
