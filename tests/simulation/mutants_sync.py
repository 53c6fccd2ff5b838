"""Bugs planted in push and pull. Each must be caught by a checker of the world of sync."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import msgspec

from stratalog.documents import Document
from stratalog.documents.changes import Changes, Member
from stratalog.documents.state import State
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Pull, Pulled, Push, Pushed
from tests.simulation import world_sync
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_sync import SyncWorld

__all__ = ["MUTANTS"]

pull: Any = import_module("stratalog.sync.pull")
push: Any = import_module("stratalog.sync.push")

_news: Callable[..., Pulled] = pull._news
_complete: Callable[..., Pulled] = pull._complete
_usable: Callable[..., Cookie | None] = pull._usable
_pushed: Callable[..., Pushed] = push.push


def _stand_still(document: Document, state: State, changes: Changes, group: str, since: Cookie, owner: str) -> Pulled:
    """No key changed, so nothing is new: a rejection goes unseen."""
    pulled = _news(document, state, changes, group, since, owner)
    return pulled if pulled.patch else msgspec.structs.replace(pulled, cookie=since)


def _stand_still_unseen(
    document: Document, state: State, changes: Changes, group: str, since: Cookie, owner: str
) -> Pulled:
    """The same by a server that finds nothing to say."""
    pulled = _news(document, state, changes, group, since, owner)
    return pulled if pulled.patch else Pulled(since, {}, [])


def _last_ids_of_later(
    document: Document, state: State, changes: Changes, group: str, since: Cookie, owner: str
) -> Pulled:
    """State first, last ids after: in between others commit."""
    pulled = _news(document, state, changes, group, since, owner)
    later = document.state()
    return msgspec.structs.replace(
        pulled, last={client: found.id for client in pulled.last if (found := later.client(client))}
    )


def _without_clear(document: Document, state: State, request: Pull, owner: str) -> Pulled:
    pulled = _complete(document, state, request, owner)
    patch = [one for one in pulled.patch if not isinstance(one, Clear)]
    return pulled if request.cookie is None else msgspec.structs.replace(pulled, patch=patch)


def _order_of_version(document: Document, state: State, cookie: Cookie | None) -> Cookie:
    return Cookie(state.version, document.log.record.incarnation, state.version)


def _any_owner(found: Iterable[Member], owner: str) -> dict[str, int]:
    return {member.client: member.id for member in found}


def _never_owned(self: State, group: str) -> str | None:
    return None


def _any_incarnation(document: Document, request: Push, owner: str = "", author: str = "") -> Pushed:
    return _pushed(document, msgspec.structs.replace(request, incarnation=""), owner, author)


def _usable_by_number(document: Document, state: State, cookie: Cookie | None) -> Cookie | None:
    """A version number alone, whichever incarnation it counts."""
    own = document.log.record.incarnation
    return _usable(document, state, None if cookie is None else msgspec.structs.replace(cookie, incarnation=own))


def _puts_alone(document: Document, state: State, changes: Changes, group: str, since: Cookie, owner: str) -> Pulled:
    pulled = _news(document, state, changes, group, since, owner)
    patch = [one for one in pulled.patch if not isinstance(one, DeleteKey)]
    return msgspec.structs.replace(pulled, patch=patch)


def _every_group(state: State, clients: Iterable[str], group: str) -> Iterable[Member]:
    found = (pull.member_of(state, client) for client in sorted(clients))
    return (member for member in found if member is not None)


MUTANTS = (
    Mutant(
        "sync: the store's names open to all",
        SyncWorld,
        replaced(push, "check_unreserved", lambda mutation: mutation),
        ("reserved",),
    ),
    Mutant("sync: cookie not moved by a rejection", SyncWorld, replaced(pull, "_news", _stand_still), ("cookie",)),
    Mutant("sync: rejection not told at all", SyncWorld, replaced(pull, "_news", _stand_still_unseen), ("progress",)),
    Mutant("sync: last ids of a later version", SyncWorld, replaced(pull, "_news", _last_ids_of_later), ("last",)),
    Mutant(
        "sync: another incarnation without clear",
        SyncWorld,
        replaced(pull, "_complete", _without_clear),
        ("state", "converged"),
    ),
    Mutant("sync: order goes back", SyncWorld, replaced(pull, "_fresh_cookie", _order_of_version), ("order",)),
    Mutant("sync: pull ignores the owner", SyncWorld, replaced(pull, "_last_ids", _any_owner), ("owner",)),
    Mutant("sync: group open to all", SyncWorld, replaced(State, "group_owner", _never_owned), ("owner",)),
    Mutant(
        "sync: push to any incarnation",
        SyncWorld,
        replaced(world_sync, "push", _any_incarnation),
        ("heirs", "last", "owner"),
    ),
    Mutant(
        "sync: cookie of any incarnation", SyncWorld, replaced(pull, "_usable", _usable_by_number), ("order", "state")
    ),
    Mutant("sync: deletions left out", SyncWorld, replaced(pull, "_news", _puts_alone), ("state", "converged")),
    Mutant("sync: news of every group", SyncWorld, replaced(pull, "_of_group", _every_group), ("owner",)),
)
