"""Helpers of the catalogue's tests: a catalogue with a folder for its sources, and the text of a Debian package."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx

import stratalog
from stratalog import Records, Store
from stratalog_catalogue.polls import Polled, poll
from stratalog_catalogue.reconciliation import ReconciliationCounts
from stratalog_catalogue.sources import Source, add_source
from stratalog_catalogue.workers import reconcile

PACKAGE = """Package: {name}
Architecture: amd64
Version: {version}
Maintainer: Jo Doe <jo@example.org>
Depends: libc6 (>= 2.36), default-mta | mail-transport-agent
Section: devel
Size: 1234
Description: the {name} program
 It does one thing.
 .
 And does it well.
"""

DAY_NS = 86_400_000_000_000
START_NS = 1_700_000_000_000_000_000


class Catalogue:
    """A catalogue of the organisation acme, with a folder for its sources."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.records: Records = store.records("acme")
        self.connect: Callable[[], httpx.Client] = httpx.Client

    def add(self, name: str = "debian", **settings: Any) -> Source:
        """Add a source. By default the source is a folder of Debian packages, and each file is a complete state."""
        (self.folder / name).mkdir(exist_ok=True)
        given = {
            "adapter": "folder",
            "location": str(self.folder / name),
            "format": "rfc822",
            "transformer": "debian-package",
            "id": "Package,Architecture",
            "complete": True,
        }
        return add_source(self.records, Source(name=name, **{**given, **settings}))

    def write(self, text: str | bytes, *, source: str = "debian", name: str = "Packages", day: int = 1) -> None:
        """Write a file of a source. Its modification time is ``day`` days after `START_NS`."""
        path = self.folder / source / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(path, ns=(START_NS + day * DAY_NS, START_NS + day * DAY_NS))

    def write_packages(self, versions: dict[str, str], *, day: int = 1) -> None:
        """Write a complete state of Debian packages."""
        self.write("\n".join(PACKAGE.format(name=name, version=at) for name, at in versions.items()), day=day)

    def poll(self, *sources: str) -> Polled:
        """Poll these sources, or all sources if none is given. Return the last outcome."""
        return list(poll(self.store, "acme", self.connect, sources=sources))[-1]

    def scan(self, *, everything: bool = False) -> ReconciliationCounts:
        """Make the works that are out of date. With ``everything``, make all works again."""
        return reconcile(self.store, "acme", everything=everything)

    def ids(self, prefix: str) -> list[str]:
        """Return the ids that begin with the prefix, without the prefix. Omit the ids of deleted records."""
        lines = (line.id for line in self.records.list(prefix=prefix))
        return [id.removeprefix(prefix) for id in lines if not self.records.stat(id).deleted]


def catalogue_in(folder: Path, url: str = "memory:") -> Catalogue:
    return Catalogue(stratalog.open(url), folder)


def interrupt_at(number: int) -> Callable[[int], None]:
    """Return a ``progress`` that raises KeyboardInterrupt at its call with this number, counted from 1."""
    calls = count(1)

    def progress(_: int) -> None:
        if next(calls) == number:
            raise KeyboardInterrupt

    return progress


@contextmanager
def killed_after(records: Records, writes: int) -> Iterator[None]:
    """Let the block make ``writes`` writes to the index, and end it without an error in place of the next write."""
    index = records.environment.index
    commit, left = index.commit, iter(range(writes))

    def counted(*given: Any) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        commit(*given)

    index.commit = counted  # type: ignore[method-assign]
    with suppress(KeyboardInterrupt):
        yield
    index.commit = commit  # type: ignore[method-assign]
