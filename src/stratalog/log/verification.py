"""Verification of a hash chain: recomputes every hash, and reports each fault by kind and version.

The same walk verifies logs and records. A log supplies its entries, and a record supplies its versions. Each entry or
version is a `Link`, or a `Damage` if it could not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Literal

import msgspec

from stratalog.clock import Observation
from stratalog.codec import is_decimal
from stratalog.errors import Corrupt, Invalid, LimitExceeded, NotFound, StratalogError, Unsupported, VersionForgotten
from stratalog.log.callbacks import Report
from stratalog.log.chain import digest_of, link
from stratalog.log.entries import Entry
from stratalog.log.head import Head
from stratalog.log.log import Log

__all__ = [
    "DAMAGE_ERRORS",
    "INTACT_ERRORS",
    "ChainReport",
    "Damage",
    "Finding",
    "FindingKind",
    "Link",
    "certain_part",
    "check_chain",
    "check_upto",
    "damage_of",
    "verify_log",
]

FindingKind = Literal["altered", "missing", "disordered"]

DAMAGE_ERRORS = (Corrupt, NotFound, Invalid, LimitExceeded)
"""The errors that a read of damaged data can raise.

A stored value of an unexpected type raises Corrupt too. So another error, such as Python's TypeError, is a fault of the
code that reads or visits an entry, not damage.
"""

INTACT_ERRORS = (VersionForgotten, Unsupported)
"""Subclasses of `DAMAGE_ERRORS` that a read of intact data may raise. They are not damage."""

SEARCHES_MAX = 20
"""The limit of searches for misplaced links in one walk. Each search hashes every link of the history."""


class Finding(msgspec.Struct, frozen=True):
    """A fault of all versions from ``version`` to ``last``."""

    kind: FindingKind
    version: int
    last: int
    reason: str
    key: str = ""
    """The key of the blob that could not be read, if the fault is a blob."""


class Damage(msgspec.Struct, frozen=True):
    """A version that could not be read. ``hash`` is its stored hash, or empty if the hash could not be read either.

    A gap is one damage, up to ``last``: one damaged key of an item can make a gap of 10**15 versions.
    """

    version: int
    kind: FindingKind
    reason: str
    hash: bytes = b""
    key: str = ""
    """The key of the blob that could not be read, if the fault is a blob."""

    last: int = 0
    """The last version of the gap that begins at ``version``; 0 if only ``version`` is damaged."""


class Link(msgspec.Struct, frozen=True, gc=False):
    """One version as stored: its own facts and its stored hash."""

    version: int
    created_ms: int
    principal: str
    author: str
    write_id: str
    digest: bytes
    """The digest that was computed from the body; for a redacted body, the stored digest."""

    hash: bytes
    redacted: bool = False
    extras: Any = None

    def hash_after(self, before: bytes, version: int) -> bytes:
        """Return the hash that these facts have as version ``version`` after the hash ``before``."""
        who = self.principal, self.author, self.write_id
        return link(before, version, self.created_ms, *who, self.digest, self.extras)


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification. Without findings, each version after ``start`` follows from its predecessor."""

    origin: str
    start: int
    """The version before the first verified version: the floor of a log, the version before a record's floor, or 0."""

    version: int
    hash: bytes
    """The stored hash of ``version``; empty if it could not be read."""

    redacted: tuple[int, ...] = ()
    """The versions whose bodies were erased. The verification uses their stored digests."""

    findings: tuple[Finding, ...] = ()


def verify_log(
    log: Log,
    upto: int | None = None,
    *,
    progress: Report | None = None,
    visit: Callable[[Entry], None] = lambda entry: None,
) -> ChainReport:
    """Recompute a log's chain from the floor to ``upto`` or the head. Reads every entry there.

    ``log`` must have no upcasters.

    The function calls ``visit`` with each entry that it reads, in order. If it reads entries once more to explain a
    fault, it calls ``visit`` again.

    Raises NotFound, Unavailable, and VersionForgotten if ``upto`` is below the floor or the floor rises meanwhile.
    """
    start = log.floor()
    check_upto(log, upto, start)
    before = log.hash_at(start)
    head, damage = _head(log, start)
    last = head.version if upto is None else min(upto, head.version)

    def links() -> Iterator[Link | Damage]:
        yield from _links(log, start, last, head, visit)
        if damage is not None and (upto is None or upto >= damage.version):
            yield damage

    return check_chain(log.record.origin, start, before, links, progress)


