"""A demo of the core: a document of real data, three clients in conflict, history, a diff, a fork, verification.

Run `make demo-core`, or `python examples/demo_core.py [STORE]`. The store stays in its folder. Explore the
store with the command line.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

import stratalog

ORGANISATION, NAME, FORK = "demo", "movies", "movies-club"
MARKER = "made-by-the-demo"
MOVIES = Path(__file__).parents[1] / ".venv" / "share" / "vega-datasets" / "movies.json"
RULES = stratalog.Rules(metadata_fields=("Title", "Release Date", "IMDB Rating"))
CASABLANCA, SEVENTEEN_SEVENTY_SIX, UNTITLED = "movies/0214", "movies/0022", "movies/3054"
VOTES, REMARKS = "votes/0214", "notes/0214"
SHOWN = ("Title", "Release Date", "Running Time min")
BATCH = 500
started = time.perf_counter()


def main(url: str) -> None:
    if "://" not in url:
        prepare(Path(url))
    with stratalog.open(url, rules=RULES) as store:
        document = store.create(ORGANISATION, NAME)
        first = take_in(document)
        fork = document.fork(FORK)
        argue(document)
        look_back(document, first)
        replay(fork, document)
        prove(document)
    say_what_to_try(url, first)


def prepare(folder: Path) -> None:
    """Create an empty folder. Removes the folder of an earlier demo. Exits if the folder has other files."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARKER).exists():
            sys.exit(f"{folder} has files that are not from a demo; choose another folder")
        click.secho(f"starting over: removing the store of an earlier demo from {folder}", dim=True)
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()


