"""The local-first client of a document. This client works offline, survives a crash, and never imports the server.

Modules
-------
client            a replica and the server it synchronises with
connection        `connect`: a client by URL
replica           a document without a network: values, changes, subscriptions
optimistic_state  the canonical state with the pending mutations run on it
local             the stored canonical state, cookie and pending mutations
file              the SQLite file of the local state
pending_mutation  the handle of one mutation
undo              mutations that undo one mutation
sync_cycle        one cycle of push and pull
push_decision     the interpretation of the answer to a push
background        the thread that runs sync cycles
transport         the interface to a server
http              the transport over HTTP
live              the listener for pokes over a WebSocket
"""

from stratalog.extras import needs_extra

with needs_extra("client", "the Python client"):
    from stratalog.client.client import Client
    from stratalog.client.connection import connect
    from stratalog.client.http import HttpTransport
    from stratalog.client.local import MutationFailure
    from stratalog.client.pending_mutation import PendingMutation
    from stratalog.client.transport import Transport, Unreached

__all__ = ["Client", "HttpTransport", "MutationFailure", "PendingMutation", "Transport", "Unreached", "connect"]
