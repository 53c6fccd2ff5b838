"""The bench of the catalogue measures what it says. How fast anything is, is asserted only where it was promised."""

from __future__ import annotations

from bench.catalogue import measured


def test_every_row_is_measured_and_what_was_promised_holds_in_processor_time() -> None:
    rows = {row.name: row for row in measured(600, 1 << 25)}
    assert len(rows) == 10
    assert rows["stats"].seconds < 1
    assert rows["a record of 32 MB in and out"].memory_mb < 200
    assert rows["put_many, new records"].cpu_seconds < 600 / 2000
