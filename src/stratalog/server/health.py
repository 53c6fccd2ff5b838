"""Whether the server is well, and how it is doing."""

from __future__ import annotations

import msgspec
from litestar import Response

from stratalog.server.service import Served, reading

__all__ = ["health", "metrics"]

PROMETHEUS = "text/plain; version=0.0.4"


class Health(msgspec.Struct, frozen=True):
    """The server runs, and its store answers."""

    status: str = "ok"


@reading("/health", tags=["server"], summary="Whether the store can be read")
def health(service: Served) -> Health:
    """503 where it cannot."""
    next(iter(service.store.organisations()), None)
    return Health()


@reading("/metrics", opt={"action": "metrics"}, media_type=PROMETHEUS, tags=["server"], summary="Prometheus metrics")
def metrics(service: Served) -> Response[str]:
    """Counters and gauges of this process."""
    return Response(service.metrics.text().decode(), media_type=PROMETHEUS)
