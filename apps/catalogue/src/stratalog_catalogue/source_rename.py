"""The rename of a source: its records with all versions, its dead letters, settings and checkpoints move to a new name.

A record's id contains its source's name. So a rename copies each record to an id with the new name, and deletes the old
record. An interrupted rename can resume, because the write id of each copy names the original version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, takewhile
from typing import Any

import msgspec

from stratalog import Conflict, Corrupt, DeadLetter, Invalid, NotFound, Records, RecordVersion, VersionConflict
from stratalog.limits import INTEGER_MAX
from stratalog.struct_types import resolved
from stratalog_catalogue.ingest import fail, failure_of, resolve
from stratalog_catalogue.names import (
    CHECKPOINTS,
    MIGRATIONS,
    SETTINGS,
    SOURCES,
    SUMMARIES,
    TITLES,
    WORKS,
    check_source,
)
from stratalog_catalogue.sources import Source, forget_checkpoint, has_source, put_settings, read_source, remove_source

__all__ = ["RenameCounts", "is_moved", "move_late_records", "rename_source", "settings_version"]

_MOVED = "renamed/"
_MOVED_MS = -INTEGER_MAX
"""The source time of a moved record's deletion. So a later source of that name can store a record of any time."""


class RenameCounts(msgspec.Struct):
    """The counts of a rename: records, including deleted records, their versions, and dead letters."""

    records: int = 0
    versions: int = 0
    letters: int = 0


def rename_source(
    records: Records, name: str, other: str, progress: Callable[[int], None] = lambda count: None
) -> RenameCounts:
    """Rename the source ``name`` to ``other``. A repeated call resumes an interrupted rename.

    No new poll reads the source until the rename is complete. Versions keep their bytes, source times and metadata, and
    are numbered from 1. Redacted versions are not copied. The next scan makes the works. Raises NotFound, Invalid, and
    Conflict if ``other`` is a source or has records. Also raises Conflict if a poll that is still running writes the
    same record; the call can then be repeated.
    """
    source = read_source(records, name)
    _check_free(records, source, check_source(other))
    put_settings(records, msgspec.structs.replace(source, renamed_to=other))
    # An interrupted rename may have made the new source already, and the new source may have been polled since.
    is_made = has_source(records, other)
    if not is_made:
        # Copy the checkpoint before the records. A poll that began before the rename may still store records and then
        # save its checkpoint. The new source must not skip such records.
        with suppress(NotFound):
            records.put(CHECKPOINTS + other, records.get(CHECKPOINTS + name).body)
    counts = RenameCounts()
    # A poll that began before the rename may still write records, so repeat until a pass moves no record.
    while moved := _move_records(records, name, other, is_made, progress):
        counts.records += moved.records
        counts.versions += moved.versions
    counts.letters = _move_letters(records, name, other)
    for prefix in (SUMMARIES, TITLES):
        with suppress(NotFound):
            records.delete(prefix + name)
    _move_migrations(records, name, other)
    if not is_made:
        put_settings(records, msgspec.structs.replace(source, name=other, renamed_to=msgspec.UNSET))
    remove_source(records, name)
    return counts


def settings_version(records: Records, name: str) -> int:
    """Return the version of a source's settings, or 0 if there never was a source of this name."""
    newest = _newest(records, SETTINGS + name)
    return newest.version if newest else 0


def move_late_records(records: Records, name: str, since: int) -> None:
    """Move the records and dead letters that a poll of the source ``name`` stored after the end of a rename.

    ``since`` is the version of the source's settings at the beginning of the poll. Do nothing if the source was not
    renamed, or if another source has the name by now, or had it and was removed. Raises Unavailable and Corrupt.
    """
    other = _name_after(records, name, since)
    if other is None:
        return
    while True:
        try:
            if _move_records(records, name, other, True, lambda count: None) is None:
                break
        except VersionConflict:
            continue  # another process moves the same records, or another poll writes them
    _move_letters(records, name, other)
    if has_source(records, name):
        # A new source has taken the name meanwhile, and some of its records may be moved. So it must read all again.
        forget_checkpoint(records, name)


