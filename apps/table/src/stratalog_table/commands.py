"""Commands on tables of Parquet files: make one, bring rows in, keep it well, read ranges of keys."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from stratalog.cli import Session, command, note, of_every_command, print_json, progress, split_name

__all__ = ["table"]

ROWS_PER_FILE = 1_000_000
ROWS_MAX = 10_000_000
FILES_MIN = 8
AGE_SECONDS = 900
LEASE_SECONDS = 300

of_table = click.argument("table", metavar="ORGANISATION/TABLE")


@click.group("table", epilog="Example: stratalog table create acme/events --key id:long")
@of_every_command
def table() -> None:
    """Tables of Parquet files: create, ingest, maintain, scan, show, jobs, clear, delete, adopt."""


@command("create", example="stratalog table create acme/events --key id:long --split-at 1000 --data ./lake")
@of_table
@click.option("--key", "keys", multiple=True, required=True, metavar="NAME:TYPE", help="int, long, string or bytes.")
@click.option("--split-at", "points", multiple=True, metavar="KEY", help="Where leaves meet, in order.")
@click.option("--data", default="", metavar="FOLDER|URL", help="Where data files go.  [default: beside the store]")
def create(session: Session, table: str, keys: tuple[str, ...], points: tuple[str, ...], data: str) -> None:
    """Make a table, and the store if there is none."""
    app = _module("model")
    columns = tuple(app.Column(*_column(key)) for key in keys)
    edges = [_key(columns[0].type, point) for point in points]
    url = _data_url(session, table, data)
    store = session.open(create=True)
    made = _module("table").create_table(store, *split_name(table), app.Schema(columns), edges, data=url)
    plain = {"table": table, "version": made.version, "data": url, "leaves": len(points) + 1}
    session.answer(plain, f"created {table}, data files in {url}")


@command("ingest", example="stratalog table ingest acme/events day-1.parquet day-2.parquet")
@of_table
@click.argument("files", nargs=-1, required=True, metavar="PARQUET...", type=click.Path(exists=True, dir_okay=False))
@click.option("--rows-per-file", default=ROWS_PER_FILE, show_default=True, type=click.IntRange(1))
@click.option("--source", default="", metavar="NAME", help="Take each of its files once, by name and content.")
@click.option(
    "--as", "name", default="", metavar="NAME", help="The one file's name at its source.  [default: its path]"
)
@click.option("--repeat", is_flag=True, help="Take content that the source brought under another name once more.")
def ingest(
    session: Session, table: str, files: tuple[str, ...], rows_per_file: int, source: str, name: str, repeat: bool
) -> None:
    """Add the rows of Parquet files. With --source, the same command can be given again after it was cut off."""
    if name and (len(files) > 1 or not source):
        raise click.UsageError("--as names the one file of a --source")
    app = _module("file_ingest")
    opened, data_files = _opened(session, table)
    chosen = [app.input_file(Path(file), name) for file in files]
    with progress("ingesting", None) as step:
        done = app.ingest_files(opened, data_files, chosen, rows_per_file, source=source, repeat=repeat, step=step)
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
def maintain(session: Session, table: str, rows_max: int, files_min: int, age: float, lease: float) -> None:
    """One maintenance pass: split leaves, move references down, merge files, collect garbage. Run any number."""
    opened, data_files = _opened(session, table)
    ages = {"age_ms": round(age * 1000), "lease_ms": round(lease * 1000)}
    done = _module("maintenance").maintain_table(opened, data_files, rows_max=rows_max, files_min=files_min, **ages)
    line = f"{done.splits} leaves split, {done.moved} references moved, {done.jobs} merged, {done.collected} collected"
    session.answer(done, line)


@command("scan", example="stratalog table scan acme/events --from 100 --to 200 --output found.parquet")
@of_table
@click.option("--from", "low", metavar="KEY", help="Keys of the first column from here on.")
@click.option("--to", "high", metavar="KEY", help="Up to, and without, this one.")
@click.option("--at", type=int, metavar="VERSION", help="The table as it was.  [default: now]")
@click.option("--output", type=click.Path(dir_okay=False), help="Write Parquet there, instead of lines of JSON here.")
def scan(session: Session, table: str, low: str | None, high: str | None, at: int | None, output: str | None) -> None:
    """Read the rows of a range of keys, in no order beyond that of the leaves."""
    opened, data_files = _opened(session, table)
    kind = data_files.schema.keys[0].type
    region = data_files.schema.region([(low and _key(kind, low), high and _key(kind, high))])
    parts = _module("rows").scan(opened.at(at), data_files, region)
    if output is None:
        for part in parts:
            for row in part.to_pylist():
                print_json({name: _plain(value) for name, value in row.items()})
        return
    count = _written(parts, output)
    session.answer({"table": table, "rows": count, "output": output}, f"{count:,} rows in {output}")


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
            str(low),
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


def _column(text: str) -> tuple[str, str]:
    name, colon, kind = text.rpartition(":")
    if not colon or kind not in ("int", "long", "string", "bytes"):
        raise click.BadParameter(f"{text!r} is not NAME:TYPE, as in id:long; types are int, long, string and bytes")
    return name, kind


def _key(kind: str, text: str) -> int | str | bytes:
    """A key as typed; bytes in hexadecimal."""
    try:
        return int(text) if kind in ("int", "long") else bytes.fromhex(text) if kind == "bytes" else text
    except ValueError as exc:
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


for subcommand in (create, ingest, maintain, scan, show, jobs, clear, delete, adopt):
    table.add_command(subcommand)
