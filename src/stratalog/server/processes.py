"""Processes: a supervisor that serves one listening socket by several processes.

Every process runs the same command and accepts from the same socket, so usually an idle process takes the next
connection. The supervisor restarts a process that has ended, and passes messages between the processes (`siblings.py`).
At a signal the supervisor ends all processes, and then itself. If the supervisor itself is killed, the processes read
the end of their streams, and end.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from stratalog.clock import Clock
from stratalog.limits import PROCESS_RESTART_SECONDS_MAX, PROCESS_RESTART_SECONDS_MIN, SIBLING_UNSENT_BYTES_MAX
from stratalog.server.handovers import Mailboxes, open_mailboxes
from stratalog.server.siblings import Ended, Siblings, Started
from stratalog.struct_types import resolved

__all__ = ["Membership", "Supervisor", "take_membership"]

VARIABLE = "STRATALOG_SERVER_PROCESS"
END_SECONDS = 15.0
"""The time that a process has to end after a signal, or after it has closed its stream.

A server finishes its requests within five seconds."""

READ_BYTES = 256 * 1024
REAP_SECONDS = 0.1
"""The interval between two checks whether a process that has closed its stream has ended."""

_log = logging.getLogger("stratalog.server")


class Membership(msgspec.Struct, frozen=True):
    """The descriptors of the sockets that a server process inherits, and the number of this process."""

    listening: int
    stream: int
    mailbox: int
    mailboxes: list[int]
    process: int

    def sockets(self) -> tuple[socket.socket, Siblings]:
        """Return the listening socket, and the connections to the other processes. No child process inherits them."""
        for descriptor in (self.listening, self.stream, self.mailbox, *self.mailboxes):
            os.set_inheritable(descriptor, False)
        receiving, *sending = (socket.socket(fileno=descriptor) for descriptor in (self.mailbox, *self.mailboxes))
        for each in (receiving, *sending):
            each.setblocking(False)
        stream = socket.socket(fileno=self.stream)
        siblings = Siblings(stream, self.process, len(sending), Mailboxes(receiving, sending))
        return socket.socket(fileno=self.listening), siblings


def take_membership() -> Membership | None:
    """Remove this process's membership from the environment and return it, or None if no supervisor started it."""
    text = os.environ.pop(VARIABLE, "")
    return msgspec.json.decode(text, type=resolved(Membership)) if text else None


