"""A catalogue of real records, shown: three states of Debian's packages, films, XML; versions, works, a difference.

`python examples/demo_catalogue.py [STORE]`. It leaves a store to look at with `stratalog catalogue serve demo`. Where
apt has no indexes, there are only the films.
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

import stratalog
from stratalog import Store
from stratalog.apps.catalogue.polling import poll
from stratalog.apps.catalogue.reading import differences, search
from stratalog.apps.catalogue.sources import Source, add_source
from stratalog.apps.catalogue.summary import read_stats
from stratalog.apps.catalogue.workers import reconcile

ORGANISATION = "demo"
GATHER = Path(__file__).parents[1] / "scripts" / "catalogue_data.py"
FILMS = Path(__file__).parents[1] / ".venv" / "share" / "vega-datasets" / "movies.json"
STORE_DEFAULT = "./data-catalogue"
PACKAGES = "5000"
T = TypeVar("T")


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else STORE_DEFAULT
    with tempfile.TemporaryDirectory() as name, stratalog.open(url) as store:
        show(store, Path(name))
    click.echo(f"\nLook at it: stratalog catalogue serve {ORGANISATION} --store {url}")


def show(store: Store, folder: Path) -> None:
    gather(folder)
    records = store.records(ORGANISATION)
    for source in sources(folder):
        add_source(records, source)
    timed("polled", lambda: [click.echo(f"  {one.source}: {one.taken.new:,} new") for one in polled(store)])
    done = timed("made works", lambda: reconcile(store, ORGANISATION))
    click.echo(f"  {done.made:,} works of {done.looked_at:,} records")
    again = timed("made all works again", lambda: reconcile(store, ORGANISATION, everything=True))
    click.echo(f"  {again.made} differ: the same records make the same works")
    stats = timed("counted", lambda: read_stats(records))
    click.echo(f"  {sum(one.works for one in stats.sources):,} works; dead letters: {stats.dead_letters or 'none'}")
    for hit in search(records, "shell", limit=3):
        click.echo(f"  found {hit.source} · {hit.title}")
    show_change(store)


def polled(store: Store) -> list[object]:
    return list(poll(store, ORGANISATION, no_http))  # type: ignore[return-value]


def show_change(store: Store) -> None:
    """The first package that has a past."""
    records = store.records(ORGANISATION)
    for line in records.list(prefix="source/debian/"):
        if records.stat(line.id).version > 1:
            id = line.id.removeprefix("source/debian/")
            click.echo(f"\n{id} changed:")
            for text in differences(records, "debian", id, 1, 2).lines[2:12]:
                click.echo(f"  {text}")
            return


def sources(folder: Path) -> list[Source]:
    """Those whose records are there."""
    packages = {"format": "rfc822", "transformer": "debian-package", "id": "Package,Architecture", "whole": True}
    dublin = {"format": "xml", "transformer": "dublin-core", "records": "record", "id": "identifier"}
    films = {"format": "json", "transformer": "film", "id": "Title"}
    settings = {"debian": packages, "debian-xml": dublin, "films": films}
    return [
        Source(name=name, adapter="folder", location=str(folder / name), **given)  # type: ignore[arg-type]
        for name, given in settings.items()
        if (folder / name).is_dir()
    ]


def gather(folder: Path) -> None:
    done = subprocess.run([sys.executable, str(GATHER), str(folder), "--packages", PACKAGES], check=False)
    if done.returncode and FILMS.exists():
        click.echo("apt has no indexes here, so there are only the films")
        (folder / "films").mkdir(exist_ok=True)
        (folder / "films" / "movies.json").write_bytes(FILMS.read_bytes())


def timed(what: str, function: Callable[[], T]) -> T:
    begun = time.perf_counter()
    answer = function()
    click.echo(f"{what} in {time.perf_counter() - begun:.2f} s")
    return answer


def no_http() -> None:
    raise AssertionError("no source of the demo is asked over HTTP")


if __name__ == "__main__":
    main()
