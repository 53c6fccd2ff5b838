"""Refused commands: committed commands that the engine cannot execute. Their messages stay in the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from stratalog_sheet.answers import Loaded

__all__ = ["RefusedCommand", "refused_commands"]


class RefusedCommand(msgspec.Struct, frozen=True):
    """A command of the message that was committed as ``version``, with its content, and the engine's reason."""

    version: int
    author: str
    type: str
    reason: str
    command: dict[str, Any]


def refused_commands(loaded: Loaded, refused: Iterable[Mapping[str, Any]]) -> list[RefusedCommand]:
    """Return the refused commands with their versions and authors, in order.

    ``refused`` has the engine's answer for a model that may have begun before ``loaded``.
    """
    entries = {entry.message["nextRevisionId"]: entry for entry in loaded.entries if entry.message}
    return [
        RefusedCommand(entry.version, entry.author, each["command"]["type"], each["reason"], each["command"])
        for each in refused
        if (entry := entries.get(each["id"]))
    ]