def certain_part(report: ChainReport, before: int, floor: int) -> ChainReport | None:
    """Return the certain part of a report whose verification began with the floor ``before`` and ended with ``floor``.

    If the floor has not risen, the whole report is certain. Otherwise, versions that were forgotten and freed meanwhile
    look like damage, so only findings above ``floor`` are certain. Return None if there are findings, but none is
    certain.
    """
    if floor == before or not report.findings:
        return report
    certain = tuple(
        msgspec.structs.replace(finding, version=max(finding.version, floor + 1))
        for finding in report.findings
        if finding.last > floor
    )
    return msgspec.structs.replace(report, start=floor, findings=certain) if certain else None


def check_upto(log: Log, upto: int | None, start: int) -> None:
    """Check that a verification that begins at the version ``start`` can end at ``upto``.

    Raises VersionForgotten if ``upto`` is below the floor. Raises Invalid if ``upto`` is at or above the floor, but
    before ``start``, as for a version of a fork's ancestor.
    """
    if upto is None or upto >= start:
        return
    floor = log.floor()
    if upto < floor:
        raise VersionForgotten("the version is no longer kept", log=log.record.name, version=upto, floor=floor)
    raise Invalid("the version precedes the first version of the rebuild", value=upto, first=start)


def check_chain(
    origin: str,
    start: int,
    before: bytes,
    links: Callable[[], Iterable[Link | Damage]],
    progress: Report | None = None,
) -> ChainReport:
    """Verify the versions after ``start``, whose hash is ``before``.

    ``links`` yields the versions in order. The function calls ``links`` once more if it must search for misplaced
    links. After each version or gap, it calls ``progress`` with the number of versions.
    """
    walk = _Walk(start, _stored_hash(before), links)
    for step in links():
        seen = walk.version
        walk.take(step)
        if progress:
            progress(walk.version - seen)
    return ChainReport(
        origin=origin,
        start=start,
        version=walk.version,
        hash=walk.hash,
        redacted=tuple(walk.redacted),
        findings=tuple(walk.findings),
    )


class _Walk:
    """The walk along one history. The walk continues after a fault, so it finds later faults too."""

    def __init__(self, start: int, before: bytes, links: Callable[[], Iterable[Link | Damage]]) -> None:
        self.version = start
        self.hash = before
        self.redacted: list[int] = []
        self.findings: list[Finding] = []
        self._links = links
        self._known: list[Link] | None = None
        self._searches = 0
        self._befores: tuple[bytes, ...] = (before,)
        """The hashes that the next version may follow. If empty, the next version may follow any hash."""

    def take(self, step: Link | Damage) -> None:
        """Verify the next version, or pass a gap."""
        if (hash := _stored_hash(step.hash)) is not step.hash:
            step = msgspec.structs.replace(step, hash=hash)
        self.version = step.version
        if isinstance(step, Damage):
            self.version = max(step.version, step.last)
            self._find(step.kind, step.version, step.reason, step.key)
            self.hash, self._befores = step.hash, (step.hash,) if step.hash else ()
            return
        self.hash = step.hash
        if step.redacted:
            self.redacted.append(step.version)
        computed = [step.hash_after(before, step.version) for before in self._befores]
        if not computed or step.hash in computed:
            self._befores = (step.hash,)
        else:
            self._misfit(step, computed)

    def _misfit(self, step: Link, computed: list[bytes]) -> None:
        """Report a version whose hash is wrong: it has another version's content, or it was altered."""
        if (right := self._belonging(step.version)) is not None:
            self._find("disordered", step.version, "it has another version's content")
            self._befores = (right.hash,)
            return
        self._find("altered", step.version, "its hash does not follow from its content and the hash before it")
        # Accept both hashes: the next version follows the computed hash if the hash was altered, else the stored hash.
        self._befores = (step.hash, *computed)

    def _belonging(self, version: int) -> Link | None:
        """Return another version's link that continues the history as ``version``.

        Return None if the search finds no such link, or after `SEARCHES_MAX` searches.
        """
        self._searches += 1
        if self._searches > SEARCHES_MAX:
            return None
        if self._known is None:
            self._known = [step for step in self._links() if isinstance(step, Link)]
        for other in self._known:
            if other.version != version and other.hash in [other.hash_after(x, version) for x in self._befores]:
                return other
        return None

    def _find(self, kind: FindingKind, version: int, reason: str, key: str = "") -> None:
        """Add a fault of the versions from ``version`` to the version that the walk has reached."""
        last = self.findings[-1] if self.findings else None
        if last is not None and (last.kind, last.last, last.reason, last.key) == (kind, version - 1, reason, key):
            self.findings[-1] = msgspec.structs.replace(last, last=self.version)
        else:
            self.findings.append(Finding(kind, version, self.version, reason, key))


