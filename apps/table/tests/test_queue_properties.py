"""Whatever senders, workers and maintenance do, and however long they pause, each sent transaction is applied once."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from apps.table.tests.helpers import memory_store, table_of
from stratalog import OutcomeUnknown, Store, StratalogError
from stratalog.limits import CLIENT_IDLE_DAYS_MIN, QUEUE_RECEIVES_MAX
from stratalog.log import Environment
from stratalog.log.tasks import InlineTasks
from stratalog.testing.clock import ManualClock
from stratalog.worker.dead_letters import redrive_all
from stratalog.worker.worker import Worker
from stratalog_table import RULES, open_table
from stratalog_table.queue_path import TableQueue, Ticket
from stratalog_table.transaction_group import CommittedTransaction, Request

DAY_SECONDS = 86_400
SENDERS = 3


class SkewedClock:
    """The clock of a process, which differs from the true time."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.days = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    def wall_ms(self) -> int:
        return self._clock.wall_ms() + self.days * DAY_SECONDS * 1000


class World:
    """A table with senders in several processes, a worker, and maintenance that forgets idle clients."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = memory_store(self.clock, snapshot_entries_interval=5)
        self.store.rules = RULES
        self.table = table_of(self.store)
        self.clocks = [SkewedClock(self.clock) for _ in range(SENDERS)]
        self.senders: list[Any] = [None] * SENDERS
        for sender in range(SENDERS):
            self.restart(sender)
        self.tickets: dict[str, Ticket] = {}
        self.in_doubt: set[str] = set()
        self._send = self.store.queue.send

    def send(self, sender: int, lost_answers: int = 0) -> None:
        """Send a transaction. The queue accepts the message, but loses the first answers."""
        name = f"file-{len(self.tickets) + len(self.in_doubt)}"
        answers = iter([False] * lost_answers)

        def send(group: str, bodies: list[bytes]) -> None:
            self._send(group, bodies)
            if not next(answers, True):
                raise OutcomeUnknown("simulated")

        self.store.queue.send = send  # type: ignore[method-assign]
        new = {"files": [{"filename": name, "references": [{"partition": "root", "rows": 1}]}]}
        try:
            (self.tickets[name],) = self.senders[sender].send([Request("add_files", new)])
        except OutcomeUnknown:
            self.in_doubt.add(name)

    def restart(self, sender: int) -> None:
        """Replace a sender, as a restart of its process does."""
        environment = self.store.environment
        ports, clock = (environment.index, environment.blobs), self.clocks[sender]
        own = Store(Environment(*ports, clock, environment.settings, background=InlineTasks()), self.store.queue)
        own.rules = RULES
        self.senders[sender] = TableQueue(open_table(own, "acme", "events"))

    def skew(self, sender: int, days: int) -> None:
        """Set the clock of a sender wrong."""
        self.clocks[sender].days = days

    def work(self, steps: int) -> None:
        """Run the first steps of a worker, which then ends."""
        worker = Worker(self.store)
        for _ in range(steps):
            worker.step()
        worker.stop()
        worker.run()  # releases the unsettled messages

    def lose(self) -> None:
        """Deliver the oldest message to workers that crash, until the message is a dead letter."""
        for _ in range(QUEUE_RECEIVES_MAX + 1):
            self.store.queue.receive(1)
            self.clock.sleep(60)

    def redrive(self) -> None:
        """Redrive the dead letters, as an operator does. Letters that were redriven before stay, without effect."""
        for _, outcomes in redrive_all(self.store):
            assert not isinstance(outcomes, StratalogError), outcomes

    def commit(self) -> None:
        """Commit another entry, so that a version shows the time."""
        self.table.set_retention(self.table.version)

    def expire(self) -> None:
        """Forget idle groups, as maintenance does. The operator redrives dead letters before."""
        self.redrive()
        before_ms = self.clock.wall_ms() - CLIENT_IDLE_DAYS_MIN * DAY_SECONDS * 1000
        self.table.document.expire_clients(before_ms)

    def pause(self, days: int) -> None:
        self.clock.sleep(days * DAY_SECONDS)

    def check(self) -> None:
        """Apply the rest of the queue, and check that each acknowledged file was added by its own transaction."""
        Worker(self.store).run(drain=True)
        self.redrive()
        held = {file.filename for file in self.table.at().files(0).files}
        assert held - self.in_doubt == set(self.tickets)
        added: dict[str, int] = {}
        for version in self.table.document.versions():
            for mutation in version.mutations:
                if mutation.name == "add_files":
                    assert mutation.reason is None, "no file is added twice"
                    added[mutation.args["files"][0]["filename"]] = version.version
        assert set(added) == held
        state = self.table.document.state()
        for name, ticket in self.tickets.items():
            is_late = any(before < ticket.id <= last for before, last in state.lost(ticket.client))
            has_outcome = state.client(ticket.client) is not None and not is_late
            assert self.senders[0].outcome(ticket) == (CommittedTransaction(added[name]) if has_outcome else None)


SENDER = st.integers(0, SENDERS - 1)
ACTIONS = st.one_of(
    st.tuples(st.just("send"), SENDER, st.sampled_from([0, 0, 1, 5])),
    st.tuples(st.just("restart"), SENDER),
    st.tuples(st.just("skew"), SENDER, st.sampled_from([0, 3, 30, 400, -3, -30, -400])),
    st.tuples(st.just("work"), st.integers(1, 6)),
    st.tuples(st.just("pause"), st.sampled_from([1, 8, 20, 45, 200])),
    st.tuples(st.just("lose")),
    st.tuples(st.just("redrive")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("expire")),
)
WAITING = [("send", 0, 0), ("work", 2), ("send", 0, 0), ("pause", 45), ("commit",), ("expire",)]
RESTARTED = [("send", 0, 0), ("work", 2), ("restart", 0), ("send", 0, 0), ("restart", 0), ("send", 0, 0)]
LATER = [("send", 0, 0), ("work", 2), ("pause", 45), ("send", 1, 0), ("work", 2), ("expire",), ("send", 0, 0)]

AHEAD = [("skew", 1, 30), ("send", 1, 0), ("work", 2), ("send", 0, 0), ("work", 2), ("send", 0, 0)]
AHEAD += [("pause", 45), ("commit",), ("expire",)]
BEHIND = [("send", 0, 0), ("work", 2), ("pause", 20), ("send", 0, 0), ("work", 2), ("pause", 1), ("skew", 1, -20)]
BEHIND += [("send", 1, 0), ("pause", 45), ("commit",), ("expire",)]
LOST = [("send", 0, 0), ("lose",), ("send", 0, 0), ("send", 0, 0), ("work", 4), ("redrive",), ("redrive",)]


@given(st.lists(ACTIONS, max_size=40))
@example(LOST)
@example(WAITING)
@example(RESTARTED)
@example(LATER)
@example(AHEAD)
@example(BEHIND)
def test_each_sent_transaction_is_applied_once_although_idle_groups_are_forgotten(
    actions: list[tuple[Any, ...]],
) -> None:
    world = World()
    for name, *args in actions:
        getattr(world, name)(*args)
    world.check()
