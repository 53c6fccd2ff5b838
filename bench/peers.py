"""Compare Stratalog with other libraries: ``python -m bench.peers [--json PATH] [--only WORK …] [--quick]``.

All sides do the same work. The program prints two tables. For the first table, Stratalog, `eventsourcing` and UmaDB
store events. For the second table, Stratalog and `prollytree` store a map of items with versions. The sides alternate,
round by round, on one disk; only the `diff` of `prollytree` has its folder in memory. A side of UmaDB, `prollytree` or
PostgreSQL that is not installed has no column.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from bench.measure import alternated_sides
from bench.media import MEMORY
from bench.payload import fact
from bench.peer import Peer, PostgresPeer
from bench.peer_events import THREADS, EventSide, PeerEvents, StratalogEvents, UmaEvents, uma_server
from bench.peer_trees import RULES, DocumentTree, FileTree, TreeSide, VersionedTree
from bench.program import options_of
from bench.report import machine
from bench.workplace import FULL, Workplace, unsynced_store
from stratalog.store import open_store
from stratalog.testing.local_services import exit_on_signals
from stratalog.testing.postgres_server import postgres_server

__all__ = ["APPENDS", "READS", "UPDATES", "WORK", "Row", "main"]

EVENTS = 100
DIFFERENT_ITEMS = 10
SEED = 7

WORK = {
    "append": "events/s: appends of one event by one thread, each durable",
    "append-32": "events/s: appends of one event by 32 threads, each durable; one stream for each thread, or one log",
    "append-100": "events/s: appends of 100 events in one durable commit, by one thread",
    "read": "events/s: the events of one stream in order",
    "read-all": "events/s: the events of the whole store in order",
    "update-1": "ms: an update of one random item, as one commit",
    "update-100": "ms: an update of 100 random items, as one commit",
    "update-10000": "ms: an update of 10,000 random items, as one commit",
    "diff-10": "ms: the items that differ between two versions; 10 items differ",
}
UPDATES = {"update-1": 1, "update-100": 100, "update-10000": 10_000}


class Row(msgspec.Struct, frozen=True):
    """The median of a side's rounds."""

    work: str
    side: str
    value: float
    unit: str


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a run. The quick sizes only show that the program runs."""

    rounds: int
    commits: int
    thread_commits: int
    events_read: int
    items: int


FULL_SIZES = Sizes(rounds=5, commits=100, thread_commits=20, events_read=100_000, items=100_000)
QUICK_SIZES = Sizes(rounds=1, commits=3, thread_commits=1, events_read=300, items=300)

Prepared = tuple[int, Callable[[], object]]
"""A number of events, and a call that stores or reads these events."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    print("\n".join(f"{name}: {value}" for name, value in _versions()))
    rows = []
    with exit_on_signals(), tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for row in measured(options.only or list(WORK), QUICK_SIZES if options.quick else FULL_SIZES, Path(folder)):
            rows.append(row)
            _say(f"{row.work}: {row.side}: {_number(row.value)} {row.unit}")
    for names in ({*APPENDS, *READS}, {*UPDATES, "diff-10"}):
        if chosen := [row for row in rows if row.work in names]:
            print("\n" + "\n".join(table(chosen)))
    print("\n" + "\n".join(f"{name:<12}  {WORK[name]}" for name in dict.fromkeys(row.work for row in rows)))
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
    return 0


def measured(wanted: Sequence[str], sizes: Sizes, folder: Path) -> Iterator[Row]:
    """Measure the wanted work with every installed side. Appends, reads and updates each have stores of their own."""
    work = Workplace(folder, msgspec.structs.replace(FULL, keys=sizes.items))
    for measures in (APPENDS, READS):
        if names := [name for name in measures if name in wanted]:
            with event_sides(work) as events:
                if measures is READS:
                    _fill(events, sizes)
                for name in names:
                    yield from _event_rows(name, measures[name], events, sizes)
    if names := [name for name in [*UPDATES, "diff-10"] if name in wanted]:
        with ExitStack() as opened:
            trees = tree_sides(work, opened)
            for name in names:
                yield from _update_rows(name, trees, sizes) if name in UPDATES else _diff_rows(name, trees, sizes)


@contextmanager
def event_sides(work: Workplace) -> Iterator[dict[str, EventSide]]:
    """Open the installed sides, each with a new store."""
    with ExitStack() as opened:
        store = opened.enter_context(open_store(work.fresh()))
        peer = opened.enter_context(closing(Peer(work.fresh() / "peer.sqlite")))
        sides: dict[str, EventSide] = {
            "Stratalog, SQLite": StratalogEvents(store),
            "eventsourcing, SQLite": PeerEvents(peer),
        }
        try:
            server = opened.enter_context(postgres_server())
        except RuntimeError as error:
            _say(str(error))
        else:
            store = opened.enter_context(open_store(server.url))
            # The functions are off by default. With them the recorder is faster, since it needs fewer round trips.
            peer = opened.enter_context(closing(PostgresPeer(server, functions=True)))
            sides["Stratalog, PostgreSQL"] = StratalogEvents(store)
            sides["eventsourcing, PostgreSQL"] = PeerEvents(peer)
        if find_spec("umadb"):
            sides["UmaDB"] = UmaEvents(opened.enter_context(uma_server(work.fresh())))
        yield sides


