"""A cut of a backup: a view in which logs and records end at a version or a time.

A view as of a time cuts every record and every log that is not deleted in the backup. It omits the logs and records
that were created later. A log that is deleted in the backup stays deleted, even if it existed at the time. A view as of
a version cuts only one log.

A log is cut after a version. The segment of that version becomes the current segment. The view omits later snapshots
and projection checkpoints. A view as of a time also omits the forks that were created later. Origin, incarnation and
hashes stay, so the cut history is a prefix of the whole history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import islice

import msgspec

from stratalog.backups.family import unmarked
from stratalog.codec import is_decimal
from stratalog.errors import Invalid, NotFound, VersionForgotten
from stratalog.keys import parse_number, record_key, record_partition, segments_partition, unescape
from stratalog.log import Environment, Log, open_log
from stratalog.log.archive import open_archive
from stratalog.log.names import NameRecord, name_put, read_name, read_name_of
from stratalog.log.pins import pin_of
from stratalog.log.segments import segment_from_item
from stratalog.ports.index import NO_BLOBS, Absent, Index, Item, Write, no_turn
from stratalog.records.floor import FLOOR_SORT, floor_from_item
from stratalog.records.versions import BEFORE_VERSIONS

__all__ = ["CutIndex"]

CUTS_HELD_MAX = 1024
Change = Callable[[Item], Item | None]
"""Returns an item as of the cut; None if the item did not exist at the cut."""


class _LogCut(msgspec.Struct, frozen=True):
    """The end of a log: its last version, the segment that contains this version, and the name record as of the cut."""

    version: int
    segment: Item
    record: NameRecord


class CutIndex:
    """The index of ``environment`` as of ``time_ms``. Without a time, only the log ``prefix`` is cut after ``version``.

    Reads raise VersionForgotten for a log or record whose version at that time is not kept, and for a ``version`` that
    is not kept. Reads raise NotFound for a ``version`` beyond the head. Commits raise Invalid.
    """

    joint_commits = True
    blob_bytes_max = 0

    def __init__(
        self, environment: Environment, *, time_ms: int | None = None, prefix: str = "", version: int = 0
    ) -> None:
        self._environment = environment
        self._inner: Index = environment.index
        self._time_ms = time_ms
        self._prefix = prefix
        self._version = version
        self._cut = lru_cache(CUTS_HELD_MAX)(self._cut_log)

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item | None:
        items = self._listed(partition)
        if items is not None:
            return next((item for item in items if item.sort == sort), None)
        item, change = self._inner.get(partition, sort), self._change(partition)
        return change(item) if item is not None and change is not None else item

    def query(
        self,
        partition: str,
        *,
        after: str | None = None,
        before: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        consistent: bool = True,
    ) -> Iterator[Item]:
        return islice(self._items(partition, after, before, reverse), limit)

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        raise Invalid("a backup is read-only; restore it to write")

    def turn(self, partition: str) -> AbstractContextManager[bool]:
        return no_turn()

    def close(self) -> None:
        """Do nothing: this object does not own the connection of the index that it wraps."""

    def _items(self, partition: str, after: str | None, before: str | None, reverse: bool) -> Iterator[Item]:
        items = self._listed(partition)
        if items is not None:
            for item in reversed(items) if reverse else items:
                if (after is None or item.sort > after) and (before is None or item.sort < before):
                    yield item
            return
        change = self._change(partition)
        for item in self._inner.query(partition, after=after, before=before, reverse=reverse):
            changed = item if change is None else change(item)
            if changed is not None:
                yield changed

    def _listed(self, partition: str) -> list[Item] | None:
        """Return the items of an entries partition that the cut replaces as a whole; None for any other partition."""
        prefix, _, part = partition.rpartition("/")
        if "@" not in prefix or not is_decimal(part):
            return None
        cut = self._cut(prefix)
        if cut is None or part == str(parse_number(cut.segment.sort)):
            return None if cut is None or "a" not in cut.segment.attributes else self._unpacked(prefix, cut)
        return [] if int(part) > parse_number(cut.segment.sort) else None

    def _unpacked(self, prefix: str, cut: _LogCut) -> list[Item]:
        """Return the entries of the cut's last segment up to the cut's last version, from the segment's archive."""
        items = open_archive(self._environment, prefix, cut.record.owner, segment_from_item(cut.segment))
        return [item for item in items if parse_number(item.sort) <= cut.version]

    def _change(self, partition: str) -> Change | None:
        """Return the function that changes each item of a partition; None if the items stay as they are."""
        first, _, rest = partition.partition("/")
        if first == "!names":
            return lambda item: item if self._is_there(item.sort, unescape(rest)) else None
        if "@" in rest:
            prefix, _, part = partition.rpartition("/")
            return self._change_of_log(prefix, part)
        if not rest or first.startswith("!"):
            return None
        organisation = unescape(first)
        if rest.startswith("!"):
            return self._change_of_organisation(organisation, rest)
        return lambda item: self._cut_name(organisation, unescape(rest), item)

    def _change_of_organisation(self, organisation: str, rest: str) -> Change | None:
        if rest.startswith("!logs/"):
            return lambda item: item if self._is_there(organisation, item.sort) else None
        if self._time_ms is None:
            return None
        if rest.startswith("!records/"):
            return lambda item: item if self._has_record(organisation, item) else None
        if rest.startswith("!record/"):
            return lambda item: item if item.sort <= BEFORE_VERSIONS or self._is_before(item, "c") else None
        if rest in ("!failures", "!dead-letters"):
            return lambda item: item if self._is_before(item, "f") else None
        return None

    def _change_of_log(self, prefix: str, part: str) -> Change | None:
        if part == "family":
            return lambda item: item if self._is_member(item.sort) else None
        if part == "forks":
            return lambda item: item if self._is_member(pin_of(item).prefix) else None
        cut = self._cut(prefix)
        if cut is None:
            return None
        if part == "segments":
            return lambda item: self._cut_segment(cut, item)
        if part == "checkpoints":
            return lambda item: item if int(item.attributes["v"]) <= cut.version else None
        if part == "snapshots" or part == str(parse_number(cut.segment.sort)):
            return lambda item: item if parse_number(item.sort) <= cut.version else None
        return None

    def _cut_segment(self, cut: _LogCut, item: Item) -> Item | None:
        if item.sort == cut.segment.sort:
            return unmarked(item)
        return item if item.sort < cut.segment.sort else None

    def _cut_name(self, organisation: str, name: str, item: Item) -> Item | None:
        record = read_name(self._inner, organisation, name)
        if record is None or record.deleted_ms:
            return item
        if not self._is_there(organisation, name):
            return None
        cut = self._cut(record.prefix)
        return item if cut is None else name_put(cut.record, Absent()).item

    def _is_there(self, organisation: str, name: str) -> bool:
        """Return whether a log of the backup existed at the time of the cut; without a time, whether the backup has it.

        A deletion does not count, so the caller must handle deleted logs.
        """
        record = read_name(self._inner, organisation, name)
        return record is not None and (self._time_ms is None or record.created_ms <= self._time_ms)

    def _is_member(self, prefix: str) -> bool:
        """Return whether a log of a family is in the view. A deleted log is always in the view, since forks need it."""
        record = read_name_of(self._inner, prefix)
        return record is None or bool(record.deleted_ms) or self._is_there(record.organisation, record.name)

    def _is_before(self, item: Item, name: str) -> bool:
        time_ms = item.attributes.get(name)
        return self._time_ms is None or (isinstance(time_ms, int) and time_ms <= self._time_ms)

    def _has_record(self, organisation: str, line: Item) -> bool:
        """Return whether the record of a directory line had a version at the time of the cut.

        Raises VersionForgotten if the version is forgotten.
        """
        partition = record_partition(organisation, record_key(line.sort))
        floor = floor_from_item(self._inner.get(partition, FLOOR_SORT))
        versions = self._inner.query(partition, after=BEFORE_VERSIONS, reverse=True)
        latest = next((parse_number(item.sort) for item in versions if self._is_before(item, "c")), 0)
        if latest < floor.version and floor.version > 1 and (latest or self._is_before(line, "c")):
            raise VersionForgotten(
                "the record's version at that time is no longer kept", organisation=organisation, record=line.sort
            )
        return latest > 0

    def _cut_log(self, prefix: str) -> _LogCut | None:
        """Return the end of a log; None for a deleted log and for a log that is not cut: it ends as in the backup."""
        record = read_name_of(self._inner, prefix)
        if record is None or record.deleted_ms:
            return None
        if self._time_ms is None and prefix != self._prefix:
            return None
        log = open_log(self._environment, record.organisation, record.name)
        version = self._version_of(log)
        segments = list(self._inner.query(segments_partition(prefix)))
        segment = next((item for item in reversed(segments) if parse_number(item.sort) <= version), segments[0])
        first = parse_number(segment.sort)
        try:
            hash = log.hash_at(first - 1)
        except VersionForgotten:
            hash = record.hash  # any value will do: the hash is read only for a segment without entries
        cut = msgspec.structs.replace(record, segment=first, hash=hash)
        return _LogCut(version, segment, cut)

    def _version_of(self, log: Log) -> int:
        version = self._version if self._time_ms is None else log.version_at(self._time_ms)
        if version > log.head().version:
            raise NotFound("the backup does not hold the version", log=log.record.name, version=version)
        if version < max(log.floor(), log.first):
            raise VersionForgotten("the backup no longer keeps the version", log=log.record.name, version=version)
        return version
