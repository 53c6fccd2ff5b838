"""Records: named values of any size with versions. The index holds a pointer, and the body where it is small.

Modules
-------
store         the handle of an organisation's records
versions      a version, and the index item that stores it
requests      what a write id is bound to
decisions     the next version for each kind of change
put           writes it, by the conditional append of logs
batch         puts of many records in shared commits
content       a body on its way in and out
chain         the hash chain of versions
redaction     erases the body of a version, and leaves its digest
verification  computes it anew
uploads       pins the blobs of a body while it is uploaded
history       reads one version, the latest, or all in order
floor         the oldest version kept
retention     forgets old versions and frees their blobs
failures      dead letters of a source
"""

from stratalog.records.batch import NewBody, Stored
from stratalog.records.failures import DeadLetter
from stratalog.records.store import Declined, Records
from stratalog.records.versions import Record, RecordVersion

__all__ = ["DeadLetter", "Declined", "NewBody", "Record", "RecordVersion", "Records", "Stored"]
