"""The ordered log: a gapless sequence of entries. Each is written by one conditional put.

Modules
-------
environment         the ports, clock and settings that a log uses
tasks               work beside the callers'
log                 the handle of one incarnation
entries             entries and events as index items
bodies              large bodies as blobs
blob_batch          the blobs of one commit, put before it
names               the name record: incarnation, segment, floor, parent
directory           the logs and records of an organisation
head                where the log ends
segments            runs of entries that share an index partition
pins                the versions that forks stand on
chain               the hash that names a history
redaction           erases the events of an entry, and leaves its digest
verification        computes a chain anew and finds what does not fit
plan                the writes of one commit
pending_entry       an entry between its caller and its answer
conditional_append  writes entry n + 1 by one conditional put, for logs and records
append              group commits, and the entries of a batch
contention          when to read first, and how long to back off
commit              a commit whose unknown outcome is resolved
reader              bounded reads across segments and archives
lifecycle           create, fork, delete
snapshots           snapshot records by version
app_snapshots       an application's snapshot, in parts that versions share
archive             a sealed segment as one body
base                the snapshot that takes the place of forgotten history
retention           archives, forgets and frees segments
usage               how much an organisation stores, as it was measured
admission           holds writers to the quotas of their organisations
scrub_record        how far the scrub of blobs came, and what its last round showed
sweep               removes what a deleted log left

A log does not interpret its events. Documents do, and so do applications that use a log directly.
"""

from stratalog.log.app_snapshots import AppSnapshot
from stratalog.log.entries import Entry, Event, Upcasters
from stratalog.log.environment import Environment, LogSettings
from stratalog.log.lifecycle import create_log, delete_log, fork_log, open_log
from stratalog.log.log import Log
from stratalog.log.tasks import Task, Tasks

__all__ = [
    "AppSnapshot",
    "Entry",
    "Environment",
    "Event",
    "Log",
    "LogSettings",
    "Task",
    "Tasks",
    "Upcasters",
    "create_log",
    "delete_log",
    "fork_log",
    "open_log",
]
