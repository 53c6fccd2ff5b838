"""Mutators that fail: `broken` always raises an exception, and `short` sometimes runs out of memory."""

from __future__ import annotations

from typing import Any

from stratalog.documents import Rules
from stratalog.documents.rejections import read_rejection
from stratalog.keys import REJECTED_PARTITION
from stratalog.protocol import BUILT_IN_MUTATORS, Draft
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Scheduler
from tests.simulation.clusters import Cluster
from tests.simulation.documents_truth import Truth

__all__ = ["RULES", "check_letters", "faulty_rules"]

SHORTAGE = 0.3
SHORT = "counts/short"


def copy(draft: Draft, args: Any) -> None:
    """``{of, to}``: put the value of the key ``of`` under the key ``to``.

    A copy of a large value shares the value's blob.
    """
    draft.put(args["to"], draft.get(args["of"]))


def broken(draft: Draft, args: Any) -> None:
    """Raise an unexpected exception, as a faulty application does."""
    raise ZeroDivisionError(str(args))


def short(draft: Draft, args: Any) -> None:
    """Change the document. `faulty_rules` replaces this mutator by a mutator that sometimes raises MemoryError."""
    draft.put(SHORT, draft.get(SHORT, 0) + args["by"])


RULES = Rules(mutators={**BUILT_IN_MUTATORS, "copy": copy, "broken": broken, "short": short})


def faulty_rules(scheduler: Scheduler) -> Rules:
    """Return `RULES` with a mutator ``short`` that sometimes raises MemoryError."""

    def short_of_memory(draft: Draft, args: Any) -> None:
        if scheduler.random.random() < SHORTAGE:
            scheduler.counts.bump("shortages")
            raise MemoryError
        short(draft, args)

    return Rules(mutators={**RULES.mutators, "short": short_of_memory})


def check_letters(cluster: Cluster, incarnation: str, truth: Truth) -> None:
    """Check that each faulty mutation has a dead letter with its reason, and no other mutation has a dead letter."""
    letters = {
        (letter.client, letter.id): letter
        for letter in map(read_rejection, cluster.index.query(REJECTED_PARTITION))
        if letter.incarnation == incarnation
    }
    for (client, id), (version, recorded) in truth.committed.items():
        letter = letters.get((client, id))
        if (letter is not None) != (recorded.name == "broken"):
            text = (
                "a mutation without a fault has a dead letter"
                if letter
                else "a mutation with a fault has no dead letter"
            )
            raise Violation("letters", text, client=client, id=id, version=version, reason=recorded.reason)
        if letter is not None and letter.reason != recorded.reason:
            raise Violation(
                "letters",
                "a dead letter has another reason than its mutation",
                client=client,
                id=id,
                reason=recorded.reason,
            )
