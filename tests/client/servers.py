"""Several server processes on one store folder. A thread kills and restarts these processes while clients use them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import stratalog
from stratalog.client import HttpTransport
from stratalog.documents import Document
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.testing.emulators import reserved_ports
from tests.client.helpers import InProcess
from tests.processes import COMMAND_LINE, ChildProcess, ProcessFailure, start
from tests.threads import join_all, start_all

ORGANISATION = "acme"
ALIVE_SECONDS = (0.5, 2.0)


class Server:
    """One ``stratalog serve`` process. Its port stays reserved after a kill, so that the next process can use it."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._reservation = ExitStack()
        (self.port,) = self._reservation.enter_context(reserved_ports(1))
        self._process = self._launch()
        self.await_ready()

    def kill(self) -> None:
        """Kill the process. Raises ProcessFailure if the process had already ended by itself."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process if it still runs, and release the port."""
        self._process.close()
        self._reservation.close()

    @property
    def has_ended(self) -> bool:
        """True if the process ended, by itself or after `kill`."""
        return self._process.status is not None

    def describe(self) -> str:
        """Describe the process: its command, whether it runs or how it ended, and the end of its stderr."""
        return self._process.describe()

    def launch(self) -> None:
        """Start the process again. Do not wait until it serves."""
        self._process = self._launch()

    def await_ready(self) -> None:
        """Wait until the process serves. Raises ProcessFailure if it ends instead."""
        assert f":{self.port} " in self._process.read_line()

    def _launch(self) -> ChildProcess:
        return start([*COMMAND_LINE, "--store", str(self._store), "serve", "--port", str(self.port)])


class Servers:
    """Several server processes, and the store that they share."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self.all = [Server(folder) for _ in range(count)]
        self.kills = 0
        self._ending = threading.Event()

    @contextmanager
    def killed_now_and_then(self, chance: random.Random) -> Iterator[None]:
        """Until the end of the block, kill a random server now and then, and start it again.

        At its end, the block raises ProcessFailure if a server ended by itself.
        """
        killer = start_all([partial(self._kill_repeatedly, chance)])
        try:
            yield
        finally:
            self._ending.set()
            join_all(killer)
        ended = [server.describe() for server in self.all if server.has_ended]
        if ended:
            raise ProcessFailure("\n".join(ended))

    def create(self, name: str) -> None:
        """Create a document in the store."""
        with stratalog.open(self._folder) as store:
            store.create(ORGANISATION, name)

    @contextmanager
    def document(self, name: str) -> Iterator[Document]:
        """Open the document in this process, and yield it."""
        with stratalog.open(self._folder) as store:
            yield store.document(ORGANISATION, name)

    def urls(self, name: str) -> list[str]:
        """Return the document's URL at each server."""
        return [
            f"http://127.0.0.1:{server.port}/v1/organisations/{ORGANISATION}/documents/{name}" for server in self.all
        ]

    def close(self) -> None:
        """Kill the servers, and release their ports."""
        for server in self.all:
            server.close()

    def describe(self) -> str:
        """Describe each server process."""
        return "\n".join(server.describe() for server in self.all)

    def _kill_repeatedly(self, chance: random.Random) -> None:
        while not self._ending.wait(chance.uniform(*ALIVE_SECONDS)):
            server = chance.choice(self.all)
            server.kill()
            self.kills += 1
            server.launch()
            server.await_ready()


class OverSockets(InProcess):
    """A transport that sends each request to a random server, over a real connection."""

    def __init__(self, urls: Sequence[str], chance: random.Random) -> None:
        super().__init__()
        self._ways = [HttpTransport(url) for url in urls]
        self._chance = chance

    def serve_push(self, request: Push) -> Pushed:
        return self._chance.choice(self._ways).push(request)

    def serve_pull(self, request: Pull) -> Pulled:
        return self._chance.choice(self._ways).pull(request)

    def hang_up(self) -> None:
        """Close the connections. `close` keeps the connections open, because a client calls `close` at each restart."""
        for way in self._ways:
            way.close()