def movies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the movies of vega-datasets, unchanged. The key of a movie contains its position in the file."""
    if not MOVIES.exists():
        sys.exit("the demo needs the movies of vega-datasets; fetch them: scripts/bootstrap demo")
    for number, item in enumerate(json.loads(MOVIES.read_bytes()), start=1):
        yield f"movies/{number:04}", item


def take_in(document: stratalog.Document) -> int:
    step("1", "A real data set becomes a document")
    count, since = 0, time.perf_counter()
    for batch in grouped(movies(), BATCH):
        puts = [
            stratalog.Mutation(client="import", name="put", args={"key": key, "value": item}) for key, item in batch
        ]
        document.apply(puts, author="import")
        count += len(puts)
    seconds = time.perf_counter() - since
    report("items", f"{count:,} movies with dates, ratings and takings, as vega-datasets ships them")
    report("versions", f"{document.version}: a batch of {BATCH} is one entry, one write, one version")
    report("took", f"{seconds:.2f} s, each version durable on disk")
    tell_of_titles(document)
    return document.version


def tell_of_titles(document: stratalog.Document) -> None:
    titles = [item.metadata["Title"] for item in document.at().list("movies/")]
    numbers = [title for title in titles if isinstance(title, int)]
    examples = ", ".join(str(title) for title in numbers[:3])
    report("odd titles", f"{len(numbers)} are numbers ({examples}, …), {titles.count(None)} is null: stored unchanged")


def argue(document: stratalog.Document) -> None:
    step("2", "Three clients correct the same movies")
    edits = [
        ("ada", "patch", {"key": CASABLANCA, "merge": {"Release Date": "Nov 26 1942"}}),
        ("bob", "patch", {"key": CASABLANCA, "merge": {"Release Date": "Jan 23 1943"}}),
        ("eve", "del", {"key": UNTITLED}),
        ("ada", "patch", {"key": UNTITLED, "merge": {"Title": "Unknown"}}),
        ("ada", "patch", {"key": SEVENTEEN_SEVENTY_SIX, "merge": {"Title": "1776"}}),
        ("bob", "inc", {"key": VOTES}),
        ("eve", "inc", {"key": VOTES, "by": 41}),
        ("eve", "inc", {"key": CASABLANCA}),
    ]
    for client, name, args in edits:
        outcome = document.mutate(name, args, client=client)
        color = "green" if outcome.status == "applied" else "red"
        detail = outcome.reason or (json.dumps(args["merge"]) if "merge" in args else "")
        status = click.style(f"{outcome.status:<8}", fg=color)
        report(f"version {outcome.version}", f"{status}  {client}#{outcome.id}  {name:<5}  {args['key']:<11}  {detail}")
    again = document.apply([stratalog.Mutation(client="bob", id=2, name="inc", args={"key": VOTES})])[0]
    report("sent twice", f"{again.status:<8}  bob#2  counted once: {VOTES} is {document.get(VOTES)}")
    quiet("Each mutation has exactly one outcome. A rejection is committed too, so it never blocks later mutations.")


def look_back(document: stratalog.Document, first: int) -> None:
    step("3", "Nothing is lost")
    report(f"at version {first}", f"{CASABLANCA} was {dated(document.get(CASABLANCA, at=first))}")
    report("now", f"{CASABLANCA} is  {dated(document.get(CASABLANCA))}")
    quiet("The history of this key, newest first. It reads only the changes of this key:")
    for change in document.history(CASABLANCA):
        mutation = change.mutations[0]
        report(f"version {change.version}", f"{change.author:<6}  {mutation.name:<5}  {dated(change.value)}")
    quiet(f"The differences between version {first} and now. The cost depends only on the changes:")
    for difference in document.diff(first, document.version):
        if difference.was:
            before = left(difference.before, difference.after)
            click.secho(f"     - {difference.key:<11}  {brief(before)}", fg="red")
        if difference.is_now:
            after = left(difference.after, difference.before)
            click.secho(f"     + {difference.key:<11}  {brief(after)}", fg="green")


def replay(fork: stratalog.Document, document: stratalog.Document) -> None:
    step("4", "A fork changes separately, and is merged")
    report("fork", f"{ORGANISATION}/{FORK} starts at version {fork.log.first}; nothing was copied")
    fork.mutate("inc", {"key": VOTES, "by": 100}, client="kim")
    fork.mutate("patch", {"key": CASABLANCA, "merge": {"Running Time min": 102}}, client="kim")
    fork.mutate("append", {"key": REMARKS, "item": "shown on Friday"}, client="kim")
    quiet("The fork's three mutations run again on the newer head. The merge does not copy the fork's values:")
    for replayed in stratalog.merge(fork, document):
        mark = click.style("same   ", fg="green") if replayed.same else click.style("differs", fg="yellow")
        became = "; ".join(there_and_here(*values) for values in replayed.differences.values())
        report(f"version {replayed.merged_in}", f"{mark}  {replayed.name:<6}  {replayed.args['key']:<11}  {became}")


def prove(document: stratalog.Document) -> None:
    step("5", "The proof: rebuild all of it from the log")
    since = time.perf_counter()
    document.snapshot()
    verified = stratalog.verify(document)
    seconds = time.perf_counter() - since
    report("rebuilt", f"{verified.version} versions in {seconds:.2f} s, {verified.snapshots} snapshot compared")
    report("root", f"{verified.root[:32]}…  equal to the root of the stored state")
    report("", click.style("the log alone gives the state", fg="green", bold=True))


def say_what_to_try(url: str, first: int) -> None:
    step("6", f"Your turn ({time.perf_counter() - started:.1f} s so far)")
    program = Path(sys.executable).with_name("stratalog")
    if program.exists() and program.is_relative_to(Path.cwd()):
        called = str(program.relative_to(Path.cwd()))
    else:
        called = "stratalog"
    prefix = f"{called} --store {shlex.quote(url)}"
    document = f"{ORGANISATION}/{NAME}"
    for command in (
        "list",
        f"log {document}",
        f"show {document} {CASABLANCA} --at {first}",
        f"history {document} {CASABLANCA}",
        f"diff {document} {first}",
        f"mutate {document} inc key={VOTES} --client you",
        f"replay {ORGANISATION}/{FORK} {document}",
        f"verify {document}",
    ):
        click.echo(f"  {prefix} {click.style(command, bold=True)}")


def grouped(pairs: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while group := list(islice(pairs, size)):
        yield group


def step(number: str, title: str) -> None:
    click.echo()
    click.secho(f"{number}  {title}", bold=True, fg="cyan")


def report(label: str, text: str) -> None:
    click.echo(f"   {label:<14}{text}")


def quiet(text: str) -> None:
    click.secho(f"   {text}", dim=True)


def there_and_here(there: Any, here: Any) -> str:
    return f"{brief(left(there, here))} in the fork, {brief(left(here, there))} in the document"


def left(value: Any, other: Any) -> Any:
    """Return only the members of an object that differ from another object. Returns any other value unchanged."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {name: item for name, item in value.items() if other.get(name) != item}
    return value


def dated(movie: dict[str, Any]) -> str:
    return f"{movie['Title']}, out on {movie['Release Date']}"


def brief(value: Any) -> str:
    if isinstance(value, dict):
        value = {name: value[name] for name in SHOWN if name in value}
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "data/demo")
