"""The bench of the catalogue measures what it says. How fast anything is, it shows by itself."""

from __future__ import annotations

from bench.catalogue import measured


def test_every_row_is_measured() -> None:
    rows = {row.name: row for row in measured(600, 1 << 25)}
    assert len(rows) == 12
    assert all(row.count > 0 and row.seconds > 0 for row in rows.values())
    assert "a record of 32 MB in and out" in rows
