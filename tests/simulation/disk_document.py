"""A document on the simulated disk: a client that repeats each change until an answer arrives, and the final check."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import Clock
from stratalog.documents import Document
from stratalog.errors import Corrupt, NotFound
from stratalog.log import Environment, Log, LogSettings, create_log, open_log
from stratalog.log.tasks import InlineTasks
from stratalog.ports.blobs import Blobs
from stratalog.protocol import Mutation
from stratalog.store import Store
from stratalog.testing.checkers import Violation
from stratalog.testing.scheduler import Counts
from tests.simulation.inspected import check_healthy

__all__ = ["DiskDocument"]

ORGANISATION = "acme"
NAME = "plan"
CLIENT = "client"
KEYS = 3
ROW_CHARACTERS = 800
FORMS: tuple[Callable[[int], str], ...] = (
    lambda number: f"{number} ".ljust(20, "v"),
    lambda number: Random(number).randbytes(ROW_CHARACTERS // 2).hex(),
    lambda number: f"{number} ".ljust(4000, "v"),
    lambda number: f"{number} ".ljust(ROW_CHARACTERS, "v"),
)
"""The forms of the values.

A value in the first form is stored in its entry. A value in the second form compresses badly, so the body of its entry
is a blob in a row of the database. A value in the third form is a blob in a file. A value in the fourth form is stored
in its entry, compressed.
"""

SETTINGS = LogSettings(
    segment_entries_target=3, snapshot_entries_interval=2, body_inline_bytes_max=256, append_seconds_max=1
)


class DiskDocument:
    """The client's changes and answers, across all power failures of the machine."""

    def __init__(self) -> None:
        self.done = 0
        """The number of the newest change that was answered."""

    def write(self, database: SqliteDatabase, blobs: Blobs, clock: Clock) -> None:
        """Send the next change. An earlier try may have committed the change already. Raises the document's errors."""
        Document(self._opened(database, blobs, clock)).apply([_change(self.done + 1)])
        self.done += 1

    def check(self, database: SqliteDatabase, blobs: Blobs, clock: Clock, counts: Counts) -> None:
        """Check that the document has every answered change and at most one more change.

        Check that the store verifies.
        """
        environment = _environment(database, blobs, clock)
        try:
            document = Document(open_log(environment, ORGANISATION, NAME))
            client = document.state().client(CLIENT)
            last, content = client.id if client else 0, document.at().to_dict()
        except NotFound:
            last, content = 0, {}
        except Corrupt as exc:
            raise Violation("document", str(exc)) from exc
        if last < self.done:
            raise Violation("document", "an acknowledged change is lost", last=last, answered=self.done)
        if last > self.done + 1 or content != _content(last):
            raise Violation("document", "the document has wrong content", last=last, answered=self.done)
        bodies = [stat.key for stat in blobs.list(f"{ORGANISATION}/") if "/bodies/" in stat.key]
        counts.bump("body rows", len(bodies))
        check_healthy(Store(environment, database.queue), "inspected", counts)

    def _opened(self, database: SqliteDatabase, blobs: Blobs, clock: Clock) -> Log:
        environment = _environment(database, blobs, clock)
        try:
            return open_log(environment, ORGANISATION, NAME)
        except NotFound:
            return create_log(environment, ORGANISATION, NAME, "document")


def _environment(database: SqliteDatabase, blobs: Blobs, clock: Clock) -> Environment:
    return Environment(database.index, blobs, clock, SETTINGS, background=InlineTasks())


def _change(number: int) -> Mutation:
    args = {"key": _key(number), "value": _value(number)}
    return Mutation(client=CLIENT, id=number, name="put", args=args)


def _content(last: int) -> dict[str, str]:
    """Return the document's content after change ``last``."""
    return {_key(number): _value(number) for number in range(1, last + 1)}


def _key(number: int) -> str:
    return f"items/{number % KEYS}"


def _value(number: int) -> str:
    return FORMS[number % len(FORMS)](number)
