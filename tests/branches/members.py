"""The members of a session: clients of all kinds with one interface. The connection of each member injects faults."""

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
    """A failed mutation, as its client reports it."""

    status: str
    args: Any


class Report(msgspec.Struct, frozen=True):
    """The state and the reports of a client. ``failures`` is None for Replicache, which reports no failures."""

    shown: dict[str, Any]
    pending: list[Any]
    failures: list[Failure] | None = None
    faults: list[str] = []
    """Violations by the server: a lower mutation number than before, or an answer that the client's state is lost."""

    numbers: dict[str, int] = {}
    """The newest mutation number of each client in any answer. An answer has the numbers of all tabs of the group."""


class Member(Protocol):
    """A client of the document. The client uses ``server``."""

    name: str
    server: BranchServer

    def change(self, name: str, args: dict[str, Any]) -> bool:
        """Make a mutation. Return False if the client rejects it immediately."""

    def sync(self, *faults: str) -> bool:
        """Push and pull. Return whether the client saw no error."""

    def deliver_late(self) -> None:
        """Deliver the delayed requests to the servers to which the client sent them."""

    def move(self, server: BranchServer) -> None:
        """Use ``server`` from now on."""

    def restart(self) -> None:
        """Close the client, and open it again from its stored state."""

    def pass_time(self) -> None:
        """Let enough time pass that the client sends queued pushes again."""

    def report(self) -> Report:
        """Return the present state and reports of the client."""

    def close(self) -> None:
        """Close the client."""


def token_of(args: Any) -> Token | None:
    """Return the token that identifies a mutation by its arguments, or None for a mutation that no member made."""
    value = args.get("item") or args.get("value") or args.get("merge")
    if isinstance(value, dict):
        value = value.get("by")
    return (value[0], int(value[1])) if isinstance(value, list | tuple) else None


def only_here(draft: Draft, args: Any) -> None:
    """Put a value. No server has this mutator."""
    draft.put(args["key"], args["item"])


class PythonLine(InProcess):
    """Sends each request to the member's current server, over a real connection."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._ways = {url: HttpTransport(url)}
        self._way = self._ways[url]

    def use(self, url: str) -> None:
        """Send later requests to ``url``."""
        self._way = self._ways.get(url) or HttpTransport(url)
        self._ways[url] = self._way

    def push(self, request: Push) -> Pushed:
        way = self._way
        return self._deliver(lambda: way.push(request))

    def pull(self, request: Pull) -> Pulled:
        way = self._way
        return self._deliver(lambda: way.pull(request))

    def hang_up(self) -> None:
        """Close the connections. `close` leaves the connections open, since clients call `close` at each restart."""
        for way in self._ways.values():
            way.close()


class PythonMember:
    """The Python client, with its state in a file."""

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
        failures = [Failure(mutation.status, mutation.args) for mutation in self._client.failures()]
        return Report(dict(self._client.scan()), [mutation.args for mutation in self._client.pending()], failures)

    def close(self) -> None:
        self._client.close()
        self._line.hang_up()

    def _open(self) -> Client:
        mutators = {**BUILT_IN_MUTATORS, "onlyHere": only_here}
        with unsynced():
            return Client(self._line, str(self._path), clock=self._clock, mutators=mutators)


class NodeMember:
    """A client in a Node process, controlled by lines of JSON. Members with the same ``group`` share a browser."""

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
    """Return the tokens of all mutations whose effects a client shows."""
    values: list[Any] = [{"item": item} for item in shown.get("list", [])]
    values += [{"value": value} for key, value in shown.items() if key != "list"]
    return {token for value in values if (token := token_of(value)) is not None}


def tokens(several: Sequence[Any]) -> set[Token]:
    """Return the tokens of the mutations with these arguments."""
    return {token for args in several if (token := token_of(args)) is not None}
