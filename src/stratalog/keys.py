"""The keys of all stored data: index partitions and sorts, and blob keys. `formats/keys.md` lists all keys.

Ids are escaped, so that distinct ids never share a key, and `unescape` can return the id in a key. ASCII letters and
digits, ``.``, ``_``, ``-`` and the characters from U+00A0 on, except U+FFFE and U+FFFF, are not changed. Each byte of
any other character is written as ``%XX``. A leading ``.`` is escaped too, so that no id is a relative path.

The rule has two exceptions. A record's id may be longer than a component of a path: see `record_key`. In a list whose
items are identified by an id alone, the sort of an item is the id itself, not escaped: see `id_sort`.

The docstring of a function `…_partition` names the items of the partition. “Under X” means that X is the item's sort.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NewType
from urllib.parse import unquote

from stratalog.codec import is_decimal, sha256
from stratalog.errors import Corrupt, Invalid, LimitExceeded
from stratalog.limits import ID_ESCAPED_BYTES_MAX, RECORD_ID_BYTES_MAX, VERSION_DIGITS, VERSION_MAX

__all__ = [
    "COPY_PARTITION",
    "MAINTENANCE_PARTITION",
    "MARK_SORT",
    "NAME_SORT",
    "ORGANISATIONS_PARTITION",
    "QUEUE_ATTEMPTS_PARTITION",
    "REJECTED_PARTITION",
    "RecordKey",
    "check_version",
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
    "id_sort",
    "listeners_partition",
    "log_prefix",
    "name_partition",
    "names_partition",
    "number",
    "parse_number",
    "queued_owner",
    "record_key",
    "record_owner",
    "record_partition",
    "segments_partition",
    "snapshots_partition",
    "split_prefix",
    "turn_partition",
    "unescape",
    "uploads_partition",
    "usage_partition",
    "waiting_partition",
]

ESCAPED_REMEMBERED = 4096
# The key of an id that is too long consists of the beginning of the escaped id, which people can recognise, and the
# digest of the id. The beginning has at most `HEAD_BYTES` bytes.
HEAD_BYTES = 63

RecordKey = NewType("RecordKey", str)
"""A record's id as one component of its keys."""


def escape(name: str, what: str = "id") -> str:
    """Return ``name`` as one component of a key.

    Raises Invalid for an empty name or a lone surrogate, LimitExceeded for a name that is too long.
    """
    escaped = _escape(name, what)
    size = _bytes_of(escaped)
    if size > ID_ESCAPED_BYTES_MAX:
        raise LimitExceeded(f"{what} is too long once escaped", value=size, limit=ID_ESCAPED_BYTES_MAX)
    return escaped


def unescape(escaped: str) -> str:
    """Return the id that `escape` escaped."""
    return unquote(escaped)


def id_sort(id: str, what: str = "id") -> str:
    """Return ``id`` as the sort of an item that the id alone identifies. So a list of items is in UTF-8 order of ids.

    Raises Invalid for an empty id or a lone surrogate, LimitExceeded.
    """
    _escape(id, what)
    size = _bytes_of(id)
    if size > RECORD_ID_BYTES_MAX:
        raise LimitExceeded(f"{what} is too long", value=size, limit=RECORD_ID_BYTES_MAX)
    return id


def record_key(record: str) -> RecordKey:
    """Return a record's id as one component of its keys: escaped, or if too long, its beginning and its digest.

    ``~`` is always escaped in an id, so no short id has the key of a long id. No function can compute the id from a
    digest, but the directory lists the id. Raises like `id_sort`.
    """
    escaped = _escape(id_sort(record, "record id"), "record id")
    if _bytes_of(escaped) <= ID_ESCAPED_BYTES_MAX:
        return RecordKey(escaped)
    head = _CUT_ESCAPE.sub("", escaped.encode()[:HEAD_BYTES].decode(errors="ignore"))
    return RecordKey(f"{head}~{sha256(record.encode()).hex()}")


def check_version(version: int, *, minimum: int | None = None) -> int:
    """Return ``version``. Raises Invalid unless it is a whole number, and at least ``minimum``. True is no number."""
    if type(version) is int and (minimum is None or version >= minimum):
        return version
    bound = {} if minimum is None else {"minimum": minimum}
    raise Invalid("a version must be a whole number", value=version, **bound)


def number(value: int) -> str:
    """Return ``value`` in fixed width, so that the order of texts is the order of numbers.

    Raises Invalid for another value than a whole number in the range of versions.
    """
    if type(value) is not int or not 0 <= value <= VERSION_MAX:
        raise Invalid("a version lies outside its range", value=value, limit=VERSION_MAX)
    return str(value).zfill(VERSION_DIGITS)


def parse_number(text: str) -> int:
    """Return the number that `number` formatted. Raises Corrupt for text that is no number, and for the largest number.

    So the successor of a stored number is a number too, and callers can use it as a bound.
    """
    if is_decimal(text) and (value := int(text)) < VERSION_MAX:
        return value
    raise Corrupt("a stored key is not a version", key=text)


def name_partition(organisation: str, log: str) -> str:
    """The partition of a log's name record, which has the sort `NAME_SORT`."""
    return f"{escape(organisation, 'organisation')}/{escape(log)}"


def log_prefix(organisation: str, log: str, incarnation: str) -> str:
    """The prefix of the partitions of one incarnation of a log.

    The prefix of a family's first log is the owner of the family's blobs, so all logs of the family share them.
    """
    return f"{name_partition(organisation, log)}@{incarnation}"


