"""One random run: real engines in Node share a sheet that this process serves. At the end all states must be equal.

Each client and the server's open model have a state. Another state is loaded from an app snapshot and the later
entries. The last state comes from a replay of all entries.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

import stratalog
from apps.sheet.tests.convergence.keystrokes import Keystrokes
from stratalog.errors import StratalogError
from stratalog.testing.emulators import describe_status
from stratalog_sheet import EnginePool, Sheet, Sheets, SheetSettings
from stratalog_sheet.cells import cell_name, parse_range
from stratalog_sheet.engine import engine_folder
from stratalog_sheet.events import Created, Restored, Revision, fact_of
from stratalog_sheet.load_plan import with_revision
from tests.node import node_program
from tests.processes import killed_after

CLIENTS = Path(__file__).with_name("clients.mjs")
PAGE = Path(__file__).parents[2] / "src/stratalog_sheet/web"
SECONDS_MAX = 600
"""A process of clients that still runs after this time is killed, and the run fails."""


class Diverged(AssertionError):
    """A run failed: states that must be equal differ, a text is lost, or a message stays pending.

    Also raised if a process of the run fails or does not end in time.
    """


class Run:
    """A sheet in its own store. The run answers the requests of the sheet's clients."""

    def __init__(self, seed: int, engines: EnginePool, folder: str, name: str = "plan") -> None:
        self.seed = seed
        self._settings = self._chosen_settings()
        self._engines = engines
        self._folder = folder
        self._name_of_sheet = name
        self._store = stratalog.open(folder)
        self._sheet = Sheets(self._store, engines, self._settings).create("acme", name)
        self._title = name
        self.counts: dict[str, int] = {}

    def _chosen_settings(self) -> SheetSettings:
        """Return settings with short intervals, so that a short run has many app snapshots."""
        return SheetSettings(undo_entries=5 + self.seed % 11, snapshot_entries=3 + self.seed % 7)

    def play(self, clients: int, steps: int) -> None:
        """Run the clients to the end, and compare all states. Raises Diverged, also after `SECONDS_MAX` seconds."""
        ended = False
        asked: dict[str, Any] = {}
        folders = str(engine_folder()), str(PAGE)
        command = [node_program(), str(CLIENTS), *folders, *map(str, (self.seed, clients, steps))]
        node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with killed_after(node, SECONDS_MAX), node:
            assert node.stdin is not None
            assert node.stdout is not None
            for line in node.stdout:
                asked = json.loads(line)
                if asked["name"] == "end":
                    ended = True
                    _write_line(node.stdin, b"{}")
                    break
                try:
                    answer = getattr(self, f"_{asked.pop('name')}")(**asked)
                except StratalogError as exc:
                    answer = {"error": exc.code}
                _write_line(node.stdin, msgspec.json.encode(answer))
        ended = ended and node.returncode == 0
        if ended:
            self._compare_states(asked)
        self._store.close()
        if not ended:
            raise Diverged(f"the clients' process ended with {describe_status(node.returncode)}: seed={self.seed}")

    def _load(self) -> Any:
        loaded = self._sheet.load()
        state = {"base": loaded.base_version, "data": json.loads(loaded.data)}
        return {**state, "version": loaded.version, "entries": loaded.entries}

    def _moves(self, source: int, target: int) -> Any:
        return self._sheet.comparison.moves(source, target)

    def _append(self, message: dict[str, Any]) -> Any:
        return {"version": self._sheet.append(message).version}

    def _since(self, version: int, only: str = "") -> Any:
        return {"version": self._sheet.version} if only else self._sheet.since(version)

    def _snapshot(self) -> Any:
        return {"version": self._sheet.snapshot_due()}

    def _restart(self) -> Any:
        """Open the store again, as another process does, without any cached state."""
        self._store.close()
        self._store = stratalog.open(self._folder)
        self._sheet = self._fresh()
        return {}

    def _name(self) -> Any:
        return self._sheet.name_version(self._sheet.version, "name")

    def _rename(self, title: str) -> Any:
        renamed = self._sheet.rename(title)
        self._title = title
        return renamed

    def _restore(self, back: int) -> Any:
        return self._sheet.restore(max(self._sheet.version - back, 1))

    def _set(self, cell: str, content: str) -> Any:
        return self._sheet.set(cell, content)

    def _fresh(self) -> Sheet:
        return Sheets(self._store, self._engines, self._settings).open("acme", self._name_of_sheet)

    def _compare_states(self, end: dict[str, Any]) -> None:
        self.counts = {**end["counts"], "versions": self._sheet.version}
        if any(end["pending"]):
            raise Diverged(f"a client still has pending messages: seed={self.seed}")
        while self._sheet.snapshot_due() is not None:
            pass
        if {self._sheet.title, self._fresh().title} != {self._title}:
            raise Diverged(f"the sheet has another title: seed={self.seed}")
        self._check_typed(end)
        version = self._sheet.version
        held = {f"client {position}": json.dumps(state) for position, state in enumerate(end["states"])}
        held |= self._states_elsewhere()
        held["the warm model"] = self._sheet.state()
        held["a load from an app snapshot"] = self._loaded()
        held["a replay from the first entry"] = self._replayed(version)
        wanted = readable(json.loads(held["a replay from the first entry"]))
        for who, state in held.items():
            if readable(json.loads(state)) != wanted:
                raise Diverged(f"{who} and a replay from the first entry differ: seed={self.seed}")

    def _check_typed(self, end: dict[str, Any]) -> None:
        keystrokes = Keystrokes(self._sheet, end["typed"], end["listed"])
        lost = list(keystrokes.lost())
        self.counts |= keystrokes.counts
        if lost:
            raise Diverged("\n".join([f"{len(lost)} texts are lost or in other cells: seed={self.seed}", *lost]))

    def _states_elsewhere(self) -> dict[str, Any]:
        """Return further states that must be equal, by name."""
        return {}

    def _loaded(self) -> bytes:
        loaded = self._fresh().load()
        return self._exported(loaded.data, loaded.messages)

    def _replayed(self, version: int) -> bytes:
        """Return the state after all messages from the first entry on, without any app snapshot."""
        data, messages = b"", list[dict[str, Any]]()
        for entry in self._sheet.log.read(0, version):
            fact = fact_of(entry)
            if isinstance(fact, Created):
                data = fact.data
            elif isinstance(fact, Restored):
                data, messages = with_revision(self._replayed(fact.version), fact.revision), []
            elif isinstance(fact, Revision):
                messages.append(fact.message)
        return self._exported(data, messages)

    def _exported(self, data: bytes, messages: list[dict[str, Any]]) -> bytes:
        with self._engines.lend("judge") as models:
            models.engine.call("open", key="judge", data=data, messages=messages, client="judge")
            state = models.engine.raw("export", key="judge")
            models.engine.call("close", key="judge")
        return state