def _name_after(records: Records, name: str, since: int) -> str | None:
    """Return the present name of the source that had the name ``name`` when its settings had the version ``since``.

    Return None if the source was not renamed or was removed since. Also return None if records under the name may be
    those of a later source: one that has the name now, or that was removed, since a removed source's records stay.
    """
    names: list[str | None] = []
    settings: RecordVersion | None = None
    for version in records.versions(SETTINGS + name):
        if version.deleted and version.version > since:
            names.append(None if settings is None else _renamed_to(records, settings))
        settings = None if version.deleted else version
    if settings is not None or not names or None in names:
        return None
    other = names[0]
    seen = {name}
    while other is not None and other not in seen and not has_source(records, other):
        seen.add(other)
        renamed = list(islice(records.versions(SETTINGS + other, reverse=True), 2))
        other = _renamed_to(records, renamed[1]) if len(renamed) > 1 else None
    return None if other in seen else other


def _renamed_to(records: Records, version: RecordVersion) -> str | None:
    """Return the new name in these settings of a source, or None. A deletion has none."""
    try:
        settings = msgspec.json.decode(records.get(version.id, version.version).body, type=resolved(Source))
    except (msgspec.DecodeError, NotFound, RecursionError):
        return None
    return settings.renamed_to or None


def _check_free(records: Records, source: Source, other: str) -> None:
    """Raise Conflict if another source or its records use the name, and Invalid if it is the source's own name."""
    if other == source.name:
        raise Invalid("the source has that name already", source=other)
    if source.renamed_to != other and has_source(records, other):
        raise Conflict("another source has that name", source=other)
    for line in records.list(prefix=f"{SOURCES}{other}/"):
        newest = records.stat(line.id)
        if _is_copy(newest, source.name):
            return
        if not newest.deleted:
            raise Conflict("records of another source have that name", source=other, record=line.id)


def _move_records(
    records: Records, name: str, other: str, is_made: bool, progress: Callable[[int], None]
) -> RenameCounts | None:
    """Move all records once and return the counts, or None if no record was moved.

    ``is_made`` says whether the new source exists already, and may have read and deleted records itself.
    """
    counts = RenameCounts()
    prefix = f"{SOURCES}{name}/"
    for line in records.list(prefix=prefix):
        newest = records.stat(line.id)
        if newest.write_id == _moved(other):
            continue
        id = line.id.removeprefix(prefix)
        copied = _copy(records, line.id, f"{SOURCES}{other}/{id}", name, is_made)
        if newest.deleted and not copied:
            continue
        if not newest.deleted:
            # The write id of the deletion marks the record as moved. If a poll wrote a version since ``newest`` was
            # read, the expected version differs and VersionConflict is raised.
            records.delete(line.id, expected=newest.version, source_time_ms=_MOVED_MS, write_id=_moved(other))
        with suppress(NotFound):
            records.delete(f"{WORKS}{name}/{id}")
        counts.records += 1
        counts.versions += copied
        progress(1)
    return counts if counts.records else None


