"""Client: a replica and the server it keeps in step with."""

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
    """One document, local first: changes show at once and are kept, and the server hears of them when it can.

    ``path`` is a file for this client alone; without one, what is pending is lost with the process. ``mutators`` are
    the server's. ``document`` names what the file holds, so that it is never used for another.
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
        """As `Replica.mutate`; once started, the server is told soon."""
        handle = super().mutate(name, args)
        self._background.wake()
        return handle

    def sync(self) -> None:
        """Push what is pending, pull what is new: one sync cycle, on this thread.

        Raises what the transport raises. Whatever was learnt until then is kept; another cycle may follow at any time.
        """
        self._sync_cycle.run()

    def start(self) -> Client:
        """Keep in step in the background from now on: after each change, at each poke, and now and then."""
        self._background.start()
        return self

    @property
    def last_error(self) -> StratalogError | None:
        """Why the last cycle in the background failed; None where it did not."""
        return self._background.last_error

    def close(self) -> None:
        """Stop, and let go of the file. What is pending stays in it. Closing twice is fine.

        A cycle that does not end soon is left to itself; what it may still learn is learnt again by the next client.
        In a forked child nothing is closed: file and connections are the parent's.
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
