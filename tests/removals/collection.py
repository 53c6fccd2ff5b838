"""All removals, by the area of their bugs."""

from __future__ import annotations

from tests.removals import (
    of_bodies,
    of_callers,
    of_catalogues,
    of_clients,
    of_collector,
    of_commits,
    of_copies,
    of_damage,
    of_documents,
    of_edges,
    of_embedding,
    of_feeds,
    of_laboratory,
    of_log,
    of_newcomers,
    of_pages,
    of_postgres,
    of_queue,
    of_records,
    of_replicas,
    of_server,
    of_sheets,
    of_storage,
    of_strangers,
    of_table_maintenance,
    of_tables,
    of_verification,
    of_workbooks,
)
from tests.removals.removal import Removal

__all__ = ["REMOVALS"]

_PARTS = (
    of_storage,
    of_log,
    of_documents,
    of_collector,
    of_records,
    of_server,
    of_commits,
    of_copies,
    of_clients,
    of_queue,
    of_tables,
    of_table_maintenance,
    of_sheets,
    of_workbooks,
    of_laboratory,
    of_callers,
    of_strangers,
    of_catalogues,
    of_feeds,
    of_bodies,
    of_verification,
    of_postgres,
    of_damage,
    of_edges,
    of_embedding,
    of_newcomers,
    of_pages,
    of_replicas,
)
REMOVALS: tuple[Removal, ...] = tuple(removal for part in _PARTS for removal in part.REMOVALS)
