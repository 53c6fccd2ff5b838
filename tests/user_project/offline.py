"""A user's client that works offline, with a transport that the user chose."""

from __future__ import annotations

from typing import assert_type

from stratalog.client import Client, HttpTransport, MutationFailure, PendingMutation, Transport, Unreached, connect

__all__ = ["count_up", "go_offline", "is_reachable", "own_client", "shown", "why_failed"]


def count_up(url: str, path: str) -> PendingMutation:
    """Add 1 to a number of the document at ``url``.

    While the client is offline, the file ``path`` stores the change.
    """
    with assert_type(connect(url, path), Client) as client:
        return client.mutate("inc", {"key": "visits"})


def own_client(url: str, token: str) -> Client:
    """Return a client that sends ``token`` and is not started."""
    transport: Transport = HttpTransport(url, token=lambda: token)
    return Client(transport)


def go_offline(client: Client, offline: bool) -> None:
    """Stop or start the synchronisation in the background."""
    if offline:
        client.stop()
    else:
        client.start()


def shown(client: Client) -> dict[str, object]:
    """Return all keys and values that the client shows."""
    return {key: client[key] for key in client if key in client}


def is_reachable(client: Client) -> bool:
    """Return whether the last sync cycle reached the server."""
    return not isinstance(client.last_error, Unreached)


def why_failed(failure: MutationFailure) -> str:
    """Return the text that the user sees for a failed change."""
    return f"{failure.name}: {failure.reason}"
