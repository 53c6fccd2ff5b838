"""Faults of maintenance: what failed for one file, job or leaf is listed, and everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from stratalog import Corrupt, Invalid
from stratalog_table.damaged_files import FileDamage
from stratalog_table.data_files import DataFileDamaged
from stratalog_table.messages import TransactionRefused
from stratalog_table.table import Table

__all__ = ["MaintenanceFault", "MaintenanceFaults", "isolated"]

ISOLATED = (OSError, pa.ArrowException, Corrupt, Invalid)
"""What concerns one file. An error of the store concerns all, and ends the pass."""


class MaintenanceFault(msgspec.Struct, frozen=True):
    """What was tried, with which file, job or partition, and why it failed."""

    action: str
    subject: str
    reason: str


class MaintenanceFaults:
    """The faults of one pass over a table."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.faults: list[MaintenanceFault] = []

    @contextmanager
    def isolated(self, action: str, subject: str) -> Iterator[None]:
        """List what fails in the block, and go on behind it. A file that cannot be read is set aside."""
        try:
            yield
        except DataFileDamaged as exc:
            self.set_aside(action, exc)
        except ISOLATED as exc:
            if isinstance(exc, MemoryError):
                raise
            self.faults.append(MaintenanceFault(action, subject, str(exc)))

    def set_aside(self, action: str, damaged: DataFileDamaged) -> None:
        """Set a file aside, unless it is no file of the table any more, and list it."""
        filename = str(damaged.details["filename"])
        self.faults.append(MaintenanceFault(action, filename, str(damaged)))
        with suppress(TransactionRefused):
            self._table.set_aside_files([FileDamage(filename, str(damaged))])


def isolated(faults: MaintenanceFaults | None, action: str, subject: str) -> AbstractContextManager[None]:
    """List what fails in the block; without a list it is raised."""
    return nullcontext() if faults is None else faults.isolated(action, subject)
