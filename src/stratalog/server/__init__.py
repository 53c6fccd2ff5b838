"""The server: a store over HTTP, with live updates and security.

Modules
-------
app             the ASGI application
application     what an application's author brings
applications    finds an application by its name
service         what handlers share
middleware      hosts, origins, tokens and rates, before a handler runs
request_bodies  request bodies within bounds, unpacked
bodies          JSON and MessagePack
parameters      parameters of a path or a query
errors          one shape for every error
ranges          entity tags, ranges and caching of immutable bodies
security        principals and what they may do
web_tokens      JSON Web Tokens
push_threads    the threads that run pushes, one push of a document at a time
hub             the listeners of this process
live            WebSocket and server-sent events
metrics         metrics in Prometheus's format
pages           the browser client, and an application's pages
names           the route from a name to its organisations
documents       routes of documents
history         routes of versions, differences and queries
sync            routes of push and pull
logs            routes of logs
records         routes of records
blobs           routes of blobs
health          routes of health and metrics
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stratalog.server.app import create_app
    from stratalog.server.application import Application, ServerLimits
    from stratalog.server.applications import find_application
    from stratalog.server.errors import PROBLEMS
    from stratalog.server.pages import POLICY, WEB, files_in, serve_files
    from stratalog.server.parameters import PREFIX, At, Count, Key, Name, Text, Version
    from stratalog.server.ranges import IfNoneMatch, RangeHeader, answer_body
    from stratalog.server.security import Authenticate, Authorize, Principal, StaticTokens
    from stratalog.server.service import Served, Service, deleting, posting, putting, reading
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
    "Principal",
    "RangeHeader",
    "Served",
    "ServerLimits",
    "Service",
    "StaticTokens",
    "Text",
    "Version",
    "WebTokens",
    "answer_body",
    "create_app",
    "deleting",
    "files_in",
    "find_application",
    "posting",
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
        "ServerLimits",
    ),
    "applications": ("find_application",),
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
    "ranges": (
        "IfNoneMatch",
        "RangeHeader",
        "answer_body",
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
    "web_tokens": ("WebTokens",),
}


def __getattr__(name: str) -> Any:
    """A public name, imported at its first use."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"stratalog.server.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
