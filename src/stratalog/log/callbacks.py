"""The functions that a long operation calls between its steps: one that stops it, and one that counts its steps."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Report", "Stop", "never", "quiet"]

Stop = Callable[[], bool]
Report = Callable[[int], None]


def never() -> bool:
    """Return False: never stop."""
    return False


def quiet(count: int) -> None:
    """Report nothing."""
