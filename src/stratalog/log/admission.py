"""Admission: refuses writes that would exceed a quota of their organisation.

A process compares a quota with the measured usage plus its own sum: the amounts that the process has admitted since the
measurement began. Before a write it reads the measurement again if its last read is `USAGE_READ_SECONDS` old. The
process does not count the amounts that other processes admit meanwhile. Writers can therefore exceed a quota by those
amounts until the next measurement. Amounts that the process admits while a measurement runs may be part of the
measurement and of the process's own sum. These amounts count twice until the next measurement.

An organisation without quotas costs neither a read nor memory.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from stratalog.clock import Clock, Observation
from stratalog.errors import OutcomeUnknown, QuotaExceeded, Unavailable
from stratalog.limits import (
    USAGE_CLOCKS_SECONDS_MAX,
    USAGE_ORGANISATIONS_MAX,
    USAGE_READ_SECONDS,
    USAGE_SLICE_SECONDS,
    USAGE_SLICES_MAX,
)
from stratalog.log.usage import (
    NOTHING,
    UNLIMITED,
    Amounts,
    Measurement,
    Quotas,
    QuotasOf,
    is_from_wrong_clock,
    load_measurement,
)
from stratalog.ports.index import Index
from stratalog.process_fork import close_in_child

__all__ = ["UNBOUND", "Admission", "Reservation", "Usage"]

Creating = Callable[[str, Amounts], None]
"""Called with a principal and the amounts that it is about to create. Raises if the principal creates too fast."""

_RequireRoom = Callable[[Amounts, Amounts], None]
"""Called with the amounts that are used and the amounts to add. Raises QuotaExceeded."""

_NAMES = {"stored_bytes": "stored bytes", "documents": "documents", "records": "records", "clients": "clients"}


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """The usage of an organisation: its measurement, and the amounts that this process has admitted.

    ``measured`` is the newest measurement, None if the organisation was never measured. ``admitted`` is the sum of the
    amounts that this process has admitted and that the measurement does not cover.
    """

    measured: Measurement | None
    admitted: Amounts
    quotas: Quotas

    @property
    def amounts(self) -> Amounts:
        """Return the sum of the measured and the admitted amounts. A quota limits this sum."""
        return self.admitted.plus(self.measured.amounts if self.measured else NOTHING)

    @property
    def ratio(self) -> float:
        """Return the largest ratio of an amount to its quota; 0 if the organisation has no quota above 0.

        The clients of one document count as measured: this process does not know how many of the admitted clients
        belong to the same document.
        """
        pairs = [(getattr(self.amounts, name), getattr(self.quotas, f"{name}_max")) for name in _NAMES]
        if self.measured is not None:
            pairs.append((self.measured.document_clients, self.quotas.document_clients_max))
        return max((used / limit for used, limit in pairs if limit), default=0.0)


class Admission:
    """Admits writes within the quotas of their organisations. Safe for threads. A `reserve` rarely reads the index."""

    def __init__(
        self, index: Index, clock: Clock, quotas: QuotasOf | None = None, creating: Creating | None = None
    ) -> None:
        self.refusals: Counter[str] = Counter()
        """The number of refusals by quota."""

        self._index = index
        self._clock = clock
        self._quotas = quotas
        self._creating = creating
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._lock = threading.Lock()
        close_in_child(self, "_lock")

    def quotas(self, organisation: str) -> Quotas:
        """Return the organisation's quotas."""
        return UNLIMITED if self._quotas is None else self._quotas(organisation)

    def is_due(self, organisation: str) -> bool:
        """Return whether the next reservation for an organisation with quotas reads its measurement."""
        return self._account(organisation).is_due

    def reserve(
        self,
        organisation: str,
        amounts: Amounts,
        *,
        document_clients: Callable[[], int] | None = None,
        principal: str = "",
    ) -> Reservation:
        """Admit ``amounts``, which count from now on. After the write the caller confirms or releases the reservation.

        ``document_clients`` returns the number of clients that the document already has. ``principal`` creates the
        records and clients among ``amounts``. Raises QuotaExceeded, or an error if the principal creates too fast:
        nothing is reserved.
        """
        if (amounts.records or amounts.clients) and principal and self._creating is not None:
            self._creating(principal, amounts)
        quotas = self.quotas(organisation)
        if quotas == UNLIMITED:
            return UNBOUND
        account = self._account(organisation)
        account.refresh(self._index, organisation)
        if document_clients is not None and quotas.document_clients_max is not None:
            wanted = document_clients() + amounts.clients
            self._check(organisation, "document_clients", quotas.document_clients_max, wanted, "document")
        reservation = Reservation(account, partial(self._require_room, organisation, quotas))
        reservation.add(amounts)
        return reservation

    def usage(self, organisation: str) -> Usage:
        """Return the organisation's usage, read now. Raises Unavailable."""
        with self._lock:
            # This call keeps no new account: callers may invent names, whose accounts would evict the accounts of
            # organisations that write.
            account = self._accounts.get(organisation) or _Account(self._clock)
        account.refresh(self._index, organisation, at_once=True)
        return account.usage(self.quotas(organisation))

    def known(self) -> Iterator[tuple[str, Usage]]:
        """Yield the organisations with quotas that this process has in memory, with their usage. Reads nothing."""
        with self._lock:
            accounts = list(self._accounts.items())
        for organisation, account in accounts:
            quotas = self.quotas(organisation)
            if quotas != UNLIMITED:
                yield organisation, account.usage(quotas)

    def _require_room(self, organisation: str, quotas: Quotas, used: Amounts, more: Amounts) -> None:
        for name in _NAMES:
            if added := getattr(more, name):
                self._check(organisation, name, getattr(quotas, f"{name}_max"), getattr(used, name) + added)

    def _check(self, organisation: str, name: str, limit: int | None, wanted: int, scope: str = "organisation") -> None:
        if limit is None or wanted <= limit:
            return
        quota = f"{name}_max"
        with self._lock:
            self.refusals[quota] += 1
        what = "the document's quota of clients is used up" if name == "document_clients" else ""
        message = what or f"the organisation's quota of {_NAMES[name]} is used up"
        details = {"quota": quota, "limit": limit, "value": wanted, "scope": scope}
        raise QuotaExceeded(message, organisation=organisation, **details)

    def _account(self, organisation: str) -> _Account:
        with self._lock:
            account = self._accounts.setdefault(organisation, _Account(self._clock))
            self._accounts.move_to_end(organisation)
            if len(self._accounts) > USAGE_ORGANISATIONS_MAX:
                self._make_room(organisation)
        return account

    def _make_room(self, newest: str) -> None:
        """Evict an empty account other than ``newest``, or if there is none, any account: the least recently used one.

        Callers may invent organisation names. The account of an invented name is empty, so it is evicted before
        accounts with amounts.
        """
        names = (name for name, account in self._accounts.items() if account.is_empty and name != newest)
        del self._accounts[next(names, next(iter(self._accounts)))]


