"""A session: clients of one document, their changes, the faults of their network, and the checks at the end.

Hypothesis and a seeded generator both choose from the steps of this module, so both check the same properties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stratalog.client import Client, PendingMutation, file
from stratalog.documents import Document
from stratalog.errors import StratalogError
from stratalog.protocol.mutators import Rejected
from stratalog.testing.clock import ManualClock
from tests.client.helpers import InProcess, new_document, opened_again

FAULTS = ("unreached", "lost-request", "lost-answer", "twice", "late", "stale")
CHANGES = ("put", "patch", "inc", "append", "del", "undo")
SERVERS = 2
ROUNDS_MAX = 100

Made = tuple[str, Any]


class Member:
    """One client of a session, and all mutations that it has made."""

    def __init__(self, path: Path, transport: InProcess, seed: int) -> None:
        self.path = path
        self.clock = ManualClock(seed=seed)
        self.transport = transport
        self.made: list[Made] = []
        self.handles: dict[int, PendingMutation] = {}
        self.lost_answers = 0
        self.client = self._open()

    def restart(self) -> None:
        """Close the client, and open it again from its file. Late requests from before the restart can still arrive."""
        self.client.close()
        self.client = self._open()
        self.handles |= {handle.sequence: handle for handle in self.client.pending()}

    def mutate(self, name: str, args: Any) -> None:
        """Make a mutation, unless the client rejects it immediately."""
        with suppress(Rejected):
            self._add_handle(self.client.mutate(name, args))

    def undo_last(self) -> None:
        """Undo the newest mutation, unless its keys have changed since."""
        if self.handles:
            with suppress(Rejected):
                for handle in self.client.undo(self.handles[max(self.handles)]):
                    self._add_handle(handle)

    def sync(self, *faults: str) -> bool:
        """Run one sync cycle with these faults, and return whether it succeeded."""
        self.transport.faults = list(faults)
        try:
            self.client.sync()
        except StratalogError:
            return False
        finally:
            self.transport.faults = []
        return True

    def lose_an_answer(self) -> None:
        """Make a mutation that the server commits, and lose the server's answer."""
        self.mutate("append", {"key": "list/lost", "item": len(self.made)})
        self.lost_answers += not self.sync("lost-answer")

    def _add_handle(self, handle: PendingMutation) -> None:
        self.made.append((handle.name, handle.args))
        self.handles[handle.sequence] = handle

    def _open(self) -> Client:
        with unsynced():
            return Client(self.transport, str(self.path), clock=self.clock)


