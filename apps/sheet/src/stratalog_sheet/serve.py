"""The command that serves spreadsheets to browsers. The command imports its further dependencies only when it runs."""

from __future__ import annotations

import click

from stratalog.cli import Session, command, load_application, note, of_every_server, serve_application
from stratalog.extras import needs_extra

__all__ = ["serve"]


@command("serve", example="stratalog sheet serve --store ./data --port 8420")
@click.argument("application", required=False)
@of_every_server
def serve(session: Session, application: str | None, host: str, port: int) -> None:
    """Serve the store's sheets to browsers. A missing store is created, and the engine is fetched.

    APPLICATION, a short name or MODULE:NAME, authenticates users. Without APPLICATION, the server serves only this
    machine, and all users of the machine may change every sheet.
    """
    with needs_extra("server", "serving", "stratalog-sheet"):
        from stratalog_sheet.engine_files import install_engine
        from stratalog_sheet.http import application as sheets
        from stratalog_sheet.pages import PAGE
    install_engine(note)
    serve_application(session, load_application(application).including(sheets()), host, port, page=PAGE)
