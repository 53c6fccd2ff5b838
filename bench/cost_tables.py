"""The billed units of the same work with Stratalog and with other published schemas, and with different settings.

A meter counts all units on a store in memory, by AWS's published rules. The clock moves only when the program
sleeps, so every run has the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import msgspec

from bench.cost_log import MILLION, cost_of_log
from bench.schemas import SCHEMAS, Change, Ours, Schema
from stratalog.costs.bill import GB, Functions, Units, bill, total, units_of
from stratalog.costs.prices import Prices
from stratalog.costs.workload import measure_operations, text_of
from stratalog.log import LogSettings

__all__ = [
    "DESIGN",
    "FUNCTION_SETTINGS",
    "WORKLOADS",
    "Figures",
    "IndexRow",
    "TotalRow",
    "Workload",
    "figures",
    "index_row",
    "interval_row",
    "total_row",
]

SIZES = (5, 50, 150, 500)
PROCESSES = ("warm worker", "warm Lambda", "cold Lambda")
FUNCTIONS = Functions()
FUNCTION_SETTINGS = LogSettings(snapshot_entries_interval=100)
"""The default settings of `deploy/aws/template.yaml`."""

# The mutations that a run makes on each schema. If all of them cost the same, a small number saves memory.
MUTATIONS = {"stratalog": 1000, "001": 100, "001 relational": 100, "001 whole": 10, "004": 1000}
COLD_MUTATIONS = 500


class Workload(msgspec.Struct, frozen=True):
    """A workload on a project: it replaces items of two collections, with ``batch`` mutations in each push."""

    name: str
    what: str
    item_bytes: int
    batch: int = 1


DESIGN = Workload("design", "items of 50 KB, one at a time", 50 * 1024)
WORKLOADS = (
    Workload("typing", "items of 300 bytes, one at a time", 300),
    DESIGN,
    Workload("import", "items of 500 bytes, ten a push", 500, 10),
)


class IndexRow(msgspec.Struct, frozen=True):
    """The units of a mutation of a project with ``items`` items. ``ratio``: the write units divided by Stratalog's."""

    schema: str
    items: int
    write_units: float
    read_units: float
    s3_puts: float
    ratio: float


class TotalRow(msgspec.Struct, frozen=True):
    """Dollars for a million mutations, by service, and the GB that they leave in S3."""

    workload: str
    schema: str
    process: str
    dollars: dict[str, float]
    total: float
    stored_gb: float


class Figures(msgspec.Struct, frozen=True):
    """All figures of the page."""

    prices: str
    index: list[IndexRow]
    totals: list[TotalRow]
    curves: dict[str, dict[str, list[tuple[float, float]]]]
    intervals: list[tuple[int, float, float]]
    """Entries between snapshots, and dollars of index and blobs for a million mutations, warm and cold."""


def figures(prices: Prices, date: str) -> Figures:
    """Count all figures. This takes about a minute."""
    return Figures(
        prices=date,
        index=[row for items in SIZES for row in index_rows(items)],
        totals=list(total_rows(prices)),
        curves=curves(prices),
        intervals=[interval_row(every, prices) for every in (50, 100, 200, 500)],
    )


def index_rows(items: int) -> Iterator[IndexRow]:
    """Yield the row of every schema for the workload *design*, on a project of ``items`` items."""
    ours = index_row("stratalog", items)
    yield ours
    for name in SCHEMAS:
        if name != "stratalog":
            yield index_row(name, items, ours)


def index_row(name: str, items: int, ours: IndexRow | None = None) -> IndexRow:
    """Return the row of one schema."""
    units = units_of_workload(SCHEMAS[name], DESIGN, items, MUTATIONS[name])
    ratio = units.write_units / (ours.write_units if ours else units.write_units)
    return IndexRow(
        name, items, *(round(value, 3) for value in (units.write_units, units.read_units, units.s3_puts, ratio))
    )


def total_rows(prices: Prices) -> Iterator[TotalRow]:
    """Yield rows on a project of 150 items: Stratalog with each kind of process, other schemas with warm functions."""
    for workload in WORKLOADS:
        for process in PROCESSES:
            yield total_row("stratalog", workload, process, prices)
        for name in SCHEMAS:
            if name != "stratalog":
                yield total_row(name, workload, "warm Lambda", prices)


def total_row(name: str, workload: Workload, process: str, prices: Prices) -> TotalRow:
    """Return the row of a schema, workload and kind of process. The requests of a push are equal for all schemas."""
    cold = process == "cold Lambda"
    schema: Callable[[], Schema] = SCHEMAS[name]
    if name == "stratalog" and process != "warm worker":
        schema = partial(Ours, cold=cold, settings=FUNCTION_SETTINGS)
    count = COLD_MUTATIONS if cold else MUTATIONS[name]
    work = units_of_workload(schema, workload, 150, count * workload.batch)
    units = (work + way_of_a_push(process).times(1 / workload.batch)).times(MILLION)
    dollars = rounded(bill(units, prices))
    return TotalRow(
        workload.name, name, process, dollars, round(sum(dollars.values()), 2), round(units.s3_bytes / GB, 1)
    )


def interval_row(every: int, prices: Prices) -> tuple[int, float, float]:
    """Return the snapshot interval, and dollars for a million mutations of *typing* in warm and in new processes."""
    settings = LogSettings(snapshot_entries_interval=every)
    warm, cold = (
        units_of_workload(partial(Ours, cold=cold, settings=settings), WORKLOADS[0], 150, 1000)
        for cold in (False, True)
    )
    return every, *(round(total(units, prices) * MILLION, 3) for units in (warm, cold))


