"""Search for an application by name: the short name of an installed application, or a variable of a module."""

from __future__ import annotations

import sys
from importlib import import_module

from stratalog.errors import Invalid
from stratalog.server.application import Application

__all__ = ["find_application"]

GROUP = "stratalog.applications"
"""The group of entry points by which a distribution offers applications. Each entry point maps a short name to
MODULE:NAME."""


def find_application(text: str, folder: str) -> Application:
    """Return the application called ``text``.

    A short name such as ``sheet`` names an installed application. ``myapp:app`` names the variable ``app`` of the
    module ``myapp``. Unless `sys.path` has ``folder``, the function inserts ``folder`` at the front, so that Python
    finds the folder's modules. The function does not remove ``folder`` again.

    Raises Invalid if ``text`` names no Application, or if the import raises ImportError. Any other error of the
    module's code passes through.
    """
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module, colon, name = (text if ":" in text else _installed().get(text, text)).partition(":")
    if not (colon and module and name):
        raise _not_found(text, "it is neither an installed application nor MODULE:NAME, as in myapp:app")
    try:
        loaded = import_module(module)
    except ImportError as exc:
        raise _not_found(text, str(exc)) from exc
    application = getattr(loaded, name, None)
    if application is None:
        raise _not_found(text, f"the module {module!r} has no {name!r}")
    if not isinstance(application, Application):
        raise _not_found(text, "it is not a stratalog.server.Application")
    return application


def _installed() -> dict[str, str]:
    """Return the installed applications as MODULE:NAME, by their short names."""
    # This import is slow. An application given as MODULE:NAME needs the import only for an error message.
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=GROUP)}


def _not_found(text: str, reason: str) -> Invalid:
    names = ", ".join(sorted(_installed())) or "none"
    return Invalid(f"no application {text!r}: {reason}; installed applications: {names}", application=text)