def damage_of(version: int, error: StratalogError, hash: bytes = b"") -> Damage:
    """Return the damage of a version whose read raised ``error``."""
    is_missing = isinstance(error, NotFound) or isinstance(error.__cause__, NotFound)
    key = error.details.get("key", "")
    kind: FindingKind = "missing" if is_missing else "altered"
    fault = error.details.get("reason")
    reason = f"{error.message}: {fault}" if fault else error.message
    return Damage(version, kind, reason, hash, key if isinstance(key, str) else "")


def _stored_hash(value: object) -> bytes:
    """Return a stored hash. For a damaged value of another type return ``b""``, which is the hash of no version."""
    return value if isinstance(value, bytes) else b""


def link_of(entry: Entry) -> Link:
    """Return the link of an entry."""
    return Link(
        entry.version,
        entry.created_ms,
        entry.principal,
        entry.author,
        entry.write_id,
        digest_of(entry),
        entry.hash,
        bool(entry.redacted),
    )


def _head(log: Log, start: int) -> tuple[Head, Damage | None]:
    """Return the head. If the last item cannot be read, return a head before it, and the damage of its version.

    If not even the item's key can be read, its version is unknown. The damage then has the version ``start``.
    """
    seen = Observation(log.environment.clock)
    try:
        return log.head(), None
    except Corrupt as exc:
        sort = str(exc.details.get("sort", ""))
        version = int(sort) if is_decimal(sort) else start
        return Head(version - 1, version, 0, b"", seen), Damage(version, "altered", exc.message)


def _links(log: Log, after: int, upto: int, head: Head, visit: Callable[[Entry], None]) -> Iterator[Link | Damage]:
    while after < upto:
        # The read of a range ends at a fault. Read the faulty version by itself. The next range begins after it.
        with suppress(*DAMAGE_ERRORS):
            for entry in log.read(after, upto, head=head):
                visit(entry)
                yield link_of(entry)
                after = entry.version
        if after < upto:
            step = _link_at(log, after + 1, visit)
            if isinstance(step, Damage) and step.kind == "missing" and not step.key:
                step = msgspec.structs.replace(step, last=_last_of_gap(log, step.version, upto))
                after = step.last
            else:
                after = step.version
            yield step


def _link_at(log: Log, version: int, visit: Callable[[Entry], None]) -> Link | Damage:
    """Read one version by itself, after the read of a range met a fault."""
    try:
        entry = log.entry(version)
        visit(entry)
        return link_of(entry)
    except INTACT_ERRORS:
        raise
    except DAMAGE_ERRORS as exc:
        return damage_of(version, exc)


def _last_of_gap(log: Log, version: int, upto: int) -> int:
    """Return the last version of the gap that begins at ``version``, at most ``upto``."""
    try:
        return log.next_stored(version, upto) - 1
    except Corrupt:
        return version
