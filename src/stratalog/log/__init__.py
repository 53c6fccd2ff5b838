"""The log: a gapless sequence of entries, each written by one conditional put that succeeds only where none stands.

General layout
--------------
place       the ports a log stands on, and its settings
entries     entries and events as index items              bodies      large bodies as blobs
names       the one record of a log that changes           directory   who owns which log
head        where a log ends                               segments    runs of entries in one partition
plan        what one commit writes                         append      group commits, tries and doubts
contention  whether to read first, how long to wait        read        bounded reads, across segments and archives
pending     an entry on its way                            upload      the blobs of one commit
log         the handle                                     lifecycle   create, fork, delete
snapshots   a version with its state                       archive, retention, sweep    what happens to old segments
parts       an application's state, kept in parts
commit      a commit whose unknown outcome is resolved     patience    how long to go on trying

What an entry means is not known here: that is for documents, and for applications that stand on the log itself.
"""

from stratalog.log.entries import Entry, Event, Upcasters
from stratalog.log.lifecycle import create_log, delete_log, fork_log, open_log
from stratalog.log.log import Log
from stratalog.log.parts import Kept
from stratalog.log.place import Place, Settings

__all__ = [
    "Entry",
    "Event",
    "Kept",
    "Log",
    "Place",
    "Settings",
    "Upcasters",
    "create_log",
    "delete_log",
    "fork_log",
    "open_log",
]
