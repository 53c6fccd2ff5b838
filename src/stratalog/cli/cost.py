"""The command that estimates the cost of work on AWS from requests counted on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from stratalog.cli.naming import FiniteRange
from stratalog.cli.output import dim, note, print_table
from stratalog.cli.session import Session, command
from stratalog.costs.bill import DAYS_A_MONTH, Deployment, Functions, Units, bill, monthly, total
from stratalog.costs.prices import PriceList, load_prices
from stratalog.costs.workload import Operation, measure_maintenance, measure_operations, measure_run

__all__ = ["COMMANDS"]

MILLION = 1_000_000
HEAD = ["operation", "write", "read", "S3 put", "S3 get", "SQS", "$ a million", "$ a month", ""]
NUMBERS = range(1, 8)


@command("cost", example="stratalog cost --per-day 50000")
@click.option(
    "--per-day",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Operations per day, for the monthly cost.",
)
@click.option(
    "--prices",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file of other prices.",
)
@click.option("--run", metavar="MODULE:NAME", help="Measure this function on an empty store instead.")
@click.option(
    "--memory",
    metavar="MB",
    type=click.IntRange(128),
    default=1024,
    show_default=True,
    help="Memory of a Lambda function.",
)
@click.option(
    "--warm-ms", type=FiniteRange(min=0), default=25, show_default=True, help="Duration of a warm call in ms."
)
@click.option(
    "--cold-ms", type=FiniteRange(min=0), default=340, show_default=True, help="Duration of a cold start in ms."
)
@click.option("--x86", is_flag=True, help="Lambda functions on x86 instead of Arm.")
def cost(
    session: Session,
    per_day: int,
    path: Path | None,
    run: str | None,
    memory: int,
    warm_ms: float,
    cold_ms: float,
    x86: bool,
) -> None:
    """Show the cost of each operation on AWS, and the cost of an idle deployment.

    The operations of a store run on a temporary store in memory, and are counted by AWS's published rules. With --run,
    the command calls your function with an empty store and counts the function's requests instead.
    """
    functions = Functions(memory_mb=memory, warm_ms=warm_ms, cold_ms=cold_ms, arm=not x86)
    prices = load_prices(path)
    if run:
        _answer(session, [Operation(run, "the whole run", measure_run(_function(run)))], prices, functions, per_day)
        return
    idle = monthly(Deployment(), functions, measure_maintenance(), prices.prices)
    _answer(session, list(measure_operations(functions)), prices, functions, per_day, idle)


def _function(text: str) -> Callable[..., Any]:
    """Load the function MODULE:NAME, also from the current folder. Raises BadParameter."""
    module, colon, name = text.partition(":")
    if not (colon and module and name):
        raise click.BadParameter(f"{text!r} is not MODULE:NAME, as in myapp:typical_day")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError) as exc:
        raise click.BadParameter(f"{text!r} cannot be loaded: {exc}") from exc
    finally:
        # The module may have inserted other folders before this folder.
        if here in sys.path:
            sys.path.remove(here)
    if not callable(function):
        raise click.BadParameter(f"{text!r} is not a function")
    return function  # type: ignore[no-any-return]


def _answer(
    session: Session,
    operations: Sequence[Operation],
    prices: PriceList,
    functions: Functions,
    per_day: int,
    idle: dict[str, float] | None = None,
) -> None:
    if session.json:
        session.answer(_plain(operations, prices, functions, per_day, idle), "")
        return
    print_table([HEAD, *(_row(operation, prices, functions, per_day) for operation in operations)], right=NUMBERS)
    if idle:
        click.echo()
        rows = [[what, f"{dollars:.2f}"] for what, dollars in idle.items()]
        print_table([["idle, a month", "$"], *rows, ["in all", f"{sum(idle.values()):.2f}"]], right=[1])
    note(
        f"prices of {prices.date}, {prices.region}, on demand, without free tiers; $ a month at {per_day:,} a day; "
        f"functions of {functions.memory_mb} MB, {functions.warm_ms:g} ms warm, {functions.cold_ms:g} ms cold"
    )


def _row(operation: Operation, prices: PriceList, functions: Functions, per_day: int) -> list[str]:
    units = operation.units
    counts = [units.write_units, units.read_units, units.s3_puts, units.s3_gets, units.sqs_requests]
    dollars = total(units, prices.prices, arm=functions.arm)
    shown = [f"{dollars * MILLION:,.3f}", f"{dollars * per_day * DAYS_A_MONTH:,.2f}"]
    return [operation.name, *map(_count, counts), *shown, dim(operation.what)]


def _plain(
    operations: Sequence[Operation],
    prices: PriceList,
    functions: Functions,
    per_day: int,
    idle: dict[str, float] | None,
) -> dict[str, object]:
    def row(units: Units) -> dict[str, object]:
        services = bill(units, prices.prices, arm=functions.arm)
        dollars = sum(services.values())
        sums = {"dollars_per_million": dollars * MILLION, "dollars_per_month": dollars * per_day * DAYS_A_MONTH}
        return sums | {"per_million_by_service": {name: amount * MILLION for name, amount in services.items()}}

    rows = [
        {"name": operation.name, "what": operation.what, "units": operation.units, **row(operation.units)}
        for operation in operations
    ]
    basis = {"date": prices.date, "region": prices.region, "per_day": per_day, "functions": functions}
    answer: dict[str, object] = {"prices": basis, "operations": rows}
    return answer | {"idle_dollars_per_month": idle} if idle else answer


def _count(amount: float) -> str:
    """Return a count as text, with at most four significant digits below 1000; a dot for zero."""
    return f"{amount:,.4g}" if 0 < amount < 1000 else f"{amount:,.0f}" if amount else dim("·")


COMMANDS = [cost]
