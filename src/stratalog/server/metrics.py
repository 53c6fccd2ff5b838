"""Metrics: the counters of a server, in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nlargest
from typing import TypeVar

from litestar.enums import ScopeType
from litestar.types import Scope
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from stratalog.documents.rejections import LAST_ATTEMPT, UNEXPECTED
from stratalog.limits import USAGE_LABELS_MAX
from stratalog.log import Environment
from stratalog.log.admission import Admission
from stratalog.log.usage import Amounts
from stratalog.ports.meter import Meter
from stratalog.records.failures import DEAD_RECORD
from stratalog.server.audit import Audit
from stratalog.server.connection_shares import ConnectionBudgets
from stratalog.server.rates import Rates
from stratalog.server.thread_pool import Pool
from stratalog.sync.pull import LOST_BRANCH
from stratalog.worker.settlement import DEAD_MESSAGE

__all__ = ["ALARMED", "METRIC_PATH", "Metrics", "core_counters", "with_processes"]

ALARMED = (UNEXPECTED, LAST_ATTEMPT, DEAD_MESSAGE, DEAD_RECORD, LOST_BRANCH)
"""Counters that need an operator's alarm. Each of these counters begins at 0, so that the first event is an increase
and raises the alarm."""

METRIC_PATH = "metric_path"
"""The handler option that gives all paths of a handler one label. Page files use this option, since a folder may have
many files."""

OTHER = "other"
T = TypeVar("T")
_STATUSES = range(100, 600)
_METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "WEBSOCKET"})


class Metrics:
    """The counters of one server. Names of documents and principals are many, and private. So they are never labels.

    Names of organisations are labels only for organisations with quotas, and at most `USAGE_LABELS_MAX` of them.
    """

    def __init__(
        self,
        environment: Environment,
        meter: Meter | None = None,
        pools: Iterable[Pool] = (),
        admission: Admission | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.listeners = gauge("stratalog_live_listeners", "Open live connections.")
        self.connections = gauge("stratalog_connections", "Open sockets of callers.")
        self.connections_refused = counter("stratalog_connections_refused", "Connections refused on arrival.")
        self.connections_dropped = counter(
            "stratalog_connections_dropped",
            "Connections closed because the caller was too slow to send the head or to receive the answer.",
            ["deadline"],
        )
        self.handovers = counter(
            "stratalog_handovers",
            "Connections with a push that were offered to the document's preferred process, by outcome.",
            ["outcome"],
        )
        self.pokes = counter("stratalog_live_pokes", "Hints sent to live connections.")
        self.presence_bytes = counter("stratalog_live_presence_bytes", "Bytes of presence sent to live connections.")
        self.mutations = counter("stratalog_mutations", "Pushed mutations by outcome.", ["status"])
        self._requests = counter("stratalog_requests", "Finished requests.", ["method", "path", "status"])
        self._seconds = Histogram(
            "stratalog_request_seconds", "Duration of requests.", ["method", "path"], registry=self.registry
        )
        self._resolved: dict[tuple[str, str, int], tuple[Counter, Histogram | None]] = {}
        self._collect(_core_events, environment)
        self._collect(_pool_calls, pools)
        if admission is not None:
            self._collect(_usage, admission)
        if meter is not None:
            self._collect(_billed, meter)

    def watch(self, budgets: ConnectionBudgets, audit: Audit) -> None:
        """Add metrics of the connections in progress and of the omitted lines of logs."""
        text = "Requests and live connections in progress."
        connections = Gauge("stratalog_connections_in_use", text, ["kind"], registry=self.registry)
        connections.labels("all").set_function(lambda: budgets.connections.used)
        connections.labels("live").set_function(lambda: budgets.live.used)
        self._collect(_omitted_lines, audit)

    def watch_rates(self, **rates: Iterable[Rates]) -> None:
        """Add a metric of the requests that each rate refused. The keywords are the rates' names."""
        self._collect(_rate_refusals, rates)

    def _collect(self, metrics: Callable[[T], Iterable[Metric]], source: T) -> None:
        """Add metrics that are read from ``source`` at each scrape."""
        self.registry.register(_Collected(partial(metrics, source)))

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a finished request. All unknown paths share one label, so a caller cannot make up labels.

        A status of 0 means that no response was sent.
        """
        path = _path_of(scope)
        method = str(scope["method"]) if scope["type"] == ScopeType.HTTP else "WEBSOCKET"
        method = method if method in _METHODS else OTHER
        requests, spent = self._labelled(method, path, status)
        requests.inc()
        if spent is not None:
            spent.observe(seconds)

    def _labelled(self, method: str, path: str, status: int) -> tuple[Counter, Histogram | None]:
        """Return the counter and histogram of these labels. Both are cached, because there are few labels.

        A WebSocket has no histogram.
        """
        known = self._resolved.get((method, path, status))
        if known is None:
            spent = None if method == "WEBSOCKET" else self._seconds.labels(method, path)
            text = str(status) if status in _STATUSES or not status else OTHER
            known = self._resolved[method, path, status] = (self._requests.labels(method, path, text), spent)
        return known

    def text(self) -> bytes:
        """Return all metrics as text, for a scrape."""
        return generate_latest(self.registry)


def with_processes(texts: Mapping[int, str]) -> str:
    """Return the metrics of several processes as one text. Each series gets the number of its process as a label."""
    families: dict[str, Metric] = {}
    for process, text in sorted(texts.items()):
        for family in text_string_to_metric_families(text):
            merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                merged.add_sample(sample.name, {**sample.labels, "process": str(process)}, sample.value)
    registry = CollectorRegistry()
    registry.register(_Collected(families.values))
    return generate_latest(registry).decode()


def core_counters(environment: Environment) -> CollectorRegistry:
    """Return the core's counters alone, for a process that serves no requests, such as a worker."""
    registry = CollectorRegistry()
    registry.register(_Collected(partial(_core_events, environment)))
    return registry


