"""The adapter of a folder: files that are new or changed since the checkpoint, oldest first.

A checkpoint has the time and size of each file. A file that is changed twice within one tick of the file system's clock
may have the same time and size after both changes. So if a file's time was within `CATALOGUE_FILE_TICK_SECONDS_MAX` of
the poll, the checkpoint also has the file's hash, and the next poll compares the hash.

If a checkpoint has `again`, the next poll reads the newest complete state even if no file has changed.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stratalog import Invalid, Unavailable
from stratalog.clock import Clock
from stratalog_catalogue.folder_files import ListedFile, list_files, listed_file
from stratalog_catalogue.limits import CATALOGUE_FILE_TICK_SECONDS_MAX
from stratalog_catalogue.record_splitter import PIECE_BYTES, SplitRecord, Unreadable, split
from stratalog_catalogue.sources import Source

__all__ = ["Checkpoint", "Step", "is_mirror", "poll_file", "poll_folder", "read_file", "suffix_of", "unpacked"]

Checkpoint = dict[str, Any]
Remembered = list[Any]
"""The entry of a file in a checkpoint: its time in nanoseconds and its size in bytes.

The third item is the time in milliseconds of the file's records. An entry has a third item if this time differs from
the file's time, or if there is a fourth item. The fourth item is the file's SHA-256, or "" if the file could not be
read. An entry has a fourth item if a later change may leave the file's time and size unchanged.
"""

FILES_PER_STEP = 200
HASHED = re.compile(r"~[0-9a-f]{32}$")
_OPEN: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".xz": lzma.open}


class Step(msgspec.Struct, frozen=True):
    """A part of a poll: records to store, and the checkpoint to store after them."""

    records: Iterator[SplitRecord | Unreadable]
    checkpoint: Checkpoint
    """The checkpoint after the step.

    While the records are read, each file that cannot be opened or read is removed from this checkpoint, and a feed's
    checkpoint is emptied if its pages cannot be read a second time. So the next poll tries again.
    """

    time_ms: int
    """The time of the records that have no time of their own."""

    is_complete: bool = False
    """Whether the records, together with the records of ``present``, are all records of the source."""

    present: Sequence[str] = ()
    """The ids of the source's unchanged records, which were not read again."""

    is_current: bool = True
    """Whether the records were read from the source now. The bytes of a dead letter may be older than the store."""

    seen: set[str] = set()
    """The stored ids of records that the poll has read. The pages of a feed or harvest share one set.

    While the records are read, `note_read` adds the ids of a complete state, and of the records that may replace a
    version of the same time: those of a harvest, and those of a feed without times of their own. A million short ids
    take about 125 MiB of memory.
    """


def poll_folder(source: Source, checkpoint: Checkpoint, clock: Clock) -> Iterator[Step]:
    """Yield the files that differ from the checkpoint, as steps. Raises Unavailable if the folder cannot be read.

    A file that cannot be read to its end yields the records before the fault, then Unreadable, and the poll continues
    with the next file. If the source's files are complete states, the poll skips a file older than an ingested file.
    """
    # Take the time before reading any file: a change after this moment may leave a file's time unchanged.
    looked_ms = clock.wall_ms()
    folder = Path(source.location)
    before: dict[str, Remembered] = checkpoint.get("files", {})
    listed = list_files(folder, source.pattern)
    again = listed[-1:] if "again" in checkpoint and not is_mirror(source) else []
    changed = [file for file in listed if file in again or _has_changed(file, before.get(file.id))]
    changed_ids = {file.id for file in changed}
    unchanged = {file.id: _settled(file, before[file.id], looked_ms) for file in listed if file.id not in changed_ids}
    # The files below a folder that cannot be listed are not missing.
    hidden = tuple(f"{file.id}/" for file in listed if file.fault)
    unchanged |= {id: entry for id, entry in before.items() if hidden and id.startswith(hidden)}
    if is_mirror(source):
        yield from _mirror(source, folder, listed, changed, checkpoint, unchanged, looked_ms)
        return
    known = {**before, **unchanged}
    newest = int(checkpoint.get("newest", 0))
    is_saved = False
    size = 1 if source.complete else FILES_PER_STEP
    for start in range(0, len(changed), size):
        batch = changed[start : start + size]
        is_stale = source.complete and _is_older_state(batch[-1], before, newest)
        dated = batch if is_stale else [_dated(file, _last_ms(source, file, known)) for file in batch]
        known |= {file.id: _remembered(file, read, looked_ms) for file, read in zip(batch, dated, strict=True)}
        if is_stale:
            continue
        newest = max(newest, batch[-1].time_ms)
        following: Checkpoint = {"files": dict(known), "newest": newest}
        yield Step(_records(source, folder, dated, known, following), following, dated[-1].time_ms, source.complete)
        is_saved = True
    if not is_saved and known != before:
        yield Step(iter(()), {"files": known, "newest": newest}, newest)


