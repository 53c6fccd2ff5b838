"""Bugs in the state that threads of one handle share. A value becomes older, or an interrupt affects other threads."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from stratalog import group_commit
from stratalog.documents import snapshots, state_cache
from stratalog.documents.state import State
from stratalog.errors import NotFound, StratalogError
from stratalog.group_commit import GroupCommit
from stratalog.log import Log
from stratalog.log.append import Appender, LogAppend
from stratalog.log.conditional_append import ConditionalAppend
from stratalog.log.floors import floor_rank
from stratalog.log.head import Head, head_rank
from stratalog.log.pending_entry import PendingEntry
from stratalog.newest import Newest
from stratalog.tree.chunks import Chunks
from tests.simulation.mutants import Mutant, Planting, replaced, together
from tests.simulation.threads_handle import Handle
from tests.simulation.world_threads import ThreadWorld, interleaving

__all__ = ["MUTANTS"]

_offer = Newest.offer
_release = group_commit._release
_load_state = snapshots.load_state
_read = Log.read


def _last_offer_wins(rank: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """Plant an `offer` that stores the last offered value, even if the stored value is newer."""

    def offer(self: Any, value: Any) -> Any:
        if self._rank is not rank:
            return _offer(self, value)
        self.value = value
        return value

    return offer


def _reread_field(self: Any) -> Any:
    """Read the head, but return the head in the handle's field. Another thread may have changed the field."""
    self._appender.head()
    self._fresh = True
    return self._appender.heads.require()


def _load_from_field(log: Log, chunks: Chunks, at: int, head: Head | None = None) -> State:
    """Load the state with the head in the handle's field instead of the given head."""
    return _load_state(log, chunks, at, log.known_head())


def _read_by_given_head(self: Any, after: int = 0, upto: int | None = None, *, head: Head | None = None) -> Any:
    """Treat the given head as the newest head."""
    if head is not None and upto is not None and upto > head.version:
        raise NotFound("version not found", version=upto, head=head.version)
    return _read(self, after, upto, head=head)


def _fail_all(self: Any, batch: list[PendingEntry]) -> None:
    """Fail the whole batch with the leader's error."""
    try:
        LogAppend(self, list(batch)).run()
    except BaseException as exc:
        for pending in batch:
            if not pending.settled:
                pending.fail(exc)
        if not isinstance(exc, StratalogError):
            raise


def _let_all_go(self: Any, batch: list[Any]) -> None:
    """Let waiters without an answer continue as if they had an answer."""
    while len(batch) > 1:
        _release(batch.pop(), is_leader=False)


def _abandon_alone(self: Any, pending: Any, batch: list[Any]) -> None:
    """Remove an interrupted waiter from the queue, but do not pass its leadership on to another waiter."""
    if pending in self.waiting:
        self.waiting.remove(pending)


def _see_no_field(self: Any) -> None:
    """Do not check the handle's own values, so that only the answers of calls can show the bug."""


def _mutant(name: str, apply: Planting, *caught_by: str) -> Mutant:
    def planted() -> AbstractContextManager[None]:
        # The simulation inserts yield points once. A function that a bug has replaced by then would never get yield
        # points.
        interleaving()
        return apply()

    return Mutant(f"threads: {name}", ThreadWorld, planted, caught_by)


MUTANTS = (
    _mutant("head goes back", replaced(Newest, "offer", _last_offer_wins(head_rank)), "monotonic"),
    _mutant(
        "decisions from a head that goes back",
        together(
            replaced(Newest, "offer", _last_offer_wins(head_rank)),
            replaced(LogAppend, "_reread", _reread_field),
            replaced(state_cache, "load_state", _load_from_field),
            replaced(Log, "read", _read_by_given_head),
            replaced(Handle, "_check_known", _see_no_field),
        ),
        *("monotonic", "stale-answer", "real-time", "false-conflict", "kept"),
    ),
    _mutant("state goes back", replaced(Newest, "offer", _last_offer_wins(state_cache._version)), "monotonic"),
    _mutant(
        "state moves to an older snapshot",
        replaced(state_cache, "_on_newer_base", lambda newer, older: newer),
        "monotonic",
    ),
    _mutant("floor goes back", replaced(Newest, "offer", _last_offer_wins(floor_rank)), "monotonic", "forgotten"),
    _mutant("bystander gets the leader's exception", replaced(Appender, "_run", _fail_all), "bystander"),
    _mutant(
        "next leader forgets the version in doubt",
        replaced(ConditionalAppend, "interrupt", lambda self: None),
        *("once", "refused", "acknowledged"),
    ),
    _mutant(
        "interrupted leader leaves the others unanswered",
        replaced(GroupCommit, "_let_go", _let_all_go),
        "bystander",
    ),
    _mutant(
        "interrupted waiter keeps the leadership", replaced(GroupCommit, "_abandon", _abandon_alone), "progress", "held"
    ),
    _mutant("one error object for all", replaced(StratalogError, "copy", lambda self: self), "bystander"),
)
