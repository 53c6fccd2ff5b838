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
    """A piece of a poll: records to take, and the checkpoint once they are taken."""

    records: Iterator[SplitRecord | Unreadable]
    checkpoint: Checkpoint
    """A file that could not be opened is taken out of it while the records are read, and so tried again."""

    time_ms: int
    """The time of those that have none of their own."""

    is_complete: bool = False
    """Whether these are all the records that the source has, those that are ``present`` among them."""

    present: Sequence[str] = ()
    """Ids of records that the source has and that are not read, since they did not change."""


def poll_folder(source: Source, checkpoint: Checkpoint) -> Iterator[Step]:
    """The files that differ in size or time from what the checkpoint has of them. Raises Unavailable for the folder.

    A file that cannot be read is Unreadable, after the records before the fault; the files after it are read.
    A source with complete states skips a file that is older than an ingested one.
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
    """A folder whose files are the records, as one state: what is no longer in it was deleted."""
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
    """The records of the file of that id as it is now; None where there is none. Raises Unavailable, OSError."""
    file = next((file for file in _files(Path(source.location), source.pattern) if file.id == id), None)
    return None if file is None else _split_file(source, file)


def poll_file(source: Source, path: Path) -> Iterator[Step]:
    """One file, wherever it lies and however it is called; a state, where the source's files are states."""
    file = _listed(path.parent.resolve(), path.parent, path)
    if file is None:
        raise Invalid("this is no file", path=path)
    is_state = source.complete and source.format != "file"
    known: dict[str, list[int]] = {}
    following: Checkpoint = {"files": known}
    time_ms = file.time_ns // 1_000_000
    yield Step(_records(source, path.parent, [file], known, following), following, time_ms, is_state)


def suffix_of(id: str) -> str:
    """The suffix of the file behind an id."""
    return Path(HASHED.sub("", id)).suffix


class _File(NamedTuple):
    """A file as it was listed, in order of its time."""

    time_ns: int
    size: int
    id: str
    path: Path
    fault: str = ""
    """Why it cannot be read, where that is known."""


def _files(folder: Path, pattern: str) -> list[_File]:
    try:
        root = folder.resolve()
        paths = list(folder.glob(pattern))
        if not folder.is_dir():
            raise Unavailable("the source's folder is not there", folder=folder)
    except (OSError, ValueError, NotImplementedError) as exc:
        raise Unavailable("the source's folder cannot be read", folder=folder, reason=str(exc)) from exc
    return sorted(file for path in paths if (file := _listed(root, folder, path)) is not None)


def _listed(root: Path, folder: Path, path: Path) -> _File | None:
    """A file with what is known of it; None for what is no file, or is gone by now."""
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
                raise Unavailable("the source's folder is not there", folder=folder) from exc
            fault = f"the file cannot be read: {exc}"
        if fault:
            # Its bytes are not to be had now: the next poll tries it again.
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
    """What is packed in a file of that suffix, or its bytes as they are. Raises Invalid where it is damaged."""
    opener = _OPEN.get(suffix)
    if opener is None:
        yield from pieces
        return
    try:
        with opener(PieceFile(pieces)) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError) as exc:
        raise Invalid("a packed file is damaged", reason=str(exc)) from exc


class PieceFile(io.RawIOBase):
    """Pieces as a file that is read from its beginning."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes; none at the end."""
        while not self._rest and (piece := next(self._pieces, None)) is not None:
            self._rest = piece
        end = len(self._rest) if size < 0 else size
        taken, self._rest = self._rest[:end], self._rest[end:]
        return taken


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece
