"""Documents: a log whose entries carry mutations and their patch, and the state that follows from it.

Modules
-------
document           the handle: changes a document, and answers queries
writer             commits batches and events, from many threads
view               a state at one version, read like a mapping
state              the trees of a snapshot and the changes since
fold               what a run of entries changes in a state
base               the snapshot that history begins with, proven and read back
read_back          reads a state from storage, past every cache
state_cache        the newest state, which the threads of a process share
rejections         mutations rejected for a fault, which are dead letters
run                runs a batch of mutations on a state
commit_builder     makes an entry of a run
commits            the content of an entry
scrubbed_values    large values that a scrub has read, which a proof only looks up
values             small values inline, large ones by reference
snapshots          trees of a version as chunks and roots
snapshot_schedule  when a snapshot is due, and which thread takes it
history            versions, the changes of one key, differences
changes            keys and clients that a range of versions changed
replay             a fork's mutations on another base
expiry             which clients are forgotten
projections        a second model of the same log, with a checkpoint
resumption         how clients of a lost branch go on
redaction          erases what a version says, once no state needs it
rebuild            verifies snapshots by rebuilding from the log
"""

from stratalog.documents.document import Document, Rules
from stratalog.documents.projections import Projection
from stratalog.documents.rebuild import verify
from stratalog.documents.redaction import redact
from stratalog.documents.replay import Replayed, ReplayReport, merge, replay
from stratalog.documents.view import View

__all__ = [
    "Document",
    "Projection",
    "ReplayReport",
    "Replayed",
    "Rules",
    "View",
    "merge",
    "redact",
    "replay",
    "verify",
]
