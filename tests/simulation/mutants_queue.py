"""Bugs planted in the path through the queue. A checker of the world of the queue must catch each bug."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stratalog.documents import Document
from stratalog.errors import Invalid, NotFound
from stratalog.ports.queue import Message
from stratalog.protocol.messages import Outcome
from stratalog.worker import coalescing, execution, settlement
from stratalog.worker.coalescing import Opened
from stratalog.worker.messages import Carried, Envelope
from stratalog.worker.settlement import Settlement, Settler
from stratalog.worker.worker import Worker
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_queue import QueueWorld

__all__ = ["MUTANTS"]

_settle: Callable[[Worker, Sequence[Message]], int] = Worker._settle
_trial: Any = execution._Trial
_coalesce = coalescing.coalesce
_settle_coalesced: Callable[[Settler, Sequence[Opened]], list[Settlement]] = Settler._settle_coalesced


def _acknowledge_first(self: Worker, messages: Sequence[Message]) -> int:
    self._store.queue.acknowledge(messages[0])
    return _settle(self, messages)


def _claims_expire(blobs: Any, envelope: Envelope) -> bool:
    """Treat a message with a claim check as settled, without reading its push."""
    return envelope.claim_check is None


def _never_rejected(self: Any, position: int, carried: Carried, tries: int) -> list[Outcome]:
    outcomes: list[Outcome] = self._try(carried, tries)
    return outcomes


def _unmarked(self: Any, carried: Carried, tries: int, receives: int) -> None:
    """Write no attempt record, so that no record names the suspect mutation."""


def _any_incarnation(self: Settler, envelope: Envelope) -> Document | None:
    try:
        return self._store.document(envelope.organisation, envelope.document)
    except (NotFound, Invalid):
        return None


def _ports_count(self: Worker, messages: Sequence[Message]) -> int:
    """Treat an error of a port as a fault of the message."""
    try:
        return _settle(self, messages)
    except execution.TRANSIENT as exc:
        raise RuntimeError(str(exc)) from exc


def _backwards(blobs: Any, messages: Sequence[Message]) -> list[Opened]:
    """Coalesce the same messages as before, but apply them in reverse order."""
    return list(reversed(_coalesce(blobs, messages)))


def _any_numbers(reached: Any, mutations: Any) -> bool:
    """Coalesce pushes without a comparison of their mutations' numbers, even if numbers are missing in between."""
    return True


def _anybody(opened: Opened) -> str:
    """Coalesce the pushes of several devices and apply all of them as the first device."""
    return opened.envelope.incarnation


def _next_ones_outcomes(self: Settler, coalesced: Sequence[Opened]) -> list[Settlement]:
    settled = _settle_coalesced(self, coalesced)
    turned = [*settled[1:], settled[0]]
    return [
        Settlement(settlement.message, settlement.envelope, other.outcomes)
        for settlement, other in zip(settled, turned, strict=True)
    ]


def _outcomes_of_first(self: Settler, coalesced: Sequence[Opened]) -> list[Settlement]:
    """Apply only the first message, but count all messages as settled."""
    first = self.settle(coalesced[0].message)
    return [
        Settlement(opened.message, opened.envelope, first.outcomes if opened is coalesced[0] else ())
        for opened in coalesced
    ]


MUTANTS = (
    Mutant(
        "queue: acknowledged before commit", QueueWorld, replaced(Worker, "_settle", _acknowledge_first), ("settled",)
    ),
    Mutant(
        "queue: claim not read", QueueWorld, replaced(settlement, "claim_check_exists", _claims_expire), ("settled",)
    ),
    Mutant(
        "queue: rejection above the receive limit",
        QueueWorld,
        replaced(settlement, "SUSPECT_RECEIVES", 11),
        ("moved aside", "progress"),
    ),
    Mutant(
        "queue: moved aside without rejection",
        QueueWorld,
        replaced(_trial, "_reject_after_last_attempt", _never_rejected),
        ("moved aside", "progress"),
    ),
    Mutant(
        "queue: attempt record not written",
        QueueWorld,
        replaced(_trial, "_mark", _unmarked),
        ("moved aside", "progress"),
    ),
    Mutant(
        "queue: rejection without a letter",
        QueueWorld,
        replaced(execution, "write_rejection", lambda index, letter, rejection: None),
        ("letters",),
    ),
    Mutant("queue: innocent rejected", QueueWorld, replaced(execution, "MUTATION_TRIES_MAX", 0), ("innocent",)),
    Mutant(
        "queue: port errors counted as failures", QueueWorld, replaced(Worker, "_settle", _ports_count), ("failure",)
    ),
    Mutant(
        "queue: other incarnation applied",
        QueueWorld,
        replaced(Settler, "_document", _any_incarnation),
        ("failure", "heirs", "last"),
    ),
    Mutant(
        "queue: coalesced backwards", QueueWorld, replaced(settlement, "coalesce", _backwards), ("settled", "failure")
    ),
    Mutant(
        "queue: coalesced without a comparison of numbers",
        QueueWorld,
        replaced(coalescing, "_run_on", _any_numbers),
        ("settled",),
    ),
    Mutant(
        "queue: coalesced across devices",
        QueueWorld,
        replaced(coalescing, "_batch_key", _anybody),
        ("answers", "settled", "owner", "progress"),
    ),
    Mutant(
        "queue: outcome of another message",
        QueueWorld,
        replaced(Settler, "_settle_coalesced", _next_ones_outcomes),
        ("outcomes",),
    ),
    Mutant(
        "queue: one applied, all acknowledged",
        QueueWorld,
        replaced(Settler, "_settle_coalesced", _outcomes_of_first),
        ("settled",),
    ),
)
