"""Application: the mutators, rules, routes, pages and limits that its author passes to the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from stratalog import limits
from stratalog.arguments import CheckedStruct
from stratalog.documents import Rules
from stratalog.log import LogSettings
from stratalog.log.usage import UNLIMITED, Quotas
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators
from stratalog.server.security import Authenticate, Authorize
from stratalog.store import Store

if TYPE_CHECKING:
    from litestar.types import ControllerRouterHandler
else:
    ControllerRouterHandler = Any

__all__ = ["Application", "ServerLimits"]


class ServerLimits(CheckedStruct, frozen=True, kw_only=True):
    """Limits of one server process. An application may set each limit. `limits.py` has most of the defaults."""

    threads: int = 16
    """The number of threads in each of three pools: reads, writes, and an application's own routes."""

    call_wait_seconds_max: float = limits.CALL_WAIT_SECONDS_MAX
    """The longest wait of a call for a thread."""

    live_poll_seconds: float = 0.03
    """The shortest time between the beginnings of two polls. A poll reads the heads of documents with listeners, and so
    finds commits that no handler of this process has reported."""

    live_heartbeat_seconds: float = 20.0
    """The longest silence on a live connection before the server sends a heartbeat."""

    request_bytes_max: int = limits.REQUEST_BYTES_MAX
    request_compressed_bytes_max: int = limits.REQUEST_COMPRESSED_BYTES_MAX
    request_head_seconds_max: float = limits.REQUEST_HEAD_SECONDS_MAX
    request_body_seconds_max: float = limits.REQUEST_BODY_SECONDS_MAX
    request_body_bytes_per_second_min: float = limits.REQUEST_BODY_BYTES_PER_SECOND_MIN
    connection_idle_seconds_max: float = limits.CONNECTION_IDLE_SECONDS_MAX
    answer_silence_seconds_max: float = limits.ANSWER_SILENCE_SECONDS_MAX
    answer_bytes_per_second_min: float = limits.ANSWER_BYTES_PER_SECOND_MIN
    request_decoded_bytes_max: int = limits.REQUEST_DECODED_BYTES_MAX
    body_bytes_in_flight_max: int = limits.BODY_BYTES_IN_FLIGHT_MAX
    body_bytes_of_principal_max: int = limits.BODY_BYTES_OF_PRINCIPAL_MAX
    """The memory limits for request bodies: one limit for the process, and one limit for each principal. A body counts
    from its arrival to the end of its request."""

    decoded_bytes_in_flight_max: int = limits.DECODED_BYTES_IN_FLIGHT_MAX
    decoded_bytes_of_principal_max: int = limits.DECODED_BYTES_OF_PRINCIPAL_MAX
    """The memory limits for decoding and applying bodies: one limit for the process, and one limit for each principal.
    The server refuses a body that needs more than either limit. A push may need more, because the server decodes a
    large push in parts."""

    decoded_wait_seconds_max: float = limits.DECODED_WAIT_SECONDS_MAX
    """The longest wait of a body for decoding memory. After this wait the server refuses the body, and the caller may
    retry."""

    file_bytes_max: int = limits.FILE_BYTES_MAX
    file_bytes_of_principal_max: int = limits.FILE_BYTES_OF_PRINCIPAL_MAX
    answer_bytes_in_flight_max: int = limits.ANSWER_BYTES_IN_FLIGHT_MAX
    answer_bytes_of_principal_max: int = limits.ANSWER_BYTES_OF_PRINCIPAL_MAX
    page_bytes_max: int = limits.PAGE_BYTES_MAX
    """A page of rows ends at this size, or earlier at the request's ``limit``. If any row is left, a page has at least
    one row, even if that row is larger."""

    connections_max: int = limits.CONNECTIONS_MAX
    live_connections_max: int = limits.LIVE_CONNECTIONS_MAX
    pool_calls_max: int = limits.POOL_CALLS_MAX
    principal_share_max: float = limits.PRINCIPAL_SHARE_MAX
    organisation_share_max: float = limits.ORGANISATION_SHARE_MAX
    address_share_max: float = limits.ADDRESS_SHARE_MAX
    """The shares of `connections_max` and of `live_connections_max` that a principal, organisation or address may use.
    The share of an address is for connections without a known principal. Without ``authenticate`` there are no
    shares."""

    pushes_waiting_max: int = limits.PUSHES_WAITING_MAX
    queued_pushes_max: int = limits.QUEUED_PUSHES_MAX
    rate_requests_per_second: float = limits.RATE_REQUESTS_PER_SECOND
    rate_requests_burst: int = limits.RATE_REQUESTS_BURST
    """The rate of requests of one principal, or of one address if no principal is known."""

    rate_organisation_requests_per_second: float = limits.RATE_ORGANISATION_REQUESTS_PER_SECOND
    rate_organisation_requests_burst: int = limits.RATE_ORGANISATION_REQUESTS_BURST
    """The rate of requests to one organisation by all principals together. Not applied without ``authenticate``."""

    invalid_tokens_per_second: float = limits.INVALID_TOKENS_PER_SECOND
    invalid_tokens_burst: int = limits.INVALID_TOKENS_BURST
    """The rate of invalid tokens of one address. Above this rate, the server checks only tokens that were valid
    recently."""

    invalid_token_wait_seconds: float = limits.INVALID_TOKEN_WAIT_SECONDS
    """The delay of a token's refusal, after the token's address has exceeded the rate of invalid tokens."""

    creations_per_second: float = limits.CREATIONS_PER_SECOND
    creations_burst: int = limits.CREATIONS_BURST
    """The rate of one principal's requests to create documents, logs and forks. A request counts even if it creates
    nothing, for example because the document exists."""

    record_creations_per_second: float = limits.RECORD_CREATIONS_PER_SECOND
    record_creations_burst: int = limits.RECORD_CREATIONS_BURST
    """The rate at which one principal may create records. A new version of an existing record does not count."""

    client_creations_per_second: float = limits.CLIENT_CREATIONS_PER_SECOND
    client_creations_burst: int = limits.CLIENT_CREATIONS_BURST
    """The rate at which one principal may create clients, each by its first mutation in a document."""


