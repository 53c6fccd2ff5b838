"""Parsing of typed text: names of documents, versions, times, and arguments of mutations."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from stratalog.cli.output import local_time
from stratalog.codec import is_decimal
from stratalog.documents import Document
from stratalog.errors import Invalid, NotFound
from stratalog.log import Log
from stratalog.protocol.readable import from_json

__all__ = ["FiniteRange", "milliseconds", "parse_arguments", "split_name", "version_of"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FiniteRange(click.FloatRange):
    """A number in a range. Refuses NaN and infinities, which `click.FloatRange` accepts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises BadParameter."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def split_name(name: str) -> tuple[str, str]:
    """Split ORGANISATION/NAME. The name may contain slashes, the organisation may not. Raises BadParameter."""
    organisation, slash, rest = name.partition("/")
    if not (slash and organisation and rest):
        raise click.BadParameter(f"{name!r} is not ORGANISATION/NAME, as in acme/budget")
    return organisation, rest


def version_of(document: Document | Log, text: str | None, *, first: int = 0) -> int | None:
    """Return the version with the number ``text``, or the newest version at the ISO time ``text``; None for None.

    For a time before version 1 the result is 0. Raises NotFound for a time before the version ``first``,
    VersionForgotten if the version at the time is no longer kept, and BadParameter for any other text.
    """
    if text is None or is_decimal(text):
        return None if text is None else int(text)
    log = document.log if isinstance(document, Document) else document
    version = log.version_at(milliseconds(text, "a version or an ISO time"))
    if version < first:
        created = local_time(log.entry(first).created_ms)
        raise NotFound("there was no version at that time", log=log.record.name, time=text, first=created)
    return version


def milliseconds(text: str, expected: str = "an ISO time") -> int:
    """Return an ISO time in milliseconds since 1970. A time without a UTC offset is local.

    Raises BadParameter, whose message has the text ``expected``.
    """
    try:
        moment = datetime.fromisoformat(text)
        # Subtract, since `astimezone` fails for a time whose year in UTC is 0 or 10000.
        since_epoch = (moment if moment.tzinfo else moment.astimezone()) - EPOCH
    except (ValueError, OverflowError) as exc:
        raise click.BadParameter(f"{text!r} is not {expected}, as in 2026-11-21T10:00") from exc
    return round(since_epoch / timedelta(milliseconds=1))


def parse_arguments(texts: tuple[str, ...]) -> Any:
    """Return a mutation's arguments from one JSON text or ``name=value`` pairs. A value is JSON, or else text."""
    if len(texts) == 1 and texts[0].lstrip()[:1] in ("{", "["):
        return from_json(texts[0])
    return dict(_pair(text) for text in texts)


def _pair(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not (sign and name):
        raise click.BadParameter(f"{text!r} is neither JSON nor name=value")
    try:
        return name, from_json(value)
    except Invalid:
        return name, value
