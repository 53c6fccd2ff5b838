"""Application: what its author brings to the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from litestar.types import ControllerRouterHandler

from stratalog.documents import Rules
from stratalog.limits import (
    ADDRESS_SHARE_MAX,
    ANSWER_BYTES_IN_FLIGHT_MAX,
    ANSWER_BYTES_OF_PRINCIPAL_MAX,
    ANSWER_BYTES_PER_SECOND_MIN,
    ANSWER_SILENCE_SECONDS_MAX,
    BODY_BYTES_IN_FLIGHT_MAX,
    BODY_BYTES_OF_PRINCIPAL_MAX,
    CALL_WAIT_SECONDS_MAX,
    CONNECTION_IDLE_SECONDS_MAX,
    CONNECTIONS_MAX,
    CREATIONS_BURST,
    CREATIONS_PER_SECOND,
    DECODED_BYTES_IN_FLIGHT_MAX,
    DECODED_BYTES_OF_PRINCIPAL_MAX,
    DECODED_WAIT_SECONDS_MAX,
    FILE_BYTES_MAX,
    FILE_BYTES_OF_PRINCIPAL_MAX,
    INVALID_TOKENS_BURST,
    INVALID_TOKENS_PER_SECOND,
    LIVE_CONNECTIONS_MAX,
    ORGANISATION_SHARE_MAX,
    PAGE_BYTES_MAX,
    POOL_CALLS_MAX,
    PRINCIPAL_SHARE_MAX,
    PUSHES_WAITING_MAX,
    QUEUED_PUSHES_MAX,
    RATE_REQUESTS_BURST,
    RATE_REQUESTS_PER_SECOND,
    RECORD_CREATIONS_BURST,
    RECORD_CREATIONS_PER_SECOND,
    REQUEST_BODY_BYTES_PER_SECOND_MIN,
    REQUEST_BODY_SECONDS_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_COMPRESSED_BYTES_MAX,
    REQUEST_DECODED_BYTES_MAX,
    REQUEST_HEAD_SECONDS_MAX,
)
from stratalog.log import LogSettings
from stratalog.log.usage import UNLIMITED, Quotas
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators
from stratalog.server.security import Authenticate, Authorize
from stratalog.store import Store

__all__ = ["Application", "ServerLimits"]


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of one server process. Each bound may be lowered; `limits.py` has what they start from."""

    threads: int = 16
    """Threads of each of three pools: reads, writes, and an application's own routes."""

    call_wait_seconds_max: float = CALL_WAIT_SECONDS_MAX
    """How long a call waits for a thread."""

    live_poll_seconds: float = 0.03
    """How often the heads of documents with listeners are looked at, for commits of other processes."""

    live_heartbeat_seconds: float = 20.0
    """How often a silent live connection is given a sign of life."""

    request_bytes_max: int = REQUEST_BYTES_MAX
    request_compressed_bytes_max: int = REQUEST_COMPRESSED_BYTES_MAX
    request_head_seconds_max: float = REQUEST_HEAD_SECONDS_MAX
    request_body_seconds_max: float = REQUEST_BODY_SECONDS_MAX
    request_body_bytes_per_second_min: float = REQUEST_BODY_BYTES_PER_SECOND_MIN
    connection_idle_seconds_max: float = CONNECTION_IDLE_SECONDS_MAX
    answer_silence_seconds_max: float = ANSWER_SILENCE_SECONDS_MAX
    answer_bytes_per_second_min: float = ANSWER_BYTES_PER_SECOND_MIN
    request_decoded_bytes_max: int = REQUEST_DECODED_BYTES_MAX
    body_bytes_in_flight_max: int = BODY_BYTES_IN_FLIGHT_MAX
    body_bytes_of_principal_max: int = BODY_BYTES_OF_PRINCIPAL_MAX
    """Bodies that are on their way in."""

    decoded_bytes_in_flight_max: int = DECODED_BYTES_IN_FLIGHT_MAX
    decoded_bytes_of_principal_max: int = DECODED_BYTES_OF_PRINCIPAL_MAX
    """Bodies that are decoded and applied. One that takes more than either is refused for good."""

    decoded_wait_seconds_max: float = DECODED_WAIT_SECONDS_MAX
    """How long a body waits for such room before it is refused for now."""

    file_bytes_max: int = FILE_BYTES_MAX
    file_bytes_of_principal_max: int = FILE_BYTES_OF_PRINCIPAL_MAX
    answer_bytes_in_flight_max: int = ANSWER_BYTES_IN_FLIGHT_MAX
    answer_bytes_of_principal_max: int = ANSWER_BYTES_OF_PRINCIPAL_MAX
    page_bytes_max: int = PAGE_BYTES_MAX
    """Where a page of an answer ends, if not at its ``limit``; one row is answered in any case."""

    connections_max: int = CONNECTIONS_MAX
    live_connections_max: int = LIVE_CONNECTIONS_MAX
    pool_calls_max: int = POOL_CALLS_MAX
    principal_share_max: float = PRINCIPAL_SHARE_MAX
    organisation_share_max: float = ORGANISATION_SHARE_MAX
    address_share_max: float = ADDRESS_SHARE_MAX
    """Parts of `connections_max` and of `live_connections_max` that one holder may have. An address has a share for the
    connections on which nobody is known yet. Without ``authenticate`` nobody has a share."""

    pushes_waiting_max: int = PUSHES_WAITING_MAX
    queued_pushes_max: int = QUEUED_PUSHES_MAX
    rate_requests_per_second: float = RATE_REQUESTS_PER_SECOND
    rate_requests_burst: int = RATE_REQUESTS_BURST
    invalid_tokens_per_second: float = INVALID_TOKENS_PER_SECOND
    invalid_tokens_burst: int = INVALID_TOKENS_BURST
    """Invalid tokens of one address, beyond which only tokens that were valid lately are asked for."""

    creations_per_second: float = CREATIONS_PER_SECOND
    creations_burst: int = CREATIONS_BURST
    """Documents, logs and forks of one principal."""

    record_creations_per_second: float = RECORD_CREATIONS_PER_SECOND
    record_creations_burst: int = RECORD_CREATIONS_BURST
    """New records of one principal; another version of a record is none."""


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

    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks, as in ``10.0.0.0/8``, of proxies whose `X-Forwarded-For` names the caller. Of any other
    peer the header is ignored."""

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

    quotas: Quotas = UNLIMITED
    """How much an organisation may store. Numbers that are given by `STRATALOG_SETTINGS` or `--settings` come before
    these."""

    organisation_quotas: Callable[[str], Quotas | None] | None = None
    """The quotas of one organisation in place of ``quotas``; None where those hold. Asked at each write: it must not
    block."""

    @property
    def has_quotas(self) -> bool:
        """Whether any organisation may have quotas."""
        return self.quotas != UNLIMITED or self.organisation_quotas is not None

    def quotas_of(self, organisation: str) -> Quotas:
        """The quotas that hold for an organisation."""
        own = None if self.organisation_quotas is None else self.organisation_quotas(organisation)
        return self.quotas if own is None else own

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