class Application(CheckedStruct, frozen=True, kw_only=True):
    """The mutators of an application, its rules of access, and its additions to the server.

    Without ``authenticate`` every caller is admitted, so the server serves only its own machine. With ``authenticate``
    and without ``authorize`` a caller with a valid token may do everything that the token itself permits.
    """

    mutators: Mutators = BUILT_IN_MUTATORS
    metadata_fields: tuple[str, ...] = ("id", "name")
    oldest_needed: Callable[[Any], int] | None = None
    """A function that returns the oldest version of a `stratalog.Document` that the application still needs; see
    `stratalog.Rules`."""

    authenticate: Authenticate | None = None
    authorize: Authorize | None = None

    origins: tuple[str, ...] = ()
    """Web origins, such as ``https://app.example``. Pages of these origins may call the server, like pages of the
    server's own origin."""

    hosts: tuple[str, ...] = ()
    """The host names that a request may have in its Host header. If this tuple is empty, a server with authentication
    accepts every name. A server without authentication accepts these names and the loopback names."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks, such as ``10.0.0.0/8``, of proxies whose `X-Forwarded-For` names the caller. The server
    ignores this header of any other peer."""

    pages: Mapping[str, str | Path] = {}
    """Folders of web pages, by their names below `/web/`. The files in these folders are public. The server serves only
    files whose suffix is in `pages.KINDS`. The browser client is `/web/client/stratalog.js`. `/web/theme/` has the
    colours, type and dark scheme of the server's own pages."""

    routes: Sequence[ControllerRouterHandler] = ()
    """Handlers of the application, in addition to the server's handlers. Requests to these handlers pass the same
    middleware. A caller needs the right to the ``action`` in the handler's ``opt``. If the handler has no ``action``,
    the server checks no right. A handler may take the ``service`` as a parameter."""

    maintenance: Sequence[Callable[[Store], None]] = ()
    """The application's own steps of maintenance, for example snapshots of another model. A complete
    maintenance pass runs each step once. A step may be interrupted. Two processes may run the same step at the same
    time."""

    running: Sequence[Callable[[Store], AbstractContextManager[None]]] = ()
    """Functions that return context managers, for work that the application runs with the server. When a server starts,
    it calls each function with its store and enters the returned context. When the server ends, it leaves the context.
    AWS Lambda calls none of these functions."""

    queued: Callable[[str, str], bool] | None = None
    """A function of a document's organisation and id. The function returns whether pushes to the document wait in the
    queue for `stratalog work`."""

    limits: ServerLimits = ServerLimits()

    settings: LogSettings = LogSettings()
    """Settings of the store that serves the application, in `stratalog serve`, `work` and `maintain` and in AWS Lambda.
    Values in `STRATALOG_SETTINGS` or `--settings` override these settings and ``limits``."""

    quotas: Quotas = UNLIMITED
    """The quotas of each organisation's storage. Values in `STRATALOG_SETTINGS` or `--settings` override these
    quotas."""

    organisation_quotas: Callable[[str], Quotas | None] | None = None
    """Returns one organisation's own quotas, which replace ``quotas``, or None if ``quotas`` apply. The server calls
    this function for each write, and also on its event loop. So the function must not block."""

    @property
    def has_quotas(self) -> bool:
        """Whether any organisation may have quotas."""
        return self.quotas != UNLIMITED or self.organisation_quotas is not None

    def quotas_of(self, organisation: str) -> Quotas:
        """Return the quotas that apply to an organisation."""
        own = None if self.organisation_quotas is None else self.organisation_quotas(organisation)
        return self.quotas if own is None else own

    @property
    def rules(self) -> Rules:
        """The rules of a store's documents."""
        return Rules(self.mutators, self.metadata_fields, self.oldest_needed)

    def including(self, other: Application) -> Application:
        """Return this application with the routes, pages, maintenance steps and running contexts of ``other`` added.

        All other fields keep this application's values. If both applications have pages of the same name, the result
        has this application's pages.
        """
        return msgspec.structs.replace(
            self,
            pages={**other.pages, **self.pages},
            routes=(*other.routes, *self.routes),
            maintenance=(*other.maintenance, *self.maintenance),
            running=(*other.running, *self.running),
        )
