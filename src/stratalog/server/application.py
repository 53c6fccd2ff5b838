"""Application: what its author brings to the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from litestar.types import ControllerRouterHandler

from stratalog.documents import Rules
from stratalog.limits import (
    CONNECTIONS_MAX,
    LIVE_CONNECTIONS_MAX,
    PUSHES_WAITING_MAX,
    QUEUED_PUSHES_MAX,
    RATE_REQUESTS_BURST,
    RATE_REQUESTS_PER_SECOND,
    REQUEST_BYTES_MAX,
    REQUEST_COMPRESSED_BYTES_MAX,
)
from stratalog.log import LogSettings
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators
from stratalog.server.security import Authenticate, Authorize
from stratalog.store import Store

__all__ = ["Application", "ServerLimits"]


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of one server process. Each bound may be lowered; `limits.py` has what they start from."""

    threads: int = 16
    """Threads that run the core for everything but pushes, which have as many of their own."""

    live_poll_seconds: float = 0.03
    """How often the heads of documents with listeners are looked at, for commits of other processes."""

    live_heartbeat_seconds: float = 20.0
    """How often a silent live connection is given a sign of life."""

    request_bytes_max: int = REQUEST_BYTES_MAX
    request_compressed_bytes_max: int = REQUEST_COMPRESSED_BYTES_MAX
    connections_max: int = CONNECTIONS_MAX
    live_connections_max: int = LIVE_CONNECTIONS_MAX
    pushes_waiting_max: int = PUSHES_WAITING_MAX
    queued_pushes_max: int = QUEUED_PUSHES_MAX
    rate_requests_per_second: float = RATE_REQUESTS_PER_SECOND
    rate_requests_burst: int = RATE_REQUESTS_BURST


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """Mutators, and who may do what.

    Without ``authenticate`` everybody is let in, so the server then serves its own machine only. With it, and without
    ``authorize``, whoever has a good token may do everything that the token is not too weak for.
    """

    mutators: Mutators = BUILT_IN_MUTATORS
    metadata_fields: tuple[str, ...] = ("id", "name")
    authenticate: Authenticate | None = None
    authorize: Authorize | None = None

    origins: tuple[str, ...] = ()
    """Web origins, as in ``https://app.example``, whose pages may call the server. Its own always may."""

    hosts: tuple[str, ...] = ()
    """Names that a request's Host header may have. None given: any with authentication, else loopback names."""

    pages: Mapping[str, str | Path] = {}
    """Folders of web pages, by the name they have below `/web/`; anybody may look at them. The browser client is
    `/web/client/stratalog.js`; colours, type and the dark scheme of our own pages are in `/web/theme/`."""

    routes: Sequence[ControllerRouterHandler] = ()
    """Handlers of its own beside the server's: they pass the same edge, are guarded by the ``action`` in their ``opt``,
    and may ask for the ``service``."""

    maintenance: Sequence[Callable[[Store], None]] = ()
    """Steps of its own that a pass of maintenance does, each once a pass: snapshots of another model, say. A step may
    be broken off, and run beside another of its kind."""

    running: Sequence[Callable[[Store], AbstractContextManager[None]]] = ()
    """What is entered with the store when a server starts and left when it ends, for what an application
    runs with the server. AWS Lambda enters none."""

    queued: Callable[[str, str], bool] | None = None
    """Whether the pushes of a document, by its organisation and id, wait in the queue for `stratalog work`."""

    limits: ServerLimits = ServerLimits()

    settings: LogSettings = LogSettings()
    """Numbers of the store that serves it: of `stratalog serve`, `work`, `maintain` and functions alike. Numbers that
    are given by `STRATALOG_SETTINGS` or `--settings` come before these, and before ``limits``."""

    @property
    def rules(self) -> Rules:
        """What the documents of a store need of it."""
        return Rules(self.mutators, self.metadata_fields)

    def including(self, other: Application) -> Application:
        """The same application with the routes, pages and steps of another added; its settings stay."""
        return msgspec.structs.replace(
            self,
            pages={**other.pages, **self.pages},
            routes=(*other.routes, *self.routes),
            maintenance=(*other.maintenance, *self.maintenance),
            running=(*other.running, *self.running),
        )
