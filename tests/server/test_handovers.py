"""A connection moves to the preferred process of a contended document, or stays, never both. Time is simulated."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from stratalog.clock import SystemClock
from stratalog.limits import HANDOVER_BYTES_MAX, HANDOVER_PAUSE_SECONDS, HANDOVER_SECONDS_MAX
from stratalog.server.acceptor import Acceptor
from stratalog.server.application import ServerLimits
from stratalog.server.connections import HttpProtocol, OpenConnections, WebSocketProtocol
from stratalog.server.handovers import Adopt, Handovers, document_of_push, open_mailboxes, preferred_process
from stratalog.server.metrics import Metrics
from stratalog.server.shares import Allocation
from stratalog.store import open_store
from tests.server.jumping_loop import run_jumping

HEAD = b"POST /v1/organisations/acme/documents/%s/push HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n"
LARGE_BYTES = 50_000  # less than uvicorn buffers before it pauses
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


def document_of(process: int) -> bytes:
    """Return the name of a document whose preferred process is ``process``, of the processes 0 and 1."""
    return next(b"d%d" % number for number in range(100) if preferred_process("acme", f"d{number}", {0, 1}) == process)


class Process:
    """One of two server processes. A response has the number of the process and the size of the request's body."""

    def __init__(self, number: int, mailboxes: Any, entered: ExitStack) -> None:
        self.number = number
        self.entered = entered
        self.running = {0, 1}
        self.contended = True
        self.asked = 0
        self.body_began = asyncio.Event()
        self.metrics = Metrics(open_store("memory:").environment)
        self.connections = OpenConnections(ServerLimits(), 2, self.metrics, SystemClock())
        config = uvicorn.Config(self.app, interface="asgi3", ws=WebSocketProtocol, lifespan="off", log_config=None)
        config.load()
        self.handovers = Handovers(number, self.running, mailboxes, lambda *_: self.contended, self.metrics)

        def protocol(allocation: Allocation, received: bytes) -> HttpProtocol:
            return HttpProtocol(
                self.connections,
                allocation,
                received,
                self.handovers,
                config=config,
                server_state=ServerState(),
                app_state={},
            )

        listening = entered.enter_context(socket.socket())
        self.acceptor = Acceptor(listening, protocol, self.connections, self.metrics)
        self.protocol = protocol

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message.get("more_body", False)
            self.body_began.set()
        answer = b"%d:%d" % (self.number, len(body)) if scope["path"] != "/large" else b"a" * LARGE_BYTES
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]}
        )
        await send({"type": "http.response.body", "body": answer})

    async def accept(self) -> Caller:
        """Accept a connection, and return its caller."""
        served, caller = socket.socketpair()
        self.entered.enter_context(caller)
        served.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system's minimum
        caller.setblocking(False)
        allocation = self.connections.budget.take()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self.protocol(allocation, b""), served)
        return Caller(caller)

    def take_offers(self, adopt: Adopt | None = None) -> None:
        self.handovers.receive(adopt or self.acceptor.adopt)
        self.entered.callback(self.handovers.close)

    @property
    def outcomes(self) -> dict[str, float]:
        samples = [sample for family in self.metrics.registry.collect() for sample in family.samples]
        return {
            sample.labels["outcome"]: sample.value for sample in samples if sample.name == "stratalog_handovers_total"
        }


class Caller:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    async def ask(self, head: bytes, body: bytes = b"") -> str:
        """Send a request, and return the body of the response: the process, and the size of the request's body."""
        await asyncio.get_running_loop().sock_sendall(self.connection, head + body)
        return await self.answer()

    async def answer(self) -> str:
        answer = b""
        while not answer.partition(b"\r\n\r\n")[2]:
            answer += await asyncio.get_running_loop().sock_recv(self.connection, 65536) or b"\r\n\r\nclosed"
        return answer.partition(b"\r\n\r\n")[2].decode()

    async def push(self, process: int) -> str:
        """Push to a document whose preferred process is ``process``."""
        return await self.ask(HEAD % document_of(process), b"{}")


Story = Callable[[Process, Process], Awaitable[None]]


def tell(story: Story, *, receiving: bool = True) -> None:
    """Run a story of two processes. With ``receiving``, the second process takes offers."""

    async def tell_handler() -> None:
        boxes = open_mailboxes(2)
        with ExitStack() as entered:
            for each in (*boxes[0].sending, *(box.receiving for box in boxes)):
                each.setblocking(False)
                entered.enter_context(closing(each))
            first, second = (Process(number, box, entered) for number, box in enumerate(boxes))
            if receiving:
                second.take_offers()
            await story(first, second)
            for process in (first, second):
                for connection in list(process.connections._open):
                    connection.abort()
            await asyncio.sleep(0.001)
            assert [process.connections.budget.used for process in (first, second)] == [0, 0]

    run_jumping(tell_handler())


