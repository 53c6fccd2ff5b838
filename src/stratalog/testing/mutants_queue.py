"""Bugs planted in the queue path. Each must be caught by a checker of the world of the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stratalog.documents import Document
from stratalog.errors import Invalid, NotFound
from stratalog.ports.queue import Message
from stratalog.protocol.messages import Outcome
from stratalog.server import applying, settling
from stratalog.server.queued import Carried, Envelope
from stratalog.server.settling import Settler
from stratalog.server.worker import Worker
from stratalog.testing.mutants import Mutant, replaced
from stratalog.testing.world_queue import QueueWorld

__all__ = ["MUTANTS"]

_settle: Callable[[Worker, Message], None] = Worker._settle
_trial: Any = applying._Trial


def _acknowledge_first(self: Worker, message: Message) -> None:
    self._store.queue.acknowledge(message)
    _settle(self, message)


def _no_claim_stands(blobs: Any, envelope: Envelope) -> bool:
    """A message that says where its push lies is taken for settled, unread."""
    return envelope.claim is None


def _never_given_up(self: Any, place: int, one: Carried, tries: int) -> list[Outcome]:
    outcomes: list[Outcome] = self._try(one, tries)
    return outcomes


def _unmarked(self: Any, one: Carried, tries: int, receives: int) -> None:
    """No note says who was on trial."""


def _any_incarnation(self: Settler, envelope: Envelope) -> Document | None:
    try:
        return self._store.document(envelope.organisation, envelope.document)
    except (NotFound, Invalid):
        return None


def _ports_count(self: Worker, message: Message) -> None:
    """What a port raised is taken for the message's own fault."""
    try:
        _settle(self, message)
    except applying.TRANSIENT as exc:
        raise RuntimeError(str(exc)) from exc


MUTANTS = (
    Mutant(
        "queue: acknowledged before commit", QueueWorld, replaced(Worker, "_settle", _acknowledge_first), ("settled",)
    ),
    Mutant("queue: claim not read", QueueWorld, replaced(settling, "claim_stands", _no_claim_stands), ("settled",)),
    Mutant(
        "queue: rejection above the receive limit",
        QueueWorld,
        replaced(settling, "SUSPECT_RECEIVES", 11),
        ("moved aside", "progress"),
    ),
    Mutant(
        "queue: moved aside without rejection",
        QueueWorld,
        replaced(_trial, "_give_up", _never_given_up),
        ("moved aside", "progress"),
    ),
    Mutant("queue: suspect not noted", QueueWorld, replaced(_trial, "_mark", _unmarked), ("moved aside", "progress")),
    Mutant("queue: innocent given up", QueueWorld, replaced(applying, "TRIES_MAX", 0), ("innocent",)),
    Mutant("queue: errors of ports count", QueueWorld, replaced(Worker, "_settle", _ports_count), ("failure",)),
    Mutant(
        "queue: other incarnation applied",
        QueueWorld,
        replaced(Settler, "_document", _any_incarnation),
        ("failure", "heirs", "last"),
    ),
)
