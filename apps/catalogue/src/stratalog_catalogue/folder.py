"""The adapter of a folder: files that are new or differ since the checkpoint, oldest first."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from stratalog import Unavailable
from stratalog_catalogue.record_splitter import PIECE_BYTES, SplitRecord, Unreadable, split
from stratalog_catalogue.sources import Source

__all__ = ["Checkpoint", "Step", "poll_folder"]

Checkpoint = dict[str, Any]
FILES_PER_STEP = 200
_OPEN: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open}


class Step(msgspec.Struct, frozen=True):
    """A piece of a poll: records to take, and the checkpoint once they are taken."""

    records: Iterator[SplitRecord | Unreadable]
    checkpoint: Checkpoint
    time_ms: int
    """The time of those that have none of their own."""

    is_complete: bool = False
    """Whether these are all the records that the source has."""


def poll_folder(source: Source, checkpoint: Checkpoint) -> Iterator[Step]:
    """The files that differ in size or time from what the checkpoint has of them. Raises Unavailable.

    A source with complete states skips a file that is older than an ingested one.
    """
    folder = Path(source.location)
    known: dict[str, list[int]] = dict(checkpoint.get("files", {}))
    newest = int(checkpoint.get("newest", 0))
    changed = [file for file in _files(folder, source.pattern) if known.get(file[2]) != [file[0], file[1]]]
    size = 1 if source.complete else FILES_PER_STEP
    for start in range(0, len(changed), size):
        batch = changed[start : start + size]
        known |= {name: [time_ns, length] for time_ns, length, name in batch}
        time_ms = batch[-1][0] // 1_000_000
        if source.complete and time_ms < newest:
            continue
        newest = max(newest, time_ms)
        yield Step(_records(source, folder, batch), {"files": dict(known), "newest": newest}, time_ms, source.complete)


def _files(folder: Path, pattern: str) -> list[tuple[int, int, str]]:
    try:
        paths = [path for path in folder.glob(pattern) if path.is_file()]
        if not folder.is_dir():
            raise Unavailable("the source's folder is not there", folder=folder)
        return sorted((stat.st_mtime_ns, stat.st_size, _name(folder, path)) for path in paths for stat in [path.stat()])
    except OSError as exc:
        raise Unavailable("the source's folder cannot be read", folder=folder, reason=str(exc)) from exc


def _records(source: Source, folder: Path, batch: list[tuple[int, int, str]]) -> Iterator[SplitRecord | Unreadable]:
    for time_ns, _, name in batch:
        time_ms = time_ns // 1_000_000
        if source.format == "file":
            yield SplitRecord(id=name, path=folder / name, time_ms=time_ms)
        else:
            for record in split(source, _pieces(folder / name), name):
                yield msgspec.structs.replace(record, file_time_ms=time_ms)


def _pieces(path: Path) -> Iterator[bytes]:
    opener = _OPEN.get(path.suffix, partial(open, mode="rb"))
    try:
        with opener(path) as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
    except (OSError, EOFError, lzma.LZMAError) as exc:
        raise Unavailable("a file of the source cannot be read", path=path, reason=str(exc)) from exc


def _name(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()
