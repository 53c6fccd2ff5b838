"""Several server processes on one store folder, which are killed and started again while clients use them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import stratalog
from stratalog.client import HttpTransport
from stratalog.documents import Document
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from tests.client.helpers import InProcess

ROOT = Path(__file__).parents[2]
SERVE = "from stratalog.cli import main; main()"
ORGANISATION = "acme"
ALIVE_SECONDS = (0.5, 2.0)
LAUNCHES_MAX = 20
LAUNCH_SECONDS = 0.2


def environment() -> dict[str, str]:
    """That of a process which imports the package from here."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


class Server:
    """One ``stratalog serve``. It keeps its port when it is started again."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self.port = 0
        self._process = self._launch()
        self.await_ready()

    def kill(self) -> None:
        """What a power switch does to a process."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def launch(self) -> None:
        """Start it again, without waiting until it serves."""
        self._process = self._launch()

    def await_ready(self) -> None:
        """Wait until it serves; somebody's connection may have borrowed the port meanwhile, for a moment."""
        for _ in range(LAUNCHES_MAX):
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if "http://" in line:
                self.port = int(line.split("http://")[1].split()[0].rsplit(":", 1)[1])
                return
            said = line + self._process.communicate()[0]
            time.sleep(LAUNCH_SECONDS)
            self._process = self._launch()
        raise AssertionError(said)

    def _launch(self) -> subprocess.Popen[str]:
        arguments = ["--store", str(self._store), "serve", "--port", str(self.port)]
        return subprocess.Popen(
            [sys.executable, "-c", SERVE, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        )


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
            server.kill()

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
