"""What the server's answer to a push means for each mutation of it. Pure decisions; `formats/sync.md` has the rules."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stratalog.errors import Corrupt
from stratalog.limits import INTEGER_MAX
from stratalog.protocol.messages import Outcome, Status
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
    """A pending mutation as the local file has it.

    ``sequence`` is its place in this file, for good; ``id`` its number within the present client.
    """

    sequence: int
    id: int
    name: str
    args: bytes
    sent: int = 0
    """`NEVER`; `REFUSED` where each answer to a push that held it said that nothing was written; else `OPEN`."""

    answer: str = ""
    """What a push was told: "queued", or one of `COMMITTED`; empty where nothing yet, or nothing that still holds."""

    reason: str | None = None
    """Why it was rejected, where a push was told so."""

    @property
    def intent(self) -> Intent:
        """What is to be done, whoever does it."""
        return Intent(self.name, self.args)


class PushDecision(msgspec.Struct, frozen=True):
    """What to do next. At most one of ``resend_from``, ``is_behind`` and ``reset`` is set."""

    queued: bool = False
    committed: list[tuple[int, Status, str | None]] = []
    """Sequence, which of `COMMITTED`, and the reason of a rejection."""

    resend_from: int | None = None
    """The server has nothing from this id on: send from there, whatever was answered before."""

    is_behind: bool = False
    """The server has less than it had confirmed, as after a restore, or is another: pull, and push again. The pull
    raises the server's numbers. Where it is told so again nonetheless: `reset`.
    """

    reset: bool = False
    """The server will never again take a mutation of this client: go on as another."""

    uncommitted: frozenset[int] | range = frozenset()
    """With `reset` or `is_behind`: the sequences that certainly are not and will not be committed under these ids."""


def interpret_push(client: str, batch: Sequence[Waiting], pushed: Pushed, first: Waiting) -> PushDecision:
    """What ``pushed`` says about ``batch``; ``first`` is the oldest mutation still pending. Raises Corrupt."""
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
        raise Corrupt("a gap does not say what came before it", id=gap.id, expected=gap.expected)
    if gap.expected < first.id:
        return PushDecision(is_behind=True, uncommitted=range(first.sequence, INTEGER_MAX))
    return PushDecision(committed=committed, resend_from=gap.expected)


def _uncommitted(pairs: Sequence[tuple[Waiting, Outcome]]) -> frozenset[int]:
    """A number that holds another payload was never this mutation's; a refusal proves it only for one sent once."""
    return frozenset(
        waiting.sequence
        for waiting, outcome in pairs
        if outcome.status == "mismatch" or (outcome.status in {*REFUSALS, UNKNOWN} and waiting.sent != OPEN)
    )


def _check_fits(client: str, batch: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
    if [(client, waiting.id) for waiting in batch] != [(outcome.client, outcome.id) for outcome in outcomes]:
        raise Corrupt("the answer to a push names other mutations", sent=len(batch), answered=len(outcomes))
