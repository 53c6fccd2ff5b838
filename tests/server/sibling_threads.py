"""Siblings, the processes of one server, as threads of this process. Each thread has its own event loop.

A relay forwards the lines of each sibling to the other siblings, as the supervisor does.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from stratalog.server.siblings import Siblings
from tests.threads import join_all, start_all

__all__ = ["sibling_threads"]


@contextmanager
def sibling_threads(processes: int) -> Iterator[list[Siblings]]:
    """Run the siblings of ``processes`` processes until the end of the block."""
    with ExitStack() as entered:
        pairs = [socket.socketpair() for _ in range(processes)]
        ours = [entered.enter_context(pair[0]) for pair in pairs]
        siblings = [Siblings(pair[1], number, processes) for number, pair in enumerate(pairs)]
        running = [_Running(each) for each in siblings]
        relays = start_all([lambda stream=stream: _relay(stream, ours) for stream in ours])
        threads = start_all([each.run for each in running])
        try:
            for each in running:
                each.started.wait()
            yield siblings
        finally:
            for each in running:
                each.end()
            join_all(threads)
            join_all(relays)


class _Running:
    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self.started = threading.Event()

    def run(self) -> None:
        with suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._run())
        self._loop.close()

    async def _run(self) -> None:
        self._task = asyncio.create_task(self._siblings.run())
        self._loop.call_soon(self.started.set)
        await self._task

    def end(self) -> None:
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)


def _relay(stream: socket.socket, streams: list[socket.socket]) -> None:
    """Forward every line of one process to the other processes, until the stream of the process ends."""
    with suppress(OSError), stream.makefile("rb") as lines:
        for line in lines:
            for other in streams:
                if other is not stream:
                    with suppress(OSError):  # the other process has ended
                        other.sendall(line)
