"""Removals of fixes: tables."""

from __future__ import annotations

from tests.removals.removal import Removal

__all__ = ["REMOVALS"]

REMOVALS: tuple[Removal, ...] = ()