def _write_line(pipe: IO[str], line: bytes) -> None:
    """Write a line to a process. If the process has ended, close the pipe instead."""
    try:
        pipe.write(line.decode() + "\n")
        pipe.flush()
    except BrokenPipeError:
        with suppress(BrokenPipeError):
            pipe.close()


def readable(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state that can be compared. Engines number styles, formats and borders differently, so the result
    has the style, format and border of each cell in place of the numbers.
    """
    state = dict(state)
    styles, formats = state.pop("styles", {}), state.pop("formats", {})
    borders = state.pop("borders", {})
    sheets = []
    for sheet in state.pop("sheets"):
        plain = dict(sheet)
        for name, known in (("styles", styles), ("formats", formats), ("borders", borders)):
            plain[name] = dict(_cell_by_cell(plain.get(name, {}), known))
        plain["merges"] = sorted(plain.get("merges", []))
        sheets.append(plain)
    return {**state, "sheets": sheets}


def _cell_by_cell(zones: dict[str, Any], known: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for zone, number in zones.items():
        (left, top), (right, bottom) = parse_range(zone)
        for column in range(left, right + 1):
            for row in range(top, bottom + 1):
                yield cell_name(column, row), known[str(number)]


def play(seed: int, engines: EnginePool, steps: int = 250) -> dict[str, int]:
    """Play one run and return its counts. Raises Diverged."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(seed, engines, folder)
        try:
            run.play(3 + seed % 4, steps)
        except Exception as exc:
            exc.add_note(f"repeat it: python -m apps.sheet.tests.convergence --runs 1 --seed {seed} --steps {steps}")
            raise
    return run.counts
