"""The figures of docs/concepts/cost.md: ``python -m bench.costs [--json] [--write] [--plots]``.

The program prints the figures as tables, or as JSON with ``--json``. ``--write`` writes the figures to a file next to
the page, and puts the tables into the page. ``--plots`` draws the curves, which needs matplotlib (``pip install --group
plots``). The figures are counts, so each run has the same result.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.cost_tables import FUNCTIONS, Figures, IndexRow, TotalRow, figures
from stratalog.costs.bill import GB, Deployment, Units, monthly, total
from stratalog.costs.prices import load_prices
from stratalog.costs.workload import measure_maintenance, measure_operations

__all__ = ["BLOCKS", "DATA", "PAGE", "main", "with_tables"]

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "cost.md"
DATA = PAGE.with_name("cost.json")
BLOCK = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MILLION = 1_000_000
NUMBER = re.compile(r"[\d.,*×+() ]*")
ITEM_OVERHEAD_BYTES = 100


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    known = load_prices()
    cost_figures = figures(known.prices, known.date)
    encoded = msgspec.json.format(msgspec.json.encode(cost_figures), indent=1) + b"\n"
    if options.write:
        DATA.write_bytes(encoded)
        PAGE.write_text(with_tables(PAGE.read_text(), cost_figures))
    if options.plots:
        from bench.cost_plots import draw

        draw(cost_figures, PAGE.parent)
    if options.json:
        sys.stdout.write(encoded.decode())
    else:
        print("\n\n".join(f"{name}\n{table(cost_figures)}" for name, table in BLOCKS.items()))
    return 0


def with_tables(page: str, cost_figures: Figures) -> str:
    """Return the page with each marked table replaced by a new table."""
    return BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]](cost_figures)}\n{match[3]}", page)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.costs", description="Count the costs of work on AWS.")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--write", action="store_true", help="write the figures to a file and the page")
    parser.add_argument("--plots", action="store_true", help="draw the curves next to the page")
    return parser.parse_args(arguments)


def index_table(cost_figures: Figures) -> str:
    """Return the table of write and read units of a mutation, by schema and size, and the ratio to Stratalog's."""
    sizes = sorted({row.items for row in cost_figures.index})
    head = ["schema", *(f"{size} items" for size in sizes)]
    schemas = dict.fromkeys(row.schema for row in cost_figures.index)
    rows = [[schema, *(_index_cell(cost_figures.index, schema, size) for size in sizes)] for schema in schemas]
    return markdown([head, *rows])


def _index_cell(rows: Sequence[IndexRow], schema: str, size: int) -> str:
    (row,) = (row for row in rows if (row.schema, row.items) == (schema, size))
    text = f"{row.write_units:,.4g} + {row.read_units:.3g}"
    return text if schema == "stratalog" else f"{text} ({row.ratio:.3g} ×)"


def totals_table(cost_figures: Figures) -> str:
    """Return the table of dollars for a million mutations, by service."""
    services = list(cost_figures.totals[0].dollars)
    head = ["workload", "schema", *services, "in all", "GB left in S3"]
    return markdown([head, *(_total_cells(row) for row in cost_figures.totals)])


def _total_cells(row: TotalRow) -> list[str]:
    name = f"**stratalog**, {row.process}" if row.schema == "stratalog" else row.schema
    numbers = [f"{dollars:,.2f}" for dollars in row.dollars.values()]
    return [row.workload, name, *numbers, f"**{row.total:,.2f}**", f"{row.stored_gb:,.1f}"]


def operations_table(_: Figures) -> str:
    """Return the table of every operation, with the figures of `stratalog cost`."""
    prices = load_prices().prices
    head = ["operation", "write units", "read units", "S3 puts", "S3 gets", "SQS", "$ a million"]
    rows = []
    for operation in measure_operations(FUNCTIONS):
        units = operation.units
        counts = [units.write_units, units.read_units, units.s3_puts, units.s3_gets, units.sqs_requests]
        dollars = total(units, prices) * MILLION
        rows.append([operation.what, *(f"{count:,.4g}" if count else "" for count in counts), f"{dollars:,.3f}"])
    return markdown([head, *rows])


