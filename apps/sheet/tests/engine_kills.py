"""Random sheet sessions while the test kills engines: the server must survive, and all states must be equal.

    python -m apps.sheet.tests.engine_kills --sessions 200 --kills 50 --seed 1

The test uses the clients of `convergence`: real engines in Node. This process sends the clients' requests to the server
over HTTP. The exit code is 1 if the server died, a session failed or diverged, an engine outlived the server, or too
few engines were killed. A failed session prints the seeds of the run and of the session.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from apps.sheet.tests.convergence.run import Diverged, Run
from apps.sheet.tests.helpers import ENGINES
from stratalog.errors import StratalogError
from stratalog_sheet import EnginePool, SheetSettings
from stratalog_sheet.engine import install_engine
from tests.processes import killed_after
from tests.threads import join_all, start_all

ROOT = Path(__file__).parents[3]
PROGRAM = """
from apps.sheet.tests.helpers import ENGINES
from stratalog_sheet import warm_sheets
warm_sheets.EngineSettings = lambda: ENGINES
from stratalog.cli import main
main()
"""
"""The server's engines have more time on the clock, as those of other tests: a busy machine starves them."""

STEPS = 60
CLIENTS = 3
REQUESTS_MIN = 40
"""A session normally makes more requests than this number. The kills happen at random requests below this number."""

PARALLEL = 2
KILL_DELAY_SECONDS_MAX = 0.01
TRIES_MAX = 40
TRY_SECONDS = 0.1
ENGINE_END_SECONDS_MAX = 60
"""The time that an engine has to end after its server. An engine checks every five seconds whether its parent runs."""

BUSY = (429, 503)
END_SECONDS_MAX = 120
ANSWER_SECONDS_MAX = 300


class Refusal(Exception):
    """The server refused a request. The message is the code of the error."""


class Server:
    """A process of ``stratalog sheet serve``, and its engines."""

    def __init__(self, folder: str) -> None:
        command = [sys.executable, "-c", PROGRAM, "--json", "sheet", "serve", "--store", folder, "--port", "0"]
        # The engines inherit the server's path for imports, which ends with the store's folder. The folder shows which
        # server started an engine, even after the server has died and the engine has another parent.
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT), os.path.abspath(folder)]))
        environment = {**os.environ, "PYTHONPATH": path}
        self._folder = os.path.abspath(folder).encode()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        self.url = json.loads(self.process.stdout.readline())["url"].split("/web/")[0]
        self.kills = 0
        # A pipe without a reader would fill up and block the server.
        self._drain = start_all([partial(deque, self.process.stdout, 0)])

    def end(self) -> None:
        """Ask the server to end, and wait for its end. Raises Diverged if it still runs after `END_SECONDS_MAX`."""
        was_running = self.process.poll() is None
        self.process.terminate()
        with self.process, killed_after(self.process, END_SECONDS_MAX):
            status = self.process.wait()
            join_all(self._drain)
        if was_running and status == -signal.SIGKILL:
            raise Diverged(f"the server did not end within {END_SECONDS_MAX} s")

    def engines(self) -> list[int]:
        """Return the process ids of the server's engines."""
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self._is_engine(pid)]

    def kill_engine(self, chance: random.Random) -> bool:
        """Kill one engine, as an operator or the kernel may do. Return False if the server has no engine."""
        while engines := self.engines():
            try:
                os.kill(chance.choice(engines), signal.SIGKILL)
            except ProcessLookupError:  # the engine ended after the list was made
                continue
            self.kills += 1
            return True
        return False

    def _is_engine(self, pid: int) -> bool:
        try:
            is_engine = b"engine_process" in Path(f"/proc/{pid}/cmdline").read_bytes()
            return is_engine and self._folder in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False


