"""Commands on tables of Parquet files: create a table, ingest rows, scan ranges of keys."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import click

from stratalog.cli import (
    CommandGroup,
    Failed,
    Session,
    command,
    note,
    of_every_command,
    output_file,
    print_json,
    progress,
    split_name,
    version_of,
)
from stratalog_table.command_parts import (
    FAILED,
    data_url,
    filled,
    key_column,
    module,
    of_retention_days,
    of_table,
    opened_files,
    opened_table,
    reached,
    reaching,
    typed_key,
    value_column,
)
from stratalog_table.maintenance_commands import cancel, damaged, jobs, maintain
from stratalog_table.table_commands import adopt, alter, clear, columns, delete

__all__ = ["table"]

ROWS_PER_FILE = 1_000_000


@click.group("table", cls=CommandGroup, epilog="Example: stratalog table create acme/events --key id:long")
@of_every_command
def table() -> None:
    """Create, fill, read and maintain tables of Parquet files."""


@command("create", example="stratalog table create acme/events --key id:long --split-at 1000 --data ./lake")
@of_table
@click.option("--key", "keys", multiple=True, required=True, metavar="NAME:TYPE", help="A column of the row key.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME:TYPE",
    help="A column outside the row key.  [default: the columns of the first rows]",
)
@click.option(
    "--split-at",
    "points",
    multiple=True,
    metavar="KEY",
    help="The first key of a further leaf, in the first key column. Give the keys in order.",
)
@click.option(
    "--data", type=filled, metavar="FOLDER|URL", help="The location of the data files.  [default: beside the store]"
)
@of_retention_days
def create(
    session: Session,
    table: str,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    points: tuple[str, ...],
    data: str | None,
    retention_days: int | None,
) -> None:
    """Create a table, and its store if the store does not exist.

    Types of keys: int, long, string, bytes, date, timestamp, float, double, decimal(PRECISION,SCALE). Other columns may
    be of any type that Arrow names, as in double, timestamp[ms, tz=UTC] or ["list","string"].
    """
    schema = module("model").Schema(tuple(key_column(key) for key in keys))
    edges = [typed_key(schema.keys[0].type, point) for point in points]
    others = tuple(value_column(column) for column in columns) if columns else None
    url = data_url(session, table, data)
    store = session.open(create=True)
    with reaching(url):
        made = module("table_creation").create_table(
            store, *split_name(table), schema, edges, data=url, columns=others, retention_days=retention_days or 0
        )
    plain = {"table": table, "version": made.version, "data": url, "leaves": len(points) + 1}
    session.answer(plain, f"created {table}, data files in {url}")


@command("ingest", example="stratalog table ingest acme/events day-1.parquet day-2.parquet")
@of_table
@click.argument("files", nargs=-1, required=True, metavar="PARQUET...", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--rows-per-file",
    default=ROWS_PER_FILE,
    show_default=True,
    type=click.IntRange(1),
    metavar="ROWS",
    help="The maximum number of rows of each data file.",
)
@click.option(
    "--source", type=filled, metavar="NAME", help="Ingest each file of this source once, by name and content."
)
@click.option(
    "--as",
    "name",
    type=filled,
    metavar="NAME",
    help="The file's name at its source; needs --source and exactly one file.  [default: its path]",
)
@click.option("--repeat", is_flag=True, help="Ingest content again that the source already had under another name.")
@click.option("--add-columns", is_flag=True, help="Add the columns that the table lacks.")
@click.option("--widen", is_flag=True, help="Widen columns to types that can also represent the files' values.")
def ingest(
    session: Session,
    table: str,
    files: tuple[str, ...],
    rows_per_file: int,
    source: str | None,
    name: str | None,
    repeat: bool,
    add_columns: bool,
    widen: bool,
) -> None:
    """Add the rows of Parquet files.

    With --source, the same command can be repeated after an interruption: it skips the files that are in the table
    already. The table refuses a file whose columns do not fit the table's columns.
    """
    if name and (len(files) > 1 or not source):
        raise click.UsageError("--as needs --source and exactly one file")
    app = module("file_ingest")
    opened, data_files = opened_files(session, table)
    chosen = [app.input_file(Path(file), name or "") for file in files]
    with progress("ingesting", None) as step, reaching(data_files.folder.url):
        done = app.ingest_files(
            opened,
            data_files,
            chosen,
            rows_per_file,
            source=source or "",
            repeat=repeat,
            add_columns=add_columns,
            widen=widen,
            step=step,
        )
    plain = {"table": table, "rows": done.rows, "files": done.files, "known": done.known}
    known = f"; {done.known} of {len(files)} files were in the table already" if done.known else ""
    session.answer(plain, f"{done.rows:,} rows in {done.files} files{known}")


@command("scan", example="stratalog table scan acme/events --from 100 --to 200 --output found.parquet")
@of_table
@click.option("--from", "low", metavar="KEY", help="The first key of the range, in the first key column.")
@click.option("--to", "high", metavar="KEY", help="The first key after the range.")
@click.option(
    "--at", metavar="VERSION|TIME", help="The version to read, while its data files are kept.  [default: the newest]"
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write Parquet to this file instead of printing JSON lines. Without rows, the file has only the columns.",
)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Leave out files that cannot be read, and report them. If there are such files, the exit code is 1.",
)
def scan(
    session: Session,
    table: str,
    low: str | None,
    high: str | None,
    at: str | None,
    output: str | None,
    skip_damaged: bool,
) -> None:
    """Read the rows of a range of keys. The rows are not in the order of their keys.

    A value without a JSON form becomes a text in JSON, for example NaN, a decimal, or a time in ISO 8601.
    """
    opened, data_files = opened_files(session, table)
    kind = data_files.schema.keys[0].type
    region = data_files.schema.region([(low and typed_key(kind, low), high and typed_key(kind, high))])
    first, end = region[0]
    if end is not None and first >= end:
        raise click.UsageError(f"the range is empty: --to {high} is not after --from {low}")
    skipped: list[Exception] = []
    skip = skipped.append if skip_damaged else None
    view = opened.at(version_of(opened.document, at, first=1))
    parts = reached(data_files, module("rows").scan(view, data_files, region, skip=skip))
    if output is None:
        for part in parts:
            for row in module("json_rows").json_rows(part):
                print_json(row)
    else:
        columns = module("arrow_types").arrow_schema(view.meta.schema, view.columns() or ())
        count = _written(parts, columns, output)
        session.answer({"table": table, "rows": count, "output": output}, f"{count:,} rows in {output}")
    for exc in skipped:
        note(str(exc))
    if skipped:
        note(f"{len(skipped)} references were left out: their files cannot be read")
        raise Failed(FAILED)


@command("show", example="stratalog table show acme/events")
@of_table
def show(session: Session, table: str) -> None:
    """List the leaves in order, then the split partitions that still have references, with their files and rows."""
    opened = opened_table(session, table)
    view = opened.at()
    schema = view.meta.schema
    rows = []
    for holding in view.holdings():
        low, high = schema.keys_of(holding.region[0], 0)
        plain = {
            "partition": holding.partition,
            "leaf": holding.leaf,
            "files": holding.tally.files,
            "rows": holding.tally.rows,
        }
        edge = "" if high is None else str(high)
        row = [
            holding.partition,
            "" if low is None else str(low),
            edge,
            f"{holding.tally.files:,}",
            f"{holding.tally.rows:,}",
            "" if holding.leaf else "split",
        ]
        rows.append(({**plain, "from": _plain(low), "to": _plain(high)}, row))
    head = [["partition", f"from {schema.keys[0].name}", "to", "files", "rows", ""]]
    session.answer_list(rows, "the table has no partitions", head=head, right=[1, 2, 3, 4])


def _written(parts: Iterator[Any], columns: Any, output: str) -> int:
    """Write a Parquet file and return its number of rows. Without rows, the file has ``columns``."""
    parquet, count = import_module("pyarrow.parquet"), 0
    first = next(parts, None)
    schema, rows = (columns, ()) if first is None else (first.schema, chain([first], parts))
    with output_file(output) as out, parquet.ParquetWriter(out, schema) as writer:
        for part in rows:
            writer.write_table(part)
            count += part.num_rows
    return count


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str | bytes) else str(value)


for subcommand in (create, alter, columns, ingest, maintain, damaged, scan, show, jobs, cancel, clear, delete, adopt):
    table.add_command(subcommand)