def _mirror(
    source: Source,
    folder: Path,
    listed: list[ListedFile],
    changed: list[ListedFile],
    checkpoint: Checkpoint,
    unchanged: dict[str, Remembered],
    looked_ms: int,
) -> Iterator[Step]:
    """Yield one complete state of a folder in which each file is a record. A missing file is a deleted record.

    The step has no records if only the checkpoint changes. There is no step if nothing changes.

    The ingest ignores a deletion that is older than its record. So the time of a state is never earlier than the time
    of the last state and the times of its files. A file that returns with its old time gets a time after its deletion.

    Without `files` in the checkpoint, this is the first state of the folder, so each file keeps its time.
    """
    before: dict[str, Remembered] = checkpoint.get("files", {})
    last_ms = int(checkpoint.get("newest", -1))
    absent_ms = last_ms if "files" in checkpoint else -1
    dated = [_dated(file, _last_ms_of(file, before) if file.id in before else absent_ms) for file in changed]
    there = unchanged | {file.id: _remembered(file, read, looked_ms) for file, read in zip(changed, dated, strict=True)}
    is_again = "again" in checkpoint
    if there == before and not is_again:
        return
    time_ms = max(0, last_ms, *map(_given_ms, before.values()), *(file.time_ms for file in [*listed, *dated]))
    following: Checkpoint = {"files": there, "newest": time_ms}
    if not changed and there.keys() == before.keys() and not is_again:
        yield Step(iter(()), following, time_ms)
        return
    records = _records(source, folder, dated, there, following)
    yield Step(records, following, time_ms, True, [*unchanged])


def is_mirror(source: Source) -> bool:
    """Return whether a source is a folder in which each file is a record, and a missing file a deleted record."""
    return source.complete and source.format == "file"


def _is_older_state(file: ListedFile, before: dict[str, Remembered], newest: int) -> bool:
    """Return whether a file is a state before the newest state, and not a replacement of the newest state's file."""
    entry = before.get(file.id)
    return not file.fault and file.time_ms < newest and (entry is None or _given_ms(entry) < newest)


def _has_changed(file: ListedFile, entry: Remembered | None) -> bool:
    """Return whether a file differs from its entry in the checkpoint, or has no entry."""
    if entry is None or entry[:2] != [file.time_ns, file.size]:
        return True
    return len(entry) > 3 and (not entry[3] or _hash(file) != entry[3])


def _remembered(file: ListedFile, dated: ListedFile, looked_ms: int) -> Remembered:
    """Return the checkpoint's entry of a changed file. ``dated`` has the time of the file's records.

    This function hashes the file before the poll reads the file's records. So the next poll also detects a change
    between the hashing and the reading.
    """
    return _settled(file, [file.time_ns, file.size, dated.time_ms, None], looked_ms)


def _settled(file: ListedFile, entry: Remembered, looked_ms: int) -> Remembered:
    """Return the entry, with the file's hash only if a change after ``looked_ms`` may leave the time unchanged."""
    given_ms = _given_ms(entry)
    if looked_ms - file.time_ms <= CATALOGUE_FILE_TICK_SECONDS_MAX * 1000:
        # Such an entry has no hash only if the clock went back after an earlier poll had dropped the hash. Add no hash
        # now: the file may have changed since, and a hash of content that was not ingested would hide the change.
        if len(entry) < 4:
            return entry
        return [*entry[:2], given_ms, _hash(file) if entry[3] is None else entry[3]]
    return entry[:2] if given_ms == file.time_ms else [*entry[:2], given_ms]


def _given_ms(entry: Remembered) -> int:
    return int(entry[2]) if len(entry) > 2 else int(entry[0]) // 1_000_000


def _last_ms(source: Source, file: ListedFile, known: dict[str, Remembered]) -> int:
    """Return the time of the records that the changed file's records replace, or -1 if there are none."""
    if source.complete:  # each file replaces the records of all earlier files
        return max(map(_given_ms, known.values()), default=-1)
    return _last_ms_of(file, known)


def _last_ms_of(file: ListedFile, known: dict[str, Remembered]) -> int:
    """Return the time of the records of a file's former content, or -1 if there are no such records.

    A file may be replaced by a file with an older time. Its records still need a later time.
    """
    entry = known.get(file.id)
    return -1 if entry is None else _given_ms(entry)


