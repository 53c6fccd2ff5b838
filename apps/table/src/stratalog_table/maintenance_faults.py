"""Faults of maintenance: a pass lists the failure of one file, job or leaf, and then continues its work."""

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
"""The errors that concern one file, job or leaf. Unavailable and other errors of the store end the pass.

`Corrupt` is in the list because damage in the store may concern the rows of one file, job or leaf. Such damage lasts
until a repair, and would otherwise end every pass at the same action. The pass lists each action that reads the damage.
Damage in rows that every action needs still ends the pass, because the pass also reads these rows outside the actions.
"""


class MaintenanceFault(msgspec.Struct, frozen=True):
    """A failed action, its file, job or partition, and the reason."""

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
        """List a failure of the block and continue after it. A damaged file is also set aside."""
        try:
            yield
        except DataFileDamaged as exc:
            self.set_aside(action, exc)
        except ISOLATED as exc:
            # pyarrow's ArrowMemoryError is an ArrowException too, but it is no fault of the file.
            if isinstance(exc, MemoryError):
                raise
            self.faults.append(MaintenanceFault(action, subject, str(exc)))

    def set_aside(self, action: str, damaged: DataFileDamaged) -> None:
        """List a damaged file and set it aside. A file that the table no longer tracks is only listed."""
        filename = str(damaged.details["filename"])
        self.faults.append(MaintenanceFault(action, filename, str(damaged)))
        with suppress(TransactionRefused):
            self._table.set_aside_files([FileDamage(filename, str(damaged))])


def isolated(faults: MaintenanceFaults | None, action: str, subject: str) -> AbstractContextManager[None]:
    """List a failure of the block in ``faults`` and continue after it. Without ``faults``, raise the error."""
    return nullcontext() if faults is None else faults.isolated(action, subject)
