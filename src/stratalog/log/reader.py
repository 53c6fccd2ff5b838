"""Reads of a log's entries up to a given version. An entry that is not found raises an error, so no read has a gap."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from itertools import chain, islice

from stratalog.clock import Observation
from stratalog.errors import Corrupt, NotFound, Unavailable, VersionForgotten
from stratalog.keys import entries_partition, number, parse_number
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.log.archive import is_gapless, read_archive
from stratalog.log.entries import Entry, Upcasters, entry_from_item, inline_entries
from stratalog.log.environment import Environment
from stratalog.log.head import LOOKS_MAX, Head
from stratalog.log.segments import Segment, list_segments, segment_changed, segment_holding
from stratalog.ports.index import Item
from stratalog.process_fork import close_in_child

__all__ = ["Reader", "Run"]

PAGE_ITEMS = 128

Run = Generator[list[Entry], None, int]
"""Yields entries in order, by pages; returns the version of the last entry."""


class Reader:
    """Reads the entries of one incarnation of a log, from the index or from the archives.

    ``floor`` reads the floor of the log. The log may be a fork that reads the entries of its ancestor.
    """

    def __init__(
        self,
        environment: Environment,
        prefix: str,
        owner: str,
        floor: Callable[[], int],
        upcasters: Upcasters | None = None,
    ) -> None:
        self._environment = environment
        self._prefix = prefix
        self._owner = owner
        self._floor = floor
        self._upcasters = upcasters
        self._archived = _Archived()

    def entry(self, version: int, head: Head | None = None) -> Entry:
        """Return entry ``version``. With ``head``, an entry in the head's segment costs one read of the index.

        Raises NotFound, VersionForgotten, Corrupt, Unavailable.
        """
        item = self._item(version, head.segment) if head is not None and version >= head.segment else None
        # In a segment that may be freed by now, the item may be an orphaned write. So look up the segment.
        if item is None or head is None or _outdated(head.seen):
            item = self._stored_item(version)
        return self._entry(item)

    def entry_as_stored(self, version: int) -> Entry:
        """Return entry ``version`` with the events as they were appended, without upcasters. Raises as `entry` does."""
        return Reader(self._environment, self._prefix, self._owner, self._floor).entry(version)

    def read(self, after: int, upto: int, head: Head | None = None) -> Iterator[Entry]:
        """Yield the entries ``after`` + 1 to ``upto``, which must exist.

        Raises Corrupt, VersionForgotten, Unavailable.
        """
        return chain.from_iterable(self._pages(after, upto, head))

    def next_stored(self, version: int, upto: int) -> int:
        """Return the next version after ``version`` that may be stored, at most ``upto`` + 1. Raises Corrupt."""
        index = self._environment.index
        segment = segment_holding(index, self._prefix, version)
        following = next(list_segments(index, self._prefix, first=version + 1), None)
        last = min(upto, following.first - 1) if following else upto
        if segment is None or segment.is_forgotten or (segment.marked_ms and version >= segment.last):
            return last + 1
        if segment.marked_ms:
            return version + 1
        partition = entries_partition(self._prefix, segment.first)
        items = index.query(partition, after=number(version), before=number(last + 1), limit=1)
        stored = next((parse_number(item.sort) for item in items), last + 1)
        # The items of a segment that was freed meanwhile are in its archive.
        return version + 1 if segment_changed(index, self._prefix, segment) else stored

    def _pages(self, after: int, upto: int, head: Head | None) -> Iterator[list[Entry]]:
        version = after
        while version < upto:
            version = yield from self._run(version + 1, upto, head)

    def _run(self, first: int, upto: int, head: Head | None) -> Run:
        """Yield the entries from ``first`` to ``upto`` or the end of their segment. Return the last yielded version.

        Yields at least one entry.
        """
        if head is not None and first >= head.segment and not _outdated(head.seen):
            return (yield from self._from_index(head.segment, first, upto, head.seen))
        seen = Observation(self._environment.clock)
        segment = self._segment(first)
        following = next(list_segments(self._environment.index, self._prefix, first=first + 1), None)
        last = min(upto, following.first - 1) if following else upto
        if segment.marked_ms:
            last = min(last, segment.last)
            for item in self._from_archive(segment, first, last):
                yield [self._entry(item)]
            return last
        return (yield from self._from_index(segment.first, first, last, seen))

    def _from_index(self, segment: int, first: int, last: int, seen: Observation) -> Run:
        """Yield entries of a segment that was not freed when ``seen`` was taken. Return the last yielded version.

        Items read too long after ``seen`` may be orphaned writes in freed positions, so they are not used.
        """
        items = self._environment.index.query(
            entries_partition(self._prefix, segment), after=number(first - 1), before=number(last + 1)
        )
        version = first - 1
        while (page := list(islice(items, PAGE_ITEMS))) and not _outdated(seen):
            follows = version + len(page)
            entries = None if self._upcasters else inline_entries(page, version + 1)
            if entries is None:
                version = yield from self._one_by_one(page, version)
            else:
                version = follows
                yield entries
            if version != follows:
                break
        if version == last:
            return last
        yield [self._again(version + 1)]
        return version + 1

    def _one_by_one(self, page: list[Item], version: int) -> Run:
        """Yield the entries of ``page`` that follow ``version`` without a gap. Decode each entry on demand."""
        for item in page:
            if "k" in item.attributes or (entry := self._entry(item)).version != version + 1:
                break
            yield [entry]
            version += 1
        return version

    def _again(self, version: int) -> Entry:
        """Return an entry that was not found in the index. The entry must exist: it is in an archive, or it is lost."""
        try:
            return self._entry(self._stored_item(version))
        except VersionForgotten:
            raise
        except NotFound as exc:
            raise Corrupt("an entry below the head is missing", prefix=self._prefix, version=version) from exc

    def _stored_item(self, version: int) -> Item:
        """Return the item of an entry, wherever it is stored now.

        Retries, since a segment may be freed between two reads. Raises NotFound for a missing item. Raises Unavailable
        if the last try took too long: a freed position may contain an orphaned write.
        """
        late = True
        for _ in range(LOOKS_MAX):
            seen = Observation(self._environment.clock)
            segment = self._segment(version)
            if segment.marked_ms:
                return next(self._from_archive(segment, version, version))
            item = self._item(version, segment.first)
            late = _outdated(seen)
            if item is not None and not late:
                return item
        if late:
            raise Unavailable(
                "the reads took too long to be consistent; read again", prefix=self._prefix, version=version
            )
        raise NotFound("version not found", prefix=self._prefix, version=version)

    def _segment(self, version: int) -> Segment:
        """Return the segment of a version that exists.

        If the segment is missing or forgotten, raises VersionForgotten for a version up to the floor, else Corrupt.
        """
        segment = segment_holding(self._environment.index, self._prefix, version) if version > 0 else None
        if segment is None or segment.is_forgotten or (segment.marked_ms and version > segment.last):
            forgotten = VersionForgotten("the version is no longer kept", prefix=self._prefix, version=version)
            # The floor rises before a segment is marked. So read the floor after the segment.
            try:
                floor = self._floor()
            except NotFound:  # the log was deleted, and its items are swept
                raise forgotten from None
            if version <= floor:
                raise forgotten
            raise Corrupt(
                "the segment of a kept version is missing", prefix=self._prefix, version=version, floor=floor
            ) from forgotten
        return segment

    def _item(self, version: int, segment: int) -> Item | None:
        item = self._environment.index.get(entries_partition(self._prefix, segment), number(version))
        return None if item is None or "k" in item.attributes else item

    def _from_archive(self, segment: Segment, first: int, last: int) -> Iterator[Item]:
        items = self._archived.get(segment)
        if items is None:
            segment, items = self._opened(segment)
            self._archived.store(segment, items)
        if not segment.first <= first <= last <= segment.last:
            raise NotFound("version not found", prefix=self._prefix, version=last)
        page = items[first - segment.first : last - segment.first + 1]
        yield from page if is_gapless(page, first, last) else self._sought(items, first, last)

    def _sought(self, items: list[Item], first: int, last: int) -> Iterator[Item]:
        """Yield the items of these versions from an archive that is not in order. Raises Corrupt at a gap."""
        by_sort = {item.sort: item for item in items}
        for version in range(first, last + 1):
            item = by_sort.get(number(version))
            if item is None:
                gap = NotFound("version not found in the archive", prefix=self._prefix, version=version)
                raise Corrupt("an archive lacks a version", prefix=self._prefix, version=version) from gap
            yield item

    def _opened(self, segment: Segment) -> tuple[Segment, list[Item]]:
        """Return the present record of an archived segment, and the items of the segment."""
        while True:
            try:
                return segment, read_archive(self._environment, self._prefix, self._owner, segment)
            except Corrupt:
                # The segment may have changed: a redaction replaces its archive; a pass frees its entries after it has
                # repaired the archive.
                before, segment = segment, self._segment(segment.first)
                if segment == before:
                    raise

    def _entry(self, item: Item) -> Entry:
        try:
            return entry_from_item(item, self._environment.blobs, self._owner, self._upcasters)
        except Corrupt as exc:
            # An entry that was forgotten, swept or redacted during the read is not corrupt.
            try:
                present = self._stored_item(parse_number(item.sort))
            except VersionForgotten:
                raise
            except NotFound:
                raise exc from None
            if "d" in item.attributes or "d" not in present.attributes:
                raise
            return entry_from_item(present, self._environment.blobs, self._owner, self._upcasters)


def _outdated(seen: Observation) -> bool:
    """Return whether a segment that existed when ``seen`` was taken may be freed by now."""
    return seen.age_seconds() > OBSERVATION_SECONDS_MAX


class _Archived:
    """Caches the archived segment that was read last. A walk or a binary search often reads one segment many times.

    The key is the segment's record. A redaction changes the record, so the cache never returns a replaced archive.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._segment: Segment | None = None
        self._items: list[Item] = []

    def get(self, segment: Segment) -> list[Item] | None:
        with self._lock:
            return self._items if segment == self._segment else None

    def store(self, segment: Segment, items: list[Item]) -> None:
        with self._lock:
            self._segment, self._items = segment, items
