"""The versioned hybrid store: named values of any size with versions, pointer in the index, body inline or in blobs.

General layout
--------------
store       the handle: everything a caller does with the records of an organisation
versions    a version, and the item it is stored as     history   reading them, one or in order
content     the body of a put on its way, and back      floor     the oldest version kept
decide      what the next version shall be              put       writing it: plan, attempts
prune       mark, free, collect blobs                   failures  dead letters
batch       many puts that share commits

Which system the values come from, and what they mean, is not known here.
"""

from stratalog.records.batch import NewBody, Stored
from stratalog.records.failures import DeadLetter
from stratalog.records.store import Declined, Records
from stratalog.records.versions import Record, RecordVersion

__all__ = ["DeadLetter", "Declined", "NewBody", "Record", "RecordVersion", "Records", "Stored"]
