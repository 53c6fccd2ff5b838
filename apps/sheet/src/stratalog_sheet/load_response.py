"""Responses to a browser that loads a sheet: a base state and the entries after it, or only the missing entries."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response

from stratalog_sheet.sheet import Sheet

__all__ = ["load_response"]

JSON = "application/json"


def load_response(sheet: Sheet, at: int | None, known: int | None, after: int | None, hash: str) -> Response[bytes]:
    """Return a base state and the entries from that state to version ``at``.

    If ``at`` is None, a browser that has the base ``known`` and the entries up to ``after`` gets only the later
    entries, unless `Sheet.since` requires a reload.
    """
    if at is None and known is not None and after is not None:
        new = sheet.since(after, hash)
        if not new.reload:
            return _json({"base": known, "data": None, "entries": new.entries, "version": new.version, "hash": ""})
    loaded = sheet.load(at)
    answer = {"base": loaded.base_version, "data": msgspec.Raw(loaded.data), "entries": loaded.entries}
    base_hash = sheet.log.hash_at(loaded.base_version).hex()
    return _json({**answer, "version": loaded.version, "hash": base_hash})


def _json(answer: dict[str, Any]) -> Response[bytes]:
    return Response(msgspec.json.encode(answer), media_type=JSON)
