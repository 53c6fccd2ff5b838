"""Measure the time of a sheet's load by the number of entries after the saved state, and the size of saved states.

``python -m bench.sheet [--workbook FILE.xlsx] [--json FILE]``. Everything runs on one machine. The program measures
the server's engine, a child process, instead of the browser's engine. Both engines are the same program.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import stratalog
from stratalog import LogSettings
from stratalog_sheet import EnginePool, Sheet, Sheets, SheetSettings
from stratalog_sheet.state import split_state

TAILS = (0, 100, 200, 400, 700, 1000, 2000, 4000)
SEGMENTS = (100, 1000, 10_000)
SEED = 4
NEVER = 1_000_000
WORKBOOK_TAILS = TAILS[:-1]
"""The tails for a given workbook, without the longest tail, which would take many minutes."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workbook", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    engines = EnginePool()
    figures: dict[str, Any] = {"tails": [], "segments": [], "states": []}
    workbooks: dict[str, bytes | None] = {"empty": None}
    if options.workbook:
        workbooks[options.workbook.name] = options.workbook.read_bytes()
    for name, xlsx in workbooks.items():
        figures["tails"] += list(measure_tails(engines, name, xlsx))
        figures["states"].append(measure_state(engines, name, xlsx))
    figures["segments"] = list(measure_segments(engines))
    engines.close()
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


def measure_tails(engines: EnginePool, name: str, xlsx: bytes | None) -> Iterator[dict[str, Any]]:
    """Measure time and bytes of a load, by the number of entries after the saved state."""
    print(f"\n{name}: a load by the entries after its state")
    print("entries  server ms  engine ms  kB of entries  kB of state")
    with tempfile.TemporaryDirectory() as folder, stratalog.open(folder) as store:
        settings = SheetSettings(undo_entries=NEVER, snapshot_entries=NEVER)
        sheet = made(Sheets(store, engines, settings), xlsx)
        chance = random.Random(SEED)
        for tail in WORKBOOK_TAILS if xlsx else TAILS:
            edit(sheet, chance, tail - (sheet.version - 1))
            figure = {"book": name, "entries": tail, **load_of(engines, store, settings)}
            print(
                "{entries:7}  {server_ms:9.0f}  {engine_ms:9.0f}  {entries_kb:13.0f}  {state_kb:11.0f}".format(**figure)
            )
            yield figure


def measure_state(engines: EnginePool, name: str, xlsx: bytes | None) -> dict[str, Any]:
    """Measure the bytes of the first saved state, and bytes and time of saving it after a changed cell or new row."""
    with tempfile.TemporaryDirectory() as folder, stratalog.open(folder) as store:
        sheet = made(Sheets(store, engines), xlsx)
        figure: dict[str, Any] = {"book": name, "first_bytes": stored(sheet)}
        edits: dict[str, Callable[[], Any]] = {
            "cell": lambda: sheet.set("B7", "changed"),
            "row": lambda: sheet.insert_rows(3),
        }
        for what, do in edits.items():
            do()
            before = stored(sheet)
            seconds = timed(lambda: sheet.log.save_snapshot(sheet.version, split_state(sheet.state())))
            figure |= {f"{what}_bytes": stored(sheet) - before, f"{what}_ms": seconds * 1000}
    print(f"\n{name}: bytes stored of the first state {figure['first_bytes']}, after one cell {figure['cell_bytes']}")
    print(f"  ({figure['cell_ms']:.0f} ms), after one inserted row {figure['row_bytes']} ({figure['row_ms']:.0f} ms)")
    return figure


def measure_segments(engines: EnginePool) -> Iterator[dict[str, Any]]:
    """Measure a load of 400 entries at the end of 5,000, by the number of entries in a segment."""
    print("\na load of 400 entries at the end of 5,000, by the entries of a segment")
    for target in SEGMENTS:
        with tempfile.TemporaryDirectory() as folder:
            with stratalog.open(folder, settings=LogSettings(segment_entries_target=target)) as store:
                sheet = Sheets(store, engines, SheetSettings(snapshot_entries=200)).create("acme", "plan")
                chance = random.Random(SEED)
                for _ in range(25):
                    edit(sheet, chance, 200)
                    sheet.snapshot_due()
            with stratalog.open(folder) as store:
                figure = {"segment": target, **load_of(engines, store, SheetSettings(undo_entries=400))}
            print(f"  {target:6}: server {figure['server_ms']:.0f} ms, engine {figure['engine_ms']:.0f} ms")
            yield figure


def made(sheets: Sheets, xlsx: bytes | None) -> Sheet:
    return sheets.import_file("acme", "plan", xlsx) if xlsx else sheets.create("acme", "plan")


def edit(sheet: Sheet, chance: random.Random, count: int) -> None:
    """Append ``count`` entries: 90 % cell values, 4 % formulas, 2 % inserted rows, 4 % undos."""
    for number in range(count):
        kind = chance.random()
        if kind < 0.02:
            sheet.insert_rows(chance.randrange(1, 40))
        elif kind < 0.06 and number:
            sheet._dispatch({"type": "REQUEST_UNDO"}, None, "")
        else:
            content = f"=SUM(A1:A{chance.randrange(2, 40)})" if kind < 0.1 else str(chance.random())
            sheet.set(f"{chance.choice('ABCDEFG')}{chance.randrange(1, 60)}", content)


def load_of(engines: EnginePool, store: stratalog.Store, settings: SheetSettings) -> dict[str, float]:
    """Return the median times of three loads, each by newly opened sheets, and the sizes of the last load."""
    server, opening = [], []
    for _ in range(3):
        sheet = Sheets(store, engines, settings).open("acme", "plan")
        started = time.perf_counter()
        loaded = sheet.load()
        server.append(time.perf_counter() - started)
        with engines.lend("bench") as models:
            arguments = {"key": "bench", "data": loaded.data, "messages": loaded.messages, "client": "bench"}
            opening.append(timed(partial(models.engine.raw, "open", **arguments)))
            models.engine.call("close", key="bench")
    return {
        "server_ms": statistics.median(server) * 1000,
        "engine_ms": statistics.median(opening) * 1000,
        "entries_kb": len(json.dumps(loaded.messages)) / 1000,
        "state_kb": len(loaded.data) / 1000,
    }


def stored(sheet: Sheet) -> int:
    owner = sheet.log.record.owner
    return sum(stat.stored_bytes for stat in sheet.log.environment.blobs.list(f"{owner}/app-snapshots/"))


def timed(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
