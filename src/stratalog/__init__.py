"""Stratalog: a versioned, totally ordered store for documents that people and programs change together.

Packages
--------
A package imports only from packages below it in this list. Only `testing` imports from packages above it.

cli            the command line
aws            functions for AWS Lambda
server         HTTP, live updates, security
client         replicas in Python; `web` holds the browser's client and the theme of our pages
worker         the consumer of the queue
sync           interpretation of pushes and pulls, without HTTP
costs          billed units and prices
backups        backup of a store to another place, and its restore
maintenance    snapshots, retention, collection, verify, copies, export and import
store          documents, logs, records and a queue behind one URL
homes          the ports behind a store's URL
documents      a log with state, history, forks and replay
records        named values of up to 64 GiB with versions
backends       implementations of the ports: memory, SQLite, files, PostgreSQL, DynamoDB, object stores, SQS
log            the ordered log
tree           the content-addressed map
protocol       the messages and rules that clients and servers share
ports          contracts of index, blobs and queue
sqlite_files   SQLite files whose commits survive a power failure
keys           keys of the index and of blobs
group_commit   threads that share one commit
newest         a value that threads share, and that no older value replaces
cache          a cache of decoded values, with a limit in bytes
recent_reads   the blobs that this process has found intact, or has written, a short time ago
struct_types   types of msgspec that several threads decode
process_fork   invalidation of handles in a forked child
folders        durable folders, and the removal of empty ones
urls           the parts of URLs
arguments      checks of the types of handles and settings
extras         imports of optional dependencies
codec          canonical bytes, compression, hashes
retry          retries, and the waits between them
settings       numbers that an operator sets for all programs
clock          time, randomness, ids, sleep
limits         the limits of inputs and of shared resources, with their units
errors         the errors, each with the caller's next step
testing        contract suites, faulty ports, simulated time, checkers, emulators: for tests only
"""

from typing import TYPE_CHECKING, Any

from stratalog.clock import Clock
from stratalog.documents import (
    Applied,
    Difference,
    Document,
    KeyChange,
    Projection,
    Replayed,
    ReplayReport,
    Rules,
    Version,
    View,
    merge,
    redact,
    replay,
    verify,
)
from stratalog.errors import (
    Closed,
    Collected,
    Conflict,
    ContentionError,
    Corrupt,
    Forbidden,
    HistoryChanged,
    Invalid,
    KeyReused,
    LimitExceeded,
    MergeConflict,
    NotFound,
    OutcomeUnknown,
    QueueFull,
    QuotaExceeded,
    Redacted,
    RedactionRefused,
    ReservedName,
    StorageFull,
    StratalogError,
    Unavailable,
    Unsupported,
    VersionConflict,
    VersionForgotten,
)
from stratalog.log import AppSnapshot, Entry, Event, Log, LogSettings, PreparedSnapshot, Upcasters
from stratalog.maintenance.policy import MaintenancePolicy, RetentionPolicy
from stratalog.ports.meter import Meter
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation, Outcome, Rejected
from stratalog.records import DeadLetter, NewBody, Record, Records, RecordVersion, Stored
from stratalog.settings import Settings
from stratalog.store import Store
from stratalog.store import open_store as open  # noqa: A004 - `stratalog.open` opens a store

if TYPE_CHECKING:
    from stratalog.maintenance.store_pass import MaintenanceReport, maintain

__version__: str
"""The version of the installed distribution."""

__all__ = [
    "BUILT_IN_MUTATORS",
    "AppSnapshot",
    "Applied",
    "Clock",
    "Closed",
    "Collected",
    "Conflict",
    "ContentionError",
    "Corrupt",
    "DeadLetter",
    "Difference",
    "Document",
    "Draft",
    "Entry",
    "Event",
    "Forbidden",
    "HistoryChanged",
    "Invalid",
    "KeyChange",
    "KeyReused",
    "LimitExceeded",
    "Log",
    "LogSettings",
    "MaintenancePolicy",
    "MaintenanceReport",
    "MergeConflict",
    "Meter",
    "Mutation",
    "NewBody",
    "NotFound",
    "Outcome",
    "OutcomeUnknown",
    "PreparedSnapshot",
    "Projection",
    "QueueFull",
    "QuotaExceeded",
    "Record",
    "RecordVersion",
    "Records",
    "Redacted",
    "RedactionRefused",
    "Rejected",
    "ReplayReport",
    "Replayed",
    "ReservedName",
    "RetentionPolicy",
    "Rules",
    "Settings",
    "StorageFull",
    "Store",
    "Stored",
    "StratalogError",
    "Unavailable",
    "Unsupported",
    "Upcasters",
    "Version",
    "VersionConflict",
    "VersionForgotten",
    "View",
    "__version__",
    "maintain",
    "merge",
    "open",
    "redact",
    "replay",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Import a slow module when a caller first uses a name of the module. So functions on AWS Lambda start faster."""
    if name == "__version__":
        from importlib.metadata import version

        return version("stratalog")
    if name in ("MaintenanceReport", "maintain"):
        from stratalog.maintenance import store_pass

        return getattr(store_pass, name)
    raise AttributeError(f"module 'stratalog' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all names, also the public names that no caller has used yet. Completion in a shell uses this list."""
    return sorted({*globals(), *__all__})
