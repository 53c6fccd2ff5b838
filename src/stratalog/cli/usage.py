"""The command that shows the amounts that an organisation stores."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from stratalog.cli.maintenance import every_organisation
from stratalog.cli.output import local_time, progress, size_text
from stratalog.cli.program import fail_for_damage
from stratalog.cli.session import Session, command
from stratalog.log.usage import Measurement, load_measurement
from stratalog.maintenance.collection import MaintenanceFailure
from stratalog.maintenance.usage import measure_usage
from stratalog.store import Store

__all__ = ["COMMANDS"]

HEAD = ("organisation", "measured", "stored", "documents", "records", "clients", "most clients of one document")


@command("usage", example="stratalog usage acme --measure")
@click.argument("organisation", required=False)
@click.option(
    "--measure",
    is_flag=True,
    help="Measure now, and store the result. This reads the organisation's items in the index, lists its blobs, and "
    "loads the newest state of each document.",
)
def usage(session: Session, organisation: str | None, measure: bool) -> None:
    """Show the last measurement of the amounts that an organisation stores; by default of every organisation."""
    store, damaged = session.open(), list[MaintenanceFailure]()
    names = [organisation] if organisation else every_organisation(store, damaged)
    measured = [(name, _measured(store, name, measure)) for name in names]
    pairs = ((_plain(name, measurement), _row(name, measurement)) for name, measurement in measured)
    session.answer_list(pairs, "no organisations", head=[HEAD], right=[2, 3, 4, 5, 6], damaged=damaged)
    fail_for_damage(damaged)


def _measured(store: Store, organisation: str, measure: bool) -> Measurement | None:
    if not measure:
        return load_measurement(store.environment.index, organisation)
    with progress(f"measuring {organisation}", None):
        return measure_usage(store.environment, organisation)


def _plain(organisation: str, measurement: Measurement | None) -> dict[str, Any]:
    if measurement is None:
        return {"organisation": organisation, "measured_ms": None}
    return {
        "organisation": organisation,
        "measured_ms": measurement.began_ms,
        **msgspec.structs.asdict(measurement.amounts),
        "document_clients": measurement.document_clients,
        "unreadable_documents": measurement.unreadable,
    }


def _row(organisation: str, measurement: Measurement | None) -> list[str]:
    if measurement is None:
        return [organisation, "never", *[""] * 5]
    amounts = measurement.amounts
    counts = (amounts.documents, amounts.records, amounts.clients, measurement.document_clients)
    return [organisation, local_time(measurement.began_ms), size_text(amounts.stored_bytes), *map(str, counts)]


COMMANDS = [usage]
