"""Service: what every handler is given, and how a handler says who may call it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from anyio import from_thread, to_thread
from litestar import delete, get, post, put
from litestar.connection import ASGIConnection
from litestar.di import NamedDependency
from litestar.handlers import BaseRouteHandler

from stratalog.documents import Document
from stratalog.errors import Forbidden, Invalid
from stratalog.log import Log
from stratalog.protocol.messages import Outcome
from stratalog.protocol.sync import Push, Pushed
from stratalog.server.application import Application
from stratalog.server.errors import PROBLEMS
from stratalog.server.hub import Hub, Poked
from stratalog.server.metrics import Metrics
from stratalog.server.push_threads import Workers
from stratalog.server.security import Action, Principal, permit
from stratalog.store import Store

__all__ = ["Pushing", "Served", "Service", "allowed", "deleting", "posting", "putting", "reading"]

Pushing = Callable[[Document, Push, str, str], Pushed]
"""Takes a push of an owner, named by an author: applies it, or queues it for a worker."""

T = TypeVar("T")


class Service:
    """One server's parts."""

    def __init__(self, store: Store, application: Application, push: Pushing, poked: Poked | None = None) -> None:
        self.store = store
        self.push = push
        self.application = application
        self.metrics = Metrics(store.environment, store.meter)
        self.hub = Hub(store, application.limits, self.metrics, poked)
        self.workers = Workers(application.limits.threads, application.limits.pushes_waiting_max)

    def document(self, organisation: str, document: str) -> Document:
        """The document of that name. Raises NotFound, Invalid."""
        return self.store.document(organisation, document)

    def log(self, organisation: str, log: str) -> Log:
        """The log of that name, where it is an application's own. Raises NotFound, Invalid for a document's."""
        opened = self.store.log(organisation, log)
        if opened.record.kind != "log":
            raise Invalid("this is a document, which has paths of its own", organisation=organisation, log=log)
        return opened

    async def permit(self, principal: Principal, action: Action, organisation: str, name: str = "") -> None:
        """Return where the principal may do this. Raises Forbidden."""
        await permit(self.application.authorize, principal, action, organisation, name)

    async def run(self, function: Callable[[], T]) -> T:
        """Run a piece of the core on a worker thread."""
        return await to_thread.run_sync(function)

    def may(self, principal: Principal, action: Action, organisation: str, name: str) -> bool:
        """Whether the principal may do this. Called by a function that `run` runs; the answer comes from the loop."""
        try:
            from_thread.run(self.permit, principal, action, organisation, name)
        except Forbidden:
            return False
        return True

    def note_outcomes(self, organisation: str, name: str, outcomes: Sequence[Outcome]) -> None:
        """Count what became of a push, and tell those who listen of what was committed."""
        for outcome in outcomes:
            self.metrics.mutations.labels(outcome.status).inc()
        versions = [outcome.version for outcome in outcomes if outcome.version is not None]
        if versions:
            self.hub.poke(organisation, name, max(versions))


async def allowed(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """The guard of every handler that names an action. Raises Forbidden."""
    action = handler.opt.get("action")
    if action is not None:
        names = connection.path_params
        name = next((names[kind] for kind in ("document", "log", "record") if kind in names), "")
        service: Service = connection.app.state.service
        await service.permit(connection.user, action, names.get("organisation", ""), name)


Served = NamedDependency[Service]
"""How a handler asks for the service."""

reading = partial(get, sync_to_thread=True, responses=PROBLEMS)
posting = partial(post, sync_to_thread=True, status_code=200, responses=PROBLEMS)
putting = partial(put, sync_to_thread=True, responses=PROBLEMS)
deleting = partial(delete, sync_to_thread=True, status_code=204, responses=PROBLEMS)