@pytest.mark.parametrize(
    ("received", "document"),
    [
        (b"POST /v1/organisations/acme/documents/plan/push HTTP/1.1\r\n", ("acme", "plan")),
        (b"POST /v1/organisations/acme/documents/plan/push?a=b HTTP/1.1\r\n", ("acme", "plan")),
        (b"POST /v1/organisations/acme/documents/plan/replicache/push HTTP/1.1\r\n", ("acme", "plan")),
        (b"POST /v1/organisations/a%20b/documents/%C3%A9%2Fb/push HTTP/1.1\r\n", ("a b", "\u00e9/b")),
        (b"POST /v1/organisations/acme/documents/plan/pull HTTP/1.1\r\n", None),
        (b"POST /v1/organisations/acme/documents/plan/pushes HTTP/1.1\r\n", None),
        (b"GET /v1/organisations/acme/documents/plan/push HTTP/1.1\r\n", None),
        (b"POST /v1/organisations/acme/documents/plan/pu", None),
    ],
)
def test_the_head_of_a_push_names_its_document(received: bytes, document: tuple[str, str] | None) -> None:
    assert document_of_push(received) == document


def test_documents_spread_over_the_processes_and_move_only_if_their_process_ends() -> None:
    names = [f"plan-{number}" for number in range(400)]
    before = {name: preferred_process("acme", name, {0, 1, 2, 3}) for name in names}
    assert min(Counter(before.values()).values()) > 60
    after = {name: preferred_process("acme", name, {0, 1, 3}) for name in names}
    assert {name for name in names if after[name] != before[name]} == {name for name in names if before[name] == 2}


def test_a_push_to_a_contended_document_moves_with_its_connection() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        assert await caller.push(1) == "1:2"
        # The connection stays there, for this document and for other requests.
        assert [await caller.push(1), await caller.ask(GET)] == ["1:2", "1:0"]
        assert (first.asked, second.asked, first.outcomes) == (0, 3, {"moved": 1})
        assert (first.connections.budget.used, second.connections.budget.used) == (0, 1)

    tell(story)


def test_a_connection_moves_between_two_requests() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        assert [await caller.ask(GET), await caller.push(0), await caller.push(1)] == ["0:0", "0:2", "1:2"]

    tell(story)


def test_only_pushes_to_contended_documents_move() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        first.contended = False
        assert await caller.push(1) == "0:2"
        first.contended = True
        first.running.discard(1)
        assert await caller.push(1) == "0:2"
        assert first.outcomes == {}

    tell(story)


def test_the_rest_of_a_body_follows_the_head() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        head = HEAD.replace(b"2\r\n\r\n", b"6\r\n\r\n") % document_of(1)
        await asyncio.get_running_loop().sock_sendall(caller.connection, head + b"one")
        await second.body_began.wait()
        assert await caller.ask(b"two") == "1:6"

    tell(story)


def test_a_request_in_two_pieces_is_not_torn() -> None:
    """The second piece looks like the head of a push. It is the body of the first request."""

    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        body = HEAD % document_of(1)
        head = b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (len(body) + 1)
        await asyncio.get_running_loop().sock_sendall(caller.connection, head + b"a")
        await first.body_began.wait()
        assert await caller.ask(body) == f"0:{len(body) + 1}"

    tell(story)


def test_a_process_that_does_not_answer_in_time_gets_no_offers_for_a_while() -> None:
    async def story(first: Process, second: Process) -> None:
        loop, caller = asyncio.get_running_loop(), await first.accept()
        assert await caller.push(1) == "0:2"
        assert HANDOVER_SECONDS_MAX <= loop.time() < 2 * HANDOVER_SECONDS_MAX
        assert await caller.push(1) == "0:2"
        assert first.outcomes == {"late": 1}
        second.take_offers()
        await asyncio.sleep(HANDOVER_PAUSE_SECONDS)
        # The second process finds the first offer without its token, and closes its copy.
        assert await (await first.accept()).push(1) == "1:2"
        assert (first.asked, second.asked) == (2, 1)

    tell(story, receiving=False)


def test_bytes_that_arrive_during_an_offer_follow_the_bytes_before() -> None:
    async def story(first: Process, second: Process) -> None:
        loop, caller = asyncio.get_running_loop(), await first.accept()
        await loop.sock_sendall(caller.connection, HEAD.replace(b"2\r\n\r\n", b"6\r\n\r\n") % document_of(1) + b"one")
        await asyncio.sleep(HANDOVER_SECONDS_MAX / 2)
        assert await caller.ask(b"two") == "0:6"

    tell(story, receiving=False)


def test_a_connection_does_not_end_as_idle_during_an_offer() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        assert await caller.ask(GET) == "0:0"
        await asyncio.sleep(5 - HANDOVER_SECONDS_MAX / 2)
        assert await caller.push(1) == "0:2"

    tell(story, receiving=False)


