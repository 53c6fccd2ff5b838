"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from importlib.metadata import version

from litestar import Litestar
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler

from stratalog.arguments import check_class
from stratalog.documents import Document
from stratalog.errors import StratalogError
from stratalog.protocol.sync import Push, Pushed
from stratalog.server.application import Application
from stratalog.server.audit import Audit
from stratalog.server.blobs import BLOBS
from stratalog.server.bodies import Answer, Question
from stratalog.server.byte_budgets import bounded
from stratalog.server.documents import DOCUMENTS, ORGANISATIONS
from stratalog.server.error_responses import handle_core, handle_http, handle_unexpected
from stratalog.server.health import health, metrics
from stratalog.server.history import HISTORY
from stratalog.server.home import HOME, SchemaDocument, SchemaPage, schema_router
from stratalog.server.hub import Poked
from stratalog.server.live import LIVE
from stratalog.server.logs import LOGS
from stratalog.server.methods import answers_head, answers_options
from stratalog.server.middleware import Middleware, decoded_names
from stratalog.server.names import list_holders
from stratalog.server.pages import pages
from stratalog.server.pools import LoopThreads
from stratalog.server.query_parameters import declared_parameters
from stratalog.server.records import RECORDS
from stratalog.server.service import Pushing, Service, allowed
from stratalog.server.siblings import Siblings
from stratalog.server.sync import SYNC
from stratalog.server.usage import USAGE
from stratalog.store import Store
from stratalog.sync.push import push
from stratalog.worker.queued_pushes import QueuedPushes

__all__ = ["create_app"]

ROUTES: list[ControllerRouterHandler] = [
    health,
    metrics,
    list_holders,
    ORGANISATIONS,
    DOCUMENTS,
    SYNC,
    HISTORY,
    LOGS,
    RECORDS,
    BLOBS,
    USAGE,
    *LIVE,
    *HOME,
]


def create_app(
    store: Store,
    application: Application | None = None,
    *,
    push: Pushing = push,
    poked: Poked | None = None,
    audit: Audit | None = None,
    siblings: Siblings | None = None,
) -> Litestar:
    """Return the ASGI application that serves a store. The caller closes the store.

    The documents of ``store`` get the mutators and metadata fields of ``application``. Without ``application``, they
    keep the rules of ``store``. The quotas of ``application`` apply to every write through ``store``. ``push`` handles
    pushes that are not queued. `Hub.poke` calls ``poked``: after each append over HTTP, and after each push and merge
    that committed a version.

    ``audit`` has the access log and the security log, which the caller closes. Without ``audit``, the server writes
    neither log. ``siblings`` are the other processes of the same server, if there are any.
    """
    check_class(Store, store=store)
    if application is None:
        application = Application()
    else:
        check_class(Application, application=application)
        store.rules = application.rules
    service = Service(store, application, _push_path(store, application, push), poked, audit, siblings)
    store.environment.admission = service.admission
    app = Litestar(
        [*ROUTES, *application.routes, pages(application)],
        debug=False,
        dependencies={"service": Provide(lambda: service, sync_to_thread=False)},
        exception_handlers={StratalogError: handle_core, HTTPException: handle_http, Exception: handle_unexpected},
        lifespan=[_running(service)],
        logging_config=None,
        middleware=[answers_options, decoded_names, allowed],
        openapi_config=_openapi(),
        request_class=Question,
        request_max_body_size=application.limits.request_bytes_max,
        response_class=Answer,
    )
    # Count bodies and responses inside the middleware. The middleware authenticates the caller first, so the holders of
    # a budget are known.
    app.state.service = service
    app.state.query_parameters = declared_parameters(app)
    app.asgi_handler = Middleware(
        answers_head(bounded(app.asgi_handler, service.byte_budgets), app),
        application,
        store.environment.clock,
        service.metrics,
        authentication=service.authentication,
        audit=service.audit,
        budgets=service.connections,
        rates=service.rates,
    )
    return app


def _push_path(store: Store, application: Application, direct: Pushing) -> Pushing:
    """Return a function that queues a push if ``queued`` is true for its document, and else calls ``direct``."""
    is_queued = application.queued
    if is_queued is None:
        return direct
    queue = QueuedPushes(store, application.limits.queued_pushes_max)

    def take(document: Document, request: Push, owner: str, author: str) -> Pushed:
        path = queue.push if is_queued(document.organisation, document.name) else direct
        return path(document, request, owner, author)

    return take


def _openapi() -> OpenAPIConfig:
    return OpenAPIConfig(
        "Stratalog",
        version("stratalog"),
        components=Components(security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}),
        description="Bodies are JSON, or MessagePack if Content-Type or Accept is application/msgpack.",
        render_plugins=(SchemaPage(), SchemaDocument()),
        openapi_router=schema_router(),
        security=[{}, {"bearer": []}],
    )


def _running(service: Service) -> Callable[[Litestar], AbstractAsyncContextManager[None]]:
    """Return the lifespan of the server: its threads, the application's contexts, and the tasks of hub and siblings."""

    @asynccontextmanager
    async def running(app: Litestar) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(LoopThreads(service.pools))
        with ExitStack() as entered:
            for enter in service.application.running:
                entered.enter_context(enter(service.store))
            tasks = [loop.create_task(service.hub.watch())]
            if service.siblings is not None:
                tasks.append(loop.create_task(service.siblings.run()))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                for task in tasks:
                    with suppress(asyncio.CancelledError):
                        await task
                service.spool.close()

    return running
