"""Records: named values of up to 64 GiB with versions. The index holds small bodies, and pointers to large bodies.

Modules
-------
store         the handle of an organisation's records
versions      a version, and the index item that stores it
requests      a caller's request, to which its write id is bound
decisions     the next version for each kind of change
put           the write of the next version by a conditional append, as in logs
batch         puts of many records in shared commits
content       a body while it is stored or read
chain         the hash chain of versions
redaction     erasure of a version's body; its digest stays
verification  recomputation of the chain
uploads       pins for the blobs of a body during its upload
history       reading one version, the latest version, or all versions in order
floor         the oldest version kept
retention     forgetting of old versions, and collection of their blobs
failures      failed ingests of a record, and dead letters
"""

from stratalog.records.batch import NewBody, Stored
from stratalog.records.failures import DeadLetter
from stratalog.records.store import Declined, Records
from stratalog.records.versions import Record, RecordVersion

__all__ = ["DeadLetter", "Declined", "NewBody", "Record", "RecordVersion", "Records", "Stored"]
