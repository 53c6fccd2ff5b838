"""The adapter of a folder: files that are new or differ since the checkpoint, oldest first."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stratalog import Invalid, Unavailable
from stratalog_catalogue.names import file_id
from stratalog_catalogue.record_splitter import PIECE_BYTES, SplitRecord, Unreadable, split
from stratalog_catalogue.sources import Source

__all__ = ["Checkpoint", "Step", "poll_file", "poll_folder", "read_file", "suffix_of", "unpacked"]

Checkpoint = dict[str, Any]
FILES_PER_STEP = 200
HASHED = re.compile(r"~[0-9a-f]{32}$")
_OPEN: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".xz": lzma.open}


class Step(msgspec.Struct, frozen=True):
    """A part of a poll: records to store, and the checkpoint to store after them."""

    records: Iterator[SplitRecord | Unreadable]
    checkpoint: Checkpoint
    """Reading the records removes each file that could not be opened from it, so that the next poll tries it again."""

    time_ms: int
    """The time of the records that have no time of their own."""

    is_complete: bool = False
    """Whether the records, together with those of ``present``, are all that the source has."""

    present: Sequence[str] = ()
    """The ids of records that the source has and that were not read because they did not change."""


def poll_folder(source: Source, checkpoint: Checkpoint) -> Iterator[Step]:
    """Yield the files whose size or time differs from the checkpoint, as steps. Raises Unavailable for the folder.

    A file that cannot be read yields the records before the fault, then Unreadable; the files after it are read. In a
    source with complete states a file that is older than an ingested one is skipped.
    """
    folder = Path(source.location)
    known: dict[str, list[int]] = dict(checkpoint.get("files", {}))
    newest = int(checkpoint.get("newest", 0))
    listed = _files(folder, source.pattern)
    changed = [file for file in listed if known.get(file.id) != [file.time_ns, file.size]]
    if source.complete and source.format == "file":
        yield from _mirror(source, folder, listed, changed, known)
        return
    size = 1 if source.complete else FILES_PER_STEP
    for start in range(0, len(changed), size):
        batch = changed[start : start + size]
        known |= {file.id: [file.time_ns, file.size] for file in batch}
        time_ms = batch[-1].time_ns // 1_000_000
        if source.complete and time_ms < newest:
            continue
        newest = max(newest, time_ms)
        following: Checkpoint = {"files": dict(known), "newest": newest}
        yield Step(_records(source, folder, batch, known, following), following, time_ms, source.complete)


def _mirror(
    source: Source, folder: Path, listed: list[_File], changed: list[_File], known: dict[str, list[int]]
) -> Iterator[Step]:
    """Yield a folder whose files are the records as one complete state: a file that is gone was deleted."""
    known_before = dict(known)
    there = {file.id: [file.time_ns, file.size] for file in listed}
    if there == known_before:
        return
    changed_ids = {file.id for file in changed}
    time_ms = max((file.time_ns for file in listed), default=0) // 1_000_000
    following: Checkpoint = {"files": there, "newest": time_ms}
    records = _records(source, folder, changed, there, following)
    present = [file.id for file in listed if file.id not in changed_ids]
    yield Step(records, following, time_ms, True, present)


def read_file(source: Source, id: str) -> Iterator[SplitRecord | Unreadable] | None:
    """Return the records of a file in the folder now, by its id, or None if it is gone. Raises Unavailable, OSError."""
    file = next((file for file in _files(Path(source.location), source.pattern) if file.id == id), None)
    return None if file is None else _split_file(source, file)


def poll_file(source: Source, path: Path) -> Iterator[Step]:
    """Yield one file of any path and name as a step: a complete state if the source's files are states."""
    file = _listed(path.parent.resolve(), path.parent, path)
    if file is None:
        raise Invalid("not a file", path=path)
    is_state = source.complete and source.format != "file"
    known: dict[str, list[int]] = {}
    following: Checkpoint = {"files": known}
    time_ms = file.time_ns // 1_000_000
    yield Step(_records(source, path.parent, [file], known, following), following, time_ms, is_state)


def suffix_of(id: str) -> str:
    """Return the suffix of the file with an id."""
    return Path(HASHED.sub("", id)).suffix


class _File(NamedTuple):
    """A listed file. Files are ordered by time."""

    time_ns: int
    size: int
    id: str
    path: Path
    fault: str = ""
    """The reason why it cannot be read, if known from the listing."""


def _files(folder: Path, pattern: str) -> list[_File]:
    try:
        root = folder.resolve()
        paths = list(folder.glob(pattern))
        if not folder.is_dir():
            raise Unavailable("the source's folder does not exist", folder=folder)
    except (OSError, ValueError, NotImplementedError) as exc:
        raise Unavailable("the source's folder cannot be read", folder=folder, reason=str(exc)) from exc
    return sorted(file for path in paths if (file := _listed(root, folder, path)) is not None)


def _listed(root: Path, folder: Path, path: Path) -> _File | None:
    """Return a path as a listed file, or None if it is not a file or is gone by now."""
    id = file_id(path.relative_to(folder).as_posix())
    try:
        if not path.is_file():
            return None
        stat = path.stat()
        fault = "" if path.resolve().is_relative_to(root) else "a link leads out of the source's folder"
        return _File(stat.st_mtime_ns, stat.st_size, id, path, fault)
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError) as exc:
        return _File(0, 0, id, path, f"the file cannot be read: {exc}")


def _records(
    source: Source, folder: Path, batch: list[_File], known: dict[str, list[int]], following: Checkpoint
) -> Iterator[SplitRecord | Unreadable]:
    for file in batch:
        time_ms = file.time_ns // 1_000_000
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
            # Its bytes cannot be read now. Without an entry in the checkpoint the next poll tries the file again.
            known.pop(file.id, None)
            following["files"].pop(file.id, None)
            yield Unreadable(id=file.id, reason=fault, file_time_ms=time_ms)


def _split_file(source: Source, file: _File) -> Iterator[SplitRecord | Unreadable]:
    if source.format == "file":
        name = os.fsencode(file.path.name)
        metadata = {"name_hex": name.hex()} if name.decode(errors="replace").encode() != name else {}
        yield SplitRecord(id=file.id, path=file.path, time_ms=file.time_ns // 1_000_000, metadata=metadata)
        return
    for record in split(source, unpacked(_pieces(file.path), file.path.suffix), file.id):
        is_file = isinstance(record, Unreadable) and record.document and not record.body
        yield msgspec.structs.replace(record, path=file.path) if is_file else record


def unpacked(pieces: Iterable[bytes], suffix: str) -> Iterator[bytes]:
    """Yield the uncompressed content of a file, or its bytes if the suffix is no compression's.

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
