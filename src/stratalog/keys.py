"""The keys of everything stored: index partitions and sorts, and blob keys. `formats/keys.md` lists them for readers.

Ids are escaped so that distinct ids never share a key and a key leads back to its id: letters, digits, ``.``, ``_``
and ``-`` stand for themselves, every other byte of the id's UTF-8 is ``%XX``; a leading ``.`` is escaped as well, so
that no id is a relative path.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import ID_ESCAPED_BYTES_MAX, VERSION_DIGITS, VERSION_MAX

__all__ = [
    "COPY_PARTITION",
    "HOME_SORT",
    "MAINTENANCE_PARTITION",
    "NAME_SORT",
    "ORGANISATIONS_PARTITION",
    "QUEUE_ATTEMPTS_PARTITION",
    "REJECTED_PARTITION",
    "checkpoints_partition",
    "collecting_partition",
    "connection_partition",
    "dead_letters_partition",
    "deleted_partition",
    "directory_partition",
    "entries_partition",
    "escape",
    "failures_partition",
    "family_partition",
    "forks_partition",
    "listeners_partition",
    "log_home_partition",
    "log_prefix",
    "name_partition",
    "number",
    "parse_number",
    "queued_owner",
    "record_owner",
    "record_partition",
    "segments_partition",
    "snapshots_partition",
    "unescape",
    "uploads_partition",
]

ESCAPED_REMEMBERED = 4096


def escape(name: str, what: str = "id") -> str:
    """``name`` as one component of a key. Raises Invalid for an empty or unsayable one, LimitExceeded for a long."""
    if not isinstance(name, str) or not name:
        raise Invalid(f"{what} must be a text of at least one character", value=name)
    try:
        escaped = _remembered(name) if len(name) <= ID_ESCAPED_BYTES_MAX else _escaped(name)
    except UnicodeEncodeError as exc:
        raise Invalid(f"{what} holds a lone surrogate", value=name.encode(errors="backslashreplace")) from exc
    if len(escaped) > ID_ESCAPED_BYTES_MAX:
        raise LimitExceeded(f"{what} is too long once escaped", value=len(escaped), limit=ID_ESCAPED_BYTES_MAX)
    return escaped


def unescape(escaped: str) -> str:
    """The id behind :func:`escape`'s answer."""
    return unquote(escaped)


def number(value: int) -> str:
    """``value`` in fixed width, so that the order of texts is the order of numbers."""
    if not 0 <= value <= VERSION_MAX:
        raise Invalid("a version lies outside its range", value=value, limit=VERSION_MAX)
    return f"{value:0{VERSION_DIGITS}d}"


def parse_number(text: str) -> int:
    """The number behind :func:`number`'s answer."""
    return int(text)


def name_partition(organisation: str, log: str) -> str:
    """Where a log's name record stands, under the sort `NAME_SORT`."""
    return f"{escape(organisation, 'organisation')}/{escape(log)}"


def log_prefix(organisation: str, log: str, incarnation: str) -> str:
    """What every partition of one incarnation of a log starts with, and the owner of the blobs of its family."""
    return f"{name_partition(organisation, log)}@{incarnation}"


def segments_partition(prefix: str) -> str:
    """The list of segments of a log, each under the number of its first version."""
    return f"{prefix}/segments"


def entries_partition(prefix: str, segment: int) -> str:
    """The entries of one segment, each under its version."""
    return f"{prefix}/{segment}"


def snapshots_partition(prefix: str) -> str:
    """The snapshots of a log, each under its version."""
    return f"{prefix}/snapshots"


def forks_partition(prefix: str) -> str:
    """The forks that pin versions of a log, each under its own prefix."""
    return f"{prefix}/forks"


def family_partition(owner: str) -> str:
    """The logs that share an owner of blobs, each under its own prefix."""
    return f"{owner}/family"


def checkpoints_partition(prefix: str) -> str:
    """The checkpoints of the projections that follow a log, each under its name."""
    return f"{prefix}/checkpoints"


def record_partition(organisation: str, record: str) -> str:
    """The versions of one record, each under its number. ``!`` is always escaped in an id, so no log is called so."""
    return f"{escape(organisation, 'organisation')}/!record/{escape(record)}"


def record_owner(organisation: str, record: str) -> str:
    """The owner of a record's blobs."""
    return f"{escape(organisation, 'organisation')}/records/{escape(record)}"


def uploads_partition(organisation: str) -> str:
    """The uploads of records' bodies that go on, each under the record's id, ``/`` and a random id."""
    return f"{escape(organisation, 'organisation')}/!uploads"


def failures_partition(organisation: str) -> str:
    """Records that failed, however often, each under its id."""
    return f"{escape(organisation, 'organisation')}/!failures"


def dead_letters_partition(organisation: str) -> str:
    """Records that failed too often, each under its id."""
    return f"{escape(organisation, 'organisation')}/!dead-letters"


def directory_partition(organisation: str, kind: str, shard: int) -> str:
    """One shard of an organisation's list of logs or records, each under its id."""
    return f"{escape(organisation, 'organisation')}/!{kind}/{shard:02d}"


def log_home_partition(log: str) -> str:
    """Where the organisation of a log is found by the log's id alone, which is unique in the store."""
    return f"!home/{escape(log)}"


def deleted_partition(organisation: str) -> str:
    """Incarnations of logs that were deleted and wait to be swept, each under its prefix."""
    return f"{escape(organisation, 'organisation')}/!deleted"


def collecting_partition(organisation: str) -> str:
    """How far collections of an organisation's blobs came, each under the owner or organisation that it is of."""
    return f"{escape(organisation, 'organisation')}/!collecting"


def queued_owner(organisation: str, log: str, incarnation: str, token: str) -> str:
    """The owner of the blobs of one queued push that no message holds. No collector of documents looks there."""
    return f"{escape(organisation, 'organisation')}/queue/{escape(log)}@{incarnation}/{token}"


def listeners_partition(organisation: str, log: str) -> str:
    """The live connections that a gateway holds for a log, each under its id."""
    return f"!live/{name_partition(organisation, log)}"


def connection_partition(connection: str) -> str:
    """Where it is found what a live connection listens to, by the connection's id, under the sort `NAME_SORT`."""
    return f"!connection/{escape(connection, 'connection')}"


NAME_SORT = "name"
HOME_SORT = "home"
ORGANISATIONS_PARTITION = "!organisations"
QUEUE_ATTEMPTS_PARTITION = "!queue"
REJECTED_PARTITION = "!given-up"
COPY_PARTITION = "!copy"
MAINTENANCE_PARTITION = "!maintenance"


def _escaped(name: str) -> str:
    escaped = quote(name, safe="").replace("~", "%7E")
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped


_remembered = lru_cache(ESCAPED_REMEMBERED)(_escaped)
"""An id is escaped for each key that it is in, so some four times in a put of a record."""
