"""Proof of a document's base. The base is the snapshot that replaces the forgotten versions below it."""

from __future__ import annotations

from typing import Protocol

from stratalog.documents.read_back import require_scrubbed_state
from stratalog.documents.rebuild import verify_and_put
from stratalog.documents.snapshots import roots_of
from stratalog.documents.values import Values
from stratalog.errors import Corrupt
from stratalog.log import Log
from stratalog.log.base import base_at
from stratalog.log.callbacks import Report
from stratalog.log.scrub_record import scrubbed_before_ms
from stratalog.log.snapshots import Snapshot
from stratalog.tree.chunks import Chunks

__all__ = ["prove_base", "require_base"]


class _Document(Protocol):
    """The parts of a document that this module uses: a log, and the chunks and values of the log's owner."""

    @property
    def log(self) -> Log: ...

    @property
    def chunks(self) -> Chunks: ...

    @property
    def stored_values(self) -> Values: ...


def prove_base(document: _Document, base: Snapshot, progress: Report | None) -> None:
    """Compare a snapshot with the state computed from its log, then read the snapshot back. Raises Corrupt, Redacted.

    The order matters: the comparison writes the rebuilt chunks. The reading after it proves that storage has these
    chunks.
    """
    verify_and_put(document, base.version, progress)
    _require_state(document, base)


def require_base(document: _Document) -> None:
    """Read the base at the floor back from storage. Raises Corrupt."""
    while True:
        floor = document.log.floor()
        try:
            return _require_state(document, base_at(document.log, floor))
        except Corrupt:
            if document.log.floor() == floor:
                raise
            # Another process raised the floor after this loop read it, and deleted the old base. Read the new base.


def _require_state(document: _Document, base: Snapshot) -> None:
    """Read back all chunks, and all values that no recent scrub has read. Other values must exist. Raises Corrupt."""
    environment = document.log.environment
    before_ms = scrubbed_before_ms(environment)
    require_scrubbed_state(document.chunks, document.stored_values, roots_of(base), environment.blobs, before_ms)
