"""Stratalog: a versioned, fully ordered store for documents that people and programs change together.

General layout
--------------
Read from the top down; a layer imports only from those below it.

apps · aws              complete programs · what Lambda calls
server · client         HTTP, sync, live updates, the queue's worker · a document at hand, offline too
operations              work on whole stores: maintenance, collection, export, copies, costs
assembly                a URL becomes backends: `open`
documents · records     mutations and state · the versioned hybrid store
log · tree · protocol   the gapless sequence · the content-addressed map · what clients must agree on
backends                the ports on memory, SQLite and files, DynamoDB, object stores and SQS
ports                   index, blobs, queue: the three contracts
errors limits clock codec keys      the ground floor
"""

from stratalog.assembly import Store
from stratalog.assembly import open_store as open  # noqa: A004 - `stratalog.open` is how a store is opened
from stratalog.documents import Document, Projection, Rules, View, merge, replay, verify
from stratalog.errors import (
    Closed,
    Conflict,
    ContentionError,
    Corrupt,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionConflict,
)
from stratalog.log import Entry, Event, Kept, Log, Settings, Upcasters
from stratalog.protocol import STOCK, Draft, Mutation, Outcome, Rejected
from stratalog.records import DeadLetter, NewBody, Record, Records, RecordVersion, Stored

__all__ = [
    "STOCK",
    "Closed",
    "Conflict",
    "ContentionError",
    "Corrupt",
    "DeadLetter",
    "Document",
    "Draft",
    "Entry",
    "Event",
    "Invalid",
    "Kept",
    "LimitExceeded",
    "Log",
    "Mutation",
    "NewBody",
    "NotFound",
    "Outcome",
    "OutcomeUnknown",
    "Projection",
    "Record",
    "RecordVersion",
    "Records",
    "Rejected",
    "Rules",
    "Settings",
    "Store",
    "Stored",
    "StratalogError",
    "Unavailable",
    "Upcasters",
    "VersionConflict",
    "View",
    "merge",
    "open",
    "replay",
    "verify",
]
