"""Finds the application that a person names: one that is installed, by its short name, or a variable of a module."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import entry_points

from stratalog.errors import Invalid
from stratalog.server.application import Application

__all__ = ["find_application"]

GROUP = "stratalog.applications"
"""The entry points by which a distribution offers applications: a short name, and MODULE:NAME of an Application."""


def find_application(text: str, folder: str) -> Application:
    """The application called ``text``: ``sheet`` for an installed one, ``myapp:app`` for ``app`` of the module
    ``myapp``, which is looked for in ``folder`` too.

    Raises Invalid for a name that leads to no Application.
    """
    if folder not in sys.path:
        sys.path.insert(0, folder)
    installed = {point.name: point.value for point in entry_points(group=GROUP)}
    module, colon, name = installed.get(text, text).partition(":")
    if not (colon and module and name):
        raise _not_found(text, "it is neither installed nor MODULE:NAME, as in myapp:app", installed)
    try:
        application = getattr(import_module(module), name, None)
    except ImportError as exc:
        raise _not_found(text, str(exc), installed) from exc
    if not isinstance(application, Application):
        raise _not_found(text, "it is no stratalog.server.Application", installed)
    return application


def _not_found(text: str, reason: str, installed: dict[str, str]) -> Invalid:
    names = ", ".join(sorted(installed)) or "none"
    return Invalid(f"no application {text!r}: {reason}; installed applications: {names}", application=text)
