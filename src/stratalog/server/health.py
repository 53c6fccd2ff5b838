"""Health and metrics of the server."""

from __future__ import annotations

import msgspec
from litestar import Response, get

from stratalog.server.error_responses import PROBLEMS
from stratalog.server.query_parameters import ANY_QUERY
from stratalog.server.service import Served

__all__ = ["health", "metrics"]

PROMETHEUS = "text/plain; version=0.0.4"


class Health(msgspec.Struct, frozen=True):
    """The server runs, and its store answers."""

    status: str = "ok"


# A monitor or a proxy may add a parameter of its own, for example against caches.
@get("/health", opt={ANY_QUERY: True}, responses=PROBLEMS, tags=["server"], summary="Check that the store can be read")
async def health(service: Served) -> Health:
    """Answers 503 if the store cannot be read."""
    await service.health.ask()
    return Health()


@get(
    "/metrics",
    opt={"action": "metrics", ANY_QUERY: True},
    media_type=PROMETHEUS,
    responses=PROBLEMS,
    tags=["server"],
    summary="Prometheus metrics",
)
async def metrics(service: Served) -> Response[str]:
    """Counters and gauges of this server. If several processes serve, each series has the label ``process``."""
    return Response(await service.all_metrics(), media_type=PROMETHEUS)