def idle_table(_: Figures) -> str:
    """Return the table of costs of a month in which nobody uses the deployment."""
    deployment = Deployment()
    idle = monthly(deployment, FUNCTIONS, measure_maintenance(), load_prices().prices)
    what = {
        "alarms": f"{deployment.alarms} alarms",
        "maintenance": f"{deployment.maintenance_runs} runs over ten documents, by a function that has to start",
        "queue polled by Lambda": f"{deployment.pollers} receives of 20 seconds at a time, as long as nothing comes",
        "stored in DynamoDB": f"{deployment.index_gb:g} GB in DynamoDB, with point-in-time recovery",
        "stored in S3": f"{deployment.blobs_gb:g} GB in S3",
    }
    rows = [[what[name], f"{dollars:.3f}"] for name, dollars in idle.items()]
    return markdown([["what", "$ a month"], *rows, ["**in all**", f"**{sum(idle.values()):.2f}**"]])


def deletion_table(_: Figures) -> str:
    """Return the table of methods to delete a million entries, by the size of an entry in the index."""
    prices = load_prices().prices
    rows = []
    for size in (300, 1000, 4000):
        units = Units(write_units=-(-size // 1024)).times(MILLION)
        deletes = total(units, prices)
        stored = prices.dynamodb_gb_months.of(MILLION * (size + ITEM_OVERHEAD_BYTES) / GB)
        archived = prices.s3_gb_months.of(MILLION * size / GB)
        months = deletes / (stored - archived)
        cells = [f"{size:,} bytes", f"{deletes:.3f}", f"{deletes:.3f}", "0", f"{stored:.3f}", f"{months:.1f}"]
        rows.append(cells)
    head = [
        "an item of",
        "$ deletes",
        "$ TTL set afterwards",
        "$ a table dropped",
        "$ a month to keep",
        "pays after months",
    ]
    return markdown([head, *rows])


def intervals_table(cost_figures: Figures) -> str:
    """Return the table of mutation costs by the interval of a document's snapshots."""
    rows = [[f"{every}", f"{warm:.2f}", f"{cold:.2f}"] for every, warm, cold in cost_figures.intervals]
    return markdown([["entries between snapshots", "warm", "cold"], *rows])


def curve_table(name: str, column: str) -> Callable[[Figures], str]:
    """Return a function that makes the table of a graph's points, with a column for each line."""

    def table(cost_figures: Figures) -> str:
        lines = cost_figures.curves[name]
        inputs = [at for at, _ in next(iter(lines.values()))]
        rows = [
            [f"{at:,.0f}", *(f"{points[row][1]:.3f}" for points in lines.values())] for row, at in enumerate(inputs)
        ]
        return markdown([[column, *lines], *rows])

    return table


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose head is the first row. Columns of numbers are aligned to the right."""
    numeric = [
        column and all(NUMBER.fullmatch(cell) for cell in cells[1:])
        for column, cells in enumerate(zip(*rows, strict=True))
    ]
    ruler = ["---:" if numbers else "---" for numbers in numeric]
    return "\n".join(re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(row)} |") for row in [rows[0], ruler, *rows[1:]])


BLOCKS: dict[str, Callable[[Figures], str]] = {
    "operations": operations_table,
    "index": index_table,
    "totals": totals_table,
    "idle": idle_table,
    "body": curve_table("body", "bytes of a body"),
    "segment": curve_table("segment", "entries of a segment"),
    "snapshot": curve_table("snapshot", "entries between snapshots"),
    "intervals": intervals_table,
    "deletion": deletion_table,
}

if __name__ == "__main__":
    sys.exit(main())
