"""The command that serves a catalogue to browsers. What it needs beyond the library is imported only when it runs."""

from __future__ import annotations

import click
from msgspec import structs

from stratalog.cli.serve import load_application, of_every_server, serve_application
from stratalog.cli.session import Session, command

__all__ = ["serve"]

PAGE = "/web/catalogue/"


@command("serve", example="stratalog catalogue serve acme --port 8420")
@click.argument("organisation")
@click.argument("application", required=False, metavar="[MODULE:NAME]")
@of_every_server
def serve(session: Session, organisation: str, application: str | None, host: str, port: int) -> None:
    """Serve a page on a catalogue, and its read API.

    MODULE:NAME is an Application that says who may come in; without one this machine alone is served.
    """
    try:
        from stratalog.apps.catalogue.http import application as catalogue
        from stratalog.server.application import Application
    except ModuleNotFoundError as exc:
        raise click.ClickException(f'serving needs more: pip install "stratalog[server]" ({exc})') from exc
    own = load_application(application, Application) if application else Application()
    shown = catalogue()
    served = structs.replace(own, routes=(*shown.routes, *own.routes), pages={**shown.pages, **own.pages})
    serve_application(session, served, host, port, page=f"{PAGE}?in={organisation}")
