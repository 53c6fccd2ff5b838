"""Bugs planted in push and pull. A checker of the world of sync must catch each bug."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import msgspec

from stratalog.documents import Document
from stratalog.documents.changes import Changes, Member
from stratalog.documents.state import State
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Pulled, Push, Pushed
from stratalog.sync.pull import OpenPull
from tests.simulation import world_sync
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_sync import SyncWorld

__all__ = ["MUTANTS"]

pull: Any = import_module("stratalog.sync.pull")
push: Any = import_module("stratalog.sync.push")

Answer: Any = pull._Answer
_news: Callable[..., OpenPull] = Answer._news
_complete: Callable[..., OpenPull] = Answer._complete
_next_cookie: Callable[..., Cookie] = Answer._next_cookie
_pushed: Callable[..., Pushed] = push.push


def _stand_still(self: Any, state: State, since: Cookie) -> OpenPull:
    """Return the same cookie if no key changed. A client that ignores such an answer then misses a rejection."""
    opened = _news(self, state, since)
    return opened if opened.start.patch else _changed(opened, cookie=since)


def _stand_still_unseen(self: Any, state: State, since: Cookie) -> OpenPull:
    """Return the same cookie if no key changed, and also leave out the last ids and rejections."""
    opened = _news(self, state, since)
    return opened if opened.start.patch else msgspec.structs.replace(opened, start=Pulled(since, {}, []))


def _last_ids_of_later(self: Any, state: State, since: Cookie) -> OpenPull:
    """Read the last ids after the state. Other writers may commit between the two reads."""
    opened = _news(self, state, since)
    later = self._document.state()
    last = {client: member.id for client in opened.start.last if (member := later.client(client))}
    return _changed(opened, last=last)


def _without_clear(self: Any, state: State) -> OpenPull:
    opened = _complete(self, state)
    patch = [operation for operation in opened.start.patch if not isinstance(operation, Clear)]
    return opened if self._cookie is None else _changed(opened, patch=patch)


def _changed(opened: OpenPull, **fields: Any) -> OpenPull:
    return msgspec.structs.replace(opened, start=msgspec.structs.replace(opened.start, **fields))


def _order_of_version(self: Any, state: State, last: Mapping[str, int]) -> Cookie:
    return msgspec.structs.replace(_next_cookie(self, state, last), order=state.version)


def _any_owner(self: Any, members: Iterable[Member]) -> dict[str, int]:
    return {member.client: member.id for member in members}


def _never_owned(self: State, group: str) -> str | None:
    return None


def _any_document(document: Document, request: Push, owner: str = "", author: str = "") -> Pushed:
    return _pushed(document, msgspec.structs.replace(request, origin=""), owner, author)


def _usable_by_number(self: Any, state: State) -> OpenPull:
    """Compare only the version number of the cookie, not its origin or hash."""
    cookie = self._cookie
    if cookie is None or not max(self._document.log.first, state.floor) <= cookie.version <= state.version:
        return _complete(self, state)
    return _news(self, state, cookie)


def _puts_alone(self: Any, state: State, since: Cookie) -> OpenPull:
    opened = _news(self, state, since)
    return _changed(
        opened, patch=[operation for operation in opened.start.patch if not isinstance(operation, DeleteKey)]
    )


def _every_group(state: State, changes: Changes, group: str) -> Iterable[Member]:
    members = (pull.member_of(state, client) for client in sorted(changes.clients))
    return (member for member in members if member is not None)


MUTANTS = (
    Mutant(
        "sync: reserved names open to all",
        SyncWorld,
        replaced(push, "check_unreserved", lambda mutation: mutation),
        ("reserved",),
    ),
    Mutant("sync: cookie not moved by a rejection", SyncWorld, replaced(Answer, "_news", _stand_still), ("cookie",)),
    Mutant("sync: rejection not reported", SyncWorld, replaced(Answer, "_news", _stand_still_unseen), ("progress",)),
    Mutant("sync: last ids of a later version", SyncWorld, replaced(Answer, "_news", _last_ids_of_later), ("last",)),
    Mutant(
        "sync: no clear for a cookie of another document",
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
