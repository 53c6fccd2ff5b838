"""The world of clients that are collected: groups become idle and active again, while collectors run.

Servers push for clients of a few groups, and sometimes repeat a client's first mutations. Another principal tries to
join the groups. The expirer expires idle groups. The collector collects a client whose first push may still be running.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from stratalog.documents import Document, verify
from stratalog.documents.commits import COLLECT, COMMIT
from stratalog.documents.expiry import IdleClients
from stratalog.documents.state import State
from stratalog.documents.writer import Writer
from stratalog.errors import Conflict, NotFound, OutcomeUnknown, Unavailable
from stratalog.log import Entry, Event, LogSettings, create_log, open_log
from stratalog.protocol import Mutation
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import Turns, choose, log_environment
from tests.simulation.clusters import Cluster, Process
from tests.simulation.mutants import Mutant, replaced

__all__ = ["MUTANTS", "ClientsWorld"]

ORGANISATION = "acme"
NAME = "plan"
GROUPS = ("red/1", "green", "blue")
CLIENTS = 3
OWNER = "ann"
TURNS = {"server-a": 25, "server-b": 25, "intruder": 12, "expirer": 8, "collector": 12}
IDLE_SECONDS_MAX = 60.0
PAUSE_SECONDS_MAX = 40.0
BURST_SECONDS_MAX = 0.1


class ClientsWorld:
    """Servers, an intruder, an actor that expires groups, and an actor that collects clients."""

    columns: ClassVar[tuple[str, ...]] = (
        "applied",
        "seen",
        "collected",
        "wrong-group",
        "expired clients",
        "collected visitors",
        "conflict",
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.cluster = Cluster(scheduler)
        self.settings = LogSettings(snapshot_entries_interval=scheduler.random.choice((2, 5, 100)))
        self.left = Turns(TURNS)
        self.next: dict[str, int] = {}
        self.visitors = 0
        self.before_ms = 0
        """The latest time that `expire` passed to `expire_clients`.

        No process may expire a group that was active after this time.
        """

        document = Document(create_log(log_environment(self.cluster, self.settings), ORGANISATION, NAME, "document"))
        for group in GROUPS:
            document.apply([_push(f"{group} 0", 1)], group=group, owner=OWNER)
            self.next[f"{group} 0"] = 2
        for name, turn in {
            "server-a": self.push,
            "server-b": self.push,
            "intruder": self.intrude,
            "expirer": self.expire,
            "collector": self.collect,
        }.items():
            self.cluster.start(name, partial(self._repeat, turn))

    def push(self, process: Process, document: Document) -> None:
        """Push the next mutations of a client, its first mutations again, or the only mutation of a visitor."""
        group = choose(process.clock, GROUPS)
        if process.clock.random() < 0.3:
            self.visitors += 1
            self._apply(document, [_push(f"visitor {self.visitors}", 1)], group)
            return
        client = f"{group} {int(process.clock.random() * CLIENTS)}"
        first = 1 if process.clock.random() < 0.2 else self.next.get(client, 1)
        count = 1 + int(2 * process.clock.random())
        for outcome in self._apply(document, [_push(client, first + offset) for offset in range(count)], group):
            if outcome.status in ("applied", "seen"):
                self.next[client] = max(self.next.get(client, 1), outcome.id + 1)

    def intrude(self, process: Process, document: Document) -> None:
        """Try to join a group as another principal."""
        group = choose(process.clock, GROUPS)
        for outcome in self._apply(document, [_push(f"intruder {self.left[process.name]}", 1)], group, "mallory"):
            if outcome.status == "applied":
                raise Violation("owner", "another principal's client joined a group", group=group)

    def expire(self, process: Process, document: Document) -> None:
        """Expire the groups that have been idle for a random time."""
        before_ms = process.clock.wall_ms() - int(1000 * IDLE_SECONDS_MAX * process.clock.random())
        self.before_ms = max(self.before_ms, before_ms)
        self.scheduler.counts.bump("expired clients", document.expire_clients(before_ms))

    def collect(self, process: Process, document: Document) -> None:
        """Collect the newest visitor, or the next visitor. A server may be about to push for that next visitor."""
        document.collect_clients([f"visitor {self.visitors + int(2 * process.clock.random())}"])
        self.scheduler.counts.bump("collected visitors")

    def check(self) -> None:
        """Check each entry of the log, and then the rows of clients in the newest state."""
        document = Document(open_log(log_environment(self.cluster, self.settings), ORGANISATION, NAME))
        truth = _Truth()
        for entry in document.log.read():
            truth.add(entry, self.before_ms)
        state = document.state()
        stored = {key for key, _ in state.clients.scan(state.chunks, "")}
        if stored != truth.rows():
            raise Violation("members", "the rows of clients differ from the log's clients", rows=stored ^ truth.rows())
        verify(document)

    def _apply(self, document: Document, batch: list[Mutation], group: str, owner: str = OWNER) -> list[Any]:
        outcomes = document.apply(batch, group=group, owner=owner)
        for outcome in outcomes:
            self.scheduler.counts.bump(outcome.status)
        return outcomes

    def _repeat(self, turn: Callable[[Process, Document], None], process: Process) -> None:
        document = self._open(process)
        while self.left.take(process.name):
            long = process.clock.random() < 0.2
            process.clock.sleep((PAUSE_SECONDS_MAX if long else BURST_SECONDS_MAX) * process.clock.random())
            try:
                turn(process, document)
            except (Unavailable, OutcomeUnknown, Conflict):
                self.scheduler.counts.bump("tries failed")
            except NotFound as exc:
                raise Violation("kept", str(exc)) from exc
        for name, count in document.log.environment.counters.items():
            self.scheduler.counts.bump(name, count)

    def _open(self, process: Process) -> Document:
        while True:
            try:
                return Document(open_log(log_environment(process, self.settings), ORGANISATION, NAME))
            except Unavailable:
                process.clock.sleep(1)


class _Truth:
    """A model of the document's clients after each entry, in plain dictionaries."""

    def __init__(self) -> None:
        self.group_of: dict[str, str] = {}
        self.expired: set[str] = set()
        self.active_ms: dict[str, int] = {}
        self.applied: set[tuple[str, int]] = set()

    def add(self, entry: Entry, before_ms: int) -> None:
        event = entry.events[0]
        if event.type == COMMIT:
            self._commit(entry)
        if event.type == COLLECT:
            self._collect(event.data[0], event.data[1], before_ms)

    def rows(self) -> set[str]:
        """Return the keys of the rows that a state must have."""
        members = {f"\0m/{len(group)}/{group}/{client}" for client, group in self.group_of.items()}
        known = {key for client in self.group_of for key in (client, f"\0b/{client}")}
        return members | known | {f"\0g/{group}" for group in self.expired}

    def _commit(self, entry: Entry) -> None:
        mutations, _, bindings, *_ = entry.events[0].data
        self.group_of.update({client: group for client, group, _ in bindings})
        for client, id, *_ in mutations:
            group = self.group_of[client]
            if group in self.expired:
                raise Violation("collected", "a collected group still commits", client=client, version=entry.version)
            if (client, id) in self.applied and not client.startswith("visitor"):
                raise Violation("once", "a mutation was committed twice", client=client, id=id, version=entry.version)
            self.applied.add((client, id))
            self.active_ms[client] = entry.created_ms

    def _collect(self, clients: list[list[str]], groups: list[str], before_ms: int) -> None:
        active = {group for client, group in self.group_of.items() if self.active_ms[client] > before_ms}
        if early := active.intersection(groups) - self.expired:
            raise Violation("expired", "active groups were collected as expired", groups=early)
        self.expired |= set(groups)
        for client, _ in clients:
            self.group_of.pop(client, None)


def _push(client: str, id: int) -> Mutation:
    return Mutation(client=client, id=id, name="inc", args={"key": "count"})


def _append_anyhow(writer: Writer, decide: Callable[[State], Event | None], owner: str = "") -> tuple[Any, State]:
    """Decide by the state, but append even if another writer committed after the read of the state."""
    state = writer._states.fresh()
    event = decide(state)
    return (None if event is None else writer._log.append(event)), state


def _bury_nobody(idle: IdleClients) -> Event:
    """Remove the idle clients, but write no collected markers of their groups."""
    return Event(COLLECT, [sorted(idle.clients), []])


MUTANTS = (
    Mutant(
        "clients: collected by an outdated state",
        ClientsWorld,
        replaced(Writer, "append_decided", _append_anyhow),
        ("members", "expired", "owner"),
    ),
    Mutant(
        "clients: expired without marker",
        ClientsWorld,
        replaced(IdleClients, "event", _bury_nobody),
        ("once", "owner"),
    ),
    Mutant(
        "clients: expired while active",
        ClientsWorld,
        replaced(State, "client_version", lambda state, client: 1),
        ("expired",),
    ),
)