def _dated(file: ListedFile, last_ms: int) -> ListedFile:
    """Return the file with the time for its records, which is later than ``last_ms``.

    The file's own time may be in the same tick or millisecond as before the change. The store would then discard the
    file's records as stale.
    """
    return file if file.time_ms > last_ms else file._replace(time_ns=(last_ms + 1) * 1_000_000)


def _hash(file: ListedFile) -> str:
    """Return the hash of a file's bytes, or "" if the file cannot be read.

    A file with the hash "" always counts as changed.
    """
    try:
        if file.fault:
            return ""
        with file.path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def read_file(source: Source, id: str) -> Iterator[SplitRecord | Unreadable] | None:
    """Return the records of a file by its id, or None if the file is gone.

    If the file cannot be read to its end, the last record is Unreadable, as in a poll. The records have no time of the
    file: the caller knows the time that the poll gave to the file.

    Raises Unavailable if the folder cannot be read.
    """
    folder = Path(source.location)
    file = next((file for file in list_files(folder, source.pattern) if file.id == id), None)
    if file is None:
        return None
    records = _records(source, folder, [file], {}, {"files": {}})
    return (msgspec.structs.replace(record, file_time_ms=None) for record in records)


def poll_file(source: Source, path: Path) -> Iterator[Step]:
    """Yield one file, of any path and name, as a step.

    The step is a complete state if each file of the source is a complete state. Raises Invalid if there is no file at
    the path.
    """
    # The caller names this file, so a link may lead anywhere. A poll of a folder reads no file outside the folder.
    file = listed_file(Path(path.absolute().anchor), path.parent, path)
    if file is None or (os.path.islink(path) and not os.path.exists(path)):
        raise Invalid("not a file", path=path)
    is_state = source.complete and not is_mirror(source)
    known: dict[str, Remembered] = {}
    following: Checkpoint = {"files": known}
    time_ms = file.time_ms
    yield Step(_records(source, path.parent, [file], known, following), following, time_ms, is_state)


def suffix_of(id: str) -> str:
    """Return the suffix of a file's name, from the file's id."""
    return Path(HASHED.sub("", id)).suffix


def _records(
    source: Source, folder: Path, batch: list[ListedFile], known: dict[str, Remembered], following: Checkpoint
) -> Iterator[SplitRecord | Unreadable]:
    for file in batch:
        time_ms = file.time_ms
        fault = file.fault
        try:
            if not fault:
                with file.path.open("rb"):
                    pass
                for record in _split_file(source, file):
                    yield msgspec.structs.replace(record, file_time_ms=time_ms)
        except OSError as exc:
            if not folder.is_dir():
                raise Unavailable("the source's folder does not exist", folder=folder) from exc
            fault = f"the file cannot be read: {exc}"
        if fault:
            # The file cannot be read now. Without an entry in the checkpoint the next poll tries the file again.
            known.pop(file.id, None)
            following["files"].pop(file.id, None)
            if is_mirror(source):
                # This poll deletes no record. The next poll may have to, although the file is gone by then.
                following["again"] = True
            yield Unreadable(id=file.id, reason=fault, document=True, file_time_ms=time_ms)


def _split_file(source: Source, file: ListedFile) -> Iterator[SplitRecord | Unreadable]:
    if source.format == "file":
        name = os.fsencode(file.path.name)
        metadata = {"name_hex": name.hex()} if name.decode(errors="replace").encode() != name else {}
        yield SplitRecord(id=file.id, path=file.path, time_ms=file.time_ms, metadata=metadata)
        return
    for record in split(source, unpacked(_pieces(file.path), file.path.suffix), file.id):
        is_file = isinstance(record, Unreadable) and record.document and not record.body
        yield msgspec.structs.replace(record, path=file.path) if is_file else record


def unpacked(pieces: Iterable[bytes], suffix: str) -> Iterator[bytes]:
    """Yield the uncompressed content of a file, or its bytes if the suffix names no compression.

    Raises Invalid if the file is damaged.
    """
    opener = _OPEN.get(suffix)
    if opener is None:
        yield from pieces
        return
    try:
        with opener(PieceFile(pieces)) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as exc:
        raise Invalid("a compressed file is damaged", reason=str(exc)) from exc


class PieceFile(io.RawIOBase):
    """Pieces of bytes as a file that can only be read forwards."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, or no bytes at the end."""
        while not self._rest and (piece := next(self._pieces, None)) is not None:
            self._rest = piece
        end = len(self._rest) if size < 0 else size
        taken, self._rest = self._rest[:end], self._rest[end:]
        return taken


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
