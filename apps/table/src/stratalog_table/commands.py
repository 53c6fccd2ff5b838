"""Commands on tables of Parquet files: make one, bring rows in, keep it well, read ranges of keys."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from stratalog import Invalid
from stratalog.cli import Failed, Session, command, note, of_every_command, print_json, progress, split_name

__all__ = ["table"]

ROWS_PER_FILE = 1_000_000
ROWS_MAX = 10_000_000
FILES_MIN = 8
AGE_SECONDS = 900
LEASE_SECONDS = 300
WATCH_SECONDS = 60.0
FAILED = 1

of_table = click.argument("table", metavar="ORGANISATION/TABLE")
of_keep_days = click.option(
    "--keep-days", type=click.IntRange(0), metavar="DAYS", help="Keep data files so long after they are merged away."
)


@click.group("table", epilog="Example: stratalog table create acme/events --key id:long")
@of_every_command
def table() -> None:
    """Tables of Parquet files: create, alter, ingest, maintain, scan, show, jobs, clear, delete, adopt."""


@command("create", example="stratalog table create acme/events --key id:long --split-at 1000 --data ./lake")
@of_table
@click.option("--key", "keys", multiple=True, required=True, metavar="NAME:TYPE", help="A column of the row key.")
@click.option(
    "--column", "columns", multiple=True, metavar="NAME:TYPE", help="Another column.  [default: as the first rows say]"
)
@click.option("--split-at", "points", multiple=True, metavar="KEY", help="Where leaves meet, in order.")
@click.option("--data", default="", metavar="FOLDER|URL", help="Where data files go.  [default: beside the store]")
@of_keep_days
def create(
    session: Session,
    table: str,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    points: tuple[str, ...],
    data: str,
    keep_days: int | None,
) -> None:
    """Make a table, and the store if there is none.

    Types of keys: int, long, string, bytes, date, timestamp, float, double, decimal(PRECISION,SCALE). Other columns may
    be of any type that Arrow names, as in double, timestamp[ms, tz=UTC] or ["list","string"].
    """
    schema = _module("model").Schema(tuple(_key_column(key) for key in keys))
    edges = [_key(schema.keys[0].type, point) for point in points]
    others = tuple(_value_column(column) for column in columns) if columns else None
    url = _data_url(session, table, data)
    store = session.open(create=True)
    made = _module("table").create_table(
        store, *split_name(table), schema, edges, data=url, columns=others, keep_days=keep_days or 0
    )
    plain = {"table": table, "version": made.version, "data": url, "leaves": len(points) + 1}
    session.answer(plain, f"created {table}, data files in {url}")


@command("alter", example="stratalog table alter acme/events --add price:double --keep-days 30")
@of_table
@click.option("--add", multiple=True, metavar="NAME:TYPE", help="A new column; it is empty in the rows that are there.")
@click.option("--widen", multiple=True, metavar="NAME:TYPE", help="A type that holds all values of the present one.")
@of_keep_days
def alter(
    session: Session, table: str, add: tuple[str, ...], widen: tuple[str, ...], keep_days: int | None
) -> None:
    """Add and widen columns, and promise how long old data files stay. Data files are not rewritten."""
    if not add and not widen and keep_days is None:
        raise click.UsageError("say what is to change: --add, --widen or --keep-days")
    opened = _module("table").open_table(session.open(), *split_name(table))
    for options, columns in (({"add": True}, add), ({"widen": True}, widen)):
        if columns:
            opened.set_columns([_value_column(column) for column in columns], **options)
    if keep_days is not None:
        opened.set_retention(keep_days)
    view = opened.at()
    plain = {"table": table, "version": view.version, "columns": view.columns(), "keep_days": view.meta.keep_days}
    session.answer(plain, f"altered {table}, version {view.version}")


@command("columns", example="stratalog table columns acme/events")
@of_table
def columns(session: Session, table: str) -> None:
    """The columns of a table: those of the row key first."""
    view = _module("table").open_table(session.open(), *split_name(table)).at()
    text = _module("columns").type_text
    listed = [
        *((column.name, column.type, "key") for column in view.meta.schema.keys),
        *((column.name, text(column.type), "") for column in view.columns() or ()),
    ]
    rows = [({"name": name, "type": type, "key": bool(key)}, [name, type, key]) for name, type, key in listed]
    session.answer_list(rows, "no columns", head=[["column", "type", ""]])


@command("ingest", example="stratalog table ingest acme/events day-1.parquet day-2.parquet")
@of_table
@click.argument("files", nargs=-1, required=True, metavar="PARQUET...", type=click.Path(exists=True, dir_okay=False))
@click.option("--rows-per-file", default=ROWS_PER_FILE, show_default=True, type=click.IntRange(1))
@click.option("--source", default="", metavar="NAME", help="Take each of its files once, by name and content.")
@click.option(
    "--as", "name", default="", metavar="NAME", help="The one file's name at its source.  [default: its path]"
)
@click.option("--repeat", is_flag=True, help="Take content that the source brought under another name once more.")
@click.option("--add-columns", is_flag=True, help="Add columns of the files that the table lacks.")
@click.option("--widen", is_flag=True, help="Widen columns to types that hold the files' values too.")
def ingest(
    session: Session,
    table: str,
    files: tuple[str, ...],
    rows_per_file: int,
    source: str,
    name: str,
    repeat: bool,
    add_columns: bool,
    widen: bool,
) -> None:
    """Add the rows of Parquet files. With --source, the same command can be given again after it was cut off.

    A file whose columns do not fit those of the table is refused.
    """
    if name and (len(files) > 1 or not source):
        raise click.UsageError("--as names the one file of a --source")
    app = _module("file_ingest")
    opened, data_files = _opened(session, table)
    chosen = [app.input_file(Path(file), name) for file in files]
    with progress("ingesting", None) as step:
        done = app.ingest_files(
            opened,
            data_files,
            chosen,
            rows_per_file,
            source=source,
            repeat=repeat,
            add_columns=add_columns,
            widen=widen,
            step=step,
        )
    plain = {"table": table, "rows": done.rows, "files": done.files, "known": done.known}
    known = f"; {done.known} of {len(files)} files were in the table already" if done.known else ""
    session.answer(plain, f"{done.rows:,} rows in {done.files} files{known}")


@command("maintain", example="stratalog table maintain acme/events --rows-max 1000000")
@of_table
@click.option("--rows-max", default=ROWS_MAX, show_default=True, type=click.IntRange(1), help="Split larger leaves.")
@click.option("--files-min", default=FILES_MIN, show_default=True, type=click.IntRange(2), help="Merge so many files.")
@click.option("--age", default=AGE_SECONDS, show_default=True, metavar="SECONDS", help="Collect what is older.")
@click.option(
    "--lease", default=LEASE_SECONDS, show_default=True, metavar="SECONDS", help="Leave jobs so long to others."
)
@click.option("--watch", is_flag=True, help="Go on, with one pass after another.")
@click.option(
    "--every", default=WATCH_SECONDS, show_default=True, type=click.FloatRange(0), metavar="SECONDS", help="With --watch."
)
def maintain(
    session: Session,
    table: str,
    rows_max: int,
    files_min: int,
    age: float,
    lease: float,
    watch: bool,
    every: float,
) -> None:
    """One maintenance pass: split leaves, move references down, merge files, collect garbage. Run any number.

    What fails for one file or leaf is listed, and the exit code is 1; everything else is done.
    """
    opened, data_files = _opened(session, table)
    options = {
        "rows_max": rows_max,
        "files_min": files_min,
        "age_ms": round(age * 1000),
        "lease_ms": round(lease * 1000),
    }
    while True:
        done = _module("maintenance").maintain_table(opened, data_files, **options)
        parts = [f"{done.splits} leaves split", f"{done.moved} references moved"]
        session.answer(done, ", ".join([*parts, f"{done.jobs} merged", f"{done.collected} collected"]))
        for fault in done.faults:
            note(f"could not {fault.action} {fault.subject}: {fault.reason}")
        if not watch:
            break
        opened.store.environment.clock.sleep(every)
    if done.faults:
        raise Failed(FAILED)


@command("damaged", example="stratalog table damaged acme/events --retry")
@of_table
@click.option("--retry", is_flag=True, help="Read them again, and take back those that can be read.")
def damaged(session: Session, table: str, retry: bool) -> None:
    """Data files that maintenance could not read and has set aside, and why. They stay in the table."""
    opened = _module("table").open_table(session.open(), *split_name(table))
    if retry:
        count = _module("maintenance").retry_damaged(opened, _module("rows").data_files_of(opened))
        note(f"{count} files can be read again")
    rows = ((file, [file.filename, file.reason]) for file in opened.at().damaged())
    session.answer_list(rows, "no file is set aside", head=[["file", "reason"]])


@command("cancel", example="stratalog table cancel acme/events 7f3kq2 --partition root")
@of_table
@click.argument("job")
@click.option("--partition", required=True, metavar="ID", help="The job's partition, as `table jobs` shows it.")
def cancel(session: Session, table: str, job: str, partition: str) -> None:
    """Cancel a merge job: its files are free for another. Who does it is refused when it commits."""
    opened = _module("table").open_table(session.open(), *split_name(table))
    version = opened.cancel_job(job, partition)
    session.answer({"table": table, "job": job, "version": version}, f"cancelled {job}, version {version}")


@command("scan", example="stratalog table scan acme/events --from 100 --to 200 --output found.parquet")
@of_table
@click.option("--from", "low", metavar="KEY", help="Keys of the first column from here on.")
@click.option("--to", "high", metavar="KEY", help="Up to, and without, this one.")
@click.option("--at", type=int, metavar="VERSION", help="The table as it was.  [default: now]")
@click.option("--output", type=click.Path(dir_okay=False), help="Write Parquet there, instead of lines of JSON here.")
@click.option("--skip-damaged", is_flag=True, help="Leave files out that cannot be read, and say so. The exit code is 1.")
def scan(
    session: Session,
    table: str,
    low: str | None,
    high: str | None,
    at: int | None,
    output: str | None,
    skip_damaged: bool,
) -> None:
    """Read the rows of a range of keys, in no order beyond that of the leaves.

    In JSON, what is no number there is a text: NaN, decimals, times by ISO 8601.
    """
    opened, data_files = _opened(session, table)
    kind = data_files.schema.keys[0].type
    region = data_files.schema.region([(low and _key(kind, low), high and _key(kind, high))])
    skipped: list[Exception] = []
    skip = skipped.append if skip_damaged else None
    parts = _module("rows").scan(opened.at(at), data_files, region, skip=skip)
    if output is None:
        for part in parts:
            for row in _module("json_rows").json_rows(part):
                print_json(row)
    else:
        count = _written(parts, output)
        session.answer({"table": table, "rows": count, "output": output}, f"{count:,} rows in {output}")
    for exc in skipped:
        note(str(exc))
    if skipped:
        note(f"{len(skipped)} references were left out: their files cannot be read")
        raise Failed(FAILED)


@command("show", example="stratalog table show acme/events")
@of_table
def show(session: Session, table: str) -> None:
    """The partitions of a table in order, with what they hold."""
    opened = _module("table").open_table(session.open(), *split_name(table))
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


@command("jobs", example="stratalog table jobs acme/events")
@of_table
def jobs(session: Session, table: str) -> None:
    """What became of compaction and ingest jobs, and why some were refused."""
    opened = _module("table").open_table(session.open(), *split_name(table))
    rows = (
        (job, [job.job, job.partition or "-", job.status, str(job.created), str(job.finished or ""), _reason(job)])
        for job in opened.jobs.jobs()
    )
    session.answer_list(rows, "no jobs yet", head=[["job", "partition", "status", "created", "finished", "reason"]])


@command("delete", example="stratalog table delete acme/events --yes")
@of_table
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(session: Session, table: str, yes: bool) -> None:
    """Delete a table, its jobs and its data files. Files that a fork or a copy of it needs stay."""
    opened = _module("table").open_table(session.open(), *split_name(table))
    data_files = _module("rows").data_files_of(opened) if opened.at().meta.data else None
    if not yes:
        click.confirm(f"delete {table} with its {opened.version} versions and its data files?", abort=True, err=True)
    count = _module("collection").delete_table(opened, data_files)
    session.answer({"table": table, "deleted": True, "files": count}, f"deleted {table} and {count:,} data files")


@command("adopt", example="stratalog table adopt acme/events --yes")
@of_table
@click.option("--data", default="", metavar="FOLDER|URL", help="Where the data files lie now.  [default: as before]")
@click.option("--yes", is_flag=True, help="Do not ask.")
def adopt(session: Session, table: str, data: str, yes: bool) -> None:
    """Take the data files over for this store's table alone. All files in the folder that its log names become its own.

    For a table of a copied store, one made by an older version, and data files that were moved.
    """
    opened = _module("table").open_table(session.open(), *split_name(table))
    url = _data_url(session, table, data) if data else ""
    folder = _module("data_folder").DataFolder(
        url or _module("locations").open_location(opened.store, opened.at().meta.data)
    )
    if not yes:
        click.confirm(f"is no other store's {table} in use, nor another table in {folder.url}?", abort=True, err=True)
    opened.register(folder).adopt()
    if url:
        opened.set_data(url)
    session.answer({"table": table, "data": folder.url}, f"{table} owns the data files in {folder.url}")


@command("clear", example="stratalog table clear acme/events --yes")
@of_table
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(session: Session, table: str, yes: bool) -> None:
    """Forget all rows of a table; its history and its partitions stay. `table maintain` collects the data files."""
    opened = _module("table").open_table(session.open(), *split_name(table))
    if not yes:
        click.confirm(f"forget all rows of {table}?", abort=True, err=True)
    version = opened.clear_files()
    session.answer({"table": table, "version": version}, f"cleared {table}, version {version}")


def _module(name: str) -> Any:
    return import_module(f"stratalog_table.{name}")


def _opened(session: Session, name: str) -> tuple[Any, Any]:
    rows = _module("rows")
    table = _module("table").open_table(session.open(), *split_name(name))
    return table, rows.data_files_of(table)


def _key_column(text: str) -> Any:
    order = _module("row_order")
    name, kind = _typed(text, order.key_kind, f"types are {order.KEY_TYPES}")
    return _module("model").Column(name, kind.name)


def _value_column(text: str) -> Any:
    app = _module("columns")
    return app.ValueColumn(*_typed(text, app.column_type, "types are those of Arrow"))


def _typed(text: str, read: Any, types: str) -> tuple[str, Any]:
    """A name and its type. Both may have colons: of the splits, the last one with a type behind it counts."""
    parts = text.split(":")
    for position in range(len(parts) - 1, 0, -1):
        with suppress(Invalid):
            return ":".join(parts[:position]), read(":".join(parts[position:]))
    raise click.BadParameter(f"{text!r} is not NAME:TYPE, as in id:long; {types}")


def _key(kind: str, text: str) -> Any:
    """A key as typed; bytes in hexadecimal."""
    try:
        return _module("row_order").parse_key(kind, text)
    except Invalid as exc:
        raise click.BadParameter(f"{text!r} is no key of type {kind}") from exc


def _data_url(session: Session, table: str, data: str) -> str:
    if "://" in data:
        return data
    if not data and "://" in session.url and not session.url.startswith("file://"):
        raise click.UsageError("say with --data where the data files of a store like this go, as in s3://bucket/lake")
    return Path(data or f"{session.url.removeprefix('file://')}-lake/{table}").absolute().as_uri()


def _written(parts: Any, output: str) -> int:
    parquet, writer, count = import_module("pyarrow.parquet"), None, 0
    try:
        for part in parts:
            writer = writer or parquet.ParquetWriter(output, part.schema)
            writer.write_table(part)
            count += part.num_rows
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        note("there are no rows in the range, so nothing was written")
    return count


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str | bytes) else str(value)


def _reason(job: Any) -> str:
    return job.reasons[-1][1] if job.reasons else ""


for subcommand in (create, alter, columns, ingest, maintain, damaged, scan, show, jobs, cancel, clear, delete, adopt):
    table.add_command(subcommand)
