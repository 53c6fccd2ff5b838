"""Interpretation of the server's answer to a push, by pure functions. `formats/sync.md` has the rules."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stratalog.codec import decode
from stratalog.errors import Corrupt
from stratalog.limits import INTEGER_MAX
from stratalog.protocol.messages import Mutation, Outcome, Status
from stratalog.protocol.rebase import Intent
from stratalog.protocol.sync import Pushed

__all__ = ["COMMITTED", "NEVER", "OPEN", "REFUSED", "PushDecision", "Waiting", "interpret_push"]

REFUSALS = frozenset({"collected", "wrong-group"})
UNKNOWN = "unknown-client"
COMMITTED = frozenset({"applied", "rejected", "seen"})
NEVER = 0
REFUSED = 1
OPEN = 2


class Waiting(msgspec.Struct, frozen=True):
    """A pending mutation as stored in the local file.

    ``sequence`` is the mutation's number in this file, and never changes. ``id`` is its number under the current client
    id.
    """

    sequence: int
    id: int
    name: str
    args: bytes
    sent: int = 0
    """`NEVER` before the first push under ``id``; `REFUSED` if certainly no push committed it; else `OPEN`."""

    answer: str = ""
    """The answer to the mutation's push: "queued" or one of `COMMITTED`. Empty if no valid answer is stored."""

    reason: str | None = None
    """The reason, if the answer is a rejection."""

    @property
    def intent(self) -> Intent:
        """The mutation without its client and numbers."""
        return Intent(self.name, self.args)

    def mutation(self, client: str) -> Mutation:
        """Return the mutation as a push of ``client`` sends it."""
        return Mutation(client=client, id=self.id, name=self.name, args=decode(self.args))


class PushDecision(msgspec.Struct, frozen=True):
    """The next steps after a push. At most one of ``resend_from``, ``is_behind`` and ``reset`` is set."""

    queued: bool = False
    committed: list[tuple[int, Status, str | None]] = []
    """(sequence, status of `COMMITTED`, reason of a rejection) of each committed mutation."""

    resend_from: int | None = None
    """The server has no mutation of this client with this id or a later id.

    The client sends these mutations again, also those that were answered.
    """

    is_behind: bool = False
    """The server has fewer mutations than it had confirmed, as after a restore.

    Or the server is another server, or the document is a new document under the name of a deleted document. The client
    pulls, and pushes again. After a restore, the pull makes the server raise the client's last number to the number
    that the server had confirmed. If the next answer is the same, the client continues as after `reset`.
    """

    reset: bool = False
    """The client must continue under another id.

    The server refuses the client or its group, or has another payload under the number of a mutation.
    """

    uncommitted: frozenset[int] | range = frozenset()
    """With `reset` or `is_behind`: the sequences of mutations that certainly are not and never will be committed under
    their ids."""


def interpret_push(client: str, batch: Sequence[Waiting], pushed: Pushed, first: Waiting) -> PushDecision:
    """Return the decision that follows from ``pushed``, the answer to ``batch``.

    ``first`` is the oldest pending mutation. Raises Corrupt for an answer that does not fit the batch.
    """
    if pushed.queued:
        return PushDecision(queued=True)
    _check_fits(client, batch, pushed.outcomes)
    pairs = list(zip(batch, pushed.outcomes, strict=True))
    committed = [
        (waiting.sequence, outcome.status, outcome.reason) for waiting, outcome in pairs if outcome.status in COMMITTED
    ]
    if any(outcome.status in REFUSALS or outcome.status == "mismatch" for _, outcome in pairs):
        return PushDecision(committed=committed, reset=True, uncommitted=_uncommitted(pairs))
    if any(outcome.status == UNKNOWN for _, outcome in pairs):
        return PushDecision(committed=committed, is_behind=True, uncommitted=_uncommitted(pairs))
    gap = next((outcome for _, outcome in pairs if outcome.status == "gap"), None)
    if gap is None:
        return PushDecision(committed=committed)
    if gap.expected is None or gap.expected >= gap.id:
        raise Corrupt("a gap must expect a number below its id", id=gap.id, expected=gap.expected)
    if gap.expected < first.id:
        return PushDecision(is_behind=True, uncommitted=range(first.sequence, INTEGER_MAX))
    return PushDecision(committed=committed, resend_from=gap.expected)


def _uncommitted(pairs: Sequence[tuple[Waiting, Outcome]]) -> frozenset[int]:
    """Return the sequences of the mutations that are certainly not committed.

    A mutation with a mismatch is not committed, because its number has another payload. A refused mutation is certainly
    not committed only if no earlier push of the mutation is in doubt.
    """
    return frozenset(
        waiting.sequence
        for waiting, outcome in pairs
        if outcome.status == "mismatch" or (outcome.status in {*REFUSALS, UNKNOWN} and waiting.sent != OPEN)
    )


def _check_fits(client: str, batch: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
    if [(client, waiting.id) for waiting in batch] != [(outcome.client, outcome.id) for outcome in outcomes]:
        raise Corrupt("the response to a push names other mutations", sent=len(batch), answered=len(outcomes))
