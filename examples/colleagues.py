"""Two simulated colleagues in a sheet: programs that write cells over HTTP, and show where they are.

`python examples/colleagues.py URL ORGANISATION SHEET`, until they are stopped; `demo_sheet.py` starts them.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from contextlib import suppress
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

PAUSE_SECONDS = (2.0, 5.0)
START_SECONDS_MAX = 60
ROWS = range(2, 12)
REMARKS = ["checked", "looks right", "ask Dan", "twice?", "agreed", "to be paid", "open"]


class Colleague:
    """One of them: a column of their own, a way with words, and a cursor that the others see."""

    def __init__(self, url: str, path: str, log: str, name: str, column: int, letter: str) -> None:
        self._cells = f"{url}{path}/cells"
        self._live = f"ws{url.removeprefix('http')}{log}/live"
        self._load = f"{url}{path}/state"
        self._name = name
        self._column = column
        self._letter = letter
        self._random = random.Random(name)

    def work(self, head: str, total: bool) -> None:
        """Write for ever, a cell now and then."""
        tab = json.load(urlopen(self._load))["sheets"][0]["id"]
        with connect(self._live, subprotocols=["stratalog.live.1"]) as live:  # type: ignore[list-item]
            threading.Thread(target=listen, args=(live,), daemon=True).start()
            self._write(1, head)
            if total:
                self._write(ROWS[-1] + 2, f"=SUM({self._letter}{ROWS[0]}:{self._letter}{ROWS[-1]})")
            while True:
                row = self._random.choice(ROWS)
                cell = {"sheetId": tab, "col": self._column, "row": row - 1}
                live.send(json.dumps({"type": "presence", "state": {"name": self._name, "position": cell}}))
                time.sleep(self._random.uniform(*PAUSE_SECONDS))
                self._write(row, str(self._random.randint(10, 99)) if total else self._random.choice(REMARKS))

    def _write(self, row: int, content: str) -> None:
        url = f"{self._cells}/{self._letter}{row}?author={quote(self._name)}"
        headers = {"Content-Type": "application/json"}
        urlopen(Request(url, json.dumps({"content": content}).encode(), headers, method="PUT")).close()


def main(url: str, organisation: str, sheet: str) -> None:
    base = f"/v1/organisations/{quote(organisation, safe='')}"
    path, log = f"{base}/sheets/{quote(sheet, safe='')}", f"{base}/logs/{quote(sheet, safe='')}"
    wait_for(url)
    cleo = Colleague(url, path, log, "Cleo (simulated)", 8, "I")
    dan = Colleague(url, path, log, "Dan (simulated)", 9, "J")
    works = [
        threading.Thread(target=go_on, args=(cleo, "Remark", False)),
        threading.Thread(target=go_on, args=(dan, "Count", True)),
    ]
    for work in works:
        work.start()


def listen(live: ClientConnection) -> None:
    """Take what comes, so that the connection lives."""
    with suppress(WebSocketException):
        for _ in live:
            pass


def go_on(colleague: Colleague, head: str, total: bool) -> None:
    """Work until the server is gone, which ends the demo."""
    with suppress(URLError, WebSocketException, ConnectionError):
        colleague.work(head, total)


def wait_for(url: str) -> None:
    """Until the server answers."""
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        with suppress(URLError, ConnectionError):
            urlopen(f"{url}/health").close()
            return
        time.sleep(0.2)
    sys.exit("the server did not start")


if __name__ == "__main__":
    main(*sys.argv[1:4])
