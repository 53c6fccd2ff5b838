"""Client: a replica, and its synchronisation with a server."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from types import TracebackType
from typing import Any

from stratalog.client.background import Background
from stratalog.client.file import MEMORY
from stratalog.client.pending_mutation import PendingMutation
from stratalog.client.replica import Replica
from stratalog.client.sync_cycle import SyncCycle
from stratalog.client.transport import Transport
from stratalog.clock import Clock, SystemClock
from stratalog.errors import StratalogError
from stratalog.process_fork import is_inherited
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators

__all__ = ["Client"]


class Client(Replica):
    """One document, local first.

    The client shows and stores a change at once. A started client sends the change as soon as it can reach the server.

    ``path`` is a file for this client alone. Without a file, the client loses pending mutations when its process ends.
    ``mutators`` must be the server's mutators. ``document`` is the name of the document. The file stores the name, and
    the client refuses the file of another document.

    Raises Unavailable if another client has the file open or the file cannot be written, and Invalid for a file of
    another document or program. Raises Unsupported for a file of a newer Stratalog, and Corrupt for a damaged file.
    """

    def __init__(
        self,
        transport: Transport,
        path: str | PathLike[str] = MEMORY,
        *,
        mutators: Mutators = BUILT_IN_MUTATORS,
        clock: Clock | None = None,
        document: str = "",
    ) -> None:
        clock = clock or SystemClock()
        super().__init__(path, mutators, clock, document)
        self._transport = transport
        self._sync_cycle = SyncCycle(self, transport, clock)
        self._background = Background(self._sync_cycle.run, transport, clock)

    def mutate(self, name: str, args: Any = None) -> PendingMutation:
        """Run and store a mutation as `Replica.mutate` does. A started client soon sends the mutation."""
        handle = super().mutate(name, args)
        self._background.wake()
        return handle

    def undo(self, mutation: PendingMutation) -> Sequence[PendingMutation]:
        """Undo a mutation as `Replica.undo` does. A started client soon sends the new mutations."""
        try:
            return super().undo(mutation)
        finally:
            self._background.wake()

    def sync(self) -> None:
        """Run one sync cycle on this thread: push the pending mutations, then pull the changes.

        Raises the transport's errors, Corrupt for an answer that does not fit, and the errors of the file. The client
        keeps the answers that it received before the error, and another cycle may follow at any time. Raises Invalid if
        a subscriber calls this method on the thread of a running cycle.
        """
        self._sync_cycle.run()

    def start(self) -> Client:
        """Synchronise in the background from now on: after each mutation, at each poke, and once a minute.

        Raises Closed after `close`.
        """
        self._background.start()
        return self

    def stop(self) -> None:
        """Go offline: synchronise no more in the background, until `start` is called. Stopping twice is fine.

        The client still shows and stores changes, and `sync` still runs a sync cycle. The call waits at most two
        seconds for the end of a background cycle.
        """
        self._background.stop()

    @property
    def last_error(self) -> StratalogError | None:
        """The error of the last cycle in the background; None if the cycle succeeded, or if no cycle has ended yet."""
        return self._background.last_error

    def close(self) -> None:
        """Stop the background thread, and close the connections and the file. Closing twice is fine.

        Pending mutations stay in the file. The client waits at most two seconds for the end of a background cycle. If
        the cycle takes longer, its later answers are not stored, and the next client of the file requests them again.
        In a forked child, this method closes nothing, because the file and the connections belong to the parent.
        """
        if is_inherited(self._changed):
            return
        self._background.close()
        self._transport.close()
        self.close_file()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
