"""Random sessions of three to eight clients, each with a rejection, a conflict and a lost answer.

    python -m tests.client.convergence --sessions 1800 --seed 1

A session that fails prints its seed, and ``--sessions 1 --seed THAT`` runs it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.client.session import CHANGES, FAULTS, Session

CLIENTS_MIN, CLIENTS_MAX = 3, 8
STEPS_MIN, STEPS_MAX = 20, 60
FAULT_RATE = 0.35


def run_session(seed: int) -> Counter[str]:
    """One session; what it met. Raises AssertionError where clients and server disagree."""
    chance = random.Random(seed)
    count = chance.randint(CLIENTS_MIN, CLIENTS_MAX)
    met: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        session = Session(Path(folder), count, seed)
        try:
            for step in _schedule(chance, session):
                step(met)
            session.finish()
            _count(session, met)
        finally:
            session.close()
    return met


def main(arguments: Sequence[str] | None = None) -> int:
    """Run sessions; 1 where one failed or what each must meet was not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    met: Counter[str] = Counter()
    failed = []
    for seed in range(chosen.seed, chosen.seed + chosen.sessions):
        try:
            met += run_session(seed)
        except Exception:  # noqa: BLE001 - whatever fails, the seed is what one needs to know
            failed.append(seed)
            print(f"seed {seed} failed", traceback.format_exc(), sep="\n")
    print(f"{chosen.sessions} sessions from seed {chosen.seed}, {len(failed)} failed; {dict(sorted(met.items()))}")
    return 1 if failed else 0


Step = Callable[[Counter[str]], None]


def _schedule(chance: random.Random, session: Session) -> list[Step]:
    """Random steps, and among them at random places the three that every session has."""
    steps: list[Step] = [_random_step(chance, session) for _ in range(chance.randint(STEPS_MIN, STEPS_MAX))]
    one, other = chance.sample(range(len(session.members)), 2)
    loser = chance.choice(session.members)
    for step in (
        lambda met: session.reject_one(one, other),
        lambda met: session.conflict(one, other),
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
    """What the session was meant to meet, it met."""
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
