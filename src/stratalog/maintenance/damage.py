"""Damage: one stored object that is missing, cannot be read, or contradicts another stored object.

Every stored object has a kind. `docs/guides/verify.md` lists the kinds, and the damage that no check can detect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
import msgspec.inspect

from stratalog.documents.projections import StoredCheckpoint
from stratalog.errors import Corrupt
from stratalog.keys import (
    MAINTENANCE_PARTITION,
    MARK_SORT,
    NAME_SORT,
    ORGANISATIONS_PARTITION,
    entries_partition,
    number,
    parse_number,
)
from stratalog.log.directory import StoredLine, StoredNameLine
from stratalog.log.entries import StoredEntry, StoredRedaction
from stratalog.log.family_members import StoredMember
from stratalog.log.names import NameRecord, StoredName
from stratalog.log.segments import StoredSegment, segment_holding
from stratalog.log.snapshots import StoredSnapshot
from stratalog.log.sweep import StoredDeletion
from stratalog.ports.index import Attribute, Index, Item
from stratalog.ports.stored_attributes import HASH, PACKED, Integer, Time
from stratalog.records.failures import StoredFailures
from stratalog.records.floor import StoredRecordFloor
from stratalog.records.uploads import StoredUpload
from stratalog.records.versions import StoredRecordVersion

__all__ = [
    "DAMAGES_OF_GAP_MAX",
    "DamageList",
    "Fault",
    "StoredDamage",
    "blob_kind",
    "damaged_ranges",
    "entry_key",
    "item_key",
    "item_kind",
    "shape_fault",
]

Fault = Literal["missing", "damaged", "contradicts"]


DAMAGES_OF_GAP_MAX = 1000
"""A range of damaged versions has at most this many damages, so that a huge gap needs little memory."""


class StoredDamage(msgspec.Struct, frozen=True):
    """The damage of one stored object."""

    kind: str
    key: str
    """The blob's key, or the item's partition and sort key with a space between."""

    fault: Fault
    reason: str
    history: str = ""
    """The log or record that needs the object, as `ORGANISATION/NAME`."""

    first: int = 0
    last: int = 0
    """The first and last version known to need the object; 0 if none is known.

    A range of more than `DAMAGES_OF_GAP_MAX` versions ends with one damage for its rest, from ``first`` to ``last``.
    The ``key`` of this damage names the object of ``first``.
    """

    derivable: bool = False
    """Whether `repair` can restore the object from intact objects."""


class DamageList:
    """The damages found so far, one for each kind and key."""

    def __init__(self) -> None:
        self._damages: dict[tuple[str, str], StoredDamage] = {}
        self.history = ""
        self.first = self.last = 0
        """The first and last version being read. `add` records them as the versions that need the damaged object."""

    def add(
        self, kind: str, key: str, fault: Fault, reason: str, *, derivable: bool = False, at: tuple[int, int] = (0, 0)
    ) -> None:
        """Add one damage. For an object already in the list, extend the range of versions that need it.

        ``at`` is the first and last version that need the object; by default the versions being read.
        """
        first, last = at if at != (0, 0) else (self.first, self.last)
        known = self._damages.get((kind, key))
        if known is None:
            known = StoredDamage(kind, key, fault, reason, self.history, first, last, derivable)
        elif first:
            known = msgspec.structs.replace(known, first=min(known.first or first, first), last=max(known.last, last))
        if derivable and not known.derivable:
            known = msgspec.structs.replace(known, derivable=True)
        self._damages[kind, key] = known

    def __len__(self) -> int:
        return len(self._damages)

    def damages(self) -> tuple[StoredDamage, ...]:
        """Return all damages in order of key."""
        return tuple(sorted(self._damages.values(), key=lambda damage: (damage.key, damage.kind)))


BLOB_KINDS = {
    "app-snapshots": "app snapshot part",
    "archive": "archive",
    "arguments": "argument",
    "bodies": "entry body",
    "chunks": "chunk",
    "collecting": "collection progress",
    "fields": "value",
    "items": "value",
}


def blob_kind(key: str) -> str:
    """Return the kind of a blob's content, by its key (`formats/keys.md`)."""
    _, owner, folder, *_ = [*key.split("/"), "", ""]
    if owner in ("records", "queue"):
        return "record body" if owner == "records" else "queued push"
    return BLOB_KINDS.get(folder, "application's blob")


