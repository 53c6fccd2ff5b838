"""The server: a store over HTTP, with live updates and security.

Modules
-------
app             the ASGI application
application     an application's mutators, rules, routes and limits
applications    search for an application by its name
service         the objects that handlers share
middleware      hosts, origins, tokens and rates, before a handler runs
web_server      the process that serves the application until a signal
processes       several processes that serve one listening socket
siblings        the messages between these processes
handovers       connections that move to the preferred process of a contended document
addresses       the network addresses of peers and callers
acceptor        the accept loop, which refuses connections above the limit
connections     uvicorn's protocols, with deadlines
counted_requests  bytes of requests, counted against quotas
deadlines       the slowest allowed rates of sending a body and reading a response
log_throttle    a limit of one log line a second for each kind
request_bodies  request bodies, unpacked within limits
request_headers  the headers of a request, decoded once
packed_bodies   gzip and zstd, unpacked piece by piece
decoded_sizes   an upper bound of the memory for a decoded body
byte_budgets    limits on the memory and temporary files of requests
budget_queue    the queue of requests that wait for memory or disk space
push_parts      a large push, decoded and applied some mutations at a time
allocator       settings of the C library that return freed memory to the system
bodies          JSON and MessagePack
row_pages       responses with rows, page by page
patch_streams   large responses to a pull, sent as they are read
methods         HEAD, OPTIONS, and the header Allow
parameters      parameters of a path or a query
query_parameters  refusals of a query with an unknown parameter
errors          the body and the status of error responses
error_responses  error responses: JSON for programs, a page for a person
body_spool      a temporary file for bodies that the server sends
temporary_files  a file for one body, and refusals for errors of the temporary folder
ranges          entity tags, ranges and caching of immutable bodies
security        principals and their rights
web_tokens      JSON Web Tokens
shares          limits on the part of a process's capacity that one caller uses
paces           limits on the computing time of each principal's calls
rotation        a queue whose groups take turns
thread_pool     threads for synchronous functions, shared fairly by their callers
pools           a bounded pool of threads for each kind of work
connection_shares  limits on the requests and live connections of one caller
turns           limits on the ready sockets that one turn of the event loop serves
rates           token buckets, one for each caller
authentication  the principal of a token, and a limit on invalid tokens
trusted_proxies  the caller's address behind proxies
audit           the access log and the security log
line_log        a file of JSON lines, written outside the event loop
hub             the listeners of each document in this process
presence        the clients present in one document, sent as changes
live            WebSocket and server-sent events
live_right      the right to listen, checked once in each heartbeat interval
metrics         metrics in Prometheus's format
page_frame      the HTML frame of the server's own pages, and the page of an error
home            the server's own pages: an overview, and its API
pages           the browser client, and an application's pages
names           the route that lists the organisations that have a document or log of a name
documents       routes of documents
history         routes of versions, differences and queries
sync            routes of push and pull
logs            routes of logs
records         routes of records
blobs           routes of blobs
usage           the route of an organisation's stored amounts
health          routes of health and metrics
health_check    the check of the store behind the server's health
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stratalog.extras import needs_extra

if TYPE_CHECKING:
    from stratalog.log.usage import Quotas
    from stratalog.server.app import create_app
    from stratalog.server.application import Application, ServerLimits
    from stratalog.server.applications import find_application
    from stratalog.server.byte_budgets import bytes_of
    from stratalog.server.error_responses import PROBLEMS
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

# Python imports each public name at its first use. So a Lambda function that needs only an Application imports no
# routes and no cryptography. Its cold start takes 220 ms of CPU time instead of 290 ms.
_HOMES = {
    "app": ("create_app",),
    "application": ("Application", "Quotas", "ServerLimits"),
    "applications": ("find_application",),
    "byte_budgets": ("bytes_of",),
    "error_responses": ("PROBLEMS",),
    "pages": ("POLICY", "WEB", "files_in", "serve_files"),
    "parameters": ("PREFIX", "At", "Count", "Key", "Name", "Text", "Version"),
    "pools": ("present_work",),
    "ranges": ("IfNoneMatch", "RangeHeader", "answer_body"),
    "row_pages": ("RowPage", "answer_page", "page_of"),
    "security": ("Authenticate", "Authorize", "Principal", "StaticTokens"),
    "service": ("Served", "Service", "deleting", "posting", "putting", "reading"),
    "thread_pool": ("Pool", "PoolSettings"),
    "web_tokens": ("WebTokens",),
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    for module, names in _HOMES.items():
        if name in names:
            with needs_extra("server", f"stratalog.server.{name}"):
                return getattr(import_module(f"stratalog.server.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all names, also the public names that no caller has used yet. Completion in a shell uses this list."""
    return sorted({*globals(), *__all__})
