"""Damage: one stored object that is missing, cannot be read, or contradicts another stored object.

Every stored object has a kind. `docs/guides/verify.md` lists the kinds, and the damage that no check can detect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from stratalog.keys import (
    MAINTENANCE_PARTITION,
    MARK_SORT,
    NAME_SORT,
    ORGANISATIONS_PARTITION,
    entries_partition,
    number,
    segments_partition,
    snapshots_partition,
)
from stratalog.log.names import NameRecord
from stratalog.log.segments import segment_holding
from stratalog.log.verification import Finding, FindingKind
from stratalog.ports.index import Index, Item
from stratalog.ports.read_back import BlobDamage

__all__ = [
    "DAMAGES_OF_GAP_MAX",
    "DamageList",
    "Fault",
    "StoredDamage",
    "blob_kind",
    "entry_key",
    "item_key",
    "item_kind",
    "segment_key",
    "snapshot_key",
]

Fault = Literal["missing", "damaged", "contradicts"]
FAULTS: Mapping[FindingKind, Fault] = {"altered": "damaged", "missing": "missing", "disordered": "contradicts"}

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

    def add_blob(
        self, kind: str, key: str, damage: BlobDamage, *, derivable: bool = False, at: tuple[int, int] = (0, 0)
    ) -> None:
        """Add the damage that reading a blob back has found."""
        fault: Fault = "missing" if damage.is_missing else "damaged"
        self.add(kind, key, fault, damage.reason, derivable=derivable, at=at)

    def add_finding(self, finding: Finding, kind: str, body_kind: str, key_of: Callable[[int], str]) -> None:
        """Add a finding of a chain: the damage of a version's item or of its body. ``key_of`` gives an item's key."""
        at = finding.version, finding.last
        if finding.key:
            self.add(body_kind, finding.key, "missing", finding.reason, at=at)
            if finding.kind == "missing":
                reason = "a body that it names does not exist"
                self.add(kind, key_of(finding.version), "contradicts", reason, at=at)
            return
        for at in _ranges(finding.version, finding.last):
            self.add(kind, key_of(at[0]), FAULTS[finding.kind], finding.reason, at=at)

    def __len__(self) -> int:
        return len(self._damages)

    def damages(self) -> tuple[StoredDamage, ...]:
        """Return all damages in order of key."""
        return tuple(sorted(self._damages.values(), key=lambda damage: (damage.key, damage.kind)))


def _ranges(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the versions from ``first`` to ``last``: each as a range of one version, and a large rest as one range."""
    for version in range(first, min(last + 1, first + DAMAGES_OF_GAP_MAX - 1)):
        yield version, version
    if last >= (rest := first + DAMAGES_OF_GAP_MAX - 1):
        yield rest, last


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


def item_key(partition: str, sort: str) -> str:
    """Return an item's partition and sort key as one text."""
    return f"{partition} {sort}"


def segment_key(prefix: str, first: int) -> str:
    """Return the key of the record of a log's segment."""
    return item_key(segments_partition(prefix), number(first))


def snapshot_key(prefix: str, version: int) -> str:
    """Return the key of the item of a log's snapshot."""
    return item_key(snapshots_partition(prefix), number(version))


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
