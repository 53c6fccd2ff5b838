"""Origin: which history a document's clients belong to, as cookies and pushes name it."""

from __future__ import annotations

from stratalog.log import Log

__all__ = ["origin_of"]


def origin_of(log: Log) -> str:
    """The log's origin, or for a fork the hash at its fork point, in hexadecimal.

    Copies, exports and imports keep both, so a restored document goes on with its clients. A fork begins without
    clients, and may hold effects of its parent's; so it is another history to them.
    """
    return log.record.lineage[-1].hash.hex() if log.record.lineage else log.record.origin
