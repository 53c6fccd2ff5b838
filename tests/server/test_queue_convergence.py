"""Real clients over the queue path converge, despite network faults and killed workers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.store import open_store
from stratalog.sync.pull import pull
from stratalog.testing.clock import ManualClock
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker
from tests.client import convergence
from tests.client.helpers import InProcess, through_bytes
from tests.client.session import Session

ROUND_SECONDS_MAX = 20
STEPS_MAX = 4
END_RATE = 0.2


class Workshop:
    """A store with a queue, two servers that queue pushes, and two workers, which the test sometimes kills."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock(seed=seed)
        self.store = open_store("memory:", clock=self.clock)
        self.document = self.store.create("acme", "plan")
        self.backlogs = [QueuedPushes(self.store) for _ in range(2)]
        self.workers = [Worker(self.store) for _ in range(2)]
        self.applied = self.ended = 0

    def pass_time(self, clocks: Sequence[ManualClock]) -> None:
        """Let a random time pass, and let one worker take some steps."""
        seconds = ROUND_SECONDS_MAX * self.chance.random()
        for clock in (self.clock, *clocks):
            clock.sleep(seconds)
        position = self.chance.randrange(len(self.workers))
        for _ in range(self.chance.randrange(STEPS_MAX + 1)):
            self.workers[position].step()
        if self.chance.random() < END_RATE:
            self.end(position)

    def end(self, position: int) -> None:
        """Replace a worker, as if its process had ended before it settled its messages."""
        self.applied += self.workers[position].counts["applied"]
        self.ended += 1
        self.workers[position] = Worker(self.store)


class OverQueue(InProcess):
    """A transport to servers that queue pushes. Before each pull, time passes and a worker takes some steps."""

    def __init__(self, workshop: Workshop) -> None:
        super().__init__(workshop.document)
        self.workshop = workshop
        self.clocks: list[ManualClock] = []

    def serve_push(self, request: Push) -> Pushed:
        backlog = self.workshop.chance.choice(self.workshop.backlogs)
        return through_bytes(backlog.push(self.workshop.document, through_bytes(request), self.owner))

    def serve_pull(self, request: Pull) -> Pulled:
        self.workshop.pass_time(self.clocks)
        return through_bytes(pull(self.workshop.document, through_bytes(request), self.owner))


@pytest.mark.parametrize("seed", range(30))
def test_clients_over_the_queue_path_converge(seed: int, tmp_path: Path) -> None:
    workshop, chance = Workshop(seed), random.Random(seed)
    transports = [OverQueue(workshop) for _ in range(chance.randint(3, 6))]
    session = Session(tmp_path, transports, lambda: workshop.document, seed)
    for member, transport in zip(session.members, transports, strict=True):
        transport.clocks.append(member.clock)
    met = convergence._run(session, chance)
    assert met["rejections"] >= 1
    assert workshop.ended > 0
    for position in range(len(workshop.workers)):
        workshop.end(position)
    assert workshop.applied > 0
    assert list(workshop.store.queue.dead_letters()) == []
