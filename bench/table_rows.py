"""A row of the table store's benchmark, and where the benchmark runs."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["GROUNDS", "Row"]

GROUNDS = ("folder", "hosted")


class Row(msgspec.Struct, frozen=True):
    """What a store did in one case, by its best tuning. Costs are for a commit, and only where they were counted."""

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
    """How many such commits a second one partition of DynamoDB takes: 1,000 write units."""