class ServedRun(Run):
    """A run whose requests go to the server. ``kills`` maps a request's number to the number of kills."""

    def __init__(self, seed: int, engines: EnginePool, folder: str, server: Server, kills: Counter[int]) -> None:
        super().__init__(seed, engines, folder, f"plan-{seed}")
        self._server = server
        self._kills = kills
        self._chance = random.Random(seed)
        self._requests = 0
        url = f"{server.url}/v1/organisations/acme/sheets/plan-{seed}"
        self._http = httpx.Client(base_url=url, timeout=ANSWER_SECONDS_MAX)

    def _chosen_settings(self) -> SheetSettings:
        return SheetSettings()

    def _ask(self, method: str, path: str, **options: Any) -> Any:
        """Do the kills planned for this request, then return the server's answer. Raises Refusal, Diverged.

        Sends the request at most `TRIES_MAX` times while the server is busy or has lost an engine.
        """
        self._requests += 1
        for _ in range(self._kills[self._requests]):
            self._kill_amid_a_call()
        return self._answer(method, path, **options)

    def _answer(self, method: str, path: str, **options: Any) -> Any:
        for _ in range(TRIES_MAX):
            answer = self._http.request(method, path, **options)
            if answer.status_code not in BUSY:
                break
            time.sleep(TRY_SECONDS)
        if answer.status_code >= 500:
            raise Diverged(f"{method} {path}: {answer.status_code} {answer.text}")
        if answer.status_code >= 400:
            raise Refusal(answer.json()["code"])
        return answer.json()

    def _kill_amid_a_call(self) -> None:
        delay = self._chance.random() * KILL_DELAY_SECONDS_MAX
        killed: list[bool] = []
        killer = threading.Timer(delay, lambda: killed.append(self._server.kill_engine(self._chance)))
        killer.start()
        self._answer("GET", "/state")
        self._answer("GET", "/cells/A1")
        killer.join()
        while not any(killed):  # the timer found no engine, and another session may kill the one that a call starts
            if len(killed) > TRIES_MAX:
                raise Diverged("the calls started no engine that could be killed")
            self._answer("GET", "/cells/A1")
            killed.append(self._server.kill_engine(self._chance))
        self._answer("GET", "/cells/A1")

    def _load(self) -> Any:
        return self._ask("GET", "/load")

    def _moves(self, source: int, target: int) -> Any:
        return self._ask("GET", "/moves", params={"source": source, "target": target})

    def _append(self, message: dict[str, Any]) -> Any:
        return self._or_code("POST", "/append", json={"message": message})

    def _since(self, version: int, only: str = "") -> Any:
        return self._ask("GET", "/") if only else self._ask("GET", "/entries", params={"after": version})

    def _snapshot(self) -> Any:
        return {}

    def _restart(self) -> Any:
        return {}

    def _name(self) -> Any:
        return self._or_code("POST", "/versions", json={"version": self._sheet.version, "label": "name"})

    def _rename(self, title: str) -> Any:
        renamed = self._or_code("POST", "/rename", json={"title": title})
        if "error" not in renamed:
            self._title = title
        return renamed

    def _restore(self, back: int) -> Any:
        version = max(self._sheet.version - back, 1)
        return self._or_code("POST", "/restore", json={"version": version, "label": ""})

    def _set(self, cell: str, content: str) -> Any:
        return self._or_code("PUT", f"/cells/{cell}", json={"content": content})

    def _or_code(self, method: str, path: str, **options: Any) -> Any:
        try:
            return self._ask(method, path, **options)
        except Refusal as exc:
            return {"error": str(exc)}

    def _states_elsewhere(self) -> dict[str, Any]:
        # If a session was short, its remaining kills happen now.
        for request, count in self._kills.items():
            for _ in range(count if request > self._requests else 0):
                self._kill_amid_a_call()
        state = json.dumps(self._answer("GET", "/state"))
        self._http.close()
        return {"the server": state}


@contextmanager
def serving(folder: str) -> Iterator[Server]:
    """Run a server. Raises Diverged if the server died, or if an engine outlives the server."""
    server = Server(folder)
    try:
        yield server
        if server.process.poll() is not None:
            raise Diverged(f"the server died: exit={server.process.returncode}")
    except BaseException as exc:
        if left := _end(server):
            exc.add_note(f"engines outlived the server: pids={left}")
        raise
    if left := _end(server):
        raise Diverged(f"engines outlived the server: pids={left}")


def _end(server: Server) -> list[int]:
    """End the server. Kill the engines that still run after `ENGINE_END_SECONDS_MAX`, and return their process ids."""
    server.end()
    for _ in range(int(ENGINE_END_SECONDS_MAX / TRY_SECONDS)):
        if not server.engines():
            return []
        time.sleep(TRY_SECONDS)
    left = server.engines()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def plan_kills(sessions: int, kills: int, chance: random.Random) -> list[Counter[int]]:
    """Return for each session the number of engines to kill at each of its requests."""
    planned = [Counter[int]() for _ in range(sessions)]
    for _ in range(kills):
        chance.choice(planned)[chance.randrange(1, REQUESTS_MIN)] += 1
    return planned


def play(sessions: int, kills: int, seed: int) -> tuple[Counter[str], int]:
    """Run the sessions. Return their counts and the number of killed engines. Raises Diverged."""
    install_engine()
    planned = plan_kills(sessions, kills, random.Random(seed))
    total: Counter[str] = Counter()
    engines = EnginePool(ENGINES)
    try:
        with TemporaryDirectory() as folder, serving(folder) as server, ThreadPoolExecutor(PARALLEL) as threads:

            def run(number: int) -> dict[str, int]:
                try:
                    session = ServedRun(seed + number, engines, folder, server, planned[number])
                    session.play(CLIENTS, STEPS)
                except Exception as exc:
                    exc.add_note(f"session {number} of the run, with seed {seed + number}")
                    raise
                return session.counts

            for counts in threads.map(run, range(sessions)):
                total.update(counts)
            return total, server.kills
    finally:
        engines.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sessions and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    try:
        total, killed = play(asked.sessions, asked.kills, asked.seed)
    except (AssertionError, Refusal, StratalogError, OSError, httpx.HTTPError) as exc:
        print(f"seed {asked.seed}: {type(exc).__name__}: {exc}", *getattr(exc, "__notes__", ()), sep="\n")
        return 1
    if killed < asked.kills:
        print(f"seed {asked.seed}: only {killed} of {asked.kills} engines were killed")
        return 1
    print(f"{asked.sessions} sessions, {killed} engines killed, no server died, all agree: {dict(total)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
