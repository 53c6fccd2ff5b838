"""The figures of the page on costs agree with the code. The figures are counts and not times, so they are exact."""

from __future__ import annotations

import msgspec
import pytest

from bench.cost_log import cost_of_log
from bench.cost_tables import (
    DESIGN,
    WORKLOADS,
    Figures,
    body_cost,
    index_row,
    index_rows,
    interval_row,
    segment_cost,
    total_row,
)
from bench.costs import BLOCKS, DATA, PAGE, with_tables
from stratalog.costs.bill import Units
from stratalog.costs.prices import load_prices

FIGURES = msgspec.json.decode(DATA.read_bytes(), type=Figures)
PRICES = load_prices().prices
REMAKE = "the figures have changed: run python -m bench.costs --write --plots, and read the page again"


def test_the_tables_of_the_page_match_the_stored_figures() -> None:
    page = PAGE.read_text()
    assert with_tables(page, FIGURES) == page, REMAKE
    assert [name for name in BLOCKS if f"<!-- table: {name} -->" not in page] == []


@pytest.mark.parametrize("items", [5, 150])
def test_the_index_units_of_every_schema_match_a_new_measurement(items: int) -> None:
    assert list(index_rows(items)) == [row for row in FIGURES.index if row.items == items], REMAKE


@pytest.mark.parametrize("process", ["warm worker", "warm Lambda", "cold Lambda"])
def test_the_dollars_of_the_typing_workload_match_a_new_calculation(process: str) -> None:
    (row,) = (
        row for row in FIGURES.totals if (row.workload, row.schema, row.process) == ("typing", "stratalog", process)
    )
    assert total_row("stratalog", WORKLOADS[0], process, PRICES) == row, REMAKE


def test_sampled_points_of_the_curves_match_a_new_calculation() -> None:
    bodies, segments = FIGURES.curves["body"], FIGURES.curves["segment"]
    assert round(body_cost(8000, True, PRICES), 4) == dict(bodies["in the index"])[8000], REMAKE
    assert round(body_cost(8000, False, PRICES, free=True), 4) == dict(bodies["in a blob, deleted later"])[8000], REMAKE
    assert round(segment_cost(1000, PRICES, archive=True), 4) == dict(segments["archived"])[1000], REMAKE


def test_the_row_of_a_snapshot_interval_matches_a_new_calculation() -> None:
    assert interval_row(200, PRICES) == FIGURES.intervals[2], REMAKE


def test_the_schema_of_the_sync_backend_costs_five_or_more_times_as_much_as_stratalog_at_every_size() -> None:
    ratios = {row.items: row.ratio for row in FIGURES.index if row.schema == "001"}
    assert set(ratios) == {5, 50, 150, 500}
    assert all(ratio >= 5 for ratio in ratios.values())
    assert all(row.write_units <= 1.02 for row in FIGURES.index if row.schema == "stratalog")


def test_a_million_small_mutations_cost_stratalog_less_than_a_dollar_in_s3() -> None:
    dearer = msgspec.structs.replace(DESIGN, batch=1, item_bytes=500)
    assert index_row("001", 5).s3_puts == 1
    assert total_row("stratalog", dearer, "warm worker", PRICES).dollars["S3"] < 1


def test_the_cost_of_a_log_is_the_sum_of_its_parts() -> None:
    cost = cost_of_log(100, 50, 200)
    assert set(cost.parts) == {"append", "roll-over", "snapshot", "open", "archive", "free"}
    assert cost.parts["append"] == Units(write_units=1)
    assert cost.parts["roll-over"].write_units == pytest.approx(7 / 100)
    assert cost.parts["free"].write_units == pytest.approx(1, abs=0.03)
    assert cost.parts["archive"].s3_puts == pytest.approx(1 / 100)
    assert cost.dollars(PRICES) == pytest.approx(sum(cost.dollars_by_part(PRICES).values()))
    assert cost_of_log(100, 50, 200) == cost


def test_an_open_reads_the_blobs_of_the_newest_snapshot() -> None:
    cost = cost_of_log(100, 50, 200, opens_per_entry=1, snapshot_blobs=4, state_blobs=3)
    assert cost.parts["open"].s3_gets == 3
