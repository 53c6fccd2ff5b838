"""Several server processes on one store folder, which are killed and started again while clients use them."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import stratalog
from stratalog.client import HttpTransport
from stratalog.documents import Document
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from stratalog.testing.emulators import reserved_ports
from tests.client.helpers import InProcess
from tests.processes import COMMAND_LINE, ChildProcess, start

ORGANISATION = "acme"
ALIVE_SECONDS = (0.5, 2.0)


class Server:
    """One ``stratalog serve``. It keeps its port while it is down, so it has it when it is started again."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._reservation = ExitStack()
        (self.port,) = self._reservation.enter_context(reserved_ports(1))
        self._process = self._launch()
        self.await_ready()

    def kill(self) -> None:
        """Kill the process. Raises ProcessFailure where it had ended by itself."""
        self._process.kill()

    def close(self) -> None:
        """Kill the process if it still runs, and free its port."""
        self._process.close()
        self._reservation.close()

    def describe(self) -> str:
        """The process: its command, whether it runs or how it ended, and the end of its stderr."""
        return self._process.describe()

    def launch(self) -> None:
        """Start it again, without waiting until it serves."""
        self._process = self._launch()

    def await_ready(self) -> None:
        """Wait until it serves. Raises ProcessFailure where it ends instead."""
        assert f":{self.port} " in self._process.read_line()

    def _launch(self) -> ChildProcess:
        return start([*COMMAND_LINE, "--store", str(self._store), "serve", "--port", str(self.port)])


class Servers:
    """All of them, and the store they share."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self.all = [Server(folder) for _ in range(count)]
        self.kills = 0
        self._ending = threading.Event()

    @contextmanager
    def killed_now_and_then(self, chance: random.Random) -> Iterator[None]:
        """One at a time is killed, without warning, and started again."""
        killer = threading.Thread(target=self._keep_killing, args=(chance,))
        killer.start()
        try:
            yield
        finally:
            self._ending.set()
            killer.join()

    def create(self, name: str) -> None:
        """A new document in the store."""
        with stratalog.open(self._folder) as store:
            store.create(ORGANISATION, name)

    @contextmanager
    def document(self, name: str) -> Iterator[Document]:
        """The document as this process finds it in the folder."""
        with stratalog.open(self._folder) as store:
            yield store.document(ORGANISATION, name)

    def urls(self, name: str) -> list[str]:
        """The document's URL at each of them."""
        return [f"http://127.0.0.1:{one.port}/v1/organisations/{ORGANISATION}/documents/{name}" for one in self.all]

    def close(self) -> None:
        """End them."""
        for server in self.all:
            server.close()

    def describe(self) -> str:
        """A paragraph for each process."""
        return "\n".join(server.describe() for server in self.all)

    def _keep_killing(self, chance: random.Random) -> None:
        while not self._ending.wait(chance.uniform(*ALIVE_SECONDS)):
            server = chance.choice(self.all)
            server.kill()
            self.kills += 1
            server.launch()
            server.await_ready()


class OverSockets(InProcess):
    """Sends each request to a server of its choice, over a real connection."""

    def __init__(self, urls: Sequence[str], chance: random.Random) -> None:
        super().__init__()
        self._ways = [HttpTransport(url) for url in urls]
        self._chance = chance

    def serve_push(self, request: Push) -> Pushed:
        return self._chance.choice(self._ways).push(request)

    def serve_pull(self, request: Pull) -> Pulled:
        return self._chance.choice(self._ways).pull(request)

    def hang_up(self) -> None:
        """Let go of the connections; `close` is the client's, which is restarted now and then."""
        for way in self._ways:
            way.close()
