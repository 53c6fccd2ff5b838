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

__all__ = ["resolved"]

T = TypeVar("T")

_lock = threading.RLock()
_resolved: set[Any] = set()

# A child would inherit the unfinished description, so a fork waits for the end of the evaluation.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def resolved(kind: T) -> T:
    """Return ``kind``, a type that contains a struct, once msgspec can decode it in any number of threads.

    A function calls ``msgspec.convert(row, resolved(Job))``. A decoder that a module makes at its import needs no call.
    """
    if kind not in _resolved:
        with _lock:
            msgspec.msgpack.Decoder(kind)
            _resolved.add(kind)
    return kind
