"""Settings: numbers for the log, the server, the worker and quotas, from a file or a text.

The command line, servers, workers, maintenance passes and functions on AWS read the settings, so all use the same
numbers. A name is a field of `stratalog.LogSettings`, `stratalog.server.ServerLimits`,
`stratalog.worker.WorkerSettings` or `stratalog.server.Quotas`. A number that is not given keeps the application's
value, or without one the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from stratalog.arguments import CheckedStruct
from stratalog.codec import json_reason
from stratalog.errors import Invalid
from stratalog.struct_types import resolved

__all__ = ["CHUNK_CACHE", "SETTINGS", "Section", "Settings", "parse_settings", "read_settings"]

SETTINGS = "STRATALOG_SETTINGS"
"""The environment variable that names a file of settings, or contains the settings as JSON."""

CHUNK_CACHE = "STRATALOG_CHUNK_CACHE"
"""The environment variable that names the folder of the machine's chunk cache."""

Section = Literal["log", "server", "worker", "quotas"]
T = TypeVar("T", bound=msgspec.Struct)


class Settings(CheckedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers by section and name."""

    log: Mapping[str, int | float] = {}
    server: Mapping[str, int | float] = {}
    worker: Mapping[str, int | float] = {}
    quotas: Mapping[str, int | float] = {}

    def over(self, section: Section, base: T) -> T:
        """Return ``base`` with the numbers of a section. Raises Invalid for unknown names and invalid numbers."""
        given: Mapping[str, int | float] = getattr(self, section)
        for name, value in given.items():
            if name not in base.__struct_fields__ or not isinstance(getattr(base, name), int | float | None):
                raise Invalid("unknown setting", section=section, name=name)
            if value <= 0:
                raise Invalid("a setting must be above 0", section=section, name=name, value=value)
        try:
            return msgspec.convert({**msgspec.structs.asdict(base), **given}, resolved(type(base)))
        except msgspec.ValidationError as exc:
            raise Invalid("a setting has the wrong type", section=section, reason=str(exc)) from exc


def parse_settings(text: str | bytes) -> Settings:
    """Return the settings in a JSON object. Raises Invalid."""
    try:
        return msgspec.json.decode(text, type=resolved(Settings))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise Invalid("the settings are not valid", reason=json_reason(text, exc)) from exc


def read_settings(source: str) -> Settings:
    """Return the settings in ``source``: a path or JSON text. For an empty text, set no number. Raises Invalid."""
    text = source.strip()
    if not text:
        return Settings()
    if text.startswith("{"):
        return parse_settings(text)
    try:
        return parse_settings(Path(text).read_bytes())
    except OSError as exc:
        raise Invalid("the settings file cannot be read", file=text, reason=exc.strerror) from exc
