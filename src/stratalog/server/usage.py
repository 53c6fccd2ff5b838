"""Usage over HTTP: the stored amounts of an organisation, and its quotas."""

from __future__ import annotations

import msgspec
from litestar import Router

from stratalog.log.usage import Amounts, Quotas
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.service import Served, reading

__all__ = ["USAGE"]


class UsageInfo(msgspec.Struct, frozen=True):
    """The stored ``amounts`` of an organisation: the measured amounts, plus the amounts ``admitted`` since.

    ``measured_ms`` is the time at which the last measurement began; None if there was no measurement. ``admitted`` are
    the amounts that this process has admitted and that the measurement does not cover. ``document_clients`` is the
    largest measured number of clients of one document. ``quotas`` limit the ``amounts``; None means no limit.
    """

    organisation: str
    measured_ms: int | None
    amounts: Amounts
    admitted: Amounts
    document_clients: int
    quotas: Quotas


@reading("/usage", opt={"action": "usage"}, summary="The stored amounts of an organisation, and its quotas")
def show(service: Served, organisation: Name) -> UsageInfo:
    """Returns the last measurement, and the amounts that this process admitted since."""
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
