"""Handovers: a connection moves to another process of the server before a push to a contended document.

Any process can apply any push. But if several processes write to one document, they lose races to each other, and each
of them reads the entries of the others. So each document has a preferred process, by rendezvous hashing over the
running processes. If a document is contended, its pushes move there. The process that receives the head of a push
offers the connection's socket to the preferred process, together with the bytes that it has read. The offering process
has not interpreted these bytes. So only one process authenticates, counts and runs the request.

The preferred process is a hint. If it does not take the connection in time, the offering process runs the push itself.
A token decides which process serves the connection: both processes may read the token, and the system gives the token
to one of them. So a process that is stopped, slow or dead can neither delay a request for long nor cause a second run.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import unquote

from stratalog.limits import HANDOVER_BYTES_MAX, HANDOVER_PAUSE_SECONDS, HANDOVER_SECONDS_MAX
from stratalog.server.metrics import Metrics

__all__ = ["Adopt", "Handovers", "Mailboxes", "Offer", "document_of_push", "open_mailboxes", "preferred_process"]

TOKEN = b"t"
DECIDED = b"d"
DESCRIPTORS = 2
"""The number of descriptors in an offer: the connection's socket, and the end of a socket pair that has the token."""

Adopt = Callable[[socket.socket, bytes, Callable[[], bool]], None]
"""Serves an offered connection, or closes this process's copy of the connection.

The function gets the connection, the bytes that were read from it, and a function that takes the token. It serves the
connection only if the latter returns true."""

_PUSH = re.compile(rb"POST /v1/organisations/([^/? ]+)/documents/([^/? ]+)/(?:replicache/)?push[? ]")


class Mailboxes(NamedTuple):
    """The mailbox of one process, and one sending socket for the mailbox of each process."""

    receiving: socket.socket
    sending: Sequence[socket.socket]


def open_mailboxes(processes: int) -> list[Mailboxes]:
    """Return the mailboxes of each process."""
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(processes)]
    sending = [pair[0] for pair in pairs]
    return [Mailboxes(receiving, sending) for _, receiving in pairs]


def document_of_push(received: bytes) -> tuple[str, str] | None:
    """Return the organisation and name of the document if ``received`` begins with the head of a push, else None."""
    match = _PUSH.match(received)
    return None if match is None else (unquote(match[1].decode("latin-1")), unquote(match[2].decode("latin-1")))


def preferred_process(organisation: str, name: str, running: Collection[int]) -> int:
    """Return the running process that is preferred for the document.

    If a process ends, only the documents for which it was preferred get another preferred process.
    """
    return max(running, key=lambda process: blake2b(f"{process} {organisation}/{name}".encode()).digest())


class Offer:
    """An open offer of a connection. ``decided`` is called when the other process has answered or is late."""

    def __init__(self, ours: socket.socket, theirs: socket.socket, decided: Callable[[Offer], None]) -> None:
        self.is_late = False
        """Whether the other process has not answered in time."""

        self.is_moved = False
        """Whether the other process serves the connection. Known when the offer has ended."""

        self._ours = ours
        self._theirs = theirs
        self._decided = decided
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(ours, self._decide)
        self._deadline = self._loop.call_later(HANDOVER_SECONDS_MAX, self._expire)

    def end(self) -> None:
        """Withdraw the offer, unless the other process has taken the connection already. Does not call ``decided``."""
        self._loop.remove_reader(self._ours)
        self._deadline.cancel()
        # The answer only says when to look. The token alone decides: the other process may have taken it and ended.
        self.is_moved = not _take_token(self._theirs)
        self._ours.close()
        self._theirs.close()

    def _expire(self) -> None:
        self.is_late = True
        self._decide()

    def _decide(self) -> None:
        self.end()
        self._decided(self)


class Handovers:
    """Offers connections to other processes, and takes connections that other processes offer.

    Used from the event loop. ``running`` has the numbers of the running processes, and changes with them.
    ``is_contended`` tells whether another process wrote to a document recently. A document with one writer needs no
    handover: it would cost more than it saves.
    """

    def __init__(
        self,
        process: int,
        running: Collection[int],
        mailboxes: Mailboxes,
        is_contended: Callable[[str, str], bool],
        metrics: Metrics,
    ) -> None:
        self._process = process
        self._running = running
        self._mailboxes = mailboxes
        self._is_contended = is_contended
        self._outcomes = metrics.handovers
        self._paused_until = [0.0] * len(mailboxes.sending)

    def receive(self, adopt: Adopt) -> None:
        """Call ``adopt`` for each offered connection, until `close`."""
        asyncio.get_running_loop().add_reader(self._mailboxes.receiving, self._take, adopt)

    def close(self) -> None:
        """Take no more offers."""
        asyncio.get_running_loop().remove_reader(self._mailboxes.receiving)

    def offer(self, received: bytes, descriptor: int, decided: Callable[[bool], None]) -> Offer | None:
        """Offer a connection from which ``received`` was read, if its next request should run in another process.

        Return None if this process should run the request, or if the offer cannot be sent. Otherwise call ``decided``
        later with whether the connection has moved, unless `Offer.end` is called first.
        """
        document = document_of_push(received)
        if document is None or len(received) > HANDOVER_BYTES_MAX or not self._is_contended(*document):
            return None
        process = preferred_process(*document, self._running)
        if process == self._process or asyncio.get_running_loop().time() < self._paused_until[process]:
            return None
        try:
            with ExitStack() as opened:
                ours, theirs = map(opened.enter_context, socket.socketpair())
                ours.setblocking(False)
                theirs.setblocking(False)
                ours.send(TOKEN)
                socket.send_fds(self._mailboxes.sending[process], [received], [descriptor, theirs.fileno()])
                opened.pop_all()
        except OSError:
            # The mailbox is full, the message is too large for the system, or the process may open no more files.
            self._outcomes.labels("unsent").inc()
            return None
        return Offer(ours, theirs, partial(self._finish, process, decided))

    def _finish(self, process: int, decided: Callable[[bool], None], offer: Offer) -> None:
        outcome = "moved" if offer.is_moved else "late" if offer.is_late else "refused"
        if outcome == "late":
            self._paused_until[process] = asyncio.get_running_loop().time() + HANDOVER_PAUSE_SECONDS
        self._outcomes.labels(outcome).inc()
        decided(offer.is_moved)

    def _take(self, adopt: Adopt) -> None:
        """Take one offer from the mailbox, and answer it."""
        try:
            received, descriptors, *_ = socket.recv_fds(self._mailboxes.receiving, HANDOVER_BYTES_MAX, DESCRIPTORS)
        except OSError:
            return
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        for each in sockets:
            each.set_inheritable(False)
            each.setblocking(False)
        if len(sockets) < DESCRIPTORS:
            # This process may open no more files. It cannot answer, so the other process gets the connection back.
            for each in sockets:
                each.close()
            return
        connection, theirs = sockets
        with theirs:
            adopt(connection, received, partial(_take_token, theirs))
            # Answer after the token was taken or left, because the other process looks for the token now.
            with suppress(OSError):
                theirs.send(DECIDED)


def _take_token(theirs: socket.socket) -> bool:
    """Take the token of an offer. Return False if the other process has taken the token before."""
    try:
        return theirs.recv(1) == TOKEN
    except OSError:
        return False
