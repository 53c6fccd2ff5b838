"""Damage: one stored object that is missing, cannot be read, or contradicts another stored object.

Every stored object has a kind. `docs/guides/verify.md` lists the kinds, and the damage that no check can detect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

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
from stratalog.limits import INTEGER_MAX, VERSION_MAX
from stratalog.log.names import NameRecord
from stratalog.log.segments import segment_holding
from stratalog.ports.index import Attribute, Index, Item

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


# The attributes of each kind, first the required and then the optional attributes. The letter after a name is its type:
# integer, number from 0 on, version, positive version, text, bytes, MessagePack. `RANGES` has the ranges that readers
# of stored items accept, too; see `stratalog.ports.stored_attributes`.
SHAPES = {
    "name record": ("k:t i:t c:i r:n s:p f:v o:t g:t h:b", "fh:b p:m d:i x:n"),
    "segment record": ("c:i r:n m:i", "a:m l:v d:n b:v"),
    "entry": ("h:b c:i w:t", "a:t p:t s:b b:b z:b x:m d:b"),
    "seal": ("c:i k:t", ""),
    "end marker": ("c:i k:t w:t", ""),
    "snapshot": ("c:i w:t h:b", "b:b z:b"),
    "pin": ("", ""),
    "family member": ("d:n", ""),
    "projection checkpoint": ("v:v h:b", ""),
    "directory line": ("k:t c:i", ""),
    "name line": ("k:t", ""),
    "organisation line": ("", ""),
    "deleted incarnation": ("m:i o:t l:t", "u:i"),
    "record version": ("c:i w:t n:n h:b ch:b", "s:b b:b z:b x:m t:i u:m k:t o:t p:t og:t d:b"),
    "record floor": ("v:p e:p g:p p:m r:n w:t", "ch:b og:t"),
    "upload": ("w:t c:i", ""),
    "failures": ("q:n d:n y:t f:i l:i w:t", "s:t n:n h:b b:b z:b x:m"),
    "dead letter": ("q:n d:n y:t f:i l:i w:t", "s:t n:n h:b b:b z:b x:m"),
    "attempt record": ("reason:t failed_ms:i client:t id:i tries:i receives:i redriven_ms:i", ""),
    "rejected mutation": (
        "organisation:t document:t incarnation:t client:t id:i reason:t receives:i rejected_ms:i args:b digest:b",
        "redriven_ms:i",
    ),
}
# An item of the kind has exactly one of these attributes.
BODIES = {"entry": "d b z x", "snapshot": "b z", "record version": "d k b z x"}
NUMBERED = {"segment record", "entry", "seal", "end marker", "snapshot", "record version"}
OF_PREFIXES = {"family member", "deleted incarnation"}
PREFIX = re.compile("[^/]+/[^/]+@[^/]+")
TYPES = {"i": int, "n": int, "v": int, "p": int, "t": str, "b": bytes, "m": bytes}
RANGES = {
    "i": range(-INTEGER_MAX, INTEGER_MAX + 1),
    "n": range(INTEGER_MAX + 1),
    "v": range(VERSION_MAX),
    "p": range(1, VERSION_MAX),
}
HASHES = {"h", "fh", "ch"}
HASH_BYTES = (0, 32)


class _Shape:
    """The shape of a kind, prepared once: `shape_fault` runs for each item of a backup and of a verification."""

    def __init__(self, kind: str, required: str, optional: str) -> None:
        pairs = [dict(pair.split(":") for pair in part.split()) for part in (required, optional)]
        self.required = frozenset(pairs[0])
        self.letters = {**pairs[1], **pairs[0]}
        self.types = {name: TYPES[letter] for name, letter in self.letters.items()}
        # The values of these attributes are checked too, not only their types.
        self.checked = frozenset(n for n, letter in self.letters.items() if letter not in "tb" or n in HASHES)
        self.bodies = frozenset(BODIES.get(kind, "").split())


def shape_fault(item: Item) -> str:
    """Return the fault in an item's key or attributes: in their names, types or encoding. Empty if there is no fault.

    The values are not compared with other items. An item of a kind that is not in `SHAPES` has no fault.
    """
    kind = item_kind(item)
    shape = _shapes.get(kind)
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
        if name in checked and (fault := _value_fault(shape.letters[name], name, value)):
            return fault
    if shape.bodies and len(names & shape.bodies) != 1:
        return f"an item must have exactly one of the attributes {', '.join(BODIES[kind].split())}"
    return ""


def _value_fault(letter: str, name: str, value: Attribute) -> str:
    if letter in RANGES and value not in RANGES[letter]:
        return f"the attribute {name} is out of range"
    if letter == "m" and not _decodes(value):
        return f"the attribute {name} cannot be decoded"
    if name in HASHES and isinstance(value, bytes) and len(value) not in HASH_BYTES:
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


_shapes = {kind: _Shape(kind, *shape) for kind, shape in SHAPES.items()}
