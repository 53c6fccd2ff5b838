"""Client: a replica and the server it synchronises with."""

from __future__ import annotations

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
    """One document, local first: a change shows at once, is stored, and is sent once the server can be reached.

    ``path`` is a file for this client alone; without a file, pending mutations are lost with the process. ``mutators``
    must be the server's. ``document`` is the name of the document. The file stores the name, so that the file is never
    used for another document.

    Raises Unavailable where another client has the file open, Invalid for a file of another document or program,
    Unsupported for a file of a newer Stratalog, Corrupt for a damaged one.
    """

    def __init__(
        self,
        transport: Transport,
        path: str = MEMORY,
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
        """Run and store a mutation as `Replica.mutate` does. A started client sends it soon."""
        handle = super().mutate(name, args)
        self._background.wake()
        return handle

    def sync(self) -> None:
        """Run one sync cycle on this thread: push the pending mutations, then pull the changes.

        Raises the transport's errors. The client keeps the answers that it received before the error, and another cycle
        may follow at any time. Raises Invalid where a subscriber calls this method during a sync cycle.
        """
        self._sync_cycle.run()

    def start(self) -> Client:
        """Synchronise in the background from now on: after each mutation, at each poke, and once a minute."""
        self._background.start()
        return self

    @property
    def last_error(self) -> StratalogError | None:
        """The error of the last cycle in the background; None if it succeeded."""
        return self._background.last_error

    def close(self) -> None:
        """Stop the background thread, and close the connections and the file. Closing twice is fine.

        Pending mutations stay in the file. If a background cycle does not end within two seconds, the client does not
        wait for it; the next client of the file gets the answers again. In a forked child nothing is closed: file and
        connections are the parent's.
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
