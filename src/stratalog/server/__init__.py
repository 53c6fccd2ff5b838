"""The server: a store over HTTP, with live updates and security.

Modules
-------
app             the ASGI application
application     what an application's author brings
applications    finds an application by its name
service         what handlers share
middleware      hosts, origins, tokens and rates, before a handler runs
web_server      serves the application until a signal
acceptor        takes connections, and turns away those above the bound
connections     uvicorn's protocols, with deadlines
counted_requests  what requests store, counted against quotas
deadlines       how slowly a body may come and an answer be read
descriptors     how many connections the process has room for
log_throttle    one line a second of each kind
request_bodies  request bodies within bounds, unpacked
request_headers  the headers of a request, decoded once
packed_bodies   gzip and zstd, unpacked piece by piece
decoded_sizes   the memory that a body may take once decoded
byte_budgets    what requests hold of memory and temporary files
budget_queue    waiting for room in a budget
push_parts      a large push, decoded and applied some mutations at a time
allocator       how the process gives memory back
bodies          JSON and MessagePack
row_pages       answers that list something, by pages
patch_streams   large answers to a pull, sent as they are read
parameters      parameters of a path or a query
errors          one shape for every error
body_spool      bodies that wait in a file while they are sent
ranges          entity tags, ranges and caching of immutable bodies
security        principals and what they may do
web_tokens      JSON Web Tokens
shares          how much of the process one caller may hold at once
paces           how much of the time each principal's threads compute
rotation        what waits in groups, taken out in turn
thread_pool     threads for synchronous functions, shared fairly by their callers
pools           a bounded pool of threads for each kind of work
connection_shares  what each connection holds, and for whom it counts
rates           a bucket for each caller that fills at a steady rate
authentication  the principal behind a token, asked so that guesses cost the guesser
trusted_proxies  the caller's address behind proxies
audit           who asked what and what was refused, for two logs
line_log        a file of JSON lines, written beside the event loop
hub             the listeners of this process
presence        who is here in one document, told as what changed
live            WebSocket and server-sent events
live_right      what a live connection may hear, asked with each heartbeat
metrics         metrics in Prometheus's format
home            the server's own pages: what is there, and its API
pages           the browser client, and an application's pages
names           the route from a name to its organisations
documents       routes of documents
history         routes of versions, differences and queries
sync            routes of push and pull
logs            routes of logs
records         routes of records
blobs           routes of blobs
usage           the route of what an organisation stores
health          routes of health and metrics
health_check    the look at the store behind the answer about the server's health
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stratalog.log.usage import Quotas
    from stratalog.server.app import create_app
    from stratalog.server.application import Application, ServerLimits
    from stratalog.server.applications import find_application
    from stratalog.server.byte_budgets import bytes_of
    from stratalog.server.errors import PROBLEMS
    from stratalog.server.pages import POLICY, WEB, files_in, serve_files
    from stratalog.server.parameters import PREFIX, At, Count, Key, Name, Text, Version
    from stratalog.server.pools import present_work
    from stratalog.server.ranges import IfNoneMatch, RangeHeader, answer_body
    from stratalog.server.row_pages import RowPage, answer_page, page_of
    from stratalog.server.security import Authenticate, Authorize, Principal, StaticTokens
    from stratalog.server.service import Served, Service, deleting, posting, putting, reading
    from stratalog.server.thread_pool import Pool, PoolSettings
    from stratalog.server.web_tokens import WebTokens

__all__ = [
    "POLICY",
    "PREFIX",
    "PROBLEMS",
    "WEB",
    "Application",
    "At",
    "Authenticate",
    "Authorize",
    "Count",
    "IfNoneMatch",
    "Key",
    "Name",
    "Pool",
    "PoolSettings",
    "Principal",
    "Quotas",
    "RangeHeader",
    "RowPage",
    "Served",
    "ServerLimits",
    "Service",
    "StaticTokens",
    "Text",
    "Version",
    "WebTokens",
    "answer_body",
    "answer_page",
    "bytes_of",
    "create_app",
    "deleting",
    "files_in",
    "find_application",
    "page_of",
    "posting",
    "present_work",
    "putting",
    "reading",
    "serve_files",
]

# A function that only needs an Application does not import routes and cryptography: 220 instead of 290 ms of CPU time
# at a cold start.
_HOMES = {
    "app": ("create_app",),
    "application": (
        "Application",
        "Quotas",
        "ServerLimits",
    ),
    "applications": ("find_application",),
    "byte_budgets": ("bytes_of",),
    "errors": ("PROBLEMS",),
    "pages": (
        "POLICY",
        "WEB",
        "files_in",
        "serve_files",
    ),
    "parameters": (
        "PREFIX",
        "At",
        "Count",
        "Key",
        "Name",
        "Text",
        "Version",
    ),
    "pools": ("present_work",),
    "ranges": (
        "IfNoneMatch",
        "RangeHeader",
        "answer_body",
    ),
    "row_pages": (
        "RowPage",
        "answer_page",
        "page_of",
    ),
    "security": (
        "Authenticate",
        "Authorize",
        "Principal",
        "StaticTokens",
    ),
    "service": (
        "Served",
        "Service",
        "deleting",
        "posting",
        "putting",
        "reading",
    ),
    "thread_pool": (
        "Pool",
        "PoolSettings",
    ),
    "web_tokens": ("WebTokens",),
}


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"stratalog.server.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
