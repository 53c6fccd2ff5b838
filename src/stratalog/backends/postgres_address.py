"""The address of a store in PostgreSQL: a URL for libpq with up to two more parameters, ``schema`` and ``blobs``."""

from __future__ import annotations

from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec

from stratalog.errors import Invalid
from stratalog.urls import split_url

__all__ = ["PostgresAddress", "parse_address", "without_password"]

SCHEMA_DEFAULT = "stratalog"
SCHEMA_BYTES_MAX = 63
OWN_PARTS = {"schema", "blobs"}
PASSWORDS = {"password", "sslpassword"}


class PostgresAddress(msgspec.Struct, frozen=True):
    """The parts of a `postgresql://` URL: the connection string for libpq, the schema, and the URL of larger blobs.

    Without ``blobs`` all blobs are rows. ``shown`` is the URL without its password.
    """

    conninfo: str
    schema: str = SCHEMA_DEFAULT
    blobs: str = ""
    shown: str = ""


def parse_address(url: str) -> PostgresAddress:
    """Return the address in `postgresql://…?schema=…&blobs=…`. libpq gets all other parts. Raises Invalid."""
    parts = split_url(url, without_password(url))
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    given = {name: value for name, value in pairs if name in OWN_PARTS}
    if parts.fragment or len(given) < sum(name in OWN_PARTS for name, _ in pairs):
        text = "the URL of a store in PostgreSQL names a part twice, or has a fragment"
        raise Invalid(text, url=without_password(url))
    schema = given.get("schema", SCHEMA_DEFAULT)
    if not 0 < len(schema.encode()) <= SCHEMA_BYTES_MAX or "\0" in schema or schema.startswith("pg_"):
        raise Invalid("a schema's name must have 1 to 63 bytes and not begin with pg_", schema=schema)
    # libpq decodes `%20`, but not `+`.
    query = urlencode([pair for pair in pairs if pair[0] not in OWN_PARTS], quote_via=quote)
    # Do not use `urlunsplit`: it drops the slashes before an empty host.
    conninfo = f"postgresql://{parts.netloc}{parts.path}{'?' if query else ''}{query}"
    return PostgresAddress(conninfo, schema, given.get("blobs", ""), without_password(url))


def without_password(url: str) -> str:
    """Return the URL without its password, even if the URL is malformed, for example if the password is not encoded."""
    scheme, separator, rest = url.partition("://")
    credentials, at, target = rest.rpartition("@")
    target, mark, query = target.partition("?")
    others = "&".join(part for part in query.split("&") if unquote(part.partition("=")[0]) not in PASSWORDS)
    return f"{scheme}{separator}{credentials.partition(':')[0]}{at}{target}{mark if others else ''}{others}"
