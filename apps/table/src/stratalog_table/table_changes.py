"""Transactions that change a table's value columns and the retention of its old data files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stratalog import Draft, Invalid, LimitExceeded, Rejected
from stratalog.struct_types import resolved
from stratalog_table.columns import ValueColumn, joined
from stratalog_table.layout import COLUMN
from stratalog_table.limits import RETENTION_DAYS_MAX
from stratalog_table.messages import columns_refused
from stratalog_table.model import Schema
from stratalog_table.table_draft import meta_of, put_meta, read

__all__ = [
    "Alteration",
    "SetColumns",
    "SetRetention",
    "alter",
    "checked_days",
    "put_columns",
    "set_columns",
    "set_retention",
]

NUMBER_DIGITS = 5
"""The digits of a column's number in its key. With a fixed width the keys sort in the order of the columns."""


class SetColumns(msgspec.Struct, frozen=True, omit_defaults=True):
    """The columns of new rows, and whether the table may add or widen columns to fit them."""

    columns: tuple[ValueColumn, ...]
    add: bool = False
    widen: bool = False


class SetRetention(msgspec.Struct, frozen=True):
    """The number of days for which data files stay after the last version that needs them."""

    retention_days: int


class Alteration(msgspec.Struct, frozen=True, omit_defaults=True):
    """Changes of the columns, in their order, and the new retention of data files, or None to keep the retention."""

    columns: tuple[SetColumns, ...] = ()
    retention_days: int | None = None


def alter(draft: Draft, args: Any) -> None:
    """Make all changes of an alteration."""
    wanted: Alteration = read(args, Alteration)
    for columns in wanted.columns:
        _set_columns(draft, columns)
    if wanted.retention_days is not None:
        _set_retention(draft, wanted.retention_days)


def set_columns(draft: Draft, args: Any) -> None:
    """Add and widen columns. A table without declared columns gets all the given columns."""
    _set_columns(draft, read(args, SetColumns))


def set_retention(draft: Draft, args: Any) -> None:
    """Set the retention of data files. Files that were collected before are not restored."""
    _set_retention(draft, read(args, SetRetention).retention_days)


def _set_columns(draft: Draft, wanted: SetColumns) -> None:
    meta = meta_of(draft)
    if not meta.has_columns:
        put_meta(draft, msgspec.structs.replace(meta, has_columns=True))
        put_columns(draft, meta.schema, wanted.columns)
        return
    known = tuple(msgspec.convert(row, resolved(ValueColumn)) for _, row in draft.scan(COLUMN))
    put_columns(draft, meta.schema, wanted.columns, known, add=wanted.add, widen=wanted.widen)


def _set_retention(draft: Draft, days: int) -> None:
    put_meta(draft, msgspec.structs.replace(meta_of(draft), retention_days=checked_days(days)))


def put_columns(
    draft: Draft,
    schema: Schema,
    wanted: Sequence[ValueColumn],
    known: Sequence[ValueColumn] = (),
    *,
    add: bool = True,
    widen: bool = False,
) -> None:
    """Write the columns of a table that has ``known`` and gets ``wanted``. Raises Rejected if they do not fit."""
    keys = {column.name for column in schema.keys}
    if any(column.name in keys for column in wanted):
        raise Rejected("Malformed transaction: a value column has the name of a key column")
    try:
        columns = joined(known, wanted, add=add, widen=widen)
    except (Invalid, LimitExceeded) as exc:
        raise Rejected(columns_refused(str(exc))) from exc
    for position, column in enumerate(columns):
        if position >= len(known) or column != known[position]:
            draft.put(f"{COLUMN}{position:0{NUMBER_DIGITS}d}", [column.name, column.type])


def checked_days(days: int) -> int:
    """Return ``days`` if it is a valid retention. Raises Rejected if not."""
    if not 0 <= days <= RETENTION_DAYS_MAX:
        raise Rejected(f"Malformed transaction: files are kept 0 to {RETENTION_DAYS_MAX} days, not {days}")
    return days
