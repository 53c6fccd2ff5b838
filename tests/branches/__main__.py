"""Runs random sessions of clients: ``python -m tests.branches --sessions 500 --seed 1``.

The exit code is 0 if no session fails. ``--kind`` runs sessions of one kind only. For each of the first ten failed
sessions, the program prints a command that repeats the session.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

from tests.branches.members import Member, NodeMember, PythonMember
from tests.branches.servers import BranchServer
from tests.branches.session import EVENTS, Session
from tests.e2e.serving import find_chromium, node_with
from tests.processes import ChildProcess, start, unexpected_ends

__all__ = ["KINDS", "Result", "main", "run"]

E2E = Path(__file__).parents[1] / "e2e"
STEPS = (8, 24)
SHOWN_MAX = 10


class Kind(msgspec.Struct, frozen=True):
    """A kind of session: its members, its server, and its share of all sessions in percent.

    ``tabs`` is the kind of the members that a Node process drives. Those members are tabs of one or two browsers.
    """

    share: int
    tabs: str = ""
    queued: bool = False
    killed: bool = False


KINDS = {
    "python": Kind(52),
    "python, queue": Kind(16, queued=True),
    "python, killed processes": Kind(4, killed=True),
    "replicache": Kind(12, "replicache"),
    "replicache, queue": Kind(4, "replicache", queued=True),
    "browser client in node": Kind(7, "browser"),
    "browser client in node, queue": Kind(2, "browser", queued=True),
    "browser client in chromium": Kind(3, "chromium"),
}


class Result(msgspec.Struct):
    """The number of sessions of each kind and event, the sum of `Session.met`, and a report of each failure."""

    sessions: Counter[str]
    met: Counter[str]
    wrong: list[str]


class Drivers(ExitStack):
    """The Node processes that drive clients. Each process starts when a session first needs it."""

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[str, ChildProcess] = {}

    def driver(self, tabs: str) -> ChildProcess:
        """Return the process that drives members of the kind ``tabs``."""
        folder, options = (E2E / "browser", [find_chromium()]) if tabs == "chromium" else (E2E / "replicache", [])
        if folder.name not in self._running:
            command = [node_with(folder), "members.mjs", *options]
            self._running[folder.name] = self.enter_context(start(command, cwd=folder))
        return self._running[folder.name]


def run(sessions: int, seed: int, kind: str = "") -> Result:
    """Run ``sessions`` sessions of the given kind. Without a kind, run sessions of all kinds by their shares."""
    result = Result(Counter(), Counter(), [])
    with Drivers() as drivers:
        for number in range(seed, seed + sessions):
            _run(number, kind, drivers, result)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.branches", description=__doc__)
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=list(KINDS), default="", help="run sessions of this kind only")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    result = run(options.sessions, options.seed, options.kind)
    for name, count in sorted(result.sessions.items()):
        print(f"{name:<48} {count:>5}")
    print(", ".join(f"{count:,} {name}" for name, count in sorted(result.met.items())))
    seconds = time.monotonic() - started
    print(f"{options.sessions:,} sessions from seed {options.seed}, {len(result.wrong)} wrong, {seconds:.0f} s")
    print("\n".join(result.wrong[:SHOWN_MAX]), end="\n" if result.wrong else "")
    return 1 if result.wrong else 0


def _run(seed: int, kind: str, drivers: Drivers, result: Result) -> None:
    chance = Random(seed)
    [drawn] = chance.choices(list(KINDS), [each.share for each in KINDS.values()])
    name, event = kind or drawn, chance.choice(EVENTS)
    result.sessions[f"{name}: {event}"] += 1
    try:
        result.met += _session(chance, seed, KINDS[name], event, drivers)
    except Exception:  # noqa: BLE001 - any failure is reported with its seed
        command = f"python -m tests.branches --sessions 1 --seed {seed}" + (f" --kind '{kind}'" if kind else "")
        result.wrong.append("\n".join([f"{name}, {event}: {command}", traceback.format_exc(), *unexpected_ends()]))


def _session(chance: Random, seed: int, kind: Kind, event: str, drivers: Drivers) -> Counter[str]:
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        server = BranchServer(folder / "store", queued=kind.queued, killed=kind.killed)
        stack.callback(server.close)
        server.create()
        server.start()
        session = Session(chance, server, _browsers(chance, seed, kind, server, folder, drivers))
        stack.callback(session.close)
        session.steps(chance.randrange(*STEPS))
        backup = server.copy(folder / "backup")
        session.steps(chance.randrange(*STEPS))
        session.strike(event, folder, backup)
        session.steps(chance.randrange(*STEPS))
        if event != "split" and chance.random() < 0.2:  # lose history a second time
            session.strike(event, folder, backup)
            session.steps(chance.randrange(*STEPS))
        session.finish()
        return session.met


def _browsers(
    chance: Random, seed: int, kind: Kind, server: BranchServer, folder: Path, drivers: Drivers
) -> list[list[Member]]:
    """Open one to three Python clients. Return one list of members for each Python client and each browser.

    For a kind with tabs, open one Python client, and one or two browsers with two tabs each.
    """
    browsers: list[list[Member]] = []
    for number in range(chance.randint(1, 1 if kind.tabs else 3)):
        browsers.append([PythonMember(f"p{number}", server, folder, seed + number)])
    for number in range(chance.randint(1, 2) if kind.tabs else 0):
        group = f"s{seed}b{number}"
        driver = drivers.driver(kind.tabs)
        browsers.append([NodeMember(driver, kind.tabs, f"{group}t{tab}", server, group) for tab in range(2)])
    return browsers


if __name__ == "__main__":
    sys.exit(main())
