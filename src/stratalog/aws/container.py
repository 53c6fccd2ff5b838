"""The container: the store and application that a Lambda execution environment opens once and keeps between calls.

Lambda may freeze the process for hours between two calls, so no code here relies on timers. The observation rule limits
how long the process trusts an earlier read. If a network connection was closed meanwhile, the next request on this
connection has an unknown outcome.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache, cached_property

from msgspec import structs

from stratalog.aws.listeners import Connections, Listeners
from stratalog.clock import Observation
from stratalog.errors import Invalid
from stratalog.protocol.live import Poke
from stratalog.server.application import Application
from stratalog.server.applications import find_application
from stratalog.settings import CHUNK_CACHE, SETTINGS, read_settings
from stratalog.store import Store, open_store
from stratalog.worker import WorkerSettings

__all__ = ["Container", "container"]

WORKER_SETTINGS = WorkerSettings(retry_seconds_max=5)


class Container:
    """The store and the application of a function, configured by environment variables.

    ``STRATALOG_STORE`` is the store's URL. ``STRATALOG_APPLICATION`` is the application, by its short name or as
    MODULE:NAME. Without an application the function serves the built-in mutators, and only to callers on the machine
    itself. If ``STRATALOG_QUEUED`` is not empty, every push goes through the queue. ``STRATALOG_SOCKETS`` is the URL of
    the WebSocket API's stage, ``https://…``. ``STRATALOG_LIVE`` is the address to which clients connect, ``wss://…``,
    if it differs from the stage's address. ``STRATALOG_ORIGINS`` lists web origins, separated by spaces, in addition to
    the application's own origins. ``STRATALOG_SETTINGS`` contains settings of the log, the server, the worker and
    quotas, as JSON or as the path of a file. ``STRATALOG_CHUNK_CACHE`` is the folder of the chunk cache.

    Raises Invalid if a variable is missing or invalid, and the errors of `open_store`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        url = environment.get("STRATALOG_STORE", "")
        if not url:
            raise Invalid("STRATALOG_STORE must name the store, as in aws://stratalog")
        application = _application(environment)
        if environment.get("STRATALOG_QUEUED", ""):
            application = structs.replace(application, queued=lambda organisation, document: True)
        settings = read_settings(environment.get(SETTINGS, ""))
        application = structs.replace(
            application,
            limits=settings.over("server", application.limits),
            quotas=settings.over("quotas", application.quotas),
        )
        self.worker_settings: WorkerSettings = settings.over("worker", WORKER_SETTINGS)
        origins = (*application.origins, *environment.get("STRATALOG_ORIGINS", "").split())
        self.application: Application = structs.replace(application, origins=origins)
        self.store: Store = open_store(
            url,
            create=False,
            rules=self.application.rules,
            settings=settings.over("log", self.application.settings),
            chunk_cache=environment.get(CHUNK_CACHE),
        )
        self.sockets: str = environment.get("STRATALOG_SOCKETS", "").rstrip("/")
        own = "ws" + self.sockets.removeprefix("http") if self.sockets else ""
        self.live_address: str = environment.get("STRATALOG_LIVE", "") or own
        """The address where clients connect for live hints, or an empty text without a WebSocket API."""

        self._news: dict[tuple[str, str], int] = {}

    @cached_property
    def listeners(self) -> Listeners:
        """The listeners of the WebSocket API."""
        return Listeners(self.store.environment, Connections(self.sockets))

    def note(self, organisation: str, name: str, version: int) -> None:
        """Note that ``version`` was committed, for the next `announce`. Version 0 means that nothing was committed."""
        if version and self.sockets:
            self._news[organisation, name] = max(version, self._news.get((organisation, name), 0))

    def announce(self) -> None:
        """Poke the listeners of each document that `note` has noted. Raises nothing: pokes are only hints.

        All documents together get the time of one announcement.
        """
        if not self._news:
            return
        begun = Observation(self.store.environment.clock)
        while self._news:
            (organisation, name), version = self._news.popitem()
            self.listeners.announce(organisation, name, Poke(version), begun)


@cache
def container() -> Container:
    """Return the container of this process."""
    return Container(os.environ)


def _application(environment: Mapping[str, str]) -> Application:
    name = environment.get("STRATALOG_APPLICATION", "")
    if not name:
        return Application()
    try:
        return find_application(name, environment.get("LAMBDA_TASK_ROOT", os.getcwd()))
    except Invalid as exc:
        raise Invalid(f"STRATALOG_APPLICATION: {exc.message}", **exc.details) from exc
