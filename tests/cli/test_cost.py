"""`stratalog cost` shows units and dollars, for each operation or for the user's own run."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run

WORK = """
def day(store):
    plan = store.create("acme", "plan")
    for number in range(9):
        plan.mutate("put", {"key": "items/1", "value": number})

nothing = 1
"""


def test_cost_prints_a_line_per_operation_and_the_cost_of_an_idle_deployment(run: Run) -> None:
    output = run("cost").stdout
    assert "commit                1       ·       ·       ·    ·        0.625       0.19" in output
    assert "queue polled by Lambda  0.32" in output


def test_cost_neither_needs_nor_creates_a_store(run: Run, tmp_path: Path) -> None:
    run("cost")
    assert not (tmp_path / "store").exists()


def test_the_cost_per_month_follows_from_the_rate_per_day(run: Run) -> None:
    answer = json.loads(run("cost", "--json", "--per-day", "1000000").stdout)
    (commit,) = [operation for operation in answer["operations"] if operation["name"] == "commit"]
    assert commit["units"]["write_units"] == 1
    assert round(commit["dollars_per_million"], 3) == 0.625
    assert round(commit["dollars_per_month"], 2) == 18.75
    assert answer["prices"]["region"] == "us-east-1"
    assert answer["idle_dollars_per_month"]["alarms"] > 0


def test_the_cost_of_functions_uses_the_given_memory_and_durations(run: Run) -> None:
    options = ["--memory", "1024", "--warm-ms", "100", "--cold-ms", "2000", "--x86"]
    answer = json.loads(run("cost", "--json", *options).stdout)
    dollars = {operation["name"]: round(operation["dollars_per_million"], 2) for operation in answer["operations"]}
    assert (dollars["function"], dollars["function-cold"]) == (1.87, 33.53)


def test_cost_counts_the_units_of_the_run_of_the_user(run: Run, tmp_path: Path) -> None:
    (tmp_path / "costs_of_mine.py").write_text(WORK)
    answer = json.loads(run("cost", "--json", "--run", "costs_of_mine:day").stdout)
    (operation,) = answer["operations"]
    assert operation["units"]["write_units"] == 12 + 9
    assert "idle_dollars_per_month" not in answer
    assert "costs_of_mine:day" in run("cost", "--run", "costs_of_mine:day").stdout


def test_a_run_that_cannot_be_loaded_is_a_usage_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "costs_of_mine.py").write_text(WORK)
    for text in ("costs_of_mine", "no_such_module_here:day", "costs_of_mine:week", "costs_of_mine:nothing"):
        assert text in run("cost", "--run", text, code=2).stderr


def test_cost_uses_the_price_list_of_the_user(run: Run, tmp_path: Path) -> None:
    from stratalog.costs.prices import NEWEST

    known = Path(__file__).parents[2] / "src" / "stratalog" / "costs" / NEWEST
    prices = json.loads(known.read_text())
    prices["prices"]["dynamodb_write_units"]["dollars"] = 1.25
    (tmp_path / "old.json").write_text(json.dumps(prices))
    assert "1.250" in run("cost", "--prices", "old.json").stdout
    (tmp_path / "old.json").write_text("{}")
    assert run("cost", "--prices", "old.json", code=2).stderr.startswith("error: the list of prices")