class Supervisor:
    """Runs ``command`` in ``processes`` processes that accept from ``listening``. Closes ``listening`` at the end.

    The supervisor calls ``ready`` once, with the ids of the processes, when all processes have sent `Started`.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        listening: socket.socket,
        clock: Clock,
        ready: Callable[[Sequence[int]], None],
    ) -> None:
        self._command = list(command)
        self._listening = listening
        self._clock = clock
        self._ready = ready
        self._selector = selectors.DefaultSelector()
        # The supervisor keeps all mailboxes open, so that a restarted process has the mailbox of the process before.
        self._mailboxes = open_mailboxes(processes)
        self._members = [_Member(number) for number in range(processes)]
        self._is_ready = False
        self._signals = 0

    def run(self) -> int:
        """Serve until a signal, and return 0.

        If a process ends before the call of ``ready``, end all processes and return its status, or 1 if that is 0.
        """
        with ExitStack() as entered:
            entered.callback(self._selector.close)
            for mailbox in (*self._mailboxes[0].sending, *(each.receiving for each in self._mailboxes)):
                entered.enter_context(mailbox)
            entered.enter_context(self._woken_by_signals())
            try:
                for member in self._members:
                    self._start(member)
                return self._serve()
            finally:
                self._end_all()

    @contextmanager
    def _woken_by_signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT end `_serve`."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        before = {number: signal.signal(number, self._note_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self._selector.register(ours, selectors.EVENT_READ)
        try:
            yield
        finally:
            signal.set_wakeup_fd(descriptor)
            for number, handler in before.items():
                signal.signal(number, handler)
            ours.close()
            theirs.close()

    def _note_signal(self, number: int, frame: object) -> None:
        self._signals += 1

    def _serve(self) -> int:
        while not self._signals:
            for key, events in self._selector.select(self._seconds_to_next_step()):
                member = key.data
                if member is not None and member.stream is not None:
                    if events & selectors.EVENT_WRITE:
                        self._flush(member)
                    if events & selectors.EVENT_READ and not self._read(member):
                        self._close_stream(member)
            for member in self._members:
                if member.process is None:
                    if self._seconds_to_start(member) <= 0:
                        self._start(member)
                elif member.stream is None:
                    status = self._reap(member, member.process)
                    if status is not None and not self._is_ready:
                        return status or 1
        return 0

    def _start(self, member: _Member) -> None:
        ours, theirs = socket.socketpair()
        mailboxes = self._mailboxes[member.number]
        sending = [each.fileno() for each in mailboxes.sending]
        own = (self._listening.fileno(), theirs.fileno(), mailboxes.receiving.fileno())
        membership = Membership(*own, sending, member.number)
        variables = {**os.environ, VARIABLE: msgspec.json.encode(membership).decode()}
        with theirs:
            # Start the process in a new session. So Ctrl+C signals only the supervisor, which then ends the processes.
            member.process = subprocess.Popen(
                self._command, pass_fds=(*own, *sending), env=variables, start_new_session=True
            )
        ours.setblocking(False)
        member.begin(ours, self._clock.boot_ms())
        self._selector.register(ours, selectors.EVENT_READ, member)

    def _read(self, member: _Member) -> bool:
        """Pass the complete lines of a process on to the other processes. Return False at the end of its stream."""
        assert member.stream is not None
        try:
            data = member.stream.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        lines, newline, member.partial = (member.partial + data).rpartition(b"\n")
        if newline:
            if not member.is_started and msgspec.json.encode(Started(member.number)) in lines.split(b"\n"):
                self._note_start(member)
            self._pass_on(member, lines + newline)
        return True

    def _note_start(self, member: _Member) -> None:
        member.is_started = True
        if not self._is_ready and all(each.is_started for each in self._members):
            self._is_ready = True
            self._ready([each.process.pid for each in self._members if each.process is not None])

    def _pass_on(self, sender: _Member, lines: bytes) -> None:
        for member in self._members:
            if member is not sender and member.stream is not None:
                member.unsent += lines
                self._flush(member)

    def _flush(self, member: _Member) -> None:
        """Send the bytes that a process accepts now. Kill a process with too many unsent bytes, so that it restarts."""
        assert member.stream is not None
        with suppress(OSError):  # the stream is full, or the process has ended: the next read finds its end
            del member.unsent[: member.stream.send(member.unsent)]
        if len(member.unsent) > SIBLING_UNSENT_BYTES_MAX and member.process is not None:
            _log.error("process %d of the server takes no messages, and is killed", member.number)
            member.unsent.clear()
            member.process.kill()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if member.unsent else 0)
        self._selector.modify(member.stream, wanted, member)

    def _close_stream(self, member: _Member) -> None:
        """Report to the other processes that a process has closed its stream, and so serves no live connection."""
        assert member.stream is not None
        self._selector.unregister(member.stream)
        member.stream.close()
        member.stream, member.ended_ms = None, self._clock.boot_ms()
        self._pass_on(member, msgspec.json.encode(Ended(member.number)) + b"\n")

    def _reap(self, member: _Member, process: subprocess.Popen[bytes]) -> int | None:
        """Return the exit status of a process that has closed its stream, or None while the process runs.

        Kill the process if it still runs `END_SECONDS` after it closed its stream.
        """
        status = process.poll()
        now_ms = self._clock.boot_ms()
        if status is not None:
            _log.error("process %d of the server has ended with status %d", member.number, status)
            member.end(now_ms)
        elif now_ms - member.ended_ms > END_SECONDS * 1000:
            process.kill()
        return status

    def _seconds_to_next_step(self) -> float | None:
        """Return the seconds until a process must be started or may have ended, or None while all processes run."""
        pauses = [self._seconds_to_start(member) for member in self._members if member.process is None]
        ending = [REAP_SECONDS for member in self._members if member.process is not None and member.stream is None]
        return max(0.0, min(pauses + ending)) if pauses or ending else None

    def _seconds_to_start(self, member: _Member) -> float:
        return member.pause_seconds - (self._clock.boot_ms() - member.ended_ms) / 1000

    def _end_all(self) -> None:
        """End the processes: first by SIGTERM, and after `END_SECONDS` by SIGKILL."""
        # The processes close their descriptors of this socket too. Then the system refuses new connections.
        self._listening.close()
        running = [member.process for member in self._members if member.process is not None]
        for process in running:
            process.terminate()
        begun_ms = self._clock.boot_ms()
        for process in running:
            try:
                process.wait(max(0.1, END_SECONDS - (self._clock.boot_ms() - begun_ms) / 1000))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for member in self._members:
            if member.stream is not None:
                member.stream.close()


class _Member:
    """One process, or the pause before it starts again."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.stream: socket.socket | None = None
        self.partial = b""
        self.unsent = bytearray()
        self.is_started = False
        self.began_ms = self.ended_ms = 0.0
        self.pause_seconds = PROCESS_RESTART_SECONDS_MIN

    def begin(self, stream: socket.socket, now_ms: float) -> None:
        self.stream, self.partial, self.began_ms = stream, b"", now_ms
        self.unsent.clear()
        self.is_started = False

    def end(self, now_ms: float) -> None:
        ran_seconds = (now_ms - self.began_ms) / 1000
        is_early = ran_seconds < PROCESS_RESTART_SECONDS_MAX
        doubled = min(2 * self.pause_seconds, PROCESS_RESTART_SECONDS_MAX)
        self.pause_seconds = doubled if is_early else PROCESS_RESTART_SECONDS_MIN
        self.process, self.stream, self.ended_ms = None, None, now_ms
