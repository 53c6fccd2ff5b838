"""The relatives of a table: the other tables of its store that have the same origin.

Forks and copies keep the origin of a table, and may track the same data files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from stratalog import Document, Log, NotFound, Rules, Store, StratalogError
from stratalog_table.folder_register import Registration, origin_of
from stratalog_table.queries import TableView

__all__ = ["Relatives", "is_alive"]


class Relatives:
    """The relatives of a table at their newest versions. The search reads the name record of each document."""

    def __init__(self, store: Store, log: Log) -> None:
        self._views: list[TableView] = []
        self._is_complete = True
        for other in _documents(store):
            if other.record.incarnation == log.record.incarnation or origin_of(other) != origin_of(log):
                continue
            try:
                self._views.append(TableView(Document(other, Rules()).at()))
            except NotFound:
                continue
            except StratalogError:
                # The files of a relative that cannot be read are unknown, so the relative may track any file.
                self._is_complete = False

    def may_hold(self, filename: str) -> bool:
        """Return whether a relative tracks the file. A relative that cannot be read may track any file."""
        return not self._is_complete or any(view.file(filename) is not None for view in self._views)


def is_alive(store: Store, registration: Registration) -> bool:
    """Return whether the registered table still exists in this store under its name."""
    try:
        record = store.log(registration.organisation, registration.table).record
    except NotFound:
        return False
    return record.incarnation == registration.incarnation


def _documents(store: Store) -> Iterator[Log]:
    for organisation in store.organisations():
        for listing in store.list(organisation):
            if listing.kind == "document":
                with suppress(NotFound):
                    yield store.log(organisation, listing.id)
