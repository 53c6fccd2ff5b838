"""Devices: the minimum state of a synchronised client, and a record of the server's answers.

The simulation compares these answers with the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.documents.commits import read_commit
from stratalog.protocol import Mutation, Outcome
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Pull, Pulled, Push, Pushed, Rejection
from stratalog.testing.checkers import Violation
from tests.simulation.documents_truth import Reported, Truth, check_reports

__all__ = ["Device", "Sighting", "check_heirs", "check_owners"]

TABS = 2
FINAL = ("applied", "rejected", "seen")


class Sighting(msgspec.Struct, frozen=True):
    """A state that a device reached by a pull: its version, its content, and the last ids of its clients."""

    origin: str
    version: int
    content: Mapping[str, bytes]
    last: Mapping[str, int]
    clients: tuple[str, ...]


class Device:
    """A group of clients with one state: content, cookie, last ids, and the mutations that no pull has confirmed.

    A device outlives every process. `reload` drops only the answers that the device has not read.
    """

    def __init__(self, name: str, document: str, random: Random) -> None:
        self.name = name
        self.document = document
        self.owner = _owner(name)
        self.cookie: Cookie | None = None
        self.content: dict[str, bytes] = {}
        self.pending: list[Mutation] = []
        self.sightings: list[Sighting] = []
        self.outcomes: list[tuple[str, Outcome]] = []
        self.rejections: list[tuple[str, Rejection]] = []
        self.groups: dict[str, str] = {}
        """The group of every client that the device ever used."""

        self.inbox: list[tuple[Push | Pull, Any]] = []
        self.life = 0
        self._random = random
        self._begin()

    def mutate(self, name: str, args: Any) -> None:
        """Add a pending mutation of a random client of the device."""
        client = self._random.choice(self.clients)
        self.pending.append(Mutation(client=client, id=self._next(client), name=name, args=args))

    def push(self, first: int = 0) -> Push:
        """Return a push of the pending mutations from index ``first`` on."""
        return Push(self.group, self.pending[first:], self.cookie.origin if self.cookie else "")

    def pull(self) -> Pull:
        """Return a pull of the changes since the cookie."""
        return Pull(self.group, self.cookie)

    def learn(self, request: Push, pushed: Pushed) -> None:
        """Record the outcomes of a push, and begin again after the outcome `collected`.

        The other outcomes leave the pending mutations unchanged, because only a pull confirms mutations.
        """
        self.outcomes += [(request.origin, outcome) for outcome in pushed.outcomes]
        statuses = {outcome.status for outcome in pushed.outcomes if outcome.client in self.clients}
        if "wrong-group" in statuses or "mismatch" in statuses:
            raise Violation(
                "answers", "a device's push was treated as a push of another client", device=self.name, answer=pushed
            )
        if "collected" in statuses:
            self.begin_again()

    def take(self, request: Pull, pulled: Pulled) -> bool:
        """Apply the answer to a pull. Return False if the device's cookie or group has changed since the request."""
        if request != self.pull():
            return False
        self._check_order(pulled.cookie)
        if pulled.cookie == self.cookie:
            return True
        moved = self.cookie is not None and pulled.cookie.origin != self.cookie.origin
        self.cookie = pulled.cookie
        if moved:
            self.begin_again()
        self._apply(pulled)
        self.rejections += [(pulled.cookie.origin, rejection) for rejection in pulled.rejected]
        self.pending = [mutation for mutation in self.pending if mutation.id > self.last.get(mutation.client, 0)]
        self._see()
        return True

    def begin_again(self) -> None:
        """Continue as a new group with the same content and cookie. Renumber the pending mutations."""
        waiting = self.pending
        self._begin()
        for mutation in waiting:
            self.mutate(mutation.name, mutation.args)

    def reload(self) -> None:
        """Drop the answers that the device has not read."""
        self.inbox.clear()

    def check(self, truths: Mapping[str, Truth]) -> None:
        """Check the device's states, outcomes and rejections against the log of each document."""
        for seen in self.sightings:
            _check_sighting(seen, truths[seen.origin])
        for origin, report in self.rejections:
            _check_rejection(report, truths[origin])
        for origin, truth in truths.items():
            check_reports(
                (_reported(report) for sent, report in self.outcomes if sent == origin and report.status in FINAL),
                truth,
            )

    def _begin(self) -> None:
        self.life += 1
        self.group = f"{self.name}/{self.life}"
        self.clients = tuple(f"{self.group}/{tab}" for tab in range(TABS))
        self.groups.update(dict.fromkeys(self.clients, self.group))
        self.last: dict[str, int] = {}
        self.pending = []

    def _next(self, client: str) -> int:
        """Return the client's next number: one above its newest pending or confirmed mutation."""
        ids = [mutation.id for mutation in self.pending if mutation.client == client]
        return max([*ids, self.last.get(client, 0)]) + 1

    def _check_order(self, cookie: Cookie) -> None:
        if self.cookie is not None and cookie.order <= self.cookie.order and cookie != self.cookie:
            raise Violation(
                "order",
                "a new cookie's order is not above the order of the previous cookie",
                before=self.cookie,
                after=cookie,
            )

    def _apply(self, pulled: Pulled) -> None:
        for operation in pulled.patch:
            if isinstance(operation, Clear):
                self.content = {}
            elif isinstance(operation, DeleteKey):
                self.content.pop(operation.key, None)
            else:
                self.content[operation.key] = encode(operation.value)
        is_full = bool(pulled.patch) and isinstance(pulled.patch[0], Clear)
        for client, id in pulled.last.items():
            if id < self.last.get(client, 0) + (not is_full):
                raise Violation(
                    "last",
                    "a client's reported last id is not above its previous last id",
                    client=client,
                    id=id,
                    before=self.last,
                )
        self.last = dict(pulled.last) if is_full else {**self.last, **pulled.last}

    def _see(self) -> None:
        assert self.cookie is not None
        last = {client: id for client, id in self.last.items() if id}
        seen = Sighting(self.cookie.origin, self.cookie.version, dict(self.content), last, self.clients)
        self.sightings.append(seen)


