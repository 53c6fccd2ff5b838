"""Compares Stratalog's SQLite backend with plain sqlite3, in alternating rounds: `python bench/backends.py [folder]`.

Rates are medians over the rounds. A ratio compares two medians of the same run. The plain side works like a careful
program without a library: WAL, synchronous=FULL, BEGIN IMMEDIATE, one INSERT, COMMIT.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import SystemClock
from stratalog.ports.index import Absent, Item, Put

ROUNDS = 21
COMMITS = 150
THREADS = 32
ROWS = 100_000


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        plain = _plain(Path(folder, "plain.db"))
        stores = [SqliteDatabase(Path(folder, f"store{number}.db"), SystemClock()) for number in range(3)]
        _writes(plain, *stores)
        _reads(plain, stores[0])
        for store in stores:
            store.close()


def _writes(plain: sqlite3.Connection, lone: SqliteDatabase, single_log: SqliteDatabase, many: SqliteDatabase) -> None:
    sides: dict[str, Callable[[int], None]] = {
        "plain sqlite3, one thread": lambda start: _plain_commits(plain, start),
        "commit, one thread": lambda start: _commits(lone, "single", range(start, start + COMMITS)),
        f"{THREADS} threads, one log": lambda start: _threaded(single_log, start, logs=1),
        f"{THREADS} threads, a log each": lambda start: _threaded(many, start, logs=THREADS),
    }
    counts = [COMMITS, COMMITS, COMMITS * 8, COMMITS * 8]
    seconds = _interleaved(sides, ROUNDS)
    rates = {name: count / seconds[name] for name, count in zip(sides, counts, strict=True)}
    _table("durable commits of one conditional put", rates, "a second")


def _reads(plain: sqlite3.Connection, database: SqliteDatabase) -> None:
    for start in range(0, ROWS, 100):
        database.index.commit([Put(_item("scan", n)) for n in range(start, start + 100)])
    body = b"x" * 110
    plain.execute("BEGIN")
    plain.executemany("INSERT INTO items VALUES (?, ?, ?)", (("scan", f"{n:016d}", body) for n in range(ROWS)))
    plain.execute("COMMIT")
    statement = "SELECT partition, sort, body FROM items WHERE partition = 'scan' ORDER BY sort"
    sides: dict[str, Callable[[int], object]] = {
        "plain sqlite3 fetchall": lambda _: plain.execute(statement).fetchall(),
        "list(query)": lambda _: list(database.index.query("scan")),
        "for item in query": lambda _: _drain(database),
    }
    seconds = _interleaved(sides, 9)
    _table(f"reading {ROWS} items", {name: 1000 * value for name, value in seconds.items()}, "ms")


def _interleaved(sides: dict[str, Callable[[int], object]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(rounds):
        for name, side in sides.items():
            begun = time.perf_counter()
            result = side(turn * COMMITS * 8)
            times[name].append(time.perf_counter() - begun)
            del result
    return {name: statistics.median(values) for name, values in times.items()}


def _table(title: str, values: dict[str, float], unit: str) -> None:
    first = next(iter(values.values()))
    print(f"\n{title}")
    for name, value in values.items():
        print(f"  {name:28} {value:10.1f} {unit:9} {value / first:6.2f} of plain")


def _plain(path: Path) -> sqlite3.Connection:
    plain = sqlite3.connect(path, isolation_level=None)
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    plain.execute(
        "CREATE TABLE items(partition TEXT, sort TEXT, body BLOB, PRIMARY KEY(partition, sort)) WITHOUT ROWID"
    )
    return plain


def _plain_commits(plain: sqlite3.Connection, start: int) -> None:
    body = b"x" * 110
    for n in range(start, start + COMMITS):
        plain.execute("BEGIN IMMEDIATE")
        plain.execute("INSERT INTO items VALUES (?, ?, ?)", ("single", f"{n:016d}", body))
        plain.execute("COMMIT")


def _commits(database: SqliteDatabase, partition: str, numbers: range) -> None:
    for n in numbers:
        database.index.commit([Put(_item(partition, n), Absent())])


def _threaded(database: SqliteDatabase, start: int, logs: int) -> None:
    threads = [
        threading.Thread(
            target=_commits,
            args=(database, f"log{number % logs}", range(start + number, start + COMMITS * 8, THREADS)),
        )
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _drain(database: SqliteDatabase) -> None:
    for _ in database.index.query("scan"):
        pass


def _item(partition: str, n: int) -> Item:
    return Item(partition, f"{n:016d}", {"b": b"x" * 80, "t": 1_700_000_000_000 + n, "w": f"id{n:012d}"})


if __name__ == "__main__":
    main()
