"""Usage over HTTP: the stored amounts of an organisation, and its quotas."""

from __future__ import annotations

import msgspec
from litestar import Router

from stratalog.log.usage import Amounts, Quotas
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.service import Served, reading

__all__ = ["USAGE"]


class UsageInfo(msgspec.Struct, frozen=True):
    """What an organisation stores: what was measured at ``measured_ms``, and what this process ``admitted`` since.

    ``measured_ms`` is None where it was never measured. ``document_clients`` are the clients of the document that has
    most, as measured. ``quotas`` are held against ``amounts``; None is no bound.
    """

    organisation: str
    measured_ms: int | None
    amounts: Amounts
    admitted: Amounts
    document_clients: int
    quotas: Quotas


@reading("/usage", opt={"action": "usage"}, summary="What an organisation stores, and its quotas")
def show(service: Served, organisation: Name) -> UsageInfo:
    """As it was measured last, and what this process admitted since."""
    usage = service.admission.usage(organisation)
    measured = usage.measured
    return UsageInfo(
        organisation,
        None if measured is None else measured.began_ms,
        usage.amounts,
        usage.admitted,
        0 if measured is None else measured.document_clients,
        usage.quotas,
    )


USAGE = Router(PREFIX, route_handlers=[show], tags=["organisations"])
