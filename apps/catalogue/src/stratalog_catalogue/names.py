"""The ids of a catalogue's records. `formats/catalogue.md` lists them."""

from __future__ import annotations

import os
import re

from stratalog.codec import sha256
from stratalog.errors import Invalid
from stratalog_catalogue.limits import CATALOGUE_ID_BYTES_MAX

__all__ = [
    "CHECKPOINTS",
    "MIGRATIONS",
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
    "source_of_letter",
    "stored_id",
    "work_id",
]

SOURCES = "source/"
WORKS = "works/"
SETTINGS = "catalogue/source/"
CHECKPOINTS = "catalogue/checkpoint/"
MIGRATIONS = f"{CHECKPOINTS}!migrate/"
SUMMARIES = "catalogue/summary/"
TITLES = "catalogue/titles/"
POLLS = "polls/"

SOURCE = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
LETTER = re.compile(rf"{POLLS}({SOURCE.pattern})|(?:{SOURCES}|{WORKS})({SOURCE.pattern})/.*", re.DOTALL)
ID_PREFIX_CHARACTERS = 24


def check_source(name: str) -> str:
    """Return ``name``. Raises Invalid if it is not a valid name of a source."""
    if not SOURCE.fullmatch(name):
        raise Invalid(
            "a source's name must be 1 to 40 lower-case letters, digits and hyphens, and not start with a hyphen",
            value=name,
        )
    return name


def stored_id(id: str) -> str:
    """Return the id to store for a source's record: the id itself, or the beginning and the hash of a long id."""
    encoded = id.encode(errors="surrogatepass")
    if len(encoded) <= CATALOGUE_ID_BYTES_MAX:
        return id
    return f"{id[:ID_PREFIX_CHARACTERS]}~{sha256(encoded).hex()[:32]}"


def file_id(name: str) -> str:
    """Return the id of a file: its name. A name that is not UTF-8 is escaped, and its hash is appended."""
    encoded = os.fsencode(name)
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        return f"{encoded.decode(errors='backslashreplace')}~{sha256(encoded).hex()[:32]}"


def letter_id(where: str, digest: bytes) -> str:
    """Return the id of the dead letter of unreadable bytes: their position and their hash.

    So the dead letters of different bytes at one position have different ids.
    """
    return f"{where}~{digest.hex()[:16]}"


def source_id(source: str, id: str) -> str:
    """Return the id under which a source's record is stored."""
    return f"{SOURCES}{source}/{stored_id(id)}"


def work_id(source: str, id: str) -> str:
    """Return the id under which the work of a source's record is stored."""
    return f"{WORKS}{source}/{stored_id(id)}"


def source_of_letter(id: str) -> str | None:
    """Return the source of a dead letter, or None if another program of the organisation wrote the letter."""
    match = LETTER.fullmatch(id)
    return match and (match[1] or match[2])


def parts_of(record_id: str) -> tuple[str, str]:
    """Return the source, and the record's id at the source, from the stored id of a record or a work."""
    _, source, id = record_id.split("/", 2)
    return source, id
