"""A demo of sync: two browser windows show the movies of vega-datasets and agree, even after a window was offline.

Run `make demo-sync`, or `python examples/demo_sync.py [STORE] [PORT]`. The store stays in its folder with all changes.
`make demo-sync STORE=aws-local` stores the changes in DynamoDB, SQS and S3, emulated on this machine until the demo
ends. The page is in `movies/`, next to this file. The page's `mutators.js` has the same mutators as `MUTATORS` here.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from demo_core import BATCH, RULES, grouped, movies

import stratalog
from stratalog import BUILT_IN_MUTATORS, Draft, Rejected
from stratalog.cli import main as stratalog_program
from stratalog.server import Application

ORGANISATION, NAME = "demo", "movies"
PORT = 8420
RATING_MAX = 10
IMPORTED = "imported"
"""The key that exists once all movies were stored. After that, a missing movie was deleted by somebody."""


def retitle(draft: Draft, args: Any) -> None:
    """``{key, was, title}``: set the title. Rejects the mutation if the movie has another title than ``was``."""
    movie = _movie(draft, args["key"])
    if movie.get("Title") != args["was"]:
        raise Rejected(f"it is now called “{movie.get('Title')}”")
    draft.put(args["key"], {**movie, "Title": args["title"]})


def rate(draft: Draft, args: Any) -> None:
    """``{key, rating}``: set the rating, a number from 0 to 10 or None. The last write wins."""
    movie, rating = _movie(draft, args["key"]), args["rating"]
    if rating is not None and not 0 <= rating <= RATING_MAX:
        raise Rejected("a rating lies between 0 and 10")
    draft.put(args["key"], {**movie, "IMDB Rating": rating})


def _movie(draft: Draft, key: str) -> dict[str, Any]:
    movie: dict[str, Any] | None = draft.get(key)
    if movie is None:
        raise Rejected("the movie is gone")
    return movie


MUTATORS = {**BUILT_IN_MUTATORS, "retitle": retitle, "rate": rate}
app = Application(
    mutators=MUTATORS,
    metadata_fields=RULES.metadata_fields,
    pages={"movies": Path(__file__).with_name("movies")},
)


def main(url: str, port: int) -> None:
    with stratalog.open(url) as store:
        fill(store)
    port = free_port(port)
    say_what_to_do(url, f"http://127.0.0.1:{port}/web/movies/")
    sys.path.insert(0, str(Path(__file__).parent))
    stratalog_program(["serve", "demo_sync:app", "--store", url, "--port", str(port)])


def fill(store: stratalog.Store) -> None:
    """Store the movies, or the rest of them after an interrupted demo. A complete import is not repeated."""
    document = store.document(ORGANISATION, NAME, create=True)
    if IMPORTED in document:
        click.echo("the movies are there already, with all changes")
        return
    stored = {item.key for item in document.at().list("movies/")}
    for batch in grouped(((key, movie) for key, movie in movies() if key not in stored), BATCH):
        document.apply(list(puts(batch)), author="import")
    document.put(IMPORTED, True, client="import")
    click.echo(f"{sum(1 for _ in document.at().list('movies/')):,} movies stored")


def puts(batch: list[tuple[str, Any]]) -> Iterator[stratalog.Mutation]:
    for key, movie in batch:
        yield stratalog.Mutation(client="import", name="put", args={"key": key, "value": movie})


def free_port(wanted: int) -> int:
    """Return ``wanted`` if this port is free, otherwise another free port. 0 means any port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    sys.exit("no free port on this machine")


def say_what_to_do(store: str, page: str) -> None:
    click.echo()
    click.echo(f"  Open {click.style(page, fg='cyan', bold=True)} in two windows.")
    click.echo("  Change a title in one window and see the change in the other window.")
    click.echo("  Switch one window to offline, change both windows, switch back.")
    click.echo(f"  Changes are kept in {store}; remove this store to begin again.")
    click.echo()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "data/demo-sync", int(arguments[1]) if len(arguments) > 1 else PORT)
