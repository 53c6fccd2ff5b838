"""The command that serves spreadsheets to browsers. What it needs beyond the library is imported only when it runs."""

from __future__ import annotations

import click
from msgspec import structs

from stratalog.cli.output import note
from stratalog.cli.serve import load_application, of_every_server, serve_application
from stratalog.cli.session import Session, command

__all__ = ["serve"]


@command("serve", example="stratalog sheet serve --store ./data --port 8420")
@click.argument("application", required=False, metavar="[MODULE:NAME]")
@of_every_server
def serve(session: Session, application: str | None, host: str, port: int) -> None:
    """Serve the store's sheets to browsers; make the store where there is none, and fetch the engine.

    MODULE:NAME is an Application that says who may come in; without one this machine alone is served, and everybody on
    it may change every sheet.
    """
    try:
        from stratalog.apps.sheet.engine_files import install_engine
        from stratalog.apps.sheet.http import application as sheets
        from stratalog.apps.sheet.pages import PAGE
        from stratalog.server.application import Application
    except ModuleNotFoundError as exc:
        raise click.ClickException(f'serving sheets needs more: pip install "stratalog[server,sheet]" ({exc})') from exc
    install_engine(note)
    own = load_application(application, Application) if application else Application()
    ours = sheets()
    routes, running = (*ours.routes, *own.routes), (*ours.running, *own.running)
    served = structs.replace(own, routes=routes, running=running)
    serve_application(session, served, host, port, page=PAGE)