def check_heirs(truths: Sequence[Truth]) -> None:
    """Check that no client committed in two incarnations.

    A mutation for one incarnation must reach no other incarnation.
    """
    met: set[str] = set()
    for truth in truths:
        clients = {client for client, _ in truth.committed}
        if met & clients:
            raise Violation("heirs", "a client committed in two incarnations", clients=sorted(met & clients))
        met |= clients


def check_owners(truth: Truth, groups: Mapping[str, str]) -> None:
    """Check that every client is bound to its device's group and owner."""
    for entry in truth.entries.values():
        for client, group, owner in read_commit(entry).bindings:
            if groups.get(client) != group or owner != _owner(group.partition("/")[0]):
                raise Violation("owner", "a client has a wrong group or owner", client=client, group=group, owner=owner)


def _check_sighting(seen: Sighting, truth: Truth) -> None:
    """Check that the content and last ids in a sighting equal the log's content and last ids at the same version."""
    there = truth.states[seen.version]
    if seen.content != there:
        keys = sorted(key for key in seen.content.keys() | there.keys() if seen.content.get(key) != there.get(key))
        raise Violation(
            "state", "a device's content differs from the log's content at its version", version=seen.version, keys=keys
        )
    reached = _last_ids(truth, seen.version)
    own = {client: reached[client] for client in seen.clients if client in reached}
    if seen.last != own:
        raise Violation(
            "last",
            "a device's last ids differ from the log's last ids at its version",
            version=seen.version,
            seen=seen.last,
            logged=own,
        )


def _check_rejection(rejection: Rejection, truth: Truth) -> None:
    _, recorded = truth.committed.get((rejection.client, rejection.id), (0, None))
    if recorded is None or recorded.reason != rejection.reason:
        raise Violation("rejected", "the log does not contain a reported rejection", rejection=rejection)


def _last_ids(truth: Truth, version: int) -> dict[str, int]:
    """Return the number of each client's newest mutation at a version."""
    commits = (read_commit(entry) for number, entry in truth.entries.items() if number <= version)
    return {mutation.client: mutation.id for commit in commits for mutation in commit.mutations}


def _reported(outcome: Outcome) -> Reported:
    return Reported(outcome.client, outcome.id, outcome.status, outcome.version, outcome.reason)


def _owner(device: str) -> str:
    return f"owner-of-{device}"
