"""A model of a log, computed only from the journal of commits. The model shares no code with the log's readers."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import zstandard

from stratalog.keys import escape
from stratalog.log.names import Parent
from stratalog.ports.index import Item, Put, Write
from stratalog.testing.checkers import LoggedEntry, Violation

__all__ = ["Answer", "LogTruth", "Truth", "check_answers"]

ENTRIES = re.compile(r"(.+@[a-z2-7]+)/(\d+)")


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A definite answer about the head: its ``version``, or -1 for NotFound.

    ``sent`` and ``answered`` are the numbers of commits that had taken effect at the request and at the answer.
    """

    prefix: str
    sent: int
    answered: int
    version: int


class LogTruth:
    """One incarnation of a log: the write and the commit of each version. A moment is the number of commits so far."""

    def __init__(
        self,
        name: tuple[str, str],
        created: int,
        first: int,
        floor: int,
        before: bytes,
        parents: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.name = name
        """The organisation and the name of the log, as written in keys."""

        self.created = created
        self.first = first
        self.parents = parents
        """The ancestors of a fork, oldest first: the prefix of each, and its last version that belongs to the fork."""

        self.before = before
        """The hash before the first entry."""

        self.hashes: list[bytes] = []
        self.segment = first
        self.entries: list[LoggedEntry] = []
        self.moments: list[int] = []
        self.deleted: int | None = None
        self.floor = self.first_floor = floor
        self.floors: list[tuple[int, int]] = []
        """Each rise of the floor: its moment, and the new floor."""

    def hash_at(self, version: int) -> bytes:
        """Return the hash of one of the log's versions, or of the version before the first version."""
        return self.hashes[version - self.first] if version >= self.first else self.before

    @property
    def head(self) -> int:
        """The newest version."""
        return self.first - 1 + len(self.entries)

    def head_at(self, moment: int) -> int:
        """Return the newest version after ``moment`` commits."""
        return self.first - 1 + bisect_right(self.moments, moment)

    def floor_at(self, moment: int) -> int:
        """Return the floor after ``moment`` commits."""
        return max((floor for rose, floor in self.floors if rose <= moment), default=self.first_floor)

    def lived(self, since: int, until: int) -> bool:
        """Return whether the log existed at some moment from ``since`` to ``until``."""
        return self.created <= until and (self.deleted is None or self.deleted > since)


class Truth:
    """All incarnations of all logs. ``strays`` counts orphaned writes at freed positions or after an end marker."""

    def __init__(self, commits: Iterable[Sequence[Write]]) -> None:
        self.logs: dict[str, LogTruth] = {}
        self.strays = 0
        for moment, writes in enumerate(commits, 1):
            for write in writes:
                if isinstance(write, Put):
                    self._learn(write.item, moment)

    def write_ids(self, prefix: str, lineage: Sequence[Parent]) -> dict[int, str]:
        """Return the write id of each version of a log whose ancestors are ``lineage``."""
        written = {
            entry.version: entry.write_id
            for parent in lineage
            for entry in self.logs[parent.prefix].entries
            if entry.version <= parent.version
        }
        return written | {entry.version: entry.write_id for entry in self.logs[prefix].entries}

    def floor_at(self, prefix: str, moment: int) -> int:
        """Return the oldest version of a log that the log and its ancestors kept after ``moment`` commits."""
        floor, before = self.logs[prefix].floor_at(moment), 0
        for parent, version in self.logs[prefix].parents:
            theirs = self.logs[parent].floor_at(moment)
            floor, before = max(floor, theirs if theirs > before else 0), version
        return floor

    def _learn(self, item: Item, moment: int) -> None:
        attributes: Any = item.attributes
        if item.sort == "name":
            self._learn_name(item.partition, attributes, moment)
        elif match := ENTRIES.fullmatch(item.partition):
            self._learn_entry(self.logs[match[1]], int(match[2]), int(item.sort), attributes, moment)

    def _learn_name(self, partition: str, attributes: Any, moment: int) -> None:
        prefix = f"{partition}@{attributes['i']}"
        own = self.logs.get(prefix)
        if own is None:
            organisation, _, name = partition.partition("/")
            parents = _parents(attributes)
            before = self._beginning(attributes, parents)
            log = LogTruth((organisation, name), moment, attributes["s"], attributes["f"], before, parents)
            if any(other.name == log.name and other.deleted is None for other in self.logs.values()):
                raise Violation("created", "a log was created under the name of an existing log", log=prefix)
            self.logs[prefix] = log
            return
        if attributes["f"] < own.floor:
            raise Violation("floor", "a floor was lowered", log=prefix, floor=attributes["f"], before=own.floor)
        if attributes["f"] > own.floor:
            own.floor = attributes["f"]
            own.floors.append((moment, own.floor))
        if own.deleted != (moment if "d" in attributes else None):
            raise Violation("deleted", "a log's name record contradicts its end marker", log=prefix, moment=moment)

    def _beginning(self, attributes: Any, parents: Sequence[tuple[str, int]]) -> bytes:
        """Return the hash before a new log's first entry: the hash of its origin, or of the version at its fork."""
        if not parents:
            return hashlib.sha256(b"stratalog history 1\0" + attributes["g"].encode()).digest()
        prefix, version = parents[-1]
        return self.logs[prefix].hash_at(version)

    def _learn_entry(self, log: LogTruth, segment: int, version: int, attributes: Any, moment: int) -> None:
        if (segment, version) != (log.segment, log.head + 1) or log.deleted is not None:
            self.strays += 1
        elif attributes.get("k") == "s":
            log.segment = version
        elif attributes.get("k") == "e":
            log.deleted = moment
        else:
            writer, _, number = attributes["w"].rpartition(".")
            log.entries.append(LoggedEntry(version, writer, attributes["w"], int(number)))
            log.moments.append(moment)
            log.hashes.append(next_hash(log.hash_at(version - 1), version, attributes))
            if log.hashes[-1] != attributes["h"]:
                raise Violation("chain", "an entry's hash does not follow from the hash before it", version=version)


def _parents(attributes: Any) -> list[tuple[str, int]]:
    """Return the ancestors in a name record: the prefix and the last version of each."""
    lineage = msgspec.msgpack.decode(attributes["p"]) if "p" in attributes else []
    return [(f"{escape(organisation)}/{escape(log)}@{inc}", version) for organisation, log, inc, version, _ in lineage]


def next_hash(before: bytes, version: int, attributes: Any) -> bytes:
    """Return the hash of an entry by `formats/chain.md`, computed only from the entry's item and the previous hash."""
    if "x" in attributes:
        address, _, digest = msgspec.msgpack.decode(attributes["x"])
        body_hash = digest or address
    else:
        body = attributes["b"] if "b" in attributes else zstandard.decompress(attributes["z"])
        body_hash = hashlib.sha256(body).digest()
    digest = hashlib.sha256(attributes["s"] + body_hash).digest()
    who = attributes.get("p", ""), attributes.get("a", "")
    facts = msgspec.msgpack.encode([1, version, attributes["c"], *who, attributes["w"], digest, None])
    return hashlib.sha256(before + hashlib.sha256(facts).digest()).digest()


def check_answers(answers: Iterable[Answer], truth: Truth) -> None:
    """Check that every definite answer was true at some moment between the request and the answer."""
    for answer in answers:
        log = truth.logs[answer.prefix]
        if answer.version < 0:
            if log.deleted is None or log.deleted > answer.answered:
                raise Violation("not-found", "a call reported an existing log as deleted", answer=answer)
        elif not (
            log.head_at(answer.sent) <= answer.version <= log.head_at(answer.answered)
            and log.lived(answer.sent, answer.answered)
        ):
            raise Violation(
                "stale-answer",
                "a returned head was not valid at any time during the call",
                answer=answer,
                version_min=log.head_at(answer.sent),
                version_max=log.head_at(answer.answered),
            )
