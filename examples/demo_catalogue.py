"""A demo of the catalogue: it stores versions of Debian's packages, RFCs and films, makes works, and serves a page.

Run `make demo-catalogue`, or `python examples/demo_catalogue.py [STORE] [PORT]`. The store stays in its folder, so a
second run does not fetch the records again, unless the first run was interrupted. apt fetches 25 MB, needs no root
and installs nothing. Without apt the catalogue has only the films.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from demo_sync import free_port

import stratalog
from stratalog import Store
from stratalog.cli import main as stratalog_program
from stratalog_catalogue.polls import Polled, poll
from stratalog_catalogue.queries import differences, search
from stratalog_catalogue.sources import Source, add_source
from stratalog_catalogue.summary import read_stats
from stratalog_catalogue.workers import reconcile

ORGANISATION = "demo"
GATHER = Path(__file__).parents[1] / "scripts" / "catalogue_data.py"
PACKAGES = "5000"
PORT = 8420
COMPLETE = "demo/complete"
"""The id of the record that exists once the demo has stored everything. Without it, the demo stores the rest."""

T = TypeVar("T")


def main(url: str, port: int) -> None:
    with tempfile.TemporaryDirectory() as name, stratalog.open(url) as store:
        records = store.records(ORGANISATION)
        if any(records.list(prefix=COMPLETE)):
            click.echo("the catalogue is there already, with all changes")
        else:
            show(store, Path(name))
            records.put(COMPLETE, b"")
    port = free_port(port)
    say_what_to_do(url, f"http://127.0.0.1:{port}/web/catalogue/?in={ORGANISATION}")
    stratalog_program(["catalogue", "serve", ORGANISATION, "--store", url, "--port", str(port)])


def show(store: Store, folder: Path) -> None:
    gather(folder)
    records = store.records(ORGANISATION)
    for source in sources(folder):
        add_source(records, source)
    for result in timed("polled", lambda: polled(store)):
        click.echo(f"  {result.source}: {result.taken.new:,} new")
    done = timed("made works", lambda: reconcile(store, ORGANISATION))
    click.echo(f"  {done.made:,} works of {done.looked_at:,} records")
    again = timed("made all works again", lambda: reconcile(store, ORGANISATION, everything=True))
    click.echo(f"  {again.made} differ: the same records make the same works")
    stats = timed("counted", lambda: read_stats(records))
    click.echo(
        f"  {sum(source.works for source in stats.sources):,} works; dead letters: {stats.dead_letters or 'none'}"
    )
    for hit in search(records, "shell", limit=3):
        click.echo(f"  found {hit.source} · {hit.title}")
    show_change(store)


def polled(store: Store) -> list[Polled]:
    return list(poll(store, ORGANISATION, no_http))


def show_change(store: Store) -> None:
    """Show what changed in the first package with more than one version."""
    records = store.records(ORGANISATION)
    for line in records.list(prefix="source/packages/"):
        if records.stat(line.id).version > 1:
            id = line.id.removeprefix("source/packages/")
            click.echo(f"\n{id} changed:")
            for text in differences(records, "packages", id, 1, 2).lines[2:12]:
                click.echo(f"  {text}")
            return


def sources(folder: Path) -> list[Source]:
    """Return the sources whose folders `gather` has created."""
    packages = {"format": "rfc822", "transformer": "debian-package", "id": "Package,Architecture", "complete": True}
    entries = {"format": "json", "transformer": "rfc-json", "id": "doc_id"}
    documents = {"format": "xml", "transformer": "rfc-xml", "records": "rfc", "id": "@number", "time": "@prepTime"}
    films = {"format": "json", "transformer": "film", "id": "Title"}
    settings = {"films": films, "packages": packages, "rfc": entries, "rfc-xml": documents}
    return [
        Source(name=name, adapter="folder", location=str(folder / name), **given)  # type: ignore[arg-type]
        for name, given in settings.items()
        if (folder / name).is_dir()
    ]


def gather(folder: Path) -> None:
    """Fetch the records. The script reports records that it cannot fetch, and continues without them."""
    subprocess.run([sys.executable, str(GATHER), str(folder), "--small", "--packages", PACKAGES], check=False)


def say_what_to_do(store: str, page: str) -> None:
    click.echo()
    click.echo(f"  Open {click.style(page, fg='cyan', bold=True)} and search, say for “shell” or “HTTP”.")
    click.echo("  Choose a version of a record to see its changes. You can also use arrow keys and /.")
    click.echo(f"  The records are kept in {store}; remove this store to begin again.")
    click.echo()


def timed(what: str, function: Callable[[], T]) -> T:
    begun = time.perf_counter()
    answer = function()
    click.echo(f"{what} in {time.perf_counter() - begun:.2f} s")
    return answer


def no_http() -> None:
    raise AssertionError("the demo has no source over HTTP")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "data/demo-catalogue", int(arguments[1]) if len(arguments) > 1 else PORT)
