"""Reading: every read is bounded by a version fixed first, so that pages never tear, and a gap is never skipped."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from stratalog.errors import Corrupt, NotFound, VersionForgotten
from stratalog.keys import entries_partition, number
from stratalog.log.archive import read_archive
from stratalog.log.entries import Entry, Upcasters, entry_from_item
from stratalog.log.place import Place
from stratalog.log.segments import Segment, list_segments, segment_holding
from stratalog.ports.index import Item

__all__ = ["Reader"]


class Reader:
    """Reads the entries of one incarnation of a log from wherever they lie: index or archive."""

    def __init__(self, place: Place, prefix: str, owner: str, upcasters: Upcasters | None) -> None:
        self._place = place
        self._prefix = prefix
        self._owner = owner
        self._upcasters = upcasters
        self._archived = _Archived()

    def entry(self, version: int, current: int | None = None) -> Entry:
        """Entry ``version``. ``current`` is the first version of the current segment, if the caller knows it.

        Raises NotFound, VersionForgotten, Corrupt.
        """
        item = self._item(version, current) if current is not None and version >= current else None
        return self._entry(item or self._found(version))

    def read(self, after: int, upto: int, current: int | None = None) -> Iterator[Entry]:
        """Entries ``after`` + 1 to ``upto``, which the caller knows to exist. Raises Corrupt, VersionForgotten."""
        version = after
        while version < upto:
            for entry in self._run(version + 1, upto, current):
                version += 1
                yield entry

    def _run(self, first: int, upto: int, current: int | None) -> Iterator[Entry]:
        """Entries from ``first`` on, as far as one segment holds them; at least one."""
        if current is not None and first >= current:
            return self._from_index(current, first, upto)
        segment = self._segment(first)
        following = next(list_segments(self._place.index, self._prefix, first=first + 1), None)
        last = min(upto, following.first - 1) if following else upto
        if segment.marked_ms:
            return map(self._entry, self._from_archive(segment, first, last))
        return self._from_index(segment.first, first, last)

    def _from_index(self, segment: int, first: int, last: int) -> Iterator[Entry]:
        place, owner, upcasters = self._place, self._owner, self._upcasters
        items = place.index.query(
            entries_partition(self._prefix, segment), after=number(first - 1), before=number(last + 1)
        )
        expected = first
        for item in items:
            entry = entry_from_item(item, place.blobs, owner, upcasters) if "k" not in item.attributes else None
            if entry is None or entry.version != expected:
                break
            yield entry
            expected += 1
        if expected <= last:
            yield self._again(expected)

    def _again(self, version: int) -> Entry:
        """An entry that must exist and was not met where it was looked for: moved to the archive, or lost."""
        try:
            return self._entry(self._found(version))
        except VersionForgotten:
            raise
        except NotFound as exc:
            raise Corrupt("an entry below the head is missing", prefix=self._prefix, version=version) from exc

    def _found(self, version: int) -> Item:
        """The item of an entry, wherever it lies now. Looks twice, since a segment may be freed between two reads."""
        for _ in range(2):
            segment = self._segment(version)
            if segment.marked_ms:
                return next(self._from_archive(segment, version, version))
            item = self._item(version, segment.first)
            if item is not None:
                return item
        raise NotFound("no such version", prefix=self._prefix, version=version)

    def _segment(self, version: int) -> Segment:
        segment = segment_holding(self._place.index, self._prefix, version) if version > 0 else None
        if segment is None or (segment.marked_ms and segment.archive is None):
            raise VersionForgotten("the version is not kept", prefix=self._prefix, version=version)
        return segment

    def _item(self, version: int, segment: int) -> Item | None:
        item = self._place.index.get(entries_partition(self._prefix, segment), number(version))
        return None if item is None or "k" in item.attributes else item

    def _from_archive(self, segment: Segment, first: int, last: int) -> Iterator[Item]:
        items = self._archived.get(segment.first)
        if items is None:
            items = read_archive(self._place, self._prefix, self._owner, segment)
            self._archived.keep(segment.first, items)
        if not segment.first <= first <= last <= segment.last:
            raise NotFound("no such version", prefix=self._prefix, version=last)
        yield from items[first - segment.first : last - segment.first + 1]

    def _entry(self, item: Item) -> Entry:
        return entry_from_item(item, self._place.blobs, self._owner, self._upcasters)


class _Archived:
    """The archived segment read last: walks and binary searches stay within one for long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = 0
        self._items: list[Item] | None = None

    def get(self, first: int) -> list[Item] | None:
        with self._lock:
            return self._items if first == self._first else None

    def keep(self, first: int, items: list[Item]) -> None:
        with self._lock:
            self._first, self._items = first, items