def damaged_ranges(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the versions from ``first`` to ``last``: each as a range of one version, and a large rest as one range."""
    for version in range(first, min(last + 1, first + DAMAGES_OF_GAP_MAX - 1)):
        yield version, version
    if last >= (rest := first + DAMAGES_OF_GAP_MAX - 1):
        yield rest, last


def item_key(partition: str, sort: str) -> str:
    """Return an item's partition and sort key as one text."""
    return f"{partition} {sort}"


def entry_key(index: Index, record: NameRecord, version: int) -> str:
    """Return the key of the item of a log's entry. A fork's older entries belong to its ancestors."""
    owners = (parent.prefix for parent in record.lineage if version <= parent.version)
    prefix = next(owners, record.prefix)
    segment = segment_holding(index, prefix, version)
    return item_key(entries_partition(prefix, segment.first if segment else 1), number(version))


TOP_KINDS = {
    "!rejected": "rejected mutation",
    "!attempts": "attempt record",
    "!copy": "copy position",
    ORGANISATIONS_PARTITION: "organisation line",
    MAINTENANCE_PARTITION: "maintenance position",
    "!names": "name line",
    "!live": "listener",
    "!connection": "connection",
}
SHELF_KINDS = {
    "!logs": "directory line",
    "!records": "directory line",
    "!deleted": "deleted incarnation",
    "!uploads": "upload",
    "!failures": "failures",
    "!dead-letters": "dead letter",
    "!collecting": "collection progress",
    "!usage": "usage",
}
PART_KINDS = {
    "segments": "segment record",
    "snapshots": "snapshot",
    "forks": "pin",
    "family": "family member",
    "checkpoints": "projection checkpoint",
}


def item_kind(item: Item) -> str:
    """Return the kind of an item; empty if unknown. The key decides the kind, for entries also the attribute `k`."""
    if item.partition.startswith("!"):
        return TOP_KINDS.get(item.partition.partition("/")[0], "")
    _, second, third = [*item.partition.split("/", 2), "", ""][:3]
    if item.sort == MARK_SORT and item.partition.endswith("/waiting"):
        return ""  # a hint that a writer waits; correctness does not need the hint
    if second == "!record":
        return "record floor" if item.sort == "!floor" else "record version"
    if second.startswith("!"):
        return SHELF_KINDS.get(second, "")
    if not third:
        return "name record" if item.sort == NAME_SORT else ""
    if third in PART_KINDS:
        return PART_KINDS[third]
    return {"s": "seal", "e": "end marker"}.get(str(item.attributes.get("k", "")), "entry")


class _Seal(msgspec.Struct):
    c: Time
    k: str


class _EndMarker(msgspec.Struct):
    c: Time
    k: str
    w: str


class _NoAttributes(msgspec.Struct):
    pass


class _AttemptRecord(msgspec.Struct):
    """`AttemptRecord` as it is written, with all attributes. Its reader accepts a record that lacks some of them."""

    reason: str
    failed_ms: Time
    client: str
    id: Integer
    tries: Integer
    receives: Integer
    redriven_ms: Time


class _RejectedMutation(msgspec.Struct):
    """`RejectedMutation` as it is written."""

    organisation: str
    document: str
    incarnation: str
    client: str
    id: Integer
    reason: str
    receives: Integer
    rejected_ms: Time
    args: bytes
    digest: bytes
    redriven_ms: Time = 0


# The attributes of each kind. Most structs are those by which the readers read the items. A struct of this module is of
# a kind that no reader reads as a whole, or whose reader accepts less than what is written.
STRUCTS: Mapping[str, tuple[type[msgspec.Struct], ...]] = {
    "name record": (StoredName,),
    "segment record": (StoredSegment,),
    "entry": (StoredEntry, StoredRedaction),
    "seal": (_Seal,),
    "end marker": (_EndMarker,),
    "snapshot": (StoredSnapshot,),
    "pin": (_NoAttributes,),
    "family member": (StoredMember,),
    "projection checkpoint": (StoredCheckpoint,),
    "directory line": (StoredLine,),
    "name line": (StoredNameLine,),
    "organisation line": (_NoAttributes,),
    "deleted incarnation": (StoredDeletion,),
    "record version": (StoredRecordVersion,),
    "record floor": (StoredRecordFloor,),
    "upload": (StoredUpload,),
    "failures": (StoredFailures,),
    "dead letter": (StoredFailures,),
    "attempt record": (_AttemptRecord,),
    "rejected mutation": (_RejectedMutation,),
}
# An item of the kind has exactly one of these attributes.
BODIES = {"entry": "d b z x", "snapshot": "b z", "record version": "d k b z x"}
NUMBERED = {"segment record", "entry", "seal", "end marker", "snapshot", "record version"}
OF_PREFIXES = {"family member", "deleted incarnation"}
PREFIX = re.compile("[^/]+/[^/]+@[^/]+")
HASH_BYTES = (0, 32)


class _Attribute(msgspec.Struct, frozen=True):
    """The values that an attribute may have."""

    kind: type
    numbers: range | None = None
    is_hash: bool = False
    is_packed: bool = False

    @property
    def is_checked(self) -> bool:
        """Whether a value of the type may still be a fault."""
        return self.numbers is not None or self.is_hash or self.is_packed


class _Shape:
    """The shape of a kind, prepared once: `shape_fault` runs for each item of a backup and of a verification."""

    def __init__(self, kind: str, structs: Sequence[type[msgspec.Struct]]) -> None:
        fields = [msgspec.inspect.type_info(struct).fields for struct in structs]  # type: ignore[attr-defined]
        self.attributes = {field.name: _attribute(field.type) for part in fields for field in part}
        self.required = frozenset.intersection(*(frozenset(f.name for f in part if f.required) for part in fields))
        self.types = {name: attribute.kind for name, attribute in self.attributes.items()}
        self.checked = frozenset(name for name, attribute in self.attributes.items() if attribute.is_checked)
        self.bodies = frozenset(BODIES.get(kind, "").split())


def _attribute(kind: msgspec.inspect.Type) -> _Attribute:
    extra: Mapping[str, Any] = {}
    if isinstance(kind, msgspec.inspect.Metadata):
        extra = kind.extra or {}
        kind = kind.type
    if isinstance(kind, msgspec.inspect.UnionType):  # an attribute that may be missing
        (kind,) = (each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType))
    if isinstance(kind, msgspec.inspect.StrType):
        return _Attribute(str)
    if isinstance(kind, msgspec.inspect.BytesType):
        return _Attribute(bytes, is_hash=HASH in extra, is_packed=PACKED in extra)
    assert isinstance(kind, msgspec.inspect.IntType), "an attribute is a text, bytes or a whole number"
    lowest, end, highest = kind.ge, kind.lt, kind.le
    assert lowest is not None, "each stored number has a range"
    return _Attribute(int, numbers=range(lowest, end if end is not None else (highest or 0) + 1))


