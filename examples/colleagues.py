"""Two simulated colleagues in a sheet. They write cells over HTTP and show their positions.

`demo_sheet.py` starts `python examples/colleagues.py URL ORGANISATION SHEET`, which runs until the server stops or the
sheet is deleted.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from contextlib import suppress
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection, connect

PAUSE_SECONDS = (2.0, 5.0)
START_SECONDS_MAX = 60
MISSING = 404
CLOSE_CODES = 4000
TAB, TAB_NAME = "takings", "A trial week"
ROWS = range(5, 12)
REMARKS = ["sunny", "rain until noon", "market day", "a queue at ten", "cakes sold out", "quiet", "two groups"]


class Colleague:
    """A colleague who writes one column of the sheet “A trial week”, with a cursor that other users see."""

    def __init__(self, url: str, path: str, log: str, name: str, column: int, letter: str) -> None:
        self._cells = f"{url}{path}/cells"
        self._live = f"ws{url.removeprefix('http')}{log}/live"
        self._name = name
        self._column = column
        self._letter = letter
        self._random = random.Random(name)

    def work(self, counts: bool) -> None:
        """Write a cell every few seconds, without end: with ``counts`` a number of guests, otherwise a remark."""
        with connect(self._live, subprotocols=["stratalog.live.1"]) as live:  # type: ignore[list-item]
            threading.Thread(target=listen, args=(live,), daemon=True).start()
            while True:
                row = self._random.choice(ROWS)
                cell = {"sheetId": TAB, "col": self._column, "row": row - 1}
                live.send(json.dumps({"type": "presence", "state": {"name": self._name, "position": cell}}))
                time.sleep(self._random.uniform(*PAUSE_SECONDS))
                self._write(row, str(self._random.randint(38, 96)) if counts else self._random.choice(REMARKS))

    def _write(self, row: int, content: str) -> None:
        url = f"{self._cells}/{self._letter}{row}?author={quote(self._name)}&tab={quote(TAB_NAME)}"
        headers = {"Content-Type": "application/json"}
        request = Request(url, json.dumps({"content": content}).encode(), headers, method="PUT")
        urlopen(request, timeout=START_SECONDS_MAX).close()


def main(url: str, organisation: str, sheet: str) -> None:
    base = f"/v1/organisations/{quote(organisation, safe='')}"
    path, log = f"{base}/sheets/{quote(sheet, safe='')}", f"{base}/logs/{quote(sheet, safe='')}"
    cleo = Colleague(url, path, log, "Cleo (simulated)", 5, "F")
    dora = Colleague(url, path, log, "Dora (simulated)", 2, "C")
    works = [
        threading.Thread(target=go_on, args=(cleo, url, False)),
        threading.Thread(target=go_on, args=(dora, url, True)),
    ]
    for work in works:
        work.start()
    for work in works:
        work.join()
    sys.exit("the server does not answer, or the sheet is deleted")


def listen(live: ClientConnection) -> None:
    """Read all messages, so that the server does not close the connection."""
    with suppress(WebSocketException):
        for _ in live:
            pass


def go_on(colleague: Colleague, url: str, counts: bool) -> None:
    """Work until the server stops at the end of the demo, or the sheet or its tab is deleted.

    Begin again after another failure, such as a server that froze.
    """
    while answers(url):
        try:
            colleague.work(counts)
        except (OSError, WebSocketException) as exc:
            if is_missing(exc):
                return
        time.sleep(PAUSE_SECONDS[0])


def is_missing(error: Exception) -> bool:
    """Return whether the server has answered that the sheet does not exist."""
    if isinstance(error, ConnectionClosed):
        return error.rcvd is not None and error.rcvd.code == CLOSE_CODES + MISSING
    return isinstance(error, HTTPError) and error.code == MISSING


def answers(url: str) -> bool:
    """Wait until the server answers. Return False if it does not answer within `START_SECONDS_MAX`."""
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        with suppress(OSError):
            urlopen(f"{url}/health", timeout=START_SECONDS_MAX).close()
            return True
        time.sleep(0.2)
    return False


if __name__ == "__main__":
    main(*sys.argv[1:4])
