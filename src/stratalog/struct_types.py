"""Types of msgspec that several threads decode: `resolved` prepares a type before the first of them uses it.

msgspec evaluates the annotations of a struct when a decoder first uses the struct. Until then, and also during the
evaluation, msgspec finds the unfinished description of the struct. If another thread decodes this struct meanwhile, the
process crashes with a segmentation fault (msgspec 0.22).
"""

from __future__ import annotations

import os
import threading
from typing import Any, TypeVar

import msgspec

from stratalog.process_fork import check_fork, delay_forks

__all__ = ["resolved"]

T = TypeVar("T")


class _Types:
    """The types that are resolved, and the lock of the thread that resolves one."""

    def __init__(self) -> None:
        self.resolved: set[Any] = set()
        self.renew_lock()

    def renew_lock(self) -> None:
        self.lock = threading.RLock()


_types = _Types()
os.register_at_fork(after_in_child=_types.renew_lock)


def resolved(kind: T) -> T:
    """Return ``kind``, a type that contains a struct, once msgspec can decode it in any number of threads.

    A function calls ``msgspec.convert(row, resolved(Job))``. A decoder that a module makes at its import needs no call.
    Raises Unavailable in a child of a fork that did not wait for the end of an evaluation: see `delay_forks`.
    """
    if kind not in _types.resolved:
        # A child would inherit the unfinished description, so a fork waits for the end of the evaluation.
        with delay_forks(), _types.lock:
            check_fork()
            msgspec.msgpack.Decoder(kind)
            _types.resolved.add(kind)
    return kind
