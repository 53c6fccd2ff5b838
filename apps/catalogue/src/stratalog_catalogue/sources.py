"""Sources: the locations of records, and the settings for reading the records.

The settings of each source are a record of the catalogue.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from stratalog import Conflict, Corrupt, Invalid, NotFound, Records
from stratalog.struct_types import resolved
from stratalog_catalogue.encodings import check_encoding
from stratalog_catalogue.limits import CATALOGUE_DELETIONS_PERCENT, CATALOGUE_PATTERN_PARTS_MAX
from stratalog_catalogue.names import CHECKPOINTS, POLLS, SETTINGS, check_source

__all__ = [
    "Format",
    "Source",
    "add_source",
    "forget_checkpoint",
    "has_source",
    "pause_source",
    "put_settings",
    "read_source",
    "read_sources",
    "readable_sources",
    "remove_source",
    "source_names",
]

MOMENT = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\dZ)?", re.ASCII)
Format = Literal["json", "jsonl", "xml", "csv", "rfc822", "file"]


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source system, or a part of a source system, with the settings for reading its records."""

    name: str
    adapter: Literal["folder", "http", "oai"]
    location: str
    """A folder, or a URL."""

    format: Format
    """With `file` each file is one record, of any size."""

    transformer: str = "plain"
    records: str = ""
    """In JSON, the path of the list of records. In XML, the name of a record's element.

    Without this setting a JSON document is a list of records or one record, and an XML document is one record.
    """

    id: str = "id"
    """The field with a record's id, or several fields separated by commas. Several values are joined by `/`."""

    time: str = ""
    """The field with the time of a record's last change.

    Without this setting, a record has the time of its file or answer.
    """

    next: str = ""
    """In JSON and XML, the field with the next page's URL. By default, the answer's `Link` header has the URL."""

    complete: bool = False
    """Whether the source delivers complete states. If so, a poll deletes records that a state lacks.

    Each file of a folder is a state, or with the format `file` the whole folder. The pages of an HTTP feed together are
    a state. Each harvest of OAI-PMH is a state.
    """

    encoding: str = ""
    """The encoding of text that is not UTF-8, if neither a byte order mark nor the document names the encoding."""

    pattern: str = "**/*"
    """The glob pattern of the files of a folder."""

    metadata_prefix: str = "oai_dc"
    set: str = ""
    since: str = ""
    """A harvest of OAI-PMH gets only records changed at this time or later.

    The time is a UTC day or second in the protocol's format.
    """

    until: str = ""
    """A harvest of OAI-PMH gets only records changed at this time or earlier."""

    every_seconds: float = 3600.0
    paused: bool = False
    """Whether a poll skips the source unless the poll names it."""

    renamed_to: str | msgspec.UnsetType = msgspec.UNSET
    """The new name during a rename. The source is not polled until the rename is complete.

    Older programs refuse settings with this field.
    """

    deletions_percent_max: float = CATALOGUE_DELETIONS_PERCENT
    """The percentage of records that a complete state may lack.

    If a state lacks a larger share, and more than `CATALOGUE_DELETIONS_UNASKED_MAX` records, no record is deleted
    unless the poll allows deletions.
    """

    version: Literal[1] = 1

    @property
    def id_fields(self) -> tuple[str, ...]:
        """The fields whose values form the id."""
        return tuple(part.strip() for part in self.id.split(","))

    @property
    def scope(self) -> str:
        """The location and selection of the records. After a change of scope, a poll reads the whole source again."""
        if self.adapter != "oai":
            return self.location
        selected = (self.metadata_prefix, self.set, self.since, self.until)
        return " ".join((self.location, *selected)) if selected != ("oai_dc", "", "", "") else self.location


def add_source(records: Records, source: Source) -> Source:
    """Store a source's settings in place of earlier settings, and return them.

    Raises Invalid, and Conflict if an interrupted rename from or to this name must be run again first, with nothing
    stored.
    """
    check_source(source.name)
    _check_pattern(source)
    if source.adapter == "oai" and source.format != "xml":
        raise Invalid("the format of an OAI-PMH source must be xml", source=source.name, format=source.format)
    if source.adapter == "http" and source.format == "file":
        raise Invalid(
            "the format of an HTTP source must be json, jsonl, xml, csv or rfc822",
            source=source.name,
            format=source.format,
        )
    for name in ("every_seconds", "deletions_percent_max"):
        # JSON has no NaN and no infinity, so such settings could not be read again.
        if not math.isfinite(value := getattr(source, name)):
            raise Invalid("a setting must be a finite number", source=source.name, name=name, value=value)
    for moment in (source.since, source.until):
        if moment and not MOMENT.fullmatch(moment):
            raise Invalid("a date must be YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ", source=source.name, value=moment)
    source = msgspec.structs.replace(source, encoding=check_encoding(source.encoding))
    for stored in read_sources(records):
        if stored.renamed_to and source.name in (stored.name, stored.renamed_to):
            text = "a rename of the source was interrupted; run it again first"
            raise Conflict(text, source=stored.name, to=stored.renamed_to)
    if not has_source(records, source.name):
        # A poll of a removed source of this name may still run, or may have saved its checkpoint after the removal.
        with suppress(NotFound):
            records.stat(CHECKPOINTS + source.name)
            forget_checkpoint(records, source.name)
    return put_settings(records, source)


