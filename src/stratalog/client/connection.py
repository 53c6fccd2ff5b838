"""The front door: a client of a document on a server, by its URL."""

from __future__ import annotations

from collections.abc import Callable

from stratalog.client.client import Client
from stratalog.client.file import MEMORY
from stratalog.client.http import HttpTransport, document_of
from stratalog.clock import Clock
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators

__all__ = ["connect"]


def connect(
    url: str,
    path: str = MEMORY,
    *,
    token: str | Callable[[], str] = "",
    mutators: Mutators = BUILT_IN_MUTATORS,
    create: bool = False,
    clock: Clock | None = None,
) -> Client:
    """A client of the document at ``url`` that keeps itself in step in the background. It need not be reachable.

    ``url`` is ``http://host/v1/organisations/{organisation}/documents/{document}``; with ``create`` the document is
    made where it is missing. ``path`` is a file for this client alone: without one, what is pending is lost with the
    process. ``token`` is a bearer token, or gives one whenever it is asked. Raises Invalid for what is no document's
    URL and for a file of another document; Unavailable where another client has the file open.
    """
    read_token = token if callable(token) else lambda: token
    transport = HttpTransport(url, token=read_token, create=create, clock=clock)
    client = Client(transport, path, mutators=mutators, clock=clock, document=document_of(url))
    return client.start()