def way_of_a_push(process: str) -> Units:
    """Return the units of a push without its commit: three requests of the queue.

    With Lambda, a push also needs one request of API Gateway and two calls of functions.
    """
    queue = Units(sqs_requests=3)
    if process == "warm worker":
        return queue
    return queue + Units(http_requests=1) + FUNCTIONS.call() + FUNCTIONS.call(cold=process == "cold Lambda")


def units_of_workload(make: Callable[[], Schema], workload: Workload, items: int, mutations: int) -> Units:
    """Return the average units of a mutation on a project of ``items`` items. Creating the project is not counted."""
    schema = make()
    keys = [f"Collection{1 + number % 2}/i_{number:08d}" for number in range(items)]
    schema.create({key: value_of(key, number, workload) for number, key in enumerate(keys)})
    before = schema.trial.meter.read()
    for start in range(0, mutations, workload.batch):
        numbers = range(start + 1, start + workload.batch + 1)
        schema.change([change_of(keys[number * 7919 % items], number, workload) for number in numbers])
    return units_of(schema.trial.meter.read(), before).times(1 / mutations)


def change_of(key: str, number: int, workload: Workload) -> Change:
    return Change("c_client1", number, key, value_of(key, 1000 + number, workload))


def value_of(key: str, number: int, workload: Workload) -> dict[str, str]:
    name = f"Item {number:06d} of the plan"
    return {"id": key.partition("/")[2], "name": name, "text": text_of(workload.item_bytes - 60, number)}


def curves(prices: Prices) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return the points of each line of each graph. The second number of a point is dollars for a million entries."""
    return {
        "body": {
            "in the index": points(BODIES, lambda size: body_cost(size, True, prices)),
            "in a blob": points(BODIES, lambda size: body_cost(size, False, prices)),
            "in the index, deleted later": points(BODIES, lambda size: body_cost(size, True, prices, free=True)),
            "in a blob, deleted later": points(BODIES, lambda size: body_cost(size, False, prices, free=True)),
        },
        "segment": {
            "kept": points(SEGMENTS, lambda size: segment_cost(size, prices, archive=False)),
            "archived": points(SEGMENTS, lambda size: segment_cost(size, prices, archive=True)),
        },
        "snapshot": snapshot_lines(prices),
    }


BODIES = (500, 1000, 2000, 4000, 6000, 8000, 9000, 10_000, 12_000, 16_000, 24_000)
SEGMENTS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
INTERVALS = (20, 50, 100, 200, 500, 1000, 2000, 5000)
OPENS = (1, 10, 100, 1000)
READS = 1.0


def points(inputs: Sequence[int], cost: Callable[[int], float]) -> list[tuple[float, float]]:
    return [(value, round(cost(value), 4)) for value in inputs]


def body_cost(size: int, inline: bool, prices: Prices, *, free: bool = False) -> float:
    """Return dollars for a million entries with bodies of this size. Each is read once; a read returns fifty entries.

    With ``free``, the cost of a blob includes its garbage collection.
    """
    limit = 400_000 if inline else 0
    cost = cost_of_log(
        200,
        100,
        size,
        opens_per_entry=READS / 50,
        snapshot_bytes=1000,
        state_blobs=0,  # only the entries are read
        inline_bytes_max=limit,
        archive=free,
        free=free,
    )
    parts = cost.dollars_by_part(prices)
    collected = total(collected_blob(), prices) * MILLION if free and not inline else 0
    return sum(dollars for part, dollars in parts.items() if part in ("append", "open", "free")) + collected


@cache
def collected_blob() -> Units:
    """Return the units for collecting a hundred unused blobs, divided by a hundred."""
    (collect,) = (operation for operation in measure_operations(FUNCTIONS) if operation.name == "collect")
    return collect.units.times(1 / 100)


def segment_cost(size: int, prices: Prices, *, archive: bool) -> float:
    """Return the dollars that segments cost for a million entries of 200 bytes, without deletes.

    The cost of deletes does not depend on the size of a segment.
    """
    parts = cost_of_log(size, 500, 200, archive=archive, free=False).dollars_by_part(prices)
    return sum(dollars for part, dollars in parts.items() if part in ("roll-over", "archive"))


def snapshot_lines(prices: Prices) -> dict[str, list[tuple[float, float]]]:
    """Return a line for each number of opens by new processes. Snapshots: four chunks of 10 KB; entries: 400 bytes."""
    costs = {every: snapshot_parts(every, prices) for every in INTERVALS}
    return {
        f"{opens:,} open{'s' if opens > 1 else ''} for 1,000 entries": points(
            INTERVALS, lambda every, opens=opens: costs[every]["snapshot"] + costs[every]["open"] * opens / 1000
        )
        for opens in OPENS
    }


def snapshot_parts(every: int, prices: Prices) -> dict[str, float]:
    """Return the dollars by part, with a snapshot every ``every`` entries and one open for each entry."""
    cost = cost_of_log(
        max(every, 500),
        every,
        400,
        opens_per_entry=1,
        snapshot_bytes=40_000,
        snapshot_blobs=4,
        state_blobs=4,
        archive=False,
        free=False,
    )
    return cost.dollars_by_part(prices)


def rounded(dollars: dict[str, float]) -> dict[str, float]:
    return {name: round(amount, 3) for name, amount in dollars.items()}