def _copy(records: Records, source_id: str, target_id: str, name: str, is_made: bool) -> int:
    """Copy the remaining versions of a record to another id, and return the number of copied versions.

    Versions that an earlier rename moved to another source are not copied. Nor is a late version, whose time is not
    later than that of the newest version or deletion of the new source. A version is late if an earlier pass has moved
    the record, or if the new source may have read the record itself.
    """
    newest = _newest(records, target_id)
    latest, copied = (newest.version, _copied(newest, name)) if newest else (0, 0)
    count = 0
    versions = list(records.versions(source_id))
    # An earlier rename has moved the versions before its deletion to another source already.
    moved = max((version.version for version in versions if is_moved(version)), default=0)
    done = max(copied, moved)
    # The deletion of a moved record is earlier than any version. So a poll that still reads an old state can store a
    # version that is older than the moved versions.
    is_late = newest is not None and (is_made or (copied < moved if copied else not newest.deleted))
    newest_ms = (newest.source_time_ms or 0) if newest is not None and is_late else -INTEGER_MAX
    for version in versions:
        # A redacted version has no body to copy. A deletion is not copied while the target record has no version.
        if version.version <= done or version.redacted or (version.deleted and not latest):
            continue
        if (version.source_time_ms or 0) <= newest_ms:
            continue
        # Concurrent runs cannot interleave their copies: the expected version of the slower run is out of date.
        given: dict[str, Any] = {
            "expected": latest,
            "source_time_ms": version.source_time_ms,
            "write_id": f"rename/{name}/{version.version}",
            "principal": version.principal,
        }
        if version.deleted:
            latest = records.delete(target_id, **given).version
        else:
            body = records.open(source_id, version.version)
            latest = records.put(target_id, body, metadata=version.metadata, **given).version
        count += 1
    return count


def _move_letters(records: Records, name: str, other: str) -> int:
    """Move the dead letters of records and return their number.

    Letters of works are resolved, because the next scan makes the works again and writes new letters for failures.
    """
    count = 0
    for letter in list(_letters(records, f"{WORKS}{name}/")):
        resolve(records, letter.id)
    prefix = f"{SOURCES}{name}/"
    for letter in list(_letters(records, prefix)):
        with suppress(NotFound):  # another process has resolved the letter since it was listed
            count += _move_letter(records, letter, f"{SOURCES}{other}/{letter.id.removeprefix(prefix)}")
    return count


def _move_letter(records: Records, letter: DeadLetter, target_id: str) -> bool:
    """Move a dead letter. Return False if another program wrote it. Raises NotFound if the letter is resolved by now.

    If another process resolves the letter after it was copied, the copy stays. That process may be another rename.
    """
    failure = failure_of(letter)
    if failure is None:
        return False
    if records.failure(letter.id) is None:
        raise NotFound("the dead letter is resolved", record=letter.id)
    body = None if letter.size is None else records.open_dead_letter(letter.id)
    fail(records, target_id, letter.reason, failure, body)
    resolve(records, letter.id)
    return True


def _move_migrations(records: Records, name: str, other: str) -> None:
    """Move the notes of migrations. A later migration needs them, since it must not copy the same rows again."""
    # A note of an earlier build has no source in its id. Move it first, since the note with the source is newer.
    for line in sorted(records.list(prefix=MIGRATIONS), key=lambda line: "/" in line.id.removeprefix(MIGRATIONS)):
        with suppress(NotFound):
            note = records.get(line.id)
            if note.version.metadata.get("source") == name:
                table = line.id.removeprefix(MIGRATIONS).removeprefix(f"{name}/")
                records.put(f"{MIGRATIONS}{other}/{table}", note.body, metadata={"source": other})
                records.delete(line.id)


def _letters(records: Records, prefix: str) -> Iterator[DeadLetter]:
    """Yield the dead letters whose ids begin with the prefix. Raises Corrupt for such a letter if it is damaged."""

    def refuse(error: Corrupt) -> None:
        if str(error.details["sort"]).startswith(prefix):
            raise error

    letters = records.dead_letters(prefix, damaged=refuse)
    return takewhile(lambda letter: letter.id.startswith(prefix), letters)


def _newest(records: Records, record_id: str) -> RecordVersion | None:
    try:
        return records.stat(record_id)
    except NotFound:
        return None


def _is_copy(version: RecordVersion, name: str) -> bool:
    return version.write_id.startswith(f"rename/{name}/")


def _copied(version: RecordVersion, name: str) -> int:
    """Return the number of the version that this copy was made from, or 0 for a version that is no copy."""
    return int(version.write_id.rpartition("/")[2]) if _is_copy(version, name) else 0


def _moved(other: str) -> str:
    return _MOVED + other


def is_moved(version: RecordVersion) -> bool:
    """Return whether a version is the deletion of a record that a rename moved to another source."""
    return version.write_id.startswith(_MOVED)