def split_prefix(prefix: str) -> tuple[str, str]:
    """Return the organisation and the name in a log's prefix. Raises Corrupt if ``prefix`` has another form."""
    organisation, _, name = prefix.rpartition("@")[0].partition("/")
    if not (organisation and name):
        raise Corrupt("a stored key is not the prefix of a log", key=prefix)
    return unescape(organisation), unescape(name)


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
    """The pins of a log's versions, each under the version and the prefix of the fork that needs it."""
    return f"{prefix}/forks"


def family_partition(owner: str) -> str:
    """The logs that share an owner of blobs, each under its own prefix."""
    return f"{owner}/family"


def checkpoints_partition(prefix: str) -> str:
    """The checkpoints of the projections that follow a log, each under the name of its projection."""
    return f"{prefix}/checkpoints"


def record_partition(organisation: str, record: RecordKey) -> str:
    """The versions of one record, each under its number. ``!`` is always escaped in an id, so no log has this key."""
    return f"{escape(organisation, 'organisation')}/!record/{record}"


def record_owner(organisation: str, record: RecordKey) -> str:
    """The owner of a record's blobs."""
    return f"{escape(organisation, 'organisation')}/records/{record}"


def uploads_partition(organisation: str) -> str:
    """The unfinished uploads of record bodies, each under the record's key, ``/`` and a random id."""
    return f"{escape(organisation, 'organisation')}/!uploads"


def failures_partition(organisation: str) -> str:
    """The records that have failed at least once, each under its key."""
    return f"{escape(organisation, 'organisation')}/!failures"


def dead_letters_partition(organisation: str) -> str:
    """The records that failed too often, each under its id; see `id_sort`."""
    return f"{escape(organisation, 'organisation')}/!dead-letters"


def directory_partition(organisation: str, kind: str, shard: int) -> str:
    """One shard of an organisation's list of logs or records, each under its id; see `id_sort`."""
    return f"{escape(organisation, 'organisation')}/!{kind}/{shard:02d}"


def names_partition(log: str) -> str:
    """The organisations that have a log of one name, each under its id; see `id_sort`."""
    return f"!names/{escape(log)}"


def deleted_partition(organisation: str) -> str:
    """The deleted incarnations of logs whose items and blobs are still to be removed, each under its prefix."""
    return f"{escape(organisation, 'organisation')}/!deleted"


def collecting_partition(organisation: str) -> str:
    """The progress of each collection of garbage blobs, under the owner of the blobs or under the organisation."""
    return f"{escape(organisation, 'organisation')}/!collecting"


def usage_partition(organisation: str) -> str:
    """The last measured usage of an organisation, and the progress of a measurement."""
    return f"{escape(organisation, 'organisation')}/!usage"


def queued_owner(organisation: str, log: str, incarnation: str, token: str) -> str:
    """The owner of the blobs of one queued push that is too large for a message.

    Collections of the blobs of documents skip this owner.
    """
    return f"{escape(organisation, 'organisation')}/queue/{escape(log)}@{incarnation}/{token}"


def listeners_partition(organisation: str, log: str) -> str:
    """The live connections of a gateway that listen to a log, each under its id."""
    return f"!live/{name_partition(organisation, log)}"


def connection_partition(connection: str) -> str:
    """The subscription of a live connection, by the connection's id, under the sort `NAME_SORT`."""
    return f"!connection/{escape(connection, 'connection')}"


@lru_cache(ESCAPED_REMEMBERED)
def turn_partition(partition: str) -> str | None:
    """Return the key by which the writers of ``partition`` take turns.

    For the entries of a log, the key is the log's prefix, so all segments share one turn. For the versions of a record,
    the key is the record's partition. For all other items the result is None.
    """
    if _ENTRIES.fullmatch(partition):
        return partition[: partition.rindex("/")]
    return partition if _VERSIONS.fullmatch(partition) else None


def waiting_partition(turn: str) -> str:
    """The partition of the mark of a writer that waits for its turn, for the key ``turn`` of `turn_partition`.

    The sort of the mark is `MARK_SORT`.
    """
    return f"{turn}/waiting"


MARK_SORT = "mark"
NAME_SORT = "name"
ORGANISATIONS_PARTITION = "!organisations"
QUEUE_ATTEMPTS_PARTITION = "!attempts"
REJECTED_PARTITION = "!rejected"
COPY_PARTITION = "!copy"
MAINTENANCE_PARTITION = "!maintenance"


# Above ASCII the pattern matches control characters, U+FFFE and U+FFFF. S3 responds in XML, which cannot contain U+FFFE
# and U+FFFF. The pattern also matches lone surrogates, which then fail to encode.
# A pattern of the safe characters would contain large ranges. Python needs 4 ms to compile large ranges, and a tenth of
# that time to compile this pattern.
_UNSAFE = re.compile("[\0-,/:-@\\[-^`{-\x9f\ud800-\udfff\ufffe\uffff]")
_ENTRIES = re.compile("[^/]+/[^/]+@[^/]+/[0-9]+")
_VERSIONS = re.compile("[^/]+/!record/[^/]+")
_CUT_ESCAPE = re.compile("%.?$")


def _escape(name: str, what: str) -> str:
    if not isinstance(name, str) or not name:
        raise Invalid(f"{what} must be a text of at least one character", value=name)
    try:
        return _remembered(name) if len(name) <= ID_ESCAPED_BYTES_MAX else _escaped(name)
    except UnicodeEncodeError as exc:
        raise Invalid(f"{what} holds a lone surrogate", value=name.encode(errors="backslashreplace")) from exc


def _escaped(name: str) -> str:
    escaped = _UNSAFE.sub(_percent, name)
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped


def _percent(unsafe: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in unsafe[0].encode())


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


_remembered = lru_cache(ESCAPED_REMEMBERED)(_escaped)
"""`_escaped` with a cache. Each key that contains an id escapes the id, and a put of a record uses about four keys."""
