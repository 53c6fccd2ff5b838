"""The bench of tables measures what it says, on each store. How fast anything is, is never asserted here."""

from __future__ import annotations

import pytest

from bench.table import Case, costed, run, table
from bench.table_sides import SIDES


@pytest.mark.parametrize("name", SIDES)
def test_each_store_adds_each_file_once(name: str) -> None:
    case, tuning = Case("hosted", 2, 1, 1, 60), SIDES[name].tunings[-1]
    row = costed(run(name, case, 0.1, 10, tuning), name, case, 10, tuning)
    assert (row.failed, row.files) == (0, 60)
    assert row.commits_per_second > 0
    assert None not in (row.requests, row.kilobytes, row.dollars_per_million)
    head, _, line = table([row])
    assert (name in line, line.count("|")) == (True, head.count("|"))


@pytest.mark.parametrize("name", SIDES)
def test_no_store_takes_a_file_twice(name: str) -> None:
    import stratalog

    with stratalog.open("memory:") as store:
        SIDES[name].create(store, "t")
        side = SIDES[name](store, "t", SIDES[name].tunings[-1])
        side.add(["a"])
        with pytest.raises(Exception, match=r"already exists|does not hold"):
            side.add(["a"])
