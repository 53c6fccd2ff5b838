"""`kills.py FOLDER SEED ROUNDS` kills one writer in each round. `test_kill.py` runs this program.

Each round forks a writer, since a fork is faster than a new interpreter. The writer reports each acknowledged write
through a pipe to this process. At the end the program prints one line of JSON with the numbers of kills and of
acknowledged writes. The program raises AssertionError after a round that lost a write or damaged the file.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import threading
import time
from pathlib import Path

import apsw

from stratalog.backends.files import FileBlobs
from stratalog.backends.row_blobs import RowBlobs
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.ports.index import Absent, Item, Put

ROUNDS_PER_FILE = 20
SECONDS_MAX = 0.025
SINGLES = ("single0", "single1")
PAIRS = ("pair0", "pair1")


def main(folder: str, seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    acknowledged: dict[str, int] = {}
    total = 0
    for turn in range(rounds):
        path = Path(folder, f"{turn // ROUNDS_PER_FILE}.db")
        if turn % ROUNDS_PER_FILE == 0:
            acknowledged = dict.fromkeys((*SINGLES, *PAIRS), 0)
        # Half of the kills come after the first write, so that these kills hit a working writer even on a slow machine.
        after_first = turn % 2 == 1
        for name, count in _killed_writer(path, dict(acknowledged), chance.uniform(0, SECONDS_MAX), after_first):
            acknowledged[name] = count
            total += 1
        acknowledged = _checked(path, acknowledged, turn)
    print(json.dumps({"kills": rounds, "acknowledged": total}))


def _killed_writer(path: Path, start: dict[str, int], seconds: float, after_first: bool) -> list[tuple[str, int]]:
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        _write_until_killed(path, start, target)
    os.close(target)
    if after_first:
        select.select([source], [], [])
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "a writer ended by itself"
    with open(source, encoding="ascii") as pipe:
        lines = [line.split() for line in pipe.read().splitlines()]
    return [(name, int(count)) for name, count in lines]


def _write_until_killed(path: Path, start: dict[str, int], target: int) -> None:
    try:
        database, _ = _open(path)
        threads = [threading.Thread(target=_write, args=(database, *at, target)) for at in start.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        os._exit(1)


def _write(database: SqliteDatabase, name: str, count: int, target: int) -> None:
    while True:
        body = _body(name, count)
        database.index.commit(_writes(name, count), {_key(body): body})
        count += 1
        os.write(target, f"{name} {count}\n".encode())


def _writes(name: str, count: int) -> list[Put]:
    sorts = [f"{count:06d}"] if name in SINGLES else [f"{count:06d}a", f"{count:06d}b"]
    return [Put(Item(name, sort, {"b": bytes(300), "n": count}), Absent()) for sort in sorts]


def _body(name: str, count: int) -> bytes:
    return f"{name} {count} ".encode() * (1 + count % 300)


def _key(body: bytes) -> str:
    return f"owner/{sha256(body).hex()}"


def _open(path: Path) -> tuple[SqliteDatabase, RowBlobs]:
    clock = SystemClock()
    database = SqliteDatabase(path, clock)
    # No blob is large enough for a file. So the folder skips syncs, and the writers spend their time on commits.
    files = FileBlobs(path.with_suffix(".blobs"), clock, sync=lambda descriptor: None)
    return database, database.blobs(files)


def _checked(path: Path, acknowledged: dict[str, int], turn: int) -> dict[str, int]:
    """Return the number of writes of each name. Check that no write is lost or partial, and check the keys of blobs."""
    database, blobs = _open(path)
    checked = {}
    wanted_keys = set()
    for name, count in acknowledged.items():
        items = list(database.index.query(name))
        checked[name] = len(items) if name in SINGLES else len(items) // 2
        assert checked[name] >= count, f"round {turn}: {name} lost a write: {checked[name]} of {count}"
        wanted = [write.item for n in range(checked[name]) for write in _writes(name, n)]
        assert items == wanted, f"round {turn}: {name} is torn"
        wanted_keys |= {_key(_body(name, n)) for n in range(checked[name])}
    assert {stat.key for stat in blobs.list("")} == wanted_keys, f"round {turn}: blobs are not those of the commits"
    database.close()
    check = apsw.Connection(str(path))
    assert check.pragma("integrity_check") == "ok", f"round {turn}: the file is damaged"
    check.close()
    return checked


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
