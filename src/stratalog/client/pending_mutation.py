"""PendingMutation: the handle of one mutation, with its status."""

from __future__ import annotations

import threading
from typing import Any

from stratalog.client.local import SettledMutation
from stratalog.codec import decode
from stratalog.process_fork import close_in_child
from stratalog.protocol.rebase import Effect, Intent

__all__ = ["PendingMutation"]


class PendingMutation:
    """The handle of one mutation of this client.

    ``status`` is "pending", then possibly "queued" (a worker will apply the mutation), and finally one of

    - "applied": the mutation is part of the document, and the client has pulled a state that includes it;
    - "rejected": the mutation has no effect, for the reason in ``reason``;
    - "unknown": the mutation may have been applied; see `MutationFailure`.

    An "applied" mutation becomes "lost" if the server goes back to a history without it, as after a restore.
    """

    def __init__(self, sequence: int, intent: Intent, changed: threading.Condition) -> None:
        self.sequence = sequence
        self.intent = intent
        self.effect: Effect = Effect()
        self.status: str = "pending"
        self.reason: str | None = None
        self.undone_by: list[PendingMutation] = []
        """The mutations of this process that were made to undo this one."""

        self._changed = changed
        close_in_child(self, "_changed")
        self._abandoned = False

    @property
    def name(self) -> str:
        """The name of the mutation's mutator."""
        return self.intent.name

    @property
    def args(self) -> Any:
        """A copy of the mutation's arguments."""
        return decode(self.intent.args)

    @property
    def settled(self) -> bool:
        """Whether the status is final; only "applied" may still become "lost"."""
        return self.status not in ("pending", "queued")

    @property
    def is_undone(self) -> bool:
        """Whether an undo reverts the mutation. An undo that is rejected, lost or itself undone does not."""
        # No recursion: a user may undo and redo hundreds of times.
        handles = [self]
        for handle in handles:  # the list grows during the loop
            handles += handle.undone_by
        undone: dict[PendingMutation, bool] = {}
        for handle in reversed(handles):
            valid = (undo for undo in handle.undone_by if undo.status not in ("rejected", "lost"))
            undone[handle] = not all(undone[undo] for undo in valid)
        return undone[self]

    @property
    def predicted_rejection(self) -> str | None:
        """The reason if the mutation's last run on this client was rejected or failed, or None.

        The server decides independently.
        """
        return self.effect.reason

    def wait(self, timeout_seconds: float | None = None) -> str:
        """Wait until the status is final, the timeout is over or the client is closed, and return the status.

        The status changes only in sync cycles, so the client must be started, or another thread must call
        `Client.sync`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.settled or self._abandoned, timeout_seconds)
        return self.status

    def settle(self, settled: SettledMutation) -> None:
        """Set the final status. The client calls this method under its lock."""
        self.status, self.reason = settled.status, settled.reason

    def abandon(self) -> None:
        """End all waits, since the client is closed. The client calls this method under its lock."""
        self._abandoned = True

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.name} {self.status}{reason}>"
