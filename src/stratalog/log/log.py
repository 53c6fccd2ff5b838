"""The log: the handle that reads one incarnation and appends to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from numbers import Real
from typing import TypeVar

from stratalog.clock import Observation
from stratalog.errors import Invalid, NotFound, VersionForgotten
from stratalog.keys import check_version
from stratalog.log.app_snapshots import AppSnapshot, app_snapshot_at, read_app_snapshot, save_app_snapshot
from stratalog.log.append import Appender
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.entries import Entry, Event, Upcasters
from stratalog.log.environment import Environment
from stratalog.log.floors import LogFloor, floor_rank, read_log_floor
from stratalog.log.head import Head
from stratalog.log.names import NameRecord, reread_name
from stratalog.log.pending_entry import prepare_entry
from stratalog.log.prepared_snapshot import PreparedSnapshot
from stratalog.log.reader import Reader
from stratalog.log.redaction import check_redactable, redact_entry
from stratalog.log.segments import segment_holding
from stratalog.log.snapshots import Snapshot, newest_in_history, newest_snapshot
from stratalog.log.version_hashes import VersionHashes
from stratalog.newest import Newest
from stratalog.retry import Retry

__all__ = ["Log"]

T = TypeVar("T")


class Log:
    """A gapless sequence of entries, numbered from 1; version 0 is empty.

    Threads may share a handle. Their appends then share commits, unless the index charges more for a joint commit. A
    handle belongs to one incarnation: once the log is deleted, `append`, `head` and `floor` raise NotFound, even if a
    new log has the name. `entry` may still return stored entries until they are swept. `create_log`, `open_log` and
    `fork_log` make handles.
    """

    def __init__(
        self,
        environment: Environment,
        record: NameRecord,
        upcasters: Upcasters | None = None,
        *,
        seen: Observation | None = None,
    ) -> None:
        """``seen`` observes the clock before ``record`` is read or written.

        With ``seen``, the first append can use ``record`` without reading the name record again.
        """
        self.environment = environment
        self.record = record
        """The name record at the time when the handle was made."""

        self._floor: Newest[LogFloor] = Newest(floor_rank, LogFloor(record.floor, record.floor_hash))
        self._hashes = VersionHashes(record, self._floor, self._read_floor, self.entry)
        self._appender = Appender(environment, record, self._entry_as_stored, self._segment_ready, seen)
        reader = partial(Reader, environment, owner=record.owner, floor=self.floor, upcasters=upcasters)
        self._reader = reader(record.prefix)
        self._ancestors = [(parent, reader(parent.prefix)) for parent in record.lineage]

    def __repr__(self) -> str:
        return f"<Log {self.record.organisation}/{self.record.name}>"

    @property
    def first(self) -> int:
        """The version before the log's own first entry: in a fork the version of the fork, else 0."""
        return self.record.first

    def append(
        self,
        events: Event | Sequence[Event],
        *,
        expected: int | None = None,
        author: str = "",
        principal: str = "",
        write_id: str | None = None,
        salt: bytes | None = None,
        blob_batch: BlobBatch | None = None,
        snapshot: PreparedSnapshot | None = None,
        checked: bool = False,
    ) -> Entry:
        """Append ``events`` as one entry, durably, and return it.

        - ``expected``: write the entry only as version ``expected`` + 1.
        - ``write_id``: an id that the caller chooses. A repeated call with the same id and ``expected`` returns the
          entry of the first call. Without ``expected``, a repeated call appends again. The id is bound to the events
          and the principal, not to the time or the ``author``.
        - ``author``: the name to show. ``principal``: the id of the principal who asks for the entry.
        - ``salt``: the salt that an imported entry had before its import.
        - ``blob_batch``: the blobs that the events refer to, written to the batch before the call. If the answer comes
          late, the append puts again the blobs that were put before the commit.
        - ``snapshot``: the state after the entry, from `prepare_snapshot`. The entry and the snapshot are committed
          together. ``expected`` is then required.
        - ``checked``: the events' data is canonical already, so the append does not check it again.

        Raises OutcomeUnknown: the entry may be written. After each of these errors, this call has written nothing:
        VersionConflict: the log is not at ``expected``. NotFound: the log is deleted.
        KeyReused: the write id belongs to other events or another principal.
        Redacted: the write id belongs to an entry that was redacted.
        HistoryChanged: the store has another history than this handle has seen; open the log again.
        ContentionError, Unavailable: the time budget is used up. Invalid, LimitExceeded: the entry cannot be stored.
        BlobsDeferred: ``blob_batch`` has deferred blobs.
        """
        wanted = [events] if isinstance(events, Event) else events
        if snapshot is not None:
            snapshot.check(self.record.prefix, expected, blob_batch)
        pending = prepare_entry(
            self.environment,
            self.record.owner,
            wanted,
            expected=expected,
            author=author,
            principal=principal,
            write_id=write_id,
            salt=salt,
            blob_batch=blob_batch,
            snapshot=snapshot,
            checked=checked,
        )
        if blob_batch is not None:
            blob_batch.check_put()
        return self._appender.append(pending)

    def head(self) -> Head:
        """Return the end of the log, read consistently."""
        return self._appender.head()

    def known_head(self) -> Head | None:
        """Return the end of the log that this handle last read or wrote; None before the first read or write."""
        return self._appender.known_head()

    def is_behind(self) -> bool:
        """Return whether other processes have probably appended since this process last read the head or wrote.

        The result is a guess without a read, and True before the first read. `append` makes the same guess. Some
        callers must read the log before they can compute the events to append. The guess saves these callers an append
        that would lose the race.
        """
        return self._appender.is_behind()

    @property
    def is_contended(self) -> bool:
        """Whether other writers wrote recently, as far as this handle knows. This is a hint, and reads nothing."""
        return self._appender.contention.contended

    @property
    def is_lost(self) -> bool:
        """Whether an append has found another history in the store than this handle has seen. If so, reopen the log."""
        return self._appender.branch_lost

    def turn(self) -> AbstractContextManager[bool]:
        """Make other writers of this log wait while the block reads and appends, if the index can. See `Index.turn`.

        A caller that computes its events from a state uses a turn after another process has won the race for a version.
        """
        return self._appender.turn()

    def retry(self) -> Retry:
        """Return the retry of a caller that appends until it wins its race. The waits grow with contention."""
        return self.environment.retry(pace=self._appender.contention)

    def floor(self) -> int:
        """Read and return the oldest version kept; 0 while all versions are kept.

        Every entry above the floor is kept. The floor of a fork can be the floor of an ancestor. It then rises when the
        ancestor's floor rises.
        """
        return self._read_floor().version

    def above_floor(self, read: Callable[[int], T]) -> T:
        """Return ``read(floor)``. If it raises VersionForgotten because the floor rose, read again above the new floor.

        So a read of all versions kept succeeds although retention forgets some of them meanwhile. Raises the errors of
        ``read``, and VersionForgotten if the floor has not risen.
        """
        floor = self.floor()
        while True:
            try:
                return read(floor)
            except VersionForgotten:
                before, floor = floor, self.floor()
                if floor == before:
                    raise

    def learn_floor(self, record: NameRecord) -> int:
        """Remember the floor of a name record that the caller has read. Return the highest floor remembered."""
        return self._floor.offer(read_log_floor(self.environment.index, record)).version

    def entry(self, version: int) -> Entry:
        """Return one entry. Raises NotFound, VersionForgotten, Corrupt, Unavailable; Invalid for a version below 1."""
        check_version(version, minimum=1)
        self._check_above_floor(version)
        reader, _ = self._reader_of(version)
        try:
            return reader.entry(version, self._appender.known_head() if reader is self._reader else None)
        except VersionForgotten:
            raise
        except NotFound:
            return next(self.read(version - 1, version))  # raises Corrupt if the version is not beyond the head

    def read(self, after: int = 0, upto: int | None = None, *, head: Head | None = None) -> Iterator[Entry]:
        """Yield the entries ``after`` + 1 to ``upto`` (the head, if None), in order, lazily.

        The upper bound is fixed before the first page. A caller that has just read the head passes it as ``head``. The
        log reads the head again before it rejects ``upto`` as too high.

        The call itself raises NotFound for an ``upto`` beyond the head. It raises VersionForgotten if ``after`` + 1 is
        below the floor that this handle last read. The iteration raises VersionForgotten, Corrupt and Unavailable.
        """
        check_version(after, minimum=0)
        self._check_above_floor(after + 1)
        if upto is not None:
            check_version(upto)
        if head is None or (upto is not None and upto > head.version):
            head = self.head()
        last = head.version if upto is None else upto
        if last > head.version:
            raise NotFound("version not found", log=self.record.name, version=last, head=head.version)
        if after >= self.first:
            return self._reader.read(after, last, head)
        return self._read(after, last, head)

    def next_stored(self, version: int, upto: int) -> int:
        """Return the next version after ``version`` that may be stored; ``upto`` + 1 if none up to ``upto`` may be.

        A verification calls this method at a missing version, so that it need not read each version of a gap. Raises
        Corrupt.
        """
        check_version(version)
        check_version(upto)
        for parent, reader in self._ancestors:
            if version < parent.version:
                return reader.next_stored(version, min(upto, parent.version))
        return self._reader.next_stored(version, upto)

    def follow(self, after: int = 0) -> Iterator[Entry]:
        """Yield the entries after ``after``, for ever. At the head, poll until there are more entries.

        Raises the errors of `read`, for example NotFound after the deletion of the log.
        """
        while True:
            for entry in self.read(after):
                after = entry.version
                yield entry
            self.environment.clock.sleep(self.environment.settings.follow_poll_seconds)

    def redact(self, version: int) -> list[int]:
        """Erase the events of a version for good; its time, author, principal, write id and hash stay.

        After the call the entry has ``redacted`` set and no events. The call deletes the app snapshots of this and
        later versions, and returns the versions of these snapshots. Works only on logs of the kind ``log``; for a
        document use `stratalog.redact`. Raises RedactionRefused (nothing was written), NotFound, VersionForgotten.
        Raises ContentionError, Corrupt, Unavailable or OutcomeUnknown: the entry may be erased, and the next call
        resumes.
        """
        self.check_redactable(version)
        return redact_entry(self.environment, self.record, version)

    def check_redactable(self, version: int) -> None:
        """Raise RedactionRefused if a fork needs the version, or if the version belongs to an ancestor.

        Raises NotFound, VersionForgotten.
        """
        check_version(version)
        check_redactable(self.environment, self.record, self.floor(), self.head().version, version)

    def version_at(self, time_ms: int) -> int:
        """Return the newest version created at ``time_ms`` or before; 0 if all versions are newer. O(log n) reads.

        Raises VersionForgotten if that version is no longer kept, and Invalid if ``time_ms`` is no number. If the entry
        of the floor is gone, its time is unknown: the floor is then returned only for a time at which the segment above
        the floor existed.
        """
        if not isinstance(time_ms, Real):
            raise Invalid("a time must be a number of milliseconds", value=time_ms)
        low, high, gone = 0, self.head().version, None
        while low < high:
            middle = (low + high + 1) // 2
            try:
                later, gone_here = self.entry(middle).created_ms > time_ms, None
            except VersionForgotten as exc:
                later, gone_here = False, exc
            if later:
                high = middle - 1
            else:
                low, gone = middle, gone_here
        if gone is not None and not self._is_followed_at(low, time_ms):
            raise gone
        return low

    def newest_version_at(self, time_ms: int) -> int:
        """Return the same as `version_at`, but 0 instead of raising VersionForgotten."""
        try:
            return self.version_at(time_ms)
        except VersionForgotten:
            return 0

    def snapshot_at(self, version: int) -> Snapshot | None:
        """Return the newest snapshot of ``version`` or below, of this log or an ancestor; None without a snapshot."""
        return newest_in_history(self.environment.index, self.record, check_version(version))

    def save_snapshot(self, version: int, parts: Sequence[bytes]) -> bool:
        """Save an application's state of ``version`` as one or more parts of at most 8 MiB each.

        Return False, and save nothing, if this log has a snapshot of that version. A part of the newest snapshot at or
        below ``version`` is not written again. So cut the state in such a way that a small change leaves most parts
        unchanged. Raises NotFound for a version that does not exist, VersionForgotten, LimitExceeded.
        """
        hash = self.entry(version).hash
        return save_app_snapshot(self.environment, self.record, self.snapshot_at(version), version, hash, parts)

    def prepare_snapshot(self, parts: Sequence[bytes]) -> PreparedSnapshot:
        """Prepare an app snapshot that `append` commits together with its entry. See `save_snapshot`.

        The parts are the application's state after the entry. The call stores large parts; the commit may store small
        parts. Raises LimitExceeded, Unavailable: nothing refers to the parts. Raises NotFound if the log is deleted.
        """
        head = self.known_head() or self.head()
        return PreparedSnapshot(self.environment, self.record, self.snapshot_at(head.version), parts)

    def app_snapshot(self, at: int) -> AppSnapshot | None:
        """Return the newest app snapshot of version ``at`` or below, of the log or an ancestor; None if there is none.

        Raises Invalid if the newest snapshot is not an app snapshot. See `read_snapshot`.
        """
        return app_snapshot_at(self.snapshot_at(at))

    def read_snapshot(self, app_snapshot: AppSnapshot) -> Iterator[bytes]:
        """Yield the verified parts in order. Raises Corrupt; VersionForgotten or Unavailable for a deleted snapshot."""
        return read_app_snapshot(self.environment, self.record.owner, app_snapshot, self.floor)

    def hash_at(self, version: int) -> bytes:
        """Return the hash that identifies the history up to ``version``. Version 0 and the known head need no read.

        Raises NotFound, VersionForgotten below the floor.
        """
        head = self._appender.known_head() if check_version(version) else None
        return head.hash if head is not None and head.version == version else self._hashes.at(version)

    def note_hash(self, version: int, hash: bytes) -> None:
        """Remember the hash of a version for later calls of `hash_at`."""
        self._hashes.note(version, hash)

    def _is_followed_at(self, version: int, time_ms: int) -> bool:
        """Return whether a segment that begins right after ``version`` existed at ``time_ms``.

        If so, ``version`` was created by then. A fork's first own segment exists since the fork was made.
        """
        _, prefix = self._reader_of(version + 1)
        segment = segment_holding(self.environment.index, prefix, version + 1)
        return segment is not None and segment.first == version + 1 and segment.created_ms <= time_ms

    def _read_floor(self) -> LogFloor:
        record = reread_name(self.environment.index, self.record)
        return self._floor.offer(read_log_floor(self.environment.index, record))

    def _read(self, after: int, upto: int, head: Head) -> Iterator[Entry]:
        for parent, reader in self._ancestors:
            if after < min(upto, parent.version):
                yield from reader.read(after, min(upto, parent.version))
                after = min(upto, parent.version)
        if after < upto:
            yield from self._reader.read(after, upto, head)

    def _reader_of(self, version: int) -> tuple[Reader, str]:
        for parent, reader in self._ancestors:
            if version <= parent.version:
                return reader, parent.prefix
        return self._reader, self.record.prefix

    def _entry_as_stored(self, version: int) -> Entry:
        return self._reader_of(version)[0].entry_as_stored(version)

    def _segment_ready(self, head: Head) -> bool:
        """Return whether the current segment may be sealed: with a snapshot, or in a log of the kind ``log``."""
        if self.record.kind == "log":
            return True
        snapshot = newest_snapshot(self.environment.index, self.record.prefix, head.version)
        return snapshot is not None and snapshot.version >= head.segment

    def _check_above_floor(self, version: int) -> None:
        """Raise VersionForgotten below the floor, even while the segment of the version is still stored."""
        floor = self._floor.require().version
        if version < floor:
            raise VersionForgotten("the version is no longer kept", log=self.record.name, version=version, floor=floor)