def shape_fault(item: Item) -> str:
    """Return the fault in an item's key or attributes: in their names, types or encoding. Empty if there is no fault.

    The values are not compared with other items. An item of a kind that is not in `SHAPES` has no fault.
    """
    kind = item_kind(item)
    shape = SHAPES.get(kind)
    if shape is None:
        return ""
    if kind in NUMBERED and not _is_version(item.sort):
        return "the key of the item is not a version"
    if kind in OF_PREFIXES and not PREFIX.fullmatch(item.sort):
        return "the key of the item is not the prefix of a log"
    names = item.attributes.keys()
    if not names >= shape.required:
        return f"an item lacks the attribute {min(shape.required - names)}"
    types, checked = shape.types, shape.checked
    for name, value in item.attributes.items():
        type_ = types.get(name)
        if type_ is None:
            return f"an item has the attribute {name!r}, which its kind does not have"
        if not isinstance(value, type_):
            return f"the attribute {name} has the wrong type"
        if name in checked and (fault := _value_fault(shape.attributes[name], name, value)):
            return fault
    if shape.bodies and len(names & shape.bodies) != 1:
        return f"an item must have exactly one of the attributes {', '.join(BODIES[kind].split())}"
    return ""


def _value_fault(attribute: _Attribute, name: str, value: Attribute) -> str:
    if attribute.numbers is not None and value not in attribute.numbers:
        return f"the attribute {name} is out of range"
    if attribute.is_packed and not _decodes(value):
        return f"the attribute {name} cannot be decoded"
    if attribute.is_hash and isinstance(value, bytes) and len(value) not in HASH_BYTES:
        return f"the attribute {name} is not a hash"
    return ""


def _is_version(sort: str) -> bool:
    try:
        return number(parse_number(sort)) == sort
    except Corrupt:
        return False


def _decodes(value: Attribute) -> bool:
    try:
        msgspec.msgpack.decode(value)  # type: ignore[arg-type]
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError, RecursionError):
        return False
    return True


SHAPES: Mapping[str, _Shape] = {kind: _Shape(kind, structs) for kind, structs in STRUCTS.items()}
