"""Pull: all changes since a cookie, read from one version."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

import msgspec

from stratalog.codec import decode
from stratalog.documents import Document
from stratalog.documents.changes import Changes, Member, changes_since, member_of, members, rejections
from stratalog.documents.state import State
from stratalog.documents.values import value_size
from stratalog.errors import Collected, Forbidden, Invalid, LimitExceeded, NotFound
from stratalog.limits import COOKIE_CLIENTS_MAX, INTEGER_MAX, REJECTIONS_SHOWN_VERSIONS
from stratalog.protocol.messages import check_client, check_identity
from stratalog.protocol.sync import Clear, Cookie, DeleteKey, Operation, Pull, Pulled, PutKey, Rejection
from stratalog.tree.nodes import Slot

__all__ = ["LOST_BRANCH", "MayWrite", "OpenPull", "always", "open_pull", "pull"]

LOST_BRANCH = "cookie of a lost branch"
"""The name of a counter and the text of a log message: a client sent a cookie of a branch that this history lost.

Such cookies are expected after a restore. At any other time, investigate the cause.
"""

_log = logging.getLogger("stratalog.sync")

MayWrite = Callable[[], bool]
"""Returns whether the principal that pulls may also write. A pull calls the function only if it may have to commit."""


def always() -> bool:
    """Return True, for a caller that needs no check."""
    return True


def pull(document: Document, request: Pull, owner: str = "", may_write: MayWrite = always) -> Pulled:
    """Return the changes from the request's cookie to the head, and the last numbers of the group's clients.

    For a cookie of another history, or of a forgotten version, the result is the whole state. If the cookie has higher
    numbers than this history, and the caller ``may_write``, the pull first commits the higher numbers; see
    `stratalog.documents.resumption`. A client must apply the result only to the state of the cookie that it sent.

    Raises Invalid for an invalid group or cookie, and LimitExceeded for a cookie with too many clients. Raises
    Collected if the group's clients were collected, and Forbidden if a client in the result belongs to another owner.
    Also raises NotFound, ContentionError, HistoryChanged, Unavailable, Corrupt and OutcomeUnknown.
    """
    return open_pull(document, request, owner, may_write, start_bytes_max=sys.maxsize).start


def open_pull(
    document: Document, request: Pull, owner: str = "", may_write: MayWrite = always, *, start_bytes_max: int
) -> OpenPull:
    """Return the result of `pull`, but read at most ``start_bytes_max`` bytes of values now. Raises as `pull` does."""
    check_identity(request.group, "group")
    if request.cookie is not None:
        _check_cookie(request.cookie)
    return _Answer(document, request, owner, may_write, start_bytes_max).give(document.state())


def _check_cookie(cookie: Cookie) -> None:
    check_identity(cookie.group, "group", empty=True)
    if len(cookie.last) > COOKIE_CLIENTS_MAX:
        raise LimitExceeded("a cookie holds too many clients", value=len(cookie.last), limit=COOKIE_CLIENTS_MAX)
    for client in cookie.last:
        check_client(client)
    for number in (cookie.order, cookie.version, *cookie.last.values()):
        if type(number) is not int or not 0 <= number <= INTEGER_MAX:
            raise Invalid("a number in a cookie is out of range", value=number, limit=INTEGER_MAX)


class OpenPull(msgspec.Struct, frozen=True):
    """The result of a pull, with only the start of its patch in memory. The whole patch is read from one version."""

    start: Pulled
    """The result with the first operations of the patch."""

    rest: Iterator[tuple[int, Callable[[], Operation]]] | None
    """The remaining operations, or None if none remain. Each operation is (the number of bytes to read, the function
    that reads the operation)."""

    count: Callable[[], int]
    """Returns the number of operations in the whole patch. Reads keys again, but no large values."""


class _Answer:
    """One pull: the document, the principal, and the facts of the cookie."""

    def __init__(
        self, document: Document, request: Pull, owner: str, may_write: MayWrite, start_bytes_max: int
    ) -> None:
        self._document = document
        self._start_bytes_max = start_bytes_max
        self._group = request.group
        self._cookie = request.cookie
        self._owner = owner
        self._may_write = may_write
        self._origin = document.origin
        own = self._cookie if self._cookie and self._cookie.origin == self._origin else None
        self._own = own
        """The cookie, if it belongs to this document's history."""

        self._reported: Mapping[str, int] = own.last if own and own.group == self._group else {}

    def give(self, state: State) -> OpenPull:
        """Return the result at ``state``, or at a newer state."""
        self._check_not_collected(state)
        cookie = self._own
        if cookie is None:
            return self._complete(state)
        is_here = self._is_here(state, cookie)
        if not is_here:
            return self._resume(state, cookie, is_lost=is_here is not None)
        try:
            return self._news(state, cookie)
        except NotFound:
            # History since the cookie was forgotten, redacted or deleted: send the whole state instead.
            return self._complete(state)

    def _check_not_collected(self, state: State) -> None:
        if state.group_collected(self._group):
            raise Collected("the group's clients were collected", group=self._group)

    def _is_here(self, state: State, cookie: Cookie) -> bool | None:
        """Return whether the cookie's version is in this history; None if it is forgotten or precedes the fork."""
        if cookie.version > state.version:
            return False
        if cookie.version < max(self._document.log.first, state.floor):
            return None
        try:
            return cookie.hash == self._hash(state, cookie.version)
        except NotFound:
            return None  # the floor rose since ``state`` was read

    def _hash(self, state: State, version: int) -> str:
        return (state.hash if version == state.version else self._document.log.hash_at(version)).hex()

    def _resume(self, state: State, cookie: Cookie, *, is_lost: bool) -> OpenPull:
        """Return the whole state. If the principal may write, the document first raises the group's numbers.

        The numbers rise to the numbers in the cookie. For a cookie of a lost branch, the document also raises the order
        of its cookies above the order of this cookie. `resumption_of` has the exceptions.

        The hash of a forgotten version cannot be compared. A cookie of a forgotten version counts as a cookie of a lost
        branch if its order is at or above the order of ``state``.
        """
        if is_lost:
            self._document.log.environment.count(LOST_BRANCH)
            _log.warning("%s: document=%s version=%s", LOST_BRANCH, self._document.name, cookie.version)
        if self._may_write():
            order = cookie.order if is_lost or cookie.order >= state.order else None
            state = self._document.resume(self._group, self._owner, self._reported, order)
        return self._complete(state)

    def _complete(self, state: State) -> OpenPull:
        """Return the whole state, with an order greater than the order of the request's cookie."""
        self._check_not_collected(state)  # check again: this state may be newer than the first state
        group_members = members(state, self._group)
        last = self._last_ids(group_members)
        lost = {client: list(numbers) for client in last if (numbers := state.lost(client))}
        start = Pulled(self._next_cookie(state, last), last, [Clear()], lost=lost)
        return self._open(state, start, state.scan(), lambda: 1 + sum(1 for _ in state.scan()))

    def _news(self, state: State, since: Cookie) -> OpenPull:
        if since.version == state.version:
            return OpenPull(Pulled(since, {}, []), None, lambda: 0)
        assert since.version < state.version, "a cookie of this history is not ahead of the state"
        changes = changes_since(self._document.log, state, since.version)
        last = self._last_ids(_of_group(state, changes, self._group))
        start = Pulled(self._next_cookie(state, last), last, [], self._rejected(state, since.version, set(last)))
        rows = ((key, state.slot(key)) for key in sorted(changes.keys))
        return self._open(state, start, rows, lambda: len(changes.keys))

    def _open(
        self, state: State, start: Pulled, rows: Iterator[tuple[str, Slot | None]], count: Callable[[], int]
    ) -> OpenPull:
        """Read values into the patch of ``start`` up to the limit in bytes. The remaining ``rows`` are read later."""
        left = self._start_bytes_max
        for row in rows:
            left -= _row_bytes(row)
            if left < 0:
                waiting = chain((row,), rows)
                return OpenPull(
                    start, ((_row_bytes(row), partial(self._operation, state, row)) for row in waiting), count
                )
            start.patch.append(self._operation(state, row))
        return OpenPull(start, None, count)

    def _last_ids(self, group_members: Iterable[Member]) -> dict[str, int]:
        """Return the last numbers to report.

        A number that is lower than the number reported earlier is left out, since the client would reject this number.
        """
        last = {}
        for member in group_members:
            if member.owner != self._owner:
                raise Forbidden("the group belongs to another principal", value=member.group)
            if member.id >= self._reported.get(member.client, 0):
                last[member.client] = member.id
        return last

    def _operation(self, state: State, row: tuple[str, Slot | None]) -> Operation:
        key, slot = row
        return DeleteKey(key) if slot is None else PutKey(key, decode(state.value(slot, self._document.stored_values)))

    def _rejected(self, state: State, since: int, clients: set[str]) -> list[Rejection]:
        """Return these clients' rejections since a version.

        The result is [] after `REJECTIONS_SHOWN_VERSIONS` versions.
        """
        if not clients or state.version - since > REJECTIONS_SHOWN_VERSIONS:
            return []
        rejected = rejections(self._document.log, since, state.version, clients)
        return [Rejection(mutation.client, mutation.id, mutation.reason or "") for mutation in rejected]

    def _next_cookie(self, state: State, last: Mapping[str, int]) -> Cookie:
        order = max(state.order, self._order_passed(state))
        if order > INTEGER_MAX:
            raise Invalid("the order of the next cookie is out of range", value=order, limit=INTEGER_MAX)
        # A client that orders its pulls by their cookies ignores a pull whose cookie has no higher order.
        assert self._cookie is None or order > self._cookie.order, "each cookie has a higher order than the last cookie"
        hash = state.hash.hex()
        # The next pull with this cookie compares the hash. If the log remembers the hash, the next pull need not read
        # it.
        self._document.log.note_hash(state.version, state.hash)
        return Cookie(order, self._origin, state.version, hash, self._group, _newest({**self._reported, **last}, last))

    def _order_passed(self, state: State) -> int:
        """Return an order above the order of the cookie: by the number of versions since the cookie, and at least by 1.

        The result may be above the document's own order. Without a cookie, the result is 0.
        """
        if self._cookie is None:
            return 0
        passed = state.version - self._cookie.version if self._own else 0
        return self._cookie.order + max(1, passed)


def _row_bytes(row: tuple[str, Slot | None]) -> int:
    key, slot = row
    return len(key.encode()) + (value_size(slot.value) if slot else 0)


def _of_group(state: State, changes: Changes, group: str) -> Iterator[Member]:
    candidates = (member_of(state, client) for client in sorted(changes.clients))
    return (member for member in candidates if member is not None and member.group == group)


def _newest(reported: Mapping[str, int], last: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers for a cookie: the numbers reported now, and as many earlier numbers as fit."""
    before = [client for client in reported if client not in last]
    newest = [*before, *last][-COOKIE_CLIENTS_MAX:]
    return {client: reported[client] for client in newest}
