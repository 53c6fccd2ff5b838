"""`connect`: a client of a document on a server, by the document's URL."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

from stratalog.client.client import Client
from stratalog.client.file import MEMORY
from stratalog.client.http import HttpTransport, document_of
from stratalog.clock import Clock
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators

__all__ = ["connect"]


def connect(
    url: str,
    path: str | PathLike[str] = MEMORY,
    *,
    token: str | Callable[[], str] = "",
    mutators: Mutators = BUILT_IN_MUTATORS,
    create: bool = False,
    clock: Clock | None = None,
) -> Client:
    """Return a started client of the document at ``url``. The server need not be reachable.

    ``url`` is ``http://host/v1/organisations/{organisation}/documents/{document}``, or the same with https. With
    ``create`` the first request creates a missing document. ``path`` is a file for this client alone. Without a file,
    the client loses pending mutations when its process ends. ``token`` is a bearer token, or a function that returns
    the token. The client calls the function before each request and each live connection. ``mutators`` must be the
    server's mutators.

    Raises TypeError for a mutator that cannot be called. Raises Invalid for another kind of URL, and for a file of
    another document or program. Raises Unavailable if another client has the file open or the file cannot be written.
    Raises Unsupported for a file of a newer Stratalog, and Corrupt for a damaged file.
    """
    read_token = token if callable(token) else lambda: token
    transport = HttpTransport(url, token=read_token, create=create, clock=clock)
    client = Client(transport, path, mutators=mutators, clock=clock, document=document_of(url))
    return client.start()
