"""Members of a session: clients of all kinds behind one interface, with a line that loses what it is told to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from stratalog.client import Client, HttpTransport
from stratalog.errors import StratalogError
from stratalog.protocol.draft import Draft
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Rejected
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.testing.clock import ManualClock
from tests.branches.servers import BranchServer
from tests.client.helpers import InProcess
from tests.client.session import unsynced
from tests.processes import ChildProcess

__all__ = ["FAULTS", "Member", "NodeMember", "PythonMember", "Report", "Token", "shown_tokens", "token_of", "tokens"]

Token = tuple[str, int]
FAULTS = ("unreached", "lost-request", "lost-answer", "twice", "late")
QUEUE_SECONDS = 31


class Failure(msgspec.Struct, frozen=True):
    """A failure as its client names it."""

    status: str
    args: Any


class Report(msgspec.Struct, frozen=True):
    """What a client shows, and says of its mutations. ``failures`` is None where it names none, as Replicache."""

    shown: dict[str, Any]
    pending: list[Any]
    failures: list[Failure] | None = None
    faults: list[str] = []
    """What must not be: a number lower than one before, a client state that was not found."""

    numbers: dict[str, int] = {}
    """The newest number of each client in an answer, other tabs of the group included: a group's tabs share them."""


class Member(Protocol):
    """A client of the document. ``server`` is the one that it uses."""

    name: str
    server: BranchServer

    def change(self, name: str, args: dict[str, Any]) -> bool:
        """Make a mutation; False where it was refused at once."""

    def sync(self, *faults: str) -> bool:
        """Push and pull. Whether nothing went wrong, as far as it knows."""

    def deliver_late(self) -> None:
        """Deliver the requests that were late to where they were sent."""

    def move(self, server: BranchServer) -> None:
        """Use another server from now on."""

    def restart(self) -> None:
        """End it, and open it again from what it keeps."""

    def pass_time(self) -> None:
        """Let so much time pass that what is queued is sent again."""

    def report(self) -> Report:
        """What it shows and says now."""

    def close(self) -> None:
        """Close it."""


def token_of(args: Any) -> Token | None:
    """What tells a mutation from all others; None for one that nobody asked for here."""
    value = args.get("item") or args.get("value") or args.get("merge")
    if isinstance(value, dict):
        value = value.get("by")
    return (value[0], int(value[1])) if isinstance(value, list | tuple) else None


def only_here(draft: Draft, args: Any) -> None:
    """A mutator that no server knows."""
    draft.put(args["key"], args["item"])


class PythonLine(InProcess):
    """Sends each request to the server of its member, over a real connection."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._ways = {url: HttpTransport(url)}
        self._way = self._ways[url]

    def use(self, url: str) -> None:
        """Send further requests there."""
        self._way = self._ways.get(url) or HttpTransport(url)
        self._ways[url] = self._way

    def push(self, request: Push) -> Pushed:
        way = self._way
        return self._deliver(lambda: way.push(request))

    def pull(self, request: Pull) -> Pulled:
        way = self._way
        return self._deliver(lambda: way.pull(request))

    def hang_up(self) -> None:
        """Close the connections; `close` is the client's, which is restarted now and then."""
        for way in self._ways.values():
            way.close()


class PythonMember:
    """The Python client, with a file."""

    def __init__(self, name: str, server: BranchServer, folder: Path, seed: int) -> None:
        self.name = name
        self.server = server
        self._path = folder / f"{name}.sqlite"
        self._clock = ManualClock(seed=seed)
        self._line = PythonLine(server.url)
        self._client = self._open()

    def change(self, name: str, args: dict[str, Any]) -> bool:
        with suppress(Rejected):
            self._client.mutate(name, args)
            return True
        return False

    def sync(self, *faults: str) -> bool:
        self._line.faults = list(faults)
        try:
            self._client.sync()
        except StratalogError:
            return False
        finally:
            self._line.faults = []
        return True

    def deliver_late(self) -> None:
        self._line.deliver_late()

    def move(self, server: BranchServer) -> None:
        self.server = server
        self._line.use(server.url)

    def restart(self) -> None:
        self._client.close()
        self._client = self._open()

    def pass_time(self) -> None:
        self._clock.sleep(QUEUE_SECONDS)

    def report(self) -> Report:
        failures = [Failure(one.status, one.args) for one in self._client.failures()]
        return Report(dict(self._client.scan()), [one.args for one in self._client.pending()], failures)

    def close(self) -> None:
        self._client.close()
        self._line.hang_up()

    def _open(self) -> Client:
        mutators = {**BUILT_IN_MUTATORS, "onlyHere": only_here}
        with unsynced():
            return Client(self._line, str(self._path), clock=self._clock, mutators=mutators)


class NodeMember:
    """A client that a Node process drives, asked by lines of JSON. ``group``: those of one name are one browser's."""

    def __init__(self, node: ChildProcess, kind: str, name: str, server: BranchServer, group: str) -> None:
        self.name = name
        self.server = server
        self._node = node
        self._ask("open", kind=kind, group=group, base=server.base, path=server.url.removeprefix(server.base))

    def change(self, name: str, args: dict[str, Any]) -> bool:
        return bool(self._ask("change", mutation=name, args=args))

    def sync(self, *faults: str) -> bool:
        return bool(self._ask("sync", faults=faults))

    def deliver_late(self) -> None:
        self._ask("deliverLate")

    def move(self, server: BranchServer) -> None:
        self.server = server
        self._ask("move", base=server.base)

    def restart(self) -> None:
        self._ask("restart")

    def pass_time(self) -> None:
        self._ask("passTime", seconds=QUEUE_SECONDS)

    def report(self) -> Report:
        return msgspec.convert(self._ask("report"), Report)

    def close(self) -> None:
        self._ask("close")

    def _ask(self, task: str, **more: Any) -> Any:
        self._node.write_line(json.dumps({"task": task, "member": self.name, **more}))
        answer = json.loads(self._node.read_line())
        assert "error" not in answer, answer["error"]
        return answer["result"]


def shown_tokens(shown: dict[str, Any]) -> set[Token]:
    """The tokens of all mutations whose effect is shown."""
    values: list[Any] = [{"item": item} for item in shown.get("list", [])]
    values += [{"value": value} for key, value in shown.items() if key != "list"]
    return {token for value in values if (token := token_of(value)) is not None}


def tokens(several: Sequence[Any]) -> set[Token]:
    """The tokens of mutations by their arguments."""
    return {token for args in several if (token := token_of(args)) is not None}
