"""The shape of stored items: the attributes of each kind, their types, ranges and encodings, and its keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import msgspec.inspect

from stratalog.documents.projections import StoredCheckpoint
from stratalog.errors import Corrupt
from stratalog.keys import number, parse_number
from stratalog.limits import VERSION_DIGITS
from stratalog.log.directory import StoredLine, StoredNameLine
from stratalog.log.entries import StoredEntry, StoredRedaction
from stratalog.log.family_members import StoredMember
from stratalog.log.names import StoredName
from stratalog.log.segments import StoredSegment
from stratalog.log.snapshots import StoredSnapshot
from stratalog.log.sweep import StoredDeletion
from stratalog.maintenance.damage import item_kind
from stratalog.ports.index import Attribute, Item
from stratalog.ports.stored_attributes import HASH, PACKED, Integer, Time
from stratalog.records.failures import StoredFailures
from stratalog.records.floor import StoredRecordFloor
from stratalog.records.uploads import StoredUpload
from stratalog.records.versions import StoredRecordVersion

__all__ = ["shape_fault"]


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
PIN = re.compile(rf"[0-9]{{{VERSION_DIGITS}}} {PREFIX.pattern}")
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
    if kind == "pin" and not PIN.fullmatch(item.sort):
        return "the key of the item is not a version and the prefix of a log"
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