def tree_sides(work: Workplace, opened: ExitStack) -> dict[str, TreeSide]:
    """Open the installed sides, each with `Scale.keys` items."""
    _say(f"storing {work.scale.keys:,} items")
    stores = [
        opened.enter_context(open_store(_copy(work), rules=RULES)),
        opened.enter_context(open_store(_copy(work), rules=RULES)),
        opened.enter_context(unsynced_store(_copy(work), rules=RULES)),
    ]
    sides: dict[str, TreeSide] = {
        "Stratalog": DocumentTree(stores[0], snapshots=False),
        "Stratalog, with its tree": DocumentTree(stores[1], snapshots=True),
        "Stratalog, with its tree, unsynced": DocumentTree(stores[2], snapshots=True),
    }
    if find_spec("prollytree"):
        # A folder in memory, if there is one: prollytree writes a file for each key that it stages.
        memory = MEMORY if MEMORY.is_dir() else work.fresh()
        filled = Path(opened.enter_context(tempfile.TemporaryDirectory(dir=memory)))
        sides["prollytree, tree only"] = FileTree(work.fresh(), work.scale.keys)
        sides["prollytree, versions, unsynced"] = VersionedTree(work.fresh(), filled, work.scale.keys)
    return sides


def append(side: EventSide, sizes: Sizes) -> Prepared:
    payloads = _payloads(side, sizes.commits)
    return len(payloads), lambda: side.append_each(payloads, 0)


def append_32(side: EventSide, sizes: Sizes) -> Prepared:
    payloads = _payloads(side, sizes.thread_commits)

    def together() -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(partial(side.append_each, payloads), range(THREADS)))

    return THREADS * len(payloads), together


def append_100(side: EventSide, sizes: Sizes) -> Prepared:
    payloads = _payloads(side, EVENTS)
    repeats = max(1, sizes.commits // 10)
    return EVENTS * repeats, lambda: [side.append_all(payloads, 0) for _ in range(repeats)]


def read(side: EventSide, sizes: Sizes) -> Prepared:
    return sizes.events_read, lambda: _expect(side.read(), sizes.events_read)


def read_all(side: EventSide, sizes: Sizes) -> Prepared:
    return sizes.events_read, lambda: _expect(side.read_all(), sizes.events_read)


APPENDS = {"append": append, "append-32": append_32, "append-100": append_100}
READS = {"read": read, "read-all": read_all}


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a Markdown table with a line for each work and a column for each side."""
    sides = list(dict.fromkeys(row.side for row in rows))
    values = {(row.work, row.side): row for row in rows}
    yield "| | " + " | ".join(sides) + " |"
    yield "|---|" + "---:|" * len(sides)
    for work in dict.fromkeys(row.work for row in rows):
        cells = [values.get((work, side)) for side in sides]
        unit = next(cell.unit for cell in cells if cell)
        yield f"| {work}, {unit} | " + " | ".join(_number(cell.value) if cell else "—" for cell in cells) + " |"


def _event_rows(
    name: str, prepare: Callable[[EventSide, Sizes], Prepared], sides: Mapping[str, EventSide], sizes: Sizes
) -> Iterator[Row]:
    prepared = {side: prepare(store, sizes) for side, store in sides.items()}
    seconds = alternated_sides(sizes.rounds, {side: call for side, (_, call) in prepared.items()})
    for side, (count, _) in prepared.items():
        yield Row(name, side, count / seconds[side], "events/s")


def _update_rows(name: str, sides: Mapping[str, TreeSide], sizes: Sizes) -> Iterator[Row]:
    chance = random.Random(f"{SEED} {name}")
    patches = [_patch(chance, UPDATES[name], sizes, turn) for turn in range(sizes.rounds + 1)]
    turns = {side: iter(patches) for side in sides}
    calls = {side: lambda side=side, tree=tree: tree.update(next(turns[side])) for side, tree in sides.items()}
    for side, seconds in alternated_sides(sizes.rounds, calls).items():
        yield Row(name, side, seconds * 1000, "ms")


def _diff_rows(name: str, sides: Mapping[str, TreeSide], sizes: Sizes) -> Iterator[Row]:
    patch = _patch(random.Random(SEED), DIFFERENT_ITEMS, sizes, sizes.rounds + 1)
    calls = {}
    for side, tree in sides.items():
        _say(f"making two versions: {side}")
        if difference := tree.change(patch):
            calls[side] = lambda difference=difference: _expect(difference(), DIFFERENT_ITEMS)
    for side, seconds in alternated_sides(sizes.rounds, calls).items():
        yield Row(name, side, seconds * 1000, "ms")


def _fill(sides: Mapping[str, EventSide], sizes: Sizes) -> None:
    for side, store in sides.items():
        _say(f"storing {sizes.events_read:,} events: {side}")
        store.fill(sizes.events_read)


def _copy(work: Workplace) -> Path:
    return Path(shutil.copytree(work.million, work.fresh(), dirs_exist_ok=True))


def _payloads(side: EventSide, count: int) -> list[Any]:
    return [side.payload(number) for number in range(count)]


def _patch(chance: random.Random, items: int, sizes: Sizes, turn: int) -> dict[int, dict[str, Any]]:
    """Return new facts for random items. ``turn`` makes them differ from the facts of other turns."""
    numbers = chance.sample(range(sizes.items), min(items, sizes.items))
    return {number: fact(number) | {"amount": -turn} for number in numbers}


def _expect(answer: int, wanted: int) -> None:
    if answer != wanted:
        raise ValueError(f"a side gave {answer} rows instead of {wanted}")


def _versions() -> Iterator[tuple[str, str]]:
    yield from machine()
    yield from ((package, version(package)) for package in ("umadb", "prollytree", "psycopg") if find_spec(package))
    if psql := shutil.which("psql"):
        yield "postgresql", subprocess.run([psql, "--version"], capture_output=True, text=True).stdout.split()[2]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description="Compare Stratalog with other libraries."
    )
    return options_of(parser, WORK).parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
