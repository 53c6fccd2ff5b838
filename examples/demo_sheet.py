"""A demo of the spreadsheet: a café's plan in the browser, with its history and two simulated colleagues.

Run `make demo`, or `python examples/demo_sheet.py [STORE] [PORT]`. The store stays in its folder with all changes.

`demo_workbook.py` has the plan: five sheets, written by four people in three weeks. The first run fetches the engine
from npm.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
from demo_sync import free_port
from demo_workbook import PastClock, build, is_complete

import stratalog
from stratalog.cli import main as stratalog_program
from stratalog_sheet import Sheets
from stratalog_sheet.engine import install_engine

ORGANISATION, NAME = "local", "cafe"
PORT = 8420


def main(store: str, port: int) -> None:
    install_engine(click.echo)
    fill(store)
    port = free_port(port)
    url = f"http://127.0.0.1:{port}"
    say_what_to_do(store, f"{url}/web/sheet/edit.html?in={ORGANISATION}&sheet={NAME}")
    colleagues = Path(__file__).with_name("colleagues.py")
    with subprocess.Popen([sys.executable, str(colleagues), url, ORGANISATION, NAME]) as program:
        try:
            stratalog_program(["sheet", "serve", "--store", store, "--port", str(port)])
        finally:
            program.terminate()


def fill(store: str) -> None:
    """Write the workbook, or the rest of it after an interrupted demo. A complete workbook is not written again."""
    clock = PastClock()
    with stratalog.open(store, clock=clock) as opened:
        sheets = Sheets(opened)
        if is_complete(sheets, ORGANISATION, NAME):
            click.echo("the workbook is there already, with all changes")
        else:
            click.echo("writing the plan of a café, step by step")
            build(sheets, ORGANISATION, NAME, clock)
        sheets.close()


def say_what_to_do(store: str, page: str) -> None:
    click.echo()
    click.echo(f"  Open {click.style(page, fg='cyan', bold=True)} in two windows, and type.")
    click.echo("  The slider at the bottom shows every step of three weeks. History shows the author of each step.")
    click.echo("  Two simulated colleagues write in the sheet “A trial week”, and the overview follows.")
    click.echo("  Switch one window to offline, change both windows, switch back. All sheets are at /web/sheet/.")
    click.echo(f"  Changes are kept in {store}; remove this store to begin again.")
    click.echo()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "data/demo-sheet", int(arguments[1]) if len(arguments) > 1 else PORT)
