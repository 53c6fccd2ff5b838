"""Commands on spreadsheets. What they stand on is imported only when one of them runs."""

from __future__ import annotations

import click

from stratalog.cli.output import note
from stratalog.cli.session import Session, command, of_every_command

__all__ = ["COMMANDS"]


@click.group("sheet", epilog="Example: stratalog sheet import budget.xlsx acme/budget")
@of_every_command
def sheet() -> None:
    """Spreadsheets: import, look at any version, change, export."""


@command("setup", example="stratalog sheet setup")
def setup(session: Session) -> None:
    """Fetch the spreadsheet's engine from npm, pinned by content. Does nothing when it is there."""
    from stratalog.apps.sheet.place import install_engine

    folder = install_engine(note)
    session.answer({"folder": str(folder)}, f"the engine is in {folder}")


sheet.add_command(setup)
COMMANDS = [sheet]
