"""Documents: a log whose entries carry mutations and their patch, and the state that follows from it.

General layout
--------------
document    the handle                                   view         its state at one version, read like a mapping
run         a batch of mutations on a state, purely      committing   from a run to an entry
commits     what an entry says                           values       small values inline, large ones by reference
state       trees and the changes since                  snapshots    trees of a version as chunks and roots
history     versions, one key's changes, diff            replay       a fork's mutations on another base
projections a second model with a checkpoint             rebuild      the same roots from the log alone
changes     what versions touched: keys, clients
"""

from stratalog.documents.document import Document, Rules
from stratalog.documents.projections import Projection
from stratalog.documents.rebuild import verify
from stratalog.documents.replay import merge, replay
from stratalog.documents.view import View

__all__ = ["Document", "Projection", "Rules", "View", "merge", "replay", "verify"]
