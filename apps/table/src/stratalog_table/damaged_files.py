"""Data files that cannot be read. Maintenance sets these files aside and lists them.

Maintenance does not delete a file because of its damage. The table still references a file that is set aside, and
counts its rows. No job merges the file, no split samples it, and no step moves its references. The error of a scan
names the file. Once the file is restored, `retry_damaged` releases it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog import Draft, Rejected
from stratalog_table import messages
from stratalog_table.limits import DAMAGE_REASON_CHARACTERS_MAX
from stratalog_table.references import Filenames
from stratalog_table.table_draft import TableDraft, read

__all__ = ["FileDamage", "SetAside", "release_files", "set_aside_files"]


class FileDamage(msgspec.Struct, frozen=True):
    """A file, and the reason why it cannot be read."""

    filename: str
    reason: str


class SetAside(msgspec.Struct, frozen=True):
    """The files to set aside."""

    files: tuple[FileDamage, ...]


def set_aside_files(draft: Draft, args: Any) -> None:
    """Set tracked files aside."""
    wanted: SetAside = read(args, SetAside)
    table_draft = TableDraft(draft)
    for file in wanted.files:
        if not table_draft.is_tracked(file.filename):
            raise Rejected(messages.file_not_found(file.filename))
        draft.put(table_draft.layout.damaged(file.filename), file.reason[:DAMAGE_REASON_CHARACTERS_MAX])


def release_files(draft: Draft, args: Any) -> None:
    """Release files that were set aside. The caller checks that they can be read again."""
    wanted: Filenames = read(args, Filenames)
    table_draft = TableDraft(draft)
    for filename in wanted.filenames:
        key = table_draft.layout.damaged(filename)
        if key not in draft:
            raise Rejected(messages.file_not_set_aside(filename))
        draft.delete(key)
