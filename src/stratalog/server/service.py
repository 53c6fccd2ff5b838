"""Service: the parts of one server, given to every handler, and the decorators that declare a handler's pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

from litestar import delete, get, post, put
from litestar.di import NamedDependency
from litestar.enums import ScopeType
from litestar.handlers import BaseRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send

from stratalog.documents import Document
from stratalog.errors import Forbidden, Invalid
from stratalog.limits import REQUEST_STORED_BYTES
from stratalog.log import Log
from stratalog.log.admission import UNBOUND, Admission, Reservation
from stratalog.log.usage import Amounts
from stratalog.protocol.messages import Outcome
from stratalog.protocol.sync import Push, Pushed
from stratalog.server.application import Application
from stratalog.server.audit import Audit
from stratalog.server.authentication import Authentication
from stratalog.server.body_spool import BodySpool
from stratalog.server.byte_budgets import ByteBudgets
from stratalog.server.connection_shares import ConnectionBudgets, connection_of
from stratalog.server.counted_requests import CountedRequest
from stratalog.server.error_responses import PROBLEMS
from stratalog.server.health_check import HealthCheck
from stratalog.server.hub import Hub, Poked
from stratalog.server.metrics import Metrics, with_processes
from stratalog.server.pools import Pools, present_work
from stratalog.server.query_parameters import check_query
from stratalog.server.rates import Rates
from stratalog.server.security import Action, Principal, permit
from stratalog.server.shares import Holder
from stratalog.server.siblings import Siblings
from stratalog.store import Store
from stratalog.sync.push import push as apply_push

__all__ = ["Pushing", "Served", "Service", "allowed", "deleting", "posting", "posting_async", "putting", "reading"]

Pushing = Callable[[Document, Push, str, str], Pushed]
"""Applies a push of (document, push, owner, author), or queues it for a worker."""

STORING: frozenset[str] = frozenset({"create", "write", "write-record"})
"""Actions whose requests store data, and so need quota."""

T = TypeVar("T")
GOLDEN_RATIO = 0.6180339887498949


class Service:
    """The parts of one server."""

    def __init__(
        self,
        store: Store,
        application: Application,
        push: Pushing,
        poked: Poked | None = None,
        audit: Audit | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        clock, limits = store.environment.clock, application.limits
        self.store = store
        self.push = push
        self.applies_pushes = push is apply_push
        """Whether this process applies every push itself, so that no push may be queued."""

        self.application = application
        self.pools = Pools(limits)
        self.audit = audit or Audit(clock)
        self.authentication = Authentication(
            application.authenticate, clock, limits, self.pools.identity, self.audit.note_sign_in
        )
        self.connections = ConnectionBudgets(limits, is_shared=self.authentication.is_asked)
        self.rates = Rates(clock, limits.rate_requests_per_second, limits.rate_requests_burst)
        of_organisation = (limits.rate_organisation_requests_per_second, limits.rate_organisation_requests_burst)
        self._organisation_rates = Rates(clock, *of_organisation, "the organisation exceeds its rate of requests")
        creations = (limits.creations_per_second, limits.creations_burst)
        self._creations = Rates(clock, *creations, "the principal exceeds its rate of creations")
        records = (limits.record_creations_per_second, limits.record_creations_burst)
        self._record_creations = Rates(clock, *records, "the principal exceeds its rate of new records")
        clients = (limits.client_creations_per_second, limits.client_creations_burst)
        self._client_creations = Rates(clock, *clients, "the principal exceeds its rate of new clients")
        quotas = application.quotas_of if application.has_quotas else None
        self.admission = Admission(store.environment.index, clock, quotas, self._note_creation)
        self.metrics = Metrics(store.environment, store.meter, self.pools, self.admission)
        self.metrics.watch_rates(
            requests=(self.rates, self._organisation_rates),
            invalid_tokens=(self.authentication.invalid_tokens,),
            creations=(self._creations,),
            record_creations=(self._record_creations,),
            client_creations=(self._client_creations,),
        )
        self.byte_budgets = ByteBudgets(application)
        self.spool = BodySpool()
        self.siblings = siblings
        if siblings is not None:
            siblings.metrics = self._own_metrics
        self.hub = Hub(store, limits, self.metrics, self.pools, poked, siblings)
        self.health = HealthCheck(store, self.pools.health)
        # Each live connection skips a part of its first wait: see `LiveRight`. The parts are multiples of the golden
        # ratio modulo 1. Any number of consecutive multiples is spread evenly between 0 and 1.
        self.phases = (number * GOLDEN_RATIO % 1 for number in count())

    def document(self, organisation: str, document: str) -> Document:
        """Return the document with this name. Raises NotFound, Invalid."""
        return self.store.document(organisation, document)

    async def all_metrics(self) -> str:
        """Return the metrics in Prometheus's text format.

        If the server has several processes, return the metrics of all processes, with the process's number as a label.
        """
        if self.siblings is None:
            return await self._own_metrics()
        return with_processes(await self.siblings.all_metrics())

    async def _own_metrics(self) -> str:
        return await self.pools.pages.run(lambda: self.metrics.text().decode())

    def held_document(self, organisation: str, document: str) -> Document | None:
        """Return the document as this process last opened it, without a read of the store, or None.

        Returns None if pushes may be queued, and as `Store.held_document` does. Only the commit of a push that this
        process applies detects that the document was deleted.
        """
        return self.store.held_document(organisation, document) if self.applies_pushes else None

    def log(self, organisation: str, log: str) -> Log:
        """Return an application's own log with this name. Raises NotFound, and Invalid for a document's log."""
        opened = self.store.log(organisation, log)
        if opened.record.kind != "log":
            raise Invalid(
                "the name belongs to a document; use the paths of documents", organisation=organisation, log=log
            )
        return opened

    async def permit(self, principal: Principal, action: Action, organisation: str, name: str = "") -> None:
        """Check that the principal may do the action, and does not create documents or logs too fast.

        Raises Forbidden, Refused, and the errors of ``authorize``.
        """
        await permit(self.application.authorize, principal, action, organisation, name, self.pools.identity)
        if action == "create" and principal.id:
            self._creations.take(("principal", principal.id))

    def enter(self, scope: Scope, organisation: str) -> None:
        """Count a request for the organisation to which its principal was admitted.

        Count the connection first, then the rate.

        Raises Refused. Without authentication an organisation has no rate: all callers are one user.
        """
        if not organisation:
            return
        connection_of(scope).enter(organisation)
        if self.authentication.is_asked:
            self._organisation_rates.take(("organisation", organisation))

    async def run(self, function: Callable[[], T]) -> T:
        """Run synchronous code on a thread of the handler's pool. Raises Refused when no thread is free in time."""
        return await self.pools.run(function)

    async def in_turn(self, organisation: str, name: str, function: Callable[[], T]) -> T:
        """Run a change of a document or log after the earlier changes of the same document or log.

        Raises Refused when too many calls wait, or when no thread is free in time.
        """
        return await self.pools.in_turn(organisation, name, function)

    def may(self, principal: Principal, action: Action, organisation: str, name: str) -> bool:
        """Return whether the principal may do the action.

        Only code on a thread of `run` may call this method, which blocks the thread. Raises the other errors of
        `permit`.
        """
        work = present_work()
        assert work is not None
        try:
            asyncio.run_coroutine_threadsafe(self.permit(principal, action, organisation, name), work.loop).result()
        except Forbidden:
            return False
        return True

    async def reserve_bytes(self, organisation: str, amount: int = REQUEST_STORED_BYTES) -> Reservation:
        """Reserve ``amount`` bytes of the organisation's quota. Raises QuotaExceeded, and the errors of `run`."""
        if self.admission.quotas(organisation).stored_bytes_max is None:
            return UNBOUND
        reserve = partial(self.admission.reserve, organisation, Amounts(stored_bytes=amount))
        # When a measurement is due, a reservation reads the store. This read must not block the event loop.
        return await self.run(reserve) if self.admission.is_due(organisation) else reserve()

    def _note_creation(self, principal: str, amounts: Amounts) -> None:
        """Count the records and clients that a write is about to create. Raises Refused when they come too fast."""
        for rates, amount in ((self._record_creations, amounts.records), (self._client_creations, amounts.clients)):
            if amount:
                rates.take(("principal", principal), amount)

    def note_outcomes(self, organisation: str, name: str, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of a push, and poke the listeners of the document with its newest committed version."""
        for outcome in outcomes:
            self.metrics.mutations.labels(outcome.status).inc()
        self.poke_newest(organisation, name, (outcome.version for outcome in outcomes))

    def poke_newest(self, organisation: str, name: str, versions: Iterable[int | None]) -> None:
        """Poke the listeners of a document with the newest of ``versions``; not at all if nothing was committed."""
        newest = max((version for version in versions if version is not None), default=None)
        if newest is not None:
            self.hub.poke(organisation, name, newest)


def allowed(app: ASGIApp) -> ASGIApp:
    """Wrap every handler: select its pool, check the action and the query that it declares, and reserve quota.

    Raises Forbidden, Refused, QuotaExceeded, and Invalid for the query.

    This wrapper is not a Litestar guard, because a guard would create a copy of the connection for each request.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        action, organisation = await _admit(scope)
        # Check the right first, as for a parameter of an invalid value.
        check_query(scope)
        if action not in STORING or not organisation or scope["type"] != ScopeType.HTTP or scope["method"] == "DELETE":
            return await app(scope, receive, send)
        service: Service = scope["litestar_app"].state.service
        # Reserve nothing for a create request now: if the document exists, the request stores at most its own body.
        amount = 0 if action == "create" else REQUEST_STORED_BYTES
        reservation = await service.reserve_bytes(organisation, amount)
        if reservation is UNBOUND:
            return await app(scope, receive, send)
        with CountedRequest(reservation, scope, receive, send) as counted:
            await app(scope, counted.receive, counted.send)
        return None

    return call


async def _admit(scope: Scope) -> tuple[Action | None, str]:
    """Select the request's pool and check its action. Return the action, and the organisation or an empty string."""
    service: Service = scope["litestar_app"].state.service
    handler: BaseRouteHandler = scope["route_handler"]
    names = scope["path_params"]
    organisation = names.get("organisation", "")
    name = next((names[kind] for kind in ("document", "log", "record") if kind in names), "")
    key = (organisation, name, "record" in names) if name else None
    # A WebSocket has no principal before the server has checked its token.
    principal: Principal | None = scope.get("user")
    caller: Holder | None = ("principal", principal.id) if principal is not None and principal.id else None
    service.pools.begin(handler.opt.get("pool"), key, caller)
    action = handler.opt.get("action")
    if action is not None:
        await service.permit(scope["user"], action, organisation, name)
        service.enter(scope, organisation)
    return action, organisation


Served = NamedDependency[Service]
"""The service. The server gives it to a handler that has a parameter of this type."""

reading = partial(get, pool="reads", sync_to_thread=True, responses=PROBLEMS)
"""Decorate a handler of GET that runs in the pool of reads; ``pool=`` names another pool."""

posting = partial(post, pool="writes", sync_to_thread=True, status_code=200, responses=PROBLEMS)
"""Decorate a handler of POST that runs in the pool of writes; ``pool=`` names another pool."""

posting_async = partial(post, pool="reads", status_code=200, responses=PROBLEMS)
"""Decorate an asynchronous handler of POST, whose `Service.run` uses the pool of reads; ``pool=`` names another."""

putting = partial(put, pool="writes", sync_to_thread=True, responses=PROBLEMS)
"""Decorate a handler of PUT that runs in the pool of writes; ``pool=`` names another pool."""

deleting = partial(delete, pool="writes", sync_to_thread=True, status_code=204, responses=PROBLEMS)
"""Decorate a handler of DELETE that runs in the pool of writes; ``pool=`` names another pool."""
