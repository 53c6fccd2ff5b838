"""The bench of the catalogue measures every row that it prints. This test does not check speeds."""

from __future__ import annotations

from bench.catalogue import measured


def test_every_row_is_measured() -> None:
    rows = {row.name: row for row in measured(600, 1 << 25)}
    assert len(rows) == 12
    assert all(row.count > 0 and row.seconds > 0 for row in rows.values())
    assert "a record of 32 MB in and out" in rows
