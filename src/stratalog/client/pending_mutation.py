"""Pending: the handle of one mutation, through which its maker learns what became of it."""

from __future__ import annotations

import threading
from typing import Any

from stratalog.client.local import SettledMutation
from stratalog.codec import decode
from stratalog.process_fork import close_in_child
from stratalog.protocol.rebase import Effect, Intent

__all__ = ["PendingMutation"]


class PendingMutation:
    """One mutation of this client.

    ``status`` is "pending", then perhaps "queued" (a worker will apply it), and in the end for good

    - "applied": it is part of the document, and the document's state with it is shown;
    - "rejected": it is recorded without effect, for ``reason``;
    - "unknown": it may have been applied, and nobody can say; see `Client.failures`.

    After "applied" comes "lost" where the server goes back to a history without it, as after a restore.
    """

    def __init__(self, sequence: int, intent: Intent, changed: threading.Condition) -> None:
        self.sequence = sequence
        self.intent = intent
        self.effect = Effect()
        self.status = "pending"
        self.reason: str | None = None
        self._changed = changed
        close_in_child(self, "_changed")
        self._abandoned = False

    @property
    def name(self) -> str:
        """Its mutator."""
        return self.intent.name

    @property
    def args(self) -> Any:
        """Its arguments."""
        return decode(self.intent.args)

    @property
    def settled(self) -> bool:
        """Whether the status is final."""
        return self.status not in ("pending", "queued")

    @property
    def predicted_rejection(self) -> str | None:
        """Why it has no effect on what was last shown; None if it has one. The server has the last word."""
        return self.effect.reason

    def wait(self, timeout_seconds: float | None = None) -> str:
        """The status once it is final, the time is up, or the client is closed. Needs a client that was started."""
        with self._changed:
            self._changed.wait_for(lambda: self.settled or self._abandoned, timeout_seconds)
        return self.status

    def settle(self, settled: SettledMutation) -> None:
        """For its client, which holds the lock."""
        self.status, self.reason = settled.status, settled.reason

    def abandon(self) -> None:
        """For its client, which closes: nothing more will become of it here."""
        self._abandoned = True

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.name} {self.status}{reason}>"
