"""Usage over HTTP: the stored amounts of an organisation, and its quotas."""

from __future__ import annotations

import msgspec
from litestar import Router

from stratalog.log.usage import Amounts, Quotas
from stratalog.server.parameters import PREFIX, Name
from stratalog.server.service import Served, reading

__all__ = ["USAGE"]


class UsageInfo(msgspec.Struct, frozen=True):
    """The stored ``amounts`` of an organisation: the sum of the measured amounts and the ``admitted`` amounts.

    ``measured_ms`` is the time at which the last measurement began, or None if there was no measurement. ``admitted``
    are the amounts that this process has admitted and that the measurement does not cover. ``document_clients`` is the
    largest measured number of clients of one document. ``quotas`` limit the ``amounts``. A quota of None is no limit.
    """

    organisation: str
    measured_ms: int | None
    amounts: Amounts
    admitted: Amounts
    document_clients: int
    quotas: Quotas


@reading("/usage", opt={"action": "usage"}, summary="The stored amounts of an organisation, and its quotas")
def show(service: Served, organisation: Name) -> UsageInfo:
    """Returns the last measurement, and the amounts that this process has admitted since the measurement."""
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
