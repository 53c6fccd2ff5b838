"""The ids of a catalogue's records. `formats/catalogue.md` lists them."""

from __future__ import annotations

import os
import re

from stratalog.codec import sha256
from stratalog.errors import Invalid
from stratalog_catalogue.limits import CATALOGUE_ID_BYTES_MAX

__all__ = [
    "CHECKPOINTS",
    "POLLS",
    "SETTINGS",
    "SOURCES",
    "SUMMARIES",
    "TITLES",
    "WORKS",
    "check_source",
    "file_id",
    "letter_id",
    "parts_of",
    "source_id",
    "stored_id",
    "work_id",
]

SOURCES = "source/"
WORKS = "works/"
SETTINGS = "catalogue/source/"
CHECKPOINTS = "catalogue/checkpoint/"
SUMMARIES = "catalogue/summary/"
TITLES = "catalogue/titles/"
POLLS = "polls/"

SOURCE = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
ID_PREFIX_CHARACTERS = 24


def check_source(name: str) -> str:
    """``name``. Raises Invalid where no source can be called so."""
    if not SOURCE.fullmatch(name):
        raise Invalid("a source's name must be 1 to 40 lower-case letters, digits and hyphens", value=name)
    return name


def stored_id(id: str) -> str:
    """The id of a source's record as ours hold it: itself, or for a long one its beginning and its hash."""
    encoded = id.encode(errors="surrogatepass")
    if len(encoded) <= CATALOGUE_ID_BYTES_MAX:
        return id
    return f"{id[:ID_PREFIX_CHARACTERS]}~{sha256(encoded).hex()[:32]}"


def file_id(name: str) -> str:
    """The id of a file: its name, or for one that is no UTF-8 its bytes written out and its hash."""
    encoded = os.fsencode(name)
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return f"{encoded.decode(errors='backslashreplace')}~{sha256(encoded).hex()[:32]}"


def letter_id(where: str, digest: bytes) -> str:
    """The id of bytes that are no record: where they were, and what they are, so that no letter replaces another."""
    return f"{where}~{digest.hex()[:16]}"


def source_id(source: str, id: str) -> str:
    """Where a source's record is kept."""
    return f"{SOURCES}{source}/{stored_id(id)}"


def work_id(source: str, id: str) -> str:
    """Where the work made of it is kept."""
    return f"{WORKS}{source}/{stored_id(id)}"


def parts_of(record_id: str) -> tuple[str, str]:
    """Source and id behind the id of a source's record, a work or a letter."""
    _, source, id = record_id.split("/", 2)
    return source, id