def _check_pattern(source: Source) -> None:
    """Raise Invalid for a pattern that no poll accepts, or that has too many parts."""
    if source.pattern.count("/") >= CATALOGUE_PATTERN_PARTS_MAX:
        raise Invalid("the pattern has too many parts", source=source.name, limit=CATALOGUE_PATTERN_PARTS_MAX)
    try:
        list(Path(os.devnull).glob(source.pattern))
    except (ValueError, NotImplementedError) as exc:
        text = "the pattern must be a glob pattern relative to the source's folder"
        raise Invalid(text, source=source.name, pattern=source.pattern, reason=str(exc)) from exc


def put_settings(records: Records, source: Source) -> Source:
    """Store a source's settings without the checks of `add_source`, which may be newer than stored settings.

    Raises Invalid for a setting that is not Unicode text.
    """
    try:
        settings = msgspec.json.encode(source)
    except UnicodeEncodeError as exc:
        raise Invalid("a setting of the source holds a lone surrogate", source=source.name) from exc
    records.put(SETTINGS + source.name, settings)
    return source


def read_source(records: Records, name: str) -> Source:
    """Return a source's settings. Raises NotFound, and Invalid for settings that this program cannot read."""
    try:
        return msgspec.json.decode(records.get(SETTINGS + check_source(name)).body, type=resolved(Source))
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Invalid("the source's settings are unknown to this program", source=name, reason=str(exc)) from exc
    except NotFound as exc:
        raise NotFound("source not found", source=name) from exc


def source_names(records: Records) -> Iterator[str]:
    """Yield the names of all sources in order, including those whose settings cannot be read."""
    for line in records.list(prefix=SETTINGS):
        if not records.stat(line.id).deleted:
            yield line.id.removeprefix(SETTINGS)


def read_sources(records: Records) -> Iterator[Source]:
    """Yield all sources in order of their names, except those whose settings this program cannot read."""
    for name in source_names(records):
        with suppress(Invalid, NotFound):
            yield read_source(records, name)


def readable_sources(records: Records, names: Iterable[str]) -> Iterator[Source]:
    """Yield the sources of these names, except those whose settings are missing, damaged or unknown to this program."""
    for name in names:
        with suppress(Corrupt, Invalid, NotFound):
            yield read_source(records, name)


def pause_source(records: Records, name: str, paused: bool) -> Source:
    """Pause or resume a source. A poll skips a paused source unless the poll names it. Raises NotFound and Invalid."""
    return put_settings(records, msgspec.structs.replace(read_source(records, name), paused=paused))


def remove_source(records: Records, name: str) -> None:
    """Delete a source's settings and checkpoint, and the dead letter of its polls. Raises NotFound.

    Its records and works, and their dead letters, stay.
    """
    if not has_source(records, name):
        raise NotFound("source not found", source=name)
    forget_checkpoint(records, name)
    with suppress(NotFound):
        records.resolve_dead_letter(POLLS + name)
    # The settings are deleted last, so that an interrupted removal or rename can be repeated.
    records.delete(SETTINGS + name)


def forget_checkpoint(records: Records, name: str) -> None:
    """Delete a source's checkpoint. The next poll reads the whole source again, but stores no unchanged record.

    A poll that is running cannot save its checkpoint afterwards, because the checkpoint has another version.
    """
    try:
        records.delete(CHECKPOINTS + name)
    except NotFound:
        records.put(CHECKPOINTS + name, b"{}")  # a checkpoint that is deleted or was never saved needs a version too
        records.delete(CHECKPOINTS + name)


def has_source(records: Records, name: str) -> bool:
    """Return whether there are settings of a source, including settings that this program cannot read."""
    try:
        return not records.stat(SETTINGS + check_source(name)).deleted
    except NotFound:
        return False
