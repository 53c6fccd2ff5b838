"""Bugs planted in push and pull. Each must be caught by a checker of the world of sync."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import msgspec

from stratalog.documents import Document
from stratalog.documents.changes import Changes, Member
from stratalog.documents.state import State
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Pulled, Push, Pushed
from tests.simulation import world_sync
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_sync import SyncWorld

__all__ = ["MUTANTS"]

pull: Any = import_module("stratalog.sync.pull")
push: Any = import_module("stratalog.sync.push")

Answer: Any = pull._Answer
_news: Callable[..., Pulled] = Answer._news
_complete: Callable[..., Pulled] = Answer._complete
_next_cookie: Callable[..., Cookie] = Answer._next_cookie
_pushed: Callable[..., Pushed] = push.push


def _stand_still(self: Any, state: State, since: Cookie) -> Pulled:
    """No key changed, so nothing is new: a rejection goes unseen."""
    pulled = _news(self, state, since)
    return pulled if pulled.patch else msgspec.structs.replace(pulled, cookie=since)


def _stand_still_unseen(self: Any, state: State, since: Cookie) -> Pulled:
    """The same by a server that finds nothing to say."""
    pulled = _news(self, state, since)
    return pulled if pulled.patch else Pulled(since, {}, [])


def _last_ids_of_later(self: Any, state: State, since: Cookie) -> Pulled:
    """State first, last ids after: in between others commit."""
    pulled = _news(self, state, since)
    later = self._document.state()
    return msgspec.structs.replace(
        pulled, last={client: found.id for client in pulled.last if (found := later.client(client))}
    )


def _without_clear(self: Any, state: State) -> Pulled:
    pulled = _complete(self, state)
    patch = [one for one in pulled.patch if not isinstance(one, Clear)]
    return pulled if self._cookie is None else msgspec.structs.replace(pulled, patch=patch)


def _order_of_version(self: Any, state: State, last: Mapping[str, int]) -> Cookie:
    return msgspec.structs.replace(_next_cookie(self, state, last), order=state.version)


def _any_owner(self: Any, found: Iterable[Member]) -> dict[str, int]:
    return {member.client: member.id for member in found}


def _never_owned(self: State, group: str) -> str | None:
    return None


def _any_document(document: Document, request: Push, owner: str = "", author: str = "") -> Pushed:
    return _pushed(document, msgspec.structs.replace(request, origin=""), owner, author)


def _usable_by_number(self: Any, state: State) -> Pulled:
    """A version number alone, whichever document it counts."""
    cookie = self._cookie
    if cookie is None or not max(self._document.log.first, state.floor) <= cookie.version <= state.version:
        return _complete(self, state)
    return _news(self, state, cookie)


def _puts_alone(self: Any, state: State, since: Cookie) -> Pulled:
    pulled = _news(self, state, since)
    patch = [one for one in pulled.patch if not isinstance(one, DeleteKey)]
    return msgspec.structs.replace(pulled, patch=patch)


def _every_group(state: State, changes: Changes, group: str) -> Iterable[Member]:
    found = (pull.member_of(state, client) for client in sorted(changes.clients))
    return (member for member in found if member is not None)


MUTANTS = (
    Mutant(
        "sync: the store's names open to all",
        SyncWorld,
        replaced(push, "check_unreserved", lambda mutation: mutation),
        ("reserved",),
    ),
    Mutant("sync: cookie not moved by a rejection", SyncWorld, replaced(Answer, "_news", _stand_still), ("cookie",)),
    Mutant("sync: rejection not told at all", SyncWorld, replaced(Answer, "_news", _stand_still_unseen), ("progress",)),
    Mutant("sync: last ids of a later version", SyncWorld, replaced(Answer, "_news", _last_ids_of_later), ("last",)),
    Mutant(
        "sync: another document without clear",
        SyncWorld,
        replaced(Answer, "_complete", _without_clear),
        ("state", "converged"),
    ),
    Mutant("sync: order goes back", SyncWorld, replaced(Answer, "_next_cookie", _order_of_version), ("order",)),
    Mutant("sync: pull ignores the owner", SyncWorld, replaced(Answer, "_last_ids", _any_owner), ("owner",)),
    Mutant("sync: group open to all", SyncWorld, replaced(State, "group_owner", _never_owned), ("owner",)),
    Mutant(
        "sync: push to any document",
        SyncWorld,
        replaced(world_sync, "push", _any_document),
        ("heirs", "last", "owner"),
    ),
    Mutant(
        "sync: cookie of any document",
        SyncWorld,
        replaced(Answer, "give", _usable_by_number),
        ("order", "state", "progress"),
    ),
    Mutant("sync: deletions left out", SyncWorld, replaced(Answer, "_news", _puts_alone), ("state", "converged")),
    Mutant("sync: news of every group", SyncWorld, replaced(pull, "_of_group", _every_group), ("owner",)),
)
