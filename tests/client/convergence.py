"""Random sessions of three to eight clients. Each session has a rejection, a conflict and a lost answer.

    python -m tests.client.convergence --sessions 1800 --seed 1
    python -m tests.client.convergence --sessions 200 --seed 1 --servers 3

The second form uses real sockets and several server processes on one store folder, and kills servers now and then.
A failed session prints its seed and the command that repeats the session.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.client.servers import OverSockets, Servers
from tests.client.session import CHANGES, FAULTS, Session, session_in_process
from tests.processes import ProcessFailure, unexpected_ends

CLIENTS_MIN, CLIENTS_MAX = 3, 8
STEPS_MIN, STEPS_MAX = 20, 60
FAULT_RATE = 0.35


def run_in_process(seed: int) -> Counter[str]:
    """Run one session that calls servers as functions. Return counts of its events.

    Raises AssertionError if a check fails.
    """
    chance = random.Random(seed)
    with TemporaryDirectory() as folder:
        return _run(session_in_process(Path(folder), _clients(chance), seed), chance)


def run_over_sockets(seed: int, servers: Servers) -> Counter[str]:
    """Run one session with server processes. The caller kills servers now and then."""
    chance, name = random.Random(seed), f"session-{seed}"
    servers.create(name)
    ways = [OverSockets(servers.urls(name), random.Random(chance.random())) for _ in range(_clients(chance))]
    try:
        with TemporaryDirectory() as folder, servers.document(name) as document:
            return _run(Session(Path(folder), ways, lambda: document, seed, partial(time.sleep, 0.1)), chance)
    finally:
        for way in ways:
            way.hang_up()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run sessions. Return 1 if a session failed, or if a server ended by itself.

    A session without a rejection, a conflict or a lost answer counts as failed.
    """
    chosen = _arguments(arguments)
    met: Counter[str] = Counter()
    failed: list[int] = []
    try:
        with _runner(chosen, met) as run:
            _run_all(chosen, run, met, failed)
    except ProcessFailure as exc:
        print(f"a server ended by itself during the sessions from seed {chosen.seed}: {exc}")
        return 1
    print(f"{chosen.sessions} sessions from seed {chosen.seed}, {len(failed)} failed; {dict(sorted(met.items()))}")
    return 1 if failed else 0


def _run_all(
    chosen: argparse.Namespace, run: Callable[[int], Counter[str]], met: Counter[str], failed: list[int]
) -> None:
    for seed in range(chosen.seed, chosen.seed + chosen.sessions):
        try:
            met += run(seed)
        except Exception:  # noqa: BLE001 - after any failure the seed is needed
            failed.append(seed)
            print(f"seed {seed} failed; repeat it: {_command(seed, chosen.servers)}", traceback.format_exc(), sep="\n")
            print(*unexpected_ends(), sep="\n")


def _command(seed: int, servers: int) -> str:
    """Return the command that repeats one session."""
    return f"python -m tests.client.convergence --sessions 1 --seed {seed}" + (
        f" --servers {servers}" if servers else ""
    )


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=0, help="the number of server processes, or 0 for none")
    return parser.parse_args(arguments)


@contextmanager
def _runner(chosen: argparse.Namespace, met: Counter[str]) -> Iterator[Callable[[int], Counter[str]]]:
    if not chosen.servers:
        yield run_in_process
        return
    with TemporaryDirectory() as folder:
        servers = Servers(Path(folder) / "store", chosen.servers)
        try:
            with servers.killed_now_and_then(random.Random(chosen.seed)):
                yield partial(run_over_sockets, servers=servers)
            met["kills"] = servers.kills
        finally:
            servers.close()


def _run(session: Session, chance: random.Random) -> Counter[str]:
    met: Counter[str] = Counter()
    try:
        for step in _schedule(chance, session):
            step(met)
        session.finish()
        _count(session, met)
    finally:
        session.close()
    return met


def _clients(chance: random.Random) -> int:
    return chance.randint(CLIENTS_MIN, CLIENTS_MAX)


Step = Callable[[Counter[str]], None]


def _schedule(chance: random.Random, session: Session) -> list[Step]:
    """Return random steps. Insert the three steps that every session has at random positions."""
    steps: list[Step] = [_random_step(chance, session) for _ in range(chance.randint(STEPS_MIN, STEPS_MAX))]
    first, second = chance.sample(range(len(session.members)), 2)
    loser = chance.choice(session.members)
    for step in (
        lambda met: session.reject_mutation(first, second),
        lambda met: session.conflict(first, second),
        lambda met: loser.lose_an_answer(),
    ):
        steps.insert(chance.randrange(len(steps) + 1), step)
    return steps


def _random_step(chance: random.Random, session: Session) -> Step:
    who = chance.randrange(len(session.members))
    member = session.members[who]
    kind, number = chance.choice(CHANGES), chance.randrange(10)
    faults = [chance.choice(FAULTS) if chance.random() < FAULT_RATE else "" for _ in range(3)]
    draw = chance.random()
    if draw < 0.5:
        return lambda met: session.change(who, kind, number)
    if draw < 0.9:
        return lambda met: met.update({"rounds": 1, "rounds that failed": not member.sync(*faults)})
    if draw < 0.95:
        return lambda met: (member.restart(), met.update(restarts=1))[0]
    return lambda met: member.transport.deliver_late()


def _count(session: Session, met: Counter[str]) -> None:
    """Assert that the session had a rejection, a conflict and a lost answer, and count its events."""
    committed = list(session.committed())
    rejected = sum(reason is not None for *_, reason in committed)
    duels = {client for client, _, (_, args), reason in committed if args["key"] == "duel" and reason is None}
    lost = sum(member.lost_answers for member in session.members)
    assert rejected >= 1
    assert len(duels) >= 2
    assert lost >= 1
    met.update({"mutations": len(committed), "rejections": rejected, "conflicts": 1, "lost answers": lost})


if __name__ == "__main__":
    sys.exit(main())
