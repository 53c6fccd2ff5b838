"""Bugs that forget, free or collect history wrongly. Each bug breaks a rule about damage, pins or progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from stratalog.codec import encode
from stratalog.documents import document as document_module
from stratalog.documents import rebuild as rebuild_module
from stratalog.documents.rebuild import verify_and_put
from stratalog.documents.scrubbed_values import ScrubbedValues
from stratalog.errors import Corrupt, NotFound
from stratalog.log import retention, scrub_record
from stratalog.log.base import AppBases
from stratalog.log.retention import _Plan, _Raising
from stratalog.log.scrub_record import ScrubRecord, load_scrub_record
from stratalog.log.snapshots import Snapshot
from stratalog.maintenance.marks import Marking
from stratalog.ports.read_back import read_blob_back
from stratalog.tree.chunks import Chunks
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_decay import DecayWorld

__all__ = ["MUTANTS"]

_commit = _Raising._commit
_look = _Raising._look
_mark_snapshot = Marking._mark_snapshot
_read_back = Chunks.read_back


def _read_cached(self: Chunks, address: bytes) -> Any:
    """Trust the handle's cache instead of reading storage."""
    cached = self._cache.get((self._owner, address))
    return _read_back(self, address) if cached is None else encode(cached)


def _read_from_source(self: Chunks, address: bytes) -> Any:
    """Trust the cache on the machine's disk instead of reading storage."""
    return read_blob_back(self._source.blobs, self.key(address))


@contextmanager
def _proven_through_the_cache() -> Iterator[None]:
    """Take cached chunks from the handle's cache, both in the comparison with the log and in the read-back."""
    with (
        replaced(Chunks, "read_back", _read_cached)(),
        replaced(rebuild_module, "_uncached", lambda document: document.chunks)(),
    ):
        yield


def _prove_by_rebuilding(document: Any, base: Snapshot, progress: Any) -> None:
    """Rebuild the snapshot from the entries, but do not read it back."""
    verify_and_put(document, base.version, progress)


def _look_once(self: _Raising) -> Any:
    """Ignore pins that a fork adds after the proof of the base."""
    record, wanted = _look(self)
    return record, self._proven_for or wanted


def _commit_anew(self: _Raising, record: Any, plan: _Plan) -> bool:
    """Restart the proof after each commit of the floor that loses a race."""
    is_raised = _commit(self, record, plan)
    if not is_raised:
        self._proven_for = 0
    return is_raised


def _mark_on(self: Marking, snapshot: Snapshot) -> None:
    """Treat an unreadable snapshot as a snapshot without references."""
    with suppress(Corrupt, NotFound):
        _mark_snapshot(self, snapshot)


def _load_undamaged(environment: Any) -> ScrubRecord:
    """Ignore the damage that the last round of the scrub found."""
    return msgspec.structs.replace(load_scrub_record(environment), round_damaged=0)


def _mutant(name: str, owner: Any, attribute: str, bug: object, *caught_by: str) -> Mutant:
    return Mutant(f"decay: {name}", DecayWorld, replaced(owner, attribute, bug), caught_by)


PRESERVED = ("nothing dangling", "history kept")
MUTANTS = (
    _mutant("floor without reading back", document_module, "prove_base", _prove_by_rebuilding, "unread"),
    _mutant("floor onto a state that was not read", AppBases, "_damage", lambda self, snapshot: None, "unread"),
    _mutant("freed without reading back", document_module, "require_base", lambda document: None, "unread"),
    _mutant("scrub trusted for later values", scrub_record, "SCRUB_CLOCKS_SECONDS_MAX", -(10**9), "unread"),
    _mutant("scrub that found damage trusted", scrub_record, "load_scrub_record", _load_undamaged, "unread"),
    _mutant("scrubbed values not looked up", ScrubbedValues, "read_rest", lambda self: iter(()), "unread"),
    _mutant("base proven through the machine's cache", Chunks, "read_back", _read_from_source, "unread"),
    Mutant("decay: base proven through the cache", DecayWorld, _proven_through_the_cache, ("unread",)),
    _mutant("pins read only before the proof", _Raising, "_look", _look_once, *PRESERVED),
    _mutant("roll-over restarts the proof", _Raising, "_commit", _commit_anew, "progress"),
    _mutant("marking goes on over a damaged snapshot", Marking, "_mark_snapshot", _mark_on, "needed freed", *PRESERVED),
    _mutant("pins not looked at", retention, "lowest_pin", lambda index, prefix: None, *PRESERVED),
)