def _path_of(scope: Scope) -> str:
    """Return the declared path of a request's route, or `OTHER` for a request without a route."""
    handler = scope.get("route_handler")
    given = handler.opt.get(METRIC_PATH) if handler is not None else None
    return str(given or scope.get("path_template") or OTHER)


class _Collected(Collector):
    """Metrics that ``collect`` reads at each scrape."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _counters(
    name: str, text: str, labels: Sequence[str], counts: Iterable[tuple[Sequence[str], float]]
) -> CounterMetricFamily:
    """Return one counter for each pair of the labels' values and a count."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family


def _core_events(environment: Environment) -> Iterator[Metric]:
    counts = sorted((dict.fromkeys(ALARMED, 0) | dict(environment.counters)).items())
    text = "Events of the core: appends, conflicts and others."
    yield _counters("stratalog_core", text, ["what"], (([name.replace(" ", "_")], count) for name, count in counts))


def _pool_calls(pools: Iterable[Pool]) -> Iterator[Metric]:
    busy = GaugeMetricFamily("stratalog_pool_threads_busy", "Busy threads.", labels=["pool"])
    waiting = GaugeMetricFamily("stratalog_pool_calls_waiting", "Calls waiting for a thread.", labels=["pool"])
    refused = CounterMetricFamily(
        "stratalog_pool_calls_refused",
        "Calls refused because too many calls waited for a thread, or because the call waited too long.",
        labels=["pool"],
    )
    for pool in pools:
        counts = pool.counts()
        busy.add_metric([pool.name], counts.busy)
        waiting.add_metric([pool.name], counts.waiting)
        refused.add_metric([pool.name], counts.refused)
    yield from (busy, waiting, refused)


def _usage(admission: Admission) -> Iterator[Metric]:
    """Yield the amounts of the organisations nearest to a quota. The limit keeps the number of labels small."""
    known = nlargest(USAGE_LABELS_MAX, admission.known(), key=lambda pair: pair[1].ratio)
    for name in Amounts.__struct_fields__:
        text = f"The usage of an organisation, as known to this process: {name.replace('_', ' ')}."
        family = GaugeMetricFamily(f"stratalog_usage_{name}", text, labels=["organisation"])
        for organisation, usage in known:
            family.add_metric([organisation], getattr(usage.amounts, name))
        yield family
    ratio = GaugeMetricFamily("stratalog_usage_ratio", "The largest used share of any quota.", labels=["organisation"])
    for organisation, usage in known:
        ratio.add_metric([organisation], usage.ratio)
    refusals = (([quota], count) for quota, count in sorted(admission.refusals.items()))
    yield ratio
    yield _counters("stratalog_quota_refusals", "Writes refused because of a quota.", ["quota"], refusals)


def _rate_refusals(rates: Mapping[str, Iterable[Rates]]) -> Iterator[Metric]:
    counts = [
        ([name, scope], count)
        for name, named in rates.items()
        for scope, count in sorted(pair for rate in named for pair in dict(rate.refused).items())
    ]
    text = "Requests refused because of a rate limit."
    yield _counters("stratalog_rate_refusals", text, ["rate", "scope"], counts)


def _omitted_lines(audit: Audit) -> Iterator[Metric]:
    text = "Lines omitted because of a rate limit, a full queue or a write error."
    counts = (([log], count) for log, count in audit.omitted.items())
    yield _counters("stratalog_log_lines_omitted", text, ["log"], counts)


def _billed(meter: Meter) -> Iterator[Metric]:
    text = "Units and requests that hosted services bill, or would bill."
    amounts = sorted(meter.read().items())
    counts = (([operation, unit.replace(" ", "_")], amount) for (operation, unit), amount in amounts)
    yield _counters("stratalog_billed", text, ["operation", "unit"], counts)