class Reservation:
    """The amounts admitted for one write.

    As a context manager, the reservation confirms itself at the end of the block. After an error other than
    OutcomeUnknown the reservation releases itself, since nothing was written.
    """

    def __init__(self, account: _Account | None, require_room: _RequireRoom) -> None:
        self._account = account
        self._require_room = require_room
        self._amounts = NOTHING

    def check(self, amounts: Amounts) -> None:
        """Raise QuotaExceeded if the quotas leave no room for ``amounts`` more."""
        if self._account is not None:
            with self._account.lock:
                self._require_room(self._account.amounts(), amounts)

    def add(self, amounts: Amounts) -> None:
        """Admit ``amounts`` too. Raises QuotaExceeded: the amounts admitted earlier stay admitted."""
        if self._account is not None:
            # Check and add under one lock: two threads could otherwise both take the last room.
            with self._account.lock:
                self._require_room(self._account.amounts(), amounts)
                self._account.pending = self._account.pending.plus(amounts)
            self._amounts = self._amounts.plus(amounts)

    def confirm(self) -> None:
        """Record that the write is or may be committed. The amounts count until a later measurement begins."""
        self._settle(is_written=True)

    def release(self) -> None:
        """Record that nothing was written. After `confirm` this method does nothing."""
        self._settle(is_written=False)

    def _settle(self, *, is_written: bool) -> None:
        amounts, self._amounts = self._amounts, NOTHING
        if self._account is not None and amounts != NOTHING:
            with self._account.lock:
                self._account.pending = self._account.pending.plus(amounts, -1)
                if is_written:
                    self._account.note(amounts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        # An interrupt, which is no `Exception`, may arrive after the commit was sent, so the outcome is unknown.
        if isinstance(exc, Exception) and not isinstance(exc, OutcomeUnknown):
            self.release()
        else:
            self.confirm()


UNBOUND = Reservation(None, lambda used, more: None)
"""The reservation of an organisation without quotas. It reserves nothing, so all callers may share it."""


class _Account:
    """The count that this process keeps of one organisation's usage."""

    def __init__(self, clock: Clock) -> None:
        self.lock: threading.Lock = threading.Lock()
        self.pending = NOTHING
        """The admitted amounts that are not confirmed and not released yet."""

        self._clock = clock
        self._reading = threading.Lock()
        close_in_child(self, "lock", "_reading")
        self._read: Observation | None = None
        self._measured: Measurement | None = None
        self._slices: deque[_Slice] = deque()

        self._written = NOTHING

    @property
    def is_due(self) -> bool:
        return self._read is None or self._read.age_seconds() >= USAGE_READ_SECONDS

    @property
    def is_empty(self) -> bool:
        return self.pending == self._written == NOTHING

    def refresh(self, index: Index, organisation: str, *, at_once: bool = False) -> None:
        """Read the measurement if it is due. With ``at_once``, read it in any case, and consistently.

        Raises Unavailable only with ``at_once``. Without ``at_once`` a failed read is ignored: the following write uses
        the same store, so it probably fails too. Until the next read, the last measurement counts.
        """
        if not self.is_due and not at_once:
            return
        with self._reading:
            if not self.is_due and not at_once:
                return
            seen = Observation(self._clock)
            try:
                measured = load_measurement(index, organisation, consistent=at_once)
            except Unavailable:
                if at_once:
                    raise
                return
            with self.lock:
                self._read = seen
                # An eventually consistent read may return an older measurement than an earlier read.
                if measured and self._is_older_than(measured):
                    self._measured = measured
                    # A measurement from a clock that is ahead cannot cover the amounts of the last moments.
                    began_ms = min(measured.began_ms, self._clock.wall_ms())
                    self._forget_before(began_ms - USAGE_CLOCKS_SECONDS_MAX * 1000)

    def _is_older_than(self, measured: Measurement) -> bool:
        known = self._measured
        if known is None or known.began_ms < measured.began_ms:
            return True
        # The next read often returns the known measurement. It covers no amount that this process has admitted since.
        return known.began_ms != measured.began_ms and is_from_wrong_clock(known.began_ms, self._clock.wall_ms())

    def amounts(self) -> Amounts:
        measured = self._measured.amounts if self._measured else NOTHING
        return measured.plus(self._written).plus(self.pending)

    def usage(self, quotas: Quotas) -> Usage:
        with self.lock:
            return Usage(measured=self._measured, admitted=self._written.plus(self.pending), quotas=quotas)

    def note(self, amounts: Amounts) -> None:
        """Count ``amounts`` as written now."""
        now_ms = self._clock.wall_ms()
        self._written = self._written.plus(amounts)
        newest = _Slice(now_ms, now_ms, amounts)
        # Also join all slices in the future, which this process made before its clock was set back.
        while self._slices and now_ms - self._slices[-1].first_ms < USAGE_SLICE_SECONDS * 1000:
            newest = self._slices.pop().joined(newest)
        self._slices.append(newest)
        if len(self._slices) > USAGE_SLICES_MAX:
            self._join_older()

    def _join_older(self) -> None:
        """Join the older half of the slices in pairs.

        Older slices then cover longer times, so a limited number of slices covers any length of time.
        """
        older = [self._slices.popleft() for _ in range(USAGE_SLICES_MAX // 4 * 2)]
        joined = (first.joined(second) for first, second in zip(older[::2], older[1::2], strict=True))
        self._slices.extendleft(reversed(list(joined)))

    def _forget_before(self, began_ms: int) -> None:
        while self._slices and self._slices[0].last_ms < began_ms:
            self._written = self._written.plus(self._slices.popleft().amounts, -1)


class _Slice(NamedTuple):
    """The amounts written in a span of time. The amounts count until a measurement begins after the end of the span."""

    first_ms: int
    last_ms: int
    amounts: Amounts

    def joined(self, later: _Slice) -> _Slice:
        return _Slice(min(self.first_ms, later.first_ms), later.last_ms, self.amounts.plus(later.amounts))
