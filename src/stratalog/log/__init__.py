"""The ordered log: a gapless sequence of entries, each written by one conditional put.

Modules
-------
environment         the ports, clock, settings and caches that the logs of a store share
tasks               background tasks
log                 the handle of one incarnation
entries             entries and events as index items
bodies              large bodies as blobs
blob_batch          the blobs of one commit, stored no later than the commit
names               the name record: incarnation, segment, floor, ancestors
floors              the oldest version that a log and its ancestors keep
listed_items        a listing of items that continues after a damaged item
directory           the logs and records of an organisation
head                the end of a log
segments            runs of entries that share an index partition
pins                the versions that forks need
family_members      the items of a family: its logs, each with its depth
chain               the hash that names a history
version_hashes      the hashes of versions that a handle remembers or reads
redaction           erasure of an entry's events, whose digest stays
verification        recomputation of a chain, and a report of its damaged versions
plan                the writes of one commit
pending_entry       an entry from the append call until its outcome is known
conditional_append  one conditional put of entry n + 1, for logs and records
append              group commits, and the entries of a batch
contention          an estimate of the other writers: whether to read before a put, and how long to back off
commit              a commit whose unknown outcome is resolved
reader              bounded reads across segments and archives
retained_entries    reads of the entries above the floor, also while the floor rises
lifecycle           creation, forks and deletion
snapshots           snapshot records by version
app_snapshots       an application's snapshots, in parts that several versions share
prepared_snapshot   an app snapshot that is committed together with its entry
archive             a sealed segment as one body
base                the snapshot that replaces forgotten history
callbacks           the functions that a long operation calls between its steps
retention           archiving, forgetting and freeing of segments
marks               whether items that were marked for freeing may be freed by now
usage               the measured storage of an organisation
admission           admission of writes within the quotas of organisations
scrub_record        the position of the blob scrub, and the result of its last complete pass over all blobs
sweep               removal of the items and blobs of a deleted log

A log does not interpret its events. Documents, and applications that use a log directly, interpret the events.
"""

from stratalog.log.app_snapshots import AppSnapshot
from stratalog.log.entries import Entry, Event, Upcasters
from stratalog.log.environment import Environment, LogSettings
from stratalog.log.lifecycle import create_log, delete_log, fork_log, open_log
from stratalog.log.log import Log
from stratalog.log.prepared_snapshot import PreparedSnapshot
from stratalog.log.tasks import Task, Tasks

__all__ = [
    "AppSnapshot",
    "Entry",
    "Environment",
    "Event",
    "Log",
    "LogSettings",
    "PreparedSnapshot",
    "Task",
    "Tasks",
    "Upcasters",
    "create_log",
    "delete_log",
    "fork_log",
    "open_log",
]
