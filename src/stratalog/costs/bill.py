"""Cost: converts a meter's counts to billed units, and billed units to dollars by a list of prices."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stratalog.costs.prices import Prices

__all__ = ["Deployment", "Functions", "Units", "bill", "monthly", "total", "units_of"]

GB = 1024**3
DAYS_A_MONTH = 30
MINUTES_A_MONTH = DAYS_A_MONTH * 24 * 60

# S3's two classes of requests, by price. Deletes are free.
PUTS = frozenset({"CopyObject", "PutObject", "ListObjectsV2", "ListObjectVersions"})
GETS = frozenset({"GetObject", "HeadObject", "GetBucketVersioning"})


class Units(msgspec.Struct, frozen=True, kw_only=True):
    """The billed units of some work. ``s3_bytes`` is the size of all objects put. Deletes do not reduce this size."""

    write_units: float = 0
    read_units: float = 0
    s3_puts: float = 0
    s3_gets: float = 0
    s3_bytes: float = 0
    sqs_requests: float = 0
    lambda_requests: float = 0
    lambda_gb_seconds: float = 0
    http_requests: float = 0

    def __add__(self, other: Units) -> Units:
        return Units(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})

    def times(self, factor: float) -> Units:
        """Return the units of the same work done ``factor`` times. Below 1, ``factor`` is a share of the work."""
        return Units(**{name: getattr(self, name) * factor for name in self.__struct_fields__})


class Functions(msgspec.Struct, frozen=True, kw_only=True):
    """Assumptions about Lambda functions, which no meter on one machine can measure."""

    memory_mb: int = 1024
    """The memory of the functions for the API, the queue and maintenance in `deploy/aws/template.yaml`."""

    warm_ms: float = 25
    """The duration of a call when the function is already running."""

    cold_ms: float = 340
    """The duration of a call that must first start the function. AWS bills the start. See docs/concepts/cost.md."""

    arm: bool = True

    def call(self, *, cold: bool = False) -> Units:
        """Return the units of one call."""
        seconds = (self.cold_ms if cold else self.warm_ms) / 1000
        return Units(lambda_requests=1, lambda_gb_seconds=self.memory_mb / 1024 * seconds)


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an unused deployment that cost money, as in `deploy/aws/template.yaml`, with little data."""

    alarms: int = 15
    maintenance_runs: int = DAYS_A_MONTH * 4
    """Runs per month."""

    pollers: int = 5
    """The number of receives, of 20 seconds each, that Lambda keeps open at a time on an idle queue."""

    index_gb: float = 0.1
    blobs_gb: float = 1


def units_of(after: Mapping[tuple[str, str], float], before: Mapping[tuple[str, str], float] | None = None) -> Units:
    """Return the units of some work, from a meter's sums ``after`` and ``before`` the work. None means no sums."""
    sums: dict[str, float] = dict.fromkeys(Units.__struct_fields__, 0)
    for (operation, unit), amount in after.items():
        field = _field(operation, unit)
        if field:
            sums[field] += amount - (before or {}).get((operation, unit), 0)
    return Units(**sums)


def bill(units: Units, prices: Prices, *, arm: bool = True) -> dict[str, float]:
    """Return dollars by service. Storage is not included, since it is billed by the month."""
    seconds = prices.lambda_arm_gb_seconds if arm else prices.lambda_x86_gb_seconds
    return {
        "DynamoDB": prices.dynamodb_write_units.of(units.write_units) + prices.dynamodb_read_units.of(units.read_units),
        "S3": prices.s3_puts.of(units.s3_puts) + prices.s3_gets.of(units.s3_gets),
        "SQS": prices.sqs_requests.of(units.sqs_requests),
        "Lambda": prices.lambda_requests.of(units.lambda_requests) + seconds.of(units.lambda_gb_seconds),
        "API Gateway": prices.http_requests.of(units.http_requests),
    }


def total(units: Units, prices: Prices, *, arm: bool = True) -> float:
    """Return the dollars of all services."""
    return sum(bill(units, prices, arm=arm).values())


def monthly(deployment: Deployment, functions: Functions, maintenance: Units, prices: Prices) -> dict[str, float]:
    """Return dollars per month of an unused deployment. ``maintenance`` has the units of one run, without its call."""
    run = maintenance + functions.call(cold=True)
    polls = deployment.pollers * MINUTES_A_MONTH * 3
    return {
        "alarms": prices.alarm_months.of(deployment.alarms),
        "maintenance": prices.schedule_runs.of(deployment.maintenance_runs)
        + total(run.times(deployment.maintenance_runs), prices, arm=functions.arm),
        "queue polled by Lambda": prices.sqs_requests.of(polls),
        "stored in DynamoDB": prices.dynamodb_gb_months.of(deployment.index_gb)
        + prices.dynamodb_recovery_gb_months.of(deployment.index_gb),
        "stored in S3": prices.s3_gb_months.of(deployment.blobs_gb),
    }


def _field(operation: str, unit: str) -> str:
    """Return the field of `Units` to which a meter's sum belongs; empty if the sum is not billed."""
    if unit in ("write units", "read units"):
        return unit.replace(" ", "_")
    if unit == "billed requests":
        return "sqs_requests"
    if unit == "requests" and operation in PUTS | GETS:
        return "s3_puts" if operation in PUTS else "s3_gets"
    return "s3_bytes" if (operation, unit) == ("PutObject", "bytes") else ""
