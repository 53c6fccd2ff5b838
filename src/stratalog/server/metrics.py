"""Metrics: what a monitoring system reads, in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterator

from litestar.enums import ScopeType
from litestar.types import Scope
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from stratalog.documents.rejections import LAST_ATTEMPT, UNEXPECTED
from stratalog.log import Environment
from stratalog.ports.meter import Meter
from stratalog.records.failures import DEAD_RECORD
from stratalog.sync.pull import LOST_BRANCH
from stratalog.worker.settlement import DEAD_MESSAGE

__all__ = ["ALARMED", "Metrics", "core_counters"]

ALARMED = (UNEXPECTED, LAST_ATTEMPT, DEAD_MESSAGE, DEAD_RECORD, LOST_BRANCH)
"""What an operator must hear of. These begin at 0, or an alarm on their increase would miss the first."""

_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "WEBSOCKET"})


class Metrics:
    """The counters of one server. Names of documents and principals are never labels: they are many, and private."""

    def __init__(self, environment: Environment, meter: Meter | None = None) -> None:
        self.registry = CollectorRegistry()
        self.listeners = Gauge("stratalog_live_listeners", "Live connections now.", registry=self.registry)
        self.pokes = Counter("stratalog_live_pokes", "Hints given to live connections.", registry=self.registry)
        self.mutations = Counter(
            "stratalog_mutations", "Mutations pushed, by what became of them.", ["status"], registry=self.registry
        )
        self._requests = Counter(
            "stratalog_requests", "Requests answered.", ["method", "path", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "stratalog_request_seconds", "How long a request took.", ["method", "path"], registry=self.registry
        )
        self.registry.register(_EnvironmentCounters(environment))
        if meter is not None:
            self.registry.register(_MeterCounters(meter))

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count an answered request. What is unknown has one label for all, so that nobody can make up labels."""
        path = scope.get("path_template") or "other"
        method = str(scope["method"]) if scope["type"] == ScopeType.HTTP else "WEBSOCKET"
        method = method if method in _METHODS else "other"
        self._requests.labels(method, path, str(status)).inc()
        if scope["type"] == ScopeType.HTTP:
            self._seconds.labels(method, path).observe(seconds)

    def text(self) -> bytes:
        """Everything, as it is scraped."""
        return generate_latest(self.registry)


def core_counters(environment: Environment) -> CollectorRegistry:
    """What the core counts in a process that serves nobody, a worker's."""
    registry = CollectorRegistry()
    registry.register(_EnvironmentCounters(environment))
    return registry


class _EnvironmentCounters(Collector):
    """What the core itself counts."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily("stratalog_core", "What the core counts: appends, conflicts …", labels=["what"])
        counts = dict.fromkeys(ALARMED, 0) | dict(self._environment.counters)
        for name, count in sorted(counts.items()):
            family.add_metric([name.replace(" ", "_")], count)
        yield family


class _MeterCounters(Collector):
    """What hosted services bill for the store's requests, or would bill."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(
            "stratalog_billed", "What hosted services bill, or would: units and requests.", labels=["operation", "unit"]
        )
        for (operation, unit), amount in sorted(self._meter.read().items()):
            family.add_metric([operation, unit.replace(" ", "_")], amount)
        yield family
