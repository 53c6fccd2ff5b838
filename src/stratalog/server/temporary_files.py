"""Temporary files: a file for the body of one request, and refusals for errors of the temporary folder."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from stratalog.server.errors import Refused

__all__ = ["spooled_body", "temporary_folder_errors"]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def temporary_folder_errors(body: str) -> Iterator[None]:
    """Raise an OSError of the block as Refused: 507 if the folder is full, 503 for another error.

    In the error's message ``body`` names the bytes that the server had to store, as in "the body that it sends".
    """
    try:
        yield
    except OSError as exc:
        reason = exc.strerror or str(exc)
        if exc.errno in NO_ROOM:
            raise Refused(507, "storage-full", f"the server has no room for {body}", reason=reason) from exc
        message = f"the server's temporary folder cannot take {body}"
        raise Refused(503, "unavailable", message, reason=reason) from exc


@contextmanager
def spooled_body(memory_bytes_max: int) -> Iterator[IO[bytes]]:
    """Open a file for one body, and close it at the end. Up to ``memory_bytes_max`` the body stays in memory."""
    file = tempfile.SpooledTemporaryFile(max_size=memory_bytes_max)  # noqa: SIM115 - closed below
    try:
        yield file
    finally:
        # Closing writes the bytes that are still buffered. On a full disk this write fails again, but nobody needs the
        # bytes.
        with suppress(OSError):
            file.close()
