"""The address of a store in PostgreSQL: a URL for libpq with up to two more parameters, ``schema`` and ``blobs``."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec

from stratalog.errors import Invalid
from stratalog.urls import split_url

__all__ = ["PostgresAddress", "parse_address", "without_password"]

SCHEMA_DEFAULT = "stratalog"
SCHEMA_BYTES_MAX = 63
OWN_PARTS = {"schema", "blobs"}
SECRETS = {"oauth_client_secret", "password", "scram_client_key", "scram_server_key", "sslpassword"}
SHOWN_PARTS = {*OWN_PARTS, "dbname", "host", "hostaddr", "port", "service", "user"}
SHOWN_VALUE = re.compile(r"[^@?#]*")
# libpq accepts more, for example a password that is not encoded. Then no one can say where the password ends.
HOST = r"(?:[\w.%~-]*|\[[\da-fA-F:.]+\])(?::\d*)?"
SHOWN_URL = re.compile(
    rf"""(?P<scheme>[\w+.-]*://)
    (?:(?P<user>[^:/?#@]*)(?::[^/?#@]*)?(?P<at>@))?
    (?P<target>{HOST}(?:,{HOST})*(?:/[^?#@]*)?)
    (?:\?(?P<query>[^#@]*))?""",
    re.VERBOSE,
)


class PostgresAddress(msgspec.Struct, frozen=True):
    """The parts of a `postgresql://` URL: the connection string for libpq, the schema, and the URL of larger blobs.

    Without ``blobs`` all blobs are rows. ``shown`` is the URL as a message may show it: see `without_password`.
    ``location`` names the store: the URL without the parts that libpq uses as secrets.
    """

    conninfo: str
    schema: str = SCHEMA_DEFAULT
    blobs: str = ""
    shown: str = ""
    location: str = ""


def parse_address(url: str) -> PostgresAddress:
    """Return the address in `postgresql://…?schema=…&blobs=…`. libpq gets all other parts. Raises Invalid."""
    parts = split_url(url, without_password(url))
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    given = {name: value for name, value in pairs if name in OWN_PARTS}
    if parts.fragment or len(given) < sum(name in OWN_PARTS for name, _ in pairs):
        text = "the URL of a store in PostgreSQL has a fragment, or two values of schema or blobs"
        raise Invalid(text, url=without_password(url))
    schema = given.get("schema", SCHEMA_DEFAULT)
    if not 0 < len(schema.encode()) <= SCHEMA_BYTES_MAX or "\0" in schema or schema.startswith("pg_"):
        raise Invalid("a schema's name must have 1 to 63 bytes other than zero and not begin with pg_", schema=schema)
    # libpq decodes `%20`, but not `+`.
    query = urlencode([pair for pair in pairs if pair[0] not in OWN_PARTS], quote_via=quote)
    # Do not use `urlunsplit`: it drops the slashes before an empty host.
    conninfo = f"postgresql://{parts.netloc}{parts.path}{'?' if query else ''}{query}"
    return PostgresAddress(conninfo, schema, given.get("blobs", ""), without_password(url), _location(url))


def without_password(url: str) -> str:
    """Return the URL without its password. Of the query, only the parts in `SHOWN_PARTS` stay: others may be secret.

    For a malformed URL, for example with a password that is not encoded, return only the scheme.
    """
    parts = SHOWN_URL.fullmatch(url)
    if parts is None:
        return f"{url.partition(':')[0]}:..." if ":" in url else "..."
    shown = "&".join(filter(_is_shown, (parts["query"] or "").split("&")))
    return f"{parts['scheme']}{parts['user'] or ''}{parts['at'] or ''}{parts['target']}{'?' if shown else ''}{shown}"


def _location(url: str) -> str:
    """Return the URL without its secrets. The function looks for them where libpq does.

    So a secret may stay only in a URL that libpq refuses. The text has every other part, so different stores have
    different texts. A table's register of data files stores the text, so a later release must return the same text.
    """
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    credentials, at, hosts = authority.partition("@") if "@" in authority else ("", "", authority)
    target, mark, query = f"{hosts}{slash}{path}".partition("?")
    others = "&".join(part for part in query.split("&") if unquote(part.partition("=")[0]) not in SECRETS)
    return f"{scheme}{separator}{credentials.partition(':')[0]}{at}{target}{mark if others else ''}{others}"


def _is_shown(part: str) -> bool:
    name, _, value = part.partition("=")
    return name in SHOWN_PARTS and bool(SHOWN_VALUE.fullmatch(unquote(value)))
