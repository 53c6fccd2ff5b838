"""The command that serves a catalogue to browsers. Only a run of the command imports packages of the server extra."""

from __future__ import annotations

import click

from stratalog.cli import Session, command, load_application, of_every_server, serve_application
from stratalog.extras import needs_extra

__all__ = ["serve"]

PAGE = "/web/catalogue/"


@command("serve", example="stratalog catalogue serve acme --port 8420")
@click.argument("organisation")
@click.argument("application", required=False)
@of_every_server
def serve(session: Session, organisation: str, application: str | None, host: str, port: int) -> None:
    """Serve a page for a catalogue, and its read-only API.

    APPLICATION, a short name or MODULE:NAME, authenticates users. Without APPLICATION the server serves only this
    machine.
    """
    with needs_extra("server", "serving"):
        from stratalog_catalogue.http import application as catalogue
    served = load_application(application).including(catalogue())
    serve_application(session, served, host, port, page=f"{PAGE}?in={organisation}")
