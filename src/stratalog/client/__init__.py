"""The local-first client of a document: it works offline, survives a crash, and never imports the server.

client      `Client`: a replica and the server it keeps in step with
replica     what is shown and changed, subscriptions, handles: no network
local       what is kept: canonical state, cookie, pending mutations
file        the SQLite file it is kept in, one process at a time
exchange    rounds of push and pull
judge       what an answer to a push means
background  the thread that runs the rounds
undo        the mutations that take one back
transport   the seam to a server
http live   the transport over HTTP, and its pokes
connecting  the front door: `connect`
"""

from stratalog.client.client import Client
from stratalog.client.connecting import connect
from stratalog.client.http import HttpTransport
from stratalog.client.local import Failure
from stratalog.client.pending import Pending
from stratalog.client.transport import Transport, Unreached

__all__ = ["Client", "Failure", "HttpTransport", "Pending", "Transport", "Unreached", "connect"]