def test_a_connection_whose_next_request_is_unread_does_not_end_as_idle() -> None:
    async def story(first: Process, second: Process) -> None:
        loop, caller = asyncio.get_running_loop(), await first.accept()
        assert await caller.ask(GET) == "0:0"
        (connection,) = first.connections._open
        connection.pause_reading()
        await loop.sock_sendall(caller.connection, GET)
        await asyncio.sleep(12)
        connection.resume_reading()
        assert await caller.answer() == "0:0"
        await asyncio.sleep(6)
        assert await loop.sock_recv(caller.connection, 1) == b""

    tell(story)


def test_a_connection_with_an_unsent_response_stays() -> None:
    async def story(first: Process, second: Process) -> None:
        loop, caller = asyncio.get_running_loop(), await first.accept()
        await loop.sock_sendall(caller.connection, GET.replace(b"/", b"/large", 1))
        await asyncio.sleep(0.01)
        await loop.sock_sendall(caller.connection, HEAD % document_of(1) + b"{}")
        received = b""
        while not received.endswith(b"0:2"):
            piece = await loop.sock_recv(caller.connection, 65536)
            assert piece, received[-100:]
            received += piece
        assert received.count(b"a" * LARGE_BYTES) == 1

    tell(story)


def test_processes_that_disagree_move_a_connection_once() -> None:
    async def story(first: Process, second: Process) -> None:
        first.take_offers()
        second.running.discard(1)
        caller = await first.accept()
        assert await caller.push(1) == "1:2"
        assert second.outcomes == {}

    tell(story)


def test_a_connection_that_was_taken_back_ends_although_a_copy_is_left() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        assert await caller.ask(HEAD.replace(b"Host", b"Connection: close\r\nHost") % document_of(1), b"{}") == "0:2"
        assert await asyncio.get_running_loop().sock_recv(caller.connection, 1) == b""

    tell(story, receiving=False)


def test_a_process_at_its_limit_of_connections_refuses_an_offer() -> None:
    async def story(first: Process, second: Process) -> None:
        allocations = [second.connections.budget.take() for _ in range(2)]
        caller = await first.accept()
        assert await caller.push(1) == "0:2"
        assert first.outcomes == {"refused": 1}
        for allocation in allocations:
            allocation.release()
        assert await caller.push(1) == "1:2"

    tell(story)


def test_no_process_runs_a_push_after_the_process_that_took_its_connection_ends() -> None:
    """The other process took the token and ended before its answer, so it may have run the push."""

    async def story(first: Process, second: Process) -> None:
        def take_and_end(connection: socket.socket, received: bytes, claim: Callable[[], bool]) -> None:
            assert claim()
            connection.close()
            raise SystemError

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        second.take_offers(take_and_end)
        caller = await first.accept()
        assert await caller.push(1) == "closed"
        assert first.asked == 0

    tell(story, receiving=False)


def test_a_connection_that_is_dropped_during_its_offer_is_served_by_no_process() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        await asyncio.get_running_loop().sock_sendall(caller.connection, HEAD % document_of(1) + b"{}")
        await asyncio.sleep(HANDOVER_SECONDS_MAX / 2)
        (connection,) = first.connections._open
        connection.abort()
        await asyncio.sleep(0)
        second.take_offers()
        assert await caller.answer() == "closed"
        await asyncio.sleep(HANDOVER_SECONDS_MAX)
        assert (first.asked, second.asked) == (0, 0)

    tell(story, receiving=False)


def test_a_push_too_large_for_an_offer_stays() -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        large = (
            HEAD.replace(b"2\r\n\r\n", b"%d\r\n\r\n" % HANDOVER_BYTES_MAX) % document_of(1) + b"a" * HANDOVER_BYTES_MAX
        )
        (connection,) = first.connections._open
        protocol: Any = connection._transport.get_protocol()
        # A socket pair may deliver the bytes in pieces, so give all of them to the protocol in one call.
        protocol.data_received(large)
        assert await caller.answer() == f"0:{HANDOVER_BYTES_MAX}"
        assert first.outcomes == {}

    tell(story)


def test_a_full_mailbox_delays_no_push() -> None:
    async def story(first: Process, second: Process) -> None:
        sending = first.handovers._mailboxes.sending[1]
        with suppress(BlockingIOError):
            while True:
                sending.send(b"a" * 4096)
        caller = await first.accept()
        assert await caller.push(1) == "0:2"
        assert (first.outcomes, asyncio.get_running_loop().time()) == ({"unsent": 1}, 0)

    tell(story, receiving=False)


def test_a_process_that_may_open_no_files_runs_the_push_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(first: Process, second: Process) -> None:
        caller = await first.accept()
        monkeypatch.setattr("stratalog.server.handovers.socket.socketpair", exhausted)
        assert await caller.push(1) == "0:2"
        assert first.outcomes == {"unsent": 1}

    def exhausted() -> Any:
        raise OSError(24, "Too many open files")

    tell(story)
