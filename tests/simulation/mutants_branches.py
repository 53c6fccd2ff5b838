"""Bugs in the resumption of clients of a lost branch. A checker of the world of branches must catch each bug."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import msgspec

from stratalog.documents import document as documents
from stratalog.documents import resumption
from stratalog.documents.commits import Resume
from stratalog.documents.fold import Fold
from stratalog.documents.state import State
from stratalog.protocol.sync import Pulled
from stratalog.sync.pull import OpenPull
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.travellers import Traveller
from tests.simulation.world_branches import BranchesWorld

__all__ = ["MUTANTS"]

pull: Any = import_module("stratalog.sync.pull")
Answer: Any = pull._Answer

_complete: Callable[..., OpenPull] = Answer._complete
_resumption: Callable[..., Resume | None] = resumption.resumption_of
_take: Callable[..., bool] = Traveller.take


def _any_hash(self: Any, state: State, version: int) -> str:
    return str(self._cookie.hash)


def _lower(state: State, group: str, owner: str, reported: Mapping[str, int], *more: Any) -> Resume | None:
    return _resumption(state, group, owner, {client: id - 1 for client, id in reported.items()}, *more)


def _higher(state: State, group: str, owner: str, reported: Mapping[str, int], *more: Any) -> Resume | None:
    return _resumption(state, group, owner, {client: id + 1 for client, id in reported.items()}, *more)


def _newest_alone(reported: Mapping[str, int], last: Mapping[str, int]) -> dict[str, int]:
    return dict(last)


def _nothing_named(self: Any, state: State) -> OpenPull:
    opened = _complete(self, state)
    return msgspec.structs.replace(opened, start=msgspec.structs.replace(opened.start, lost={}))


def _unbound(self: Fold, client: str, group: str, owner: str, version: int) -> None:
    return None


def _last_range(before: Any, lost: tuple[int, int]) -> Any:
    """Drop the losses of earlier resumptions, although perhaps no answer has named these losses to the client."""
    return (lost,)


def _begin_anew(self: Traveller, request: Any, pulled: Pulled) -> bool:
    """Send the pending mutations under other client ids after an answer that names lost mutations."""
    taken = _take(self, request, pulled)
    if taken and pulled.lost:
        self.begin_again()
    return taken


MUTANTS = (
    Mutant("branches: hash not compared", BranchesWorld, replaced(Answer, "_hash", _any_hash), ("progress", "state")),
    Mutant(
        "branches: numbers not raised",
        BranchesWorld,
        replaced(documents, "resumption_of", lambda *arguments: None),
        ("progress", "last"),
    ),
    Mutant(
        "branches: raised to one less",
        BranchesWorld,
        replaced(documents, "resumption_of", _lower),
        ("progress", "last", "vanished"),
    ),
    Mutant(
        "branches: raised to one more",
        BranchesWorld,
        replaced(documents, "resumption_of", _higher),
        ("vanished", "lost", "progress"),
    ),
    Mutant(
        "branches: only the newest numbers in a cookie",
        BranchesWorld,
        replaced(pull, "_newest", _newest_alone),
        ("progress", "last", "vanished"),
    ),
    Mutant(
        "branches: lost mutations not named",
        BranchesWorld,
        replaced(Answer, "_complete", _nothing_named),
        ("vanished",),
    ),
    Mutant(
        "branches: resumed clients not bound", BranchesWorld, replaced(Fold, "_bind", _unbound), ("progress", "last")
    ),
    Mutant(
        "branches: earlier losses dropped", BranchesWorld, replaced(resumption, "_joined", _last_range), ("vanished",)
    ),
    Mutant(
        "branches: pending sent as another client", BranchesWorld, replaced(Traveller, "take", _begin_anew), ("once",)
    ),
)
