"""Documents: a log whose entries contain mutations and their patch, and the state derived from this log.

Modules
-------
document           the handle: changes one document and answers queries
rules              the mutators and the inline fields of an application
writer             commits of batches and of single events, from many threads
view               a state at one version, read like a mapping
state              a document at one version, as three layers
layer              a snapshot's tree with later changes
fold               the changes that consecutive entries make to a state
base               proof of the snapshot that history begins with
read_back          reading a state from storage without any cache
state_cache        the newest state, shared by the threads of a process
rejections         dead letters of mutations rejected for a fault
run                execution of a batch of mutations on a state
prefetch           the chunks that a batch will read, loaded together
commit_builder     the entry built from the result of a run
commits            the content of an entry
scrubbed_values    large values that a scrub has read, so that a proof only checks their existence
values             small values inline, large values by reference
snapshots          a version's trees as chunks and roots
snapshot_schedule  a rule that decides when a snapshot is due, and the thread that takes it
history            versions, the changes of one key, differences
changes            keys and clients changed by a range of versions
replay             a fork's mutations on another document
expiry             the choice of clients to forget
projections        models derived from a log, each with a checkpoint
resumption         new numbers for clients of a lost branch
redaction          erasure of a version's content that no state needs
named_chunks       chunks named by snapshots, and a search for lost chunks
rebuild            verification of snapshots by rebuilding from the log
"""

from stratalog.documents.document import Document
from stratalog.documents.history import Applied, Difference, KeyChange, Version
from stratalog.documents.projections import Projection
from stratalog.documents.rebuild import verify
from stratalog.documents.redaction import redact
from stratalog.documents.replay import Replayed, ReplayReport, merge, replay
from stratalog.documents.rules import Rules
from stratalog.documents.view import View

__all__ = [
    "Applied",
    "Difference",
    "Document",
    "KeyChange",
    "Projection",
    "ReplayReport",
    "Replayed",
    "Rules",
    "Version",
    "View",
    "merge",
    "redact",
    "replay",
    "verify",
]
