"""A row of the table store's benchmark, and the names of the grounds, which `bench.table` explains."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["GROUNDS", "Row"]

GROUNDS = ("folder", "hosted")


class Row(msgspec.Struct, frozen=True):
    """A store's result in one case, with the store's best tuning.

    ``requests`` and ``kilobytes`` are per commit, and ``dollars_per_million`` is for a million commits. All costs are
    None without a meter.
    """

    side: str
    ground: str
    writers: int
    committers: int
    tables: int
    files: int
    commits_per_second: float
    files_per_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    jobs: bool = False
    tuning: Any = None
    requests: float | None = None
    kilobytes: float | None = None
    dollars_per_million: float | None = None
    partition_limit: float | None = None
    """The commits a second that one partition of DynamoDB accepts, with its 1,000 write units a second."""