class Session:
    """Clients of one document. Several servers have the document open at the same time.

    ``document`` opens the document as another process does. The session calls ``pause`` after each sync cycle that
    failed without an injected fault.
    """

    def __init__(
        self,
        folder: Path,
        transports: Sequence[InProcess],
        document: Callable[[], Document],
        seed: int = 0,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.document = document
        self._pause = pause
        self.members = [
            Member(folder / f"{number}.sqlite", transport, seed + number) for number, transport in enumerate(transports)
        ]

    def change(self, who: int, kind: str, number: int) -> None:
        """Have a client make a change of the kind ``kind`` to one of a few keys."""
        member, key = self.members[who], f"items/{number % 3}"
        if kind == "undo":
            member.undo_last()
            return
        unique = [who, len(member.made)]
        args = {
            "put": {"key": key, "value": {"by": unique}},
            "patch": {"key": key, "merge": {f"field{number % 2}": unique}},
            "inc": {"key": f"counts/{number % 2}", "by": number % 5 - 2},
            "append": {"key": "list/all", "item": unique},
            "del": {"key": key},
        }
        member.mutate(kind, args[kind])

    def reject_mutation(self, sure: int, late: int) -> None:
        """Have ``late`` make a mutation that is valid in its own state, but that the server rejects."""
        key = "clash"
        for who in (sure, late):
            self.settle(who)
        self.members[sure].mutate("put", {"key": key, "value": "text"})
        self.settle(sure)
        self.members[late].mutate("inc", {"key": key})
        self.settle(late)

    def conflict(self, first: int, second: int) -> None:
        """Have two clients change the same key before either receives the other's change."""
        for who in (first, second):
            self.members[who].mutate("put", {"key": "duel", "value": who})

    def settle(self, who: int) -> None:
        """Run sync cycles without faults until the client has nothing pending."""
        for _ in range(ROUNDS_MAX):
            if not self.members[who].sync():
                self._pause()
            elif not self.members[who].client.pending():
                return
        raise AssertionError(f"client {who} did not settle: {ROUNDS_MAX} sync cycles failed, or left mutations pending")

    def forget(self, who: int) -> None:
        """Have the server collect the client, and leave a collected marker of its group."""
        with self.members[who].client.held() as local:
            client, group = local.client, local.group
        self.document().collect_clients([client], [group])

    def finish(self) -> None:
        """Deliver all late requests, settle all clients, and check their states and outcomes."""
        self._let_arrive()
        for member in self.members:
            self._check_outcomes(member)

    def finish_with_forgotten(self) -> None:
        """Deliver all late requests, settle all clients, and check that each append is applied at most once."""
        self._let_arrive()
        appended = [made[1]["item"] for _, _, made, _ in self.committed()]
        for member in self.members:
            _check_at_most_once(member, appended)

    def close(self) -> None:
        """Close the clients."""
        for member in self.members:
            member.client.close()

    def committed(self) -> Iterator[tuple[str, int, Made, str | None]]:
        """Yield (client, id, (name, arguments), reason if rejected) of every mutation in the log, in order."""
        for version in self.document().versions():
            for mutation in version.mutations:
                yield mutation.client, mutation.id, (mutation.name, mutation.args), mutation.reason

    def _let_arrive(self) -> None:
        for member in self.members:
            member.transport.deliver_late()
        for who in [*range(len(self.members))] * 2:
            self.settle(who)
        self._check_states()

    def _check_states(self) -> None:
        document = self.document()
        truth, digest = document.at().to_dict(), document.at().content_digest()
        for member in self.members:
            shown = dict(member.client.scan())
            assert shown == truth
            assert digest_of(shown) == digest

    def _check_outcomes(self, member: Member) -> None:
        """Assert that the log has the client's mutations once and in order, with the outcomes that the client knows."""
        with member.client.held() as local:
            client = local.client
        outcomes = [(id, made, reason) for owner, id, made, reason in self.committed() if owner == client]
        assert [id for id, _, _ in outcomes] == [*range(1, len(member.made) + 1)]
        assert [made for _, made, _ in outcomes] == member.made
        rejected = {position: reason for position, (_, _, reason) in enumerate(outcomes, 1) if reason is not None}
        assert {failure.sequence: failure.reason for failure in member.client.failures()} == rejected
        for sequence, handle in member.handles.items():
            if handle.settled:
                assert (handle.status, handle.reason) == _outcome(rejected.get(sequence))


def session_in_process(folder: Path, clients: int, seed: int = 0) -> Session:
    """Return a session that calls its servers as functions."""
    servers = [new_document()]
    servers += [opened_again(servers[0]) for _ in range(SERVERS - 1)]
    return Session(folder, [InProcess(*servers) for _ in range(clients)], lambda: opened_again(servers[0]), seed)


def digest_of(content: dict[str, Any]) -> str:
    """Return the content digest of a document with exactly this content."""
    document = new_document()
    for key, value in content.items():
        document.mutate("put", {"key": key, "value": value})
    return document.at().content_digest()


@contextmanager
def unsynced() -> Iterator[None]:
    """Open the clients' files without fsync. Sessions have no power failures, and run ten times as fast without fsync.

    The setting ends with the block.
    """
    usual, file.SYNCHRONOUS = file.SYNCHRONOUS, "off"
    try:
        yield
    finally:
        file.SYNCHRONOUS = usual


def _check_at_most_once(member: Member, appended: Sequence[Any]) -> None:
    """Assert that the log has the client's items in order, each at most once.

    Only an item whose outcome is unknown to the client may be absent.
    """
    unknown = [failure.args["item"] for failure in member.client.failures()]
    made = [args["item"] for _, args in member.made]
    mine = [item for item in appended if item in made]
    assert {failure.status for failure in member.client.failures()} <= {"unknown"}
    assert mine == [item for item in made if item in mine]
    assert [item for item in made if item not in unknown] == [item for item in mine if item not in unknown]


def _outcome(reason: str | None) -> tuple[str, str | None]:
    return ("applied", None) if reason is None else ("rejected", reason)
