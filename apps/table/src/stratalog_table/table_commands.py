"""Commands on a whole table: alter columns and retention, adopt data files, clear and delete."""

from __future__ import annotations

from typing import Any

import click

from stratalog import Invalid
from stratalog.cli import Session, command, confirm, split_name
from stratalog_table.command_parts import (
    data_url,
    default_data_url,
    filled,
    module,
    of_retention_days,
    of_table,
    opened_table,
    reaching,
    value_column,
)

__all__ = ["adopt", "alter", "clear", "columns", "delete"]


@command("alter", example="stratalog table alter acme/events --add price:double --keep-days 30")
@of_table
@click.option("--add", multiple=True, metavar="NAME:TYPE", help="A new column, which is empty in existing rows.")
@click.option(
    "--widen", multiple=True, metavar="NAME:TYPE", help="A column and its wider type, which fits all present values."
)
@of_retention_days
def alter(
    session: Session, table: str, add: tuple[str, ...], widen: tuple[str, ...], retention_days: int | None
) -> None:
    """Add and widen columns, and set the retention of old data files. The command rewrites no data file."""
    if not add and not widen and retention_days is None:
        raise click.UsageError("give at least one of --add, --widen and --keep-days")
    opened = opened_table(session, table)
    added, wider = (tuple(value_column(column) for column in typed) for typed in (add, widen))
    present = {column.name: column.type for column in opened.at().columns() or ()}
    for column in wider:
        known = present.get(column.name, column.type)
        if known != column.type and module("columns").holds(known, column.type):
            text = module("columns").type_text(known)
            raise Invalid("the column has a type that is as wide already", column=column.name, table_type=text)
    set_columns = module("table_changes").SetColumns
    changes = [change for change in (set_columns(added, add=True), set_columns(wider, widen=True)) if change.columns]
    view = opened.at(opened.alter(changes, retention_days=retention_days))
    plain = {
        "table": table,
        "version": view.version,
        "columns": view.columns(),
        "retention_days": view.meta.retention_days,
    }
    session.answer(plain, f"altered {table}, version {view.version}")


@command("columns", example="stratalog table columns acme/events")
@of_table
def columns(session: Session, table: str) -> None:
    """List the columns of a table. The columns of the row key come first."""
    view = opened_table(session, table).at()
    text = module("columns").type_text
    listed = [
        *((column.name, column.type, "key") for column in view.meta.schema.keys),
        *((column.name, text(column.type), "") for column in view.columns() or ()),
    ]
    rows = [({"name": name, "type": kind, "key": bool(key)}, [name, kind, key]) for name, kind, key in listed]
    session.answer_list(rows, "no columns", head=[["column", "type", ""]])


@command("clear", example="stratalog table clear acme/events --yes")
@of_table
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def clear(session: Session, table: str, yes: bool) -> None:
    """Remove all rows of a table. History and partitions stay. `table maintain` collects the data files."""
    opened = opened_table(session, table)
    if not yes:
        confirm(f"remove all rows of {table}?")
    version = opened.clear_files()
    session.answer({"table": table, "version": version}, f"cleared {table}, version {version}")


@command("delete", example="stratalog table delete acme/events --yes")
@of_table
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(session: Session, table: str, yes: bool) -> None:
    """Delete a table, its jobs and its data files. Files that a fork or a copy of the table needs stay.

    The command also deletes a table whose creation did not finish.
    """
    opened = module("table").table_handle(session.open(), *split_name(table))
    if module("table_creation").is_unfinished(opened.document):
        _delete_unfinished(session, table, opened, yes)
        return
    data_files = module("rows").data_files_of(opened) if opened.at().meta.data else None
    if not yes:
        confirm(f"delete {table} with its {opened.version} versions and its data files?")
    with reaching(data_files.folder.url if data_files else ""):
        count = module("collection").delete_table(opened, data_files)
    session.answer({"table": table, "deleted": True, "files": count}, f"deleted {table} and {count:,} data files")


@command("adopt", example="stratalog table adopt acme/events --yes")
@of_table
@click.option(
    "--data", type=filled, metavar="FOLDER|URL", help="The present location of the data files.  [default: unchanged]"
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def adopt(session: Session, table: str, data: str | None, yes: bool) -> None:
    """Make this store's table the only owner of its data files, which are all files in one folder.

    The table's log names this folder.
    Use this command for a table of a copied store, for a table that an older program created, and after you moved data
    files.
    """
    opened = opened_table(session, table)
    url = data_url(session, table, data) if data else ""
    folder = module("data_folder").DataFolder(
        url or module("locations").open_location(opened.store, opened.at().meta.data)
    )
    with reaching(folder.url):
        module("rows").require_present(opened, folder)
    if not yes:
        confirm(f"confirm that no other store uses its copy of {table}, and that no other table uses {folder.url}")
    with reaching(folder.url):
        opened.register(folder).adopt()
    if url:
        opened.set_data(url)
    session.answer({"table": table, "data": folder.url}, f"{table} owns the data files in {folder.url}")


def _delete_unfinished(session: Session, table: str, opened: Any, yes: bool) -> None:
    if not yes:
        confirm(f"delete {table}, whose creation did not finish?")
    default = default_data_url(session, table)
    with reaching(default):
        module("table_creation").delete_unfinished(opened, [default] if default else [])
    session.answer({"table": table, "deleted": True, "files": 0}, f"deleted {table}, whose creation had not finished")
