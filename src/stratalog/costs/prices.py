"""Prices: a dated list of the prices of services, each with its source. A user can replace the list."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from stratalog.errors import Invalid
from stratalog.struct_types import resolved

__all__ = ["Price", "PriceList", "Prices", "load_prices"]

NEWEST = "prices-2026-11.json"


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price in ``dollars`` for ``per`` units, with its source and the date on which the source was read."""

    dollars: float
    per: float
    unit: str
    source: str
    looked_at: str
    remark: str = ""

    def of(self, amount: float) -> float:
        """Return the dollars for an amount."""
        return self.dollars * amount / self.per


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of a deployment's services. The estimates omit WebSockets, logs and transfer."""

    dynamodb_write_units: Price
    dynamodb_read_units: Price
    dynamodb_gb_months: Price
    dynamodb_recovery_gb_months: Price
    s3_puts: Price
    s3_gets: Price
    s3_gb_months: Price
    sqs_requests: Price
    lambda_requests: Price
    lambda_arm_gb_seconds: Price
    lambda_x86_gb_seconds: Price
    http_requests: Price
    websocket_messages: Price
    websocket_minutes: Price
    alarm_months: Price
    log_gb: Price
    schedule_runs: Price
    transfer_gb: Price


class PriceList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The prices of one region on a date."""

    format: Literal[1]
    region: str
    date: str
    prices: Prices
    remarks: tuple[str, ...] = ()


def load_prices(path: Path | None = None) -> PriceList:
    """Return the list in the file ``path``; if None, the newest list of the package. Raises Invalid."""
    try:
        text = path.read_bytes() if path else files("stratalog.costs").joinpath(NEWEST).read_bytes()
        return msgspec.json.decode(text, type=resolved(PriceList))
    except (OSError, msgspec.DecodeError, RecursionError) as exc:
        raise Invalid("the list of prices cannot be read", path=path, reason=str(exc)) from exc
