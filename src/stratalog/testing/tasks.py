"""Tasks that run where they are begun: for tests that look at what follows, without threads."""

from __future__ import annotations

from stratalog.log.environment import InlineTasks

__all__ = ["InlineTasks"]
