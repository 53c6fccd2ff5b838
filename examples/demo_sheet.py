"""The spreadsheet, shown: a real workbook in the browser, two simulated colleagues in it, and all of its past.

`make demo`, or `python examples/demo_sheet.py [STORE] [PORT]`. The store stays, and so do the changes.

The workbook is `readTest.xlsx` of Debian's package r-cran-openxlsx: 92,000 filled cells with 4,000 formulas. apt
fetches the package without being root and nothing is installed; where there is no apt, a small workbook is made
instead. The engine comes from npm, once.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import click
from demo_sync import free_port

import stratalog
from stratalog.cli import main as stratalog_program
from stratalog_sheet import Sheets
from stratalog_sheet.engine import install_engine

ORGANISATION, NAME = "local", "readtest"
PORT = 8420
PACKAGE = "r-cran-openxlsx"
FILE = "./usr/lib/R/site-library/openxlsx/extdata/readTest.xlsx"
FETCH_SECONDS_MAX = 60
ITEMS = {"Rent": 980, "Groceries": 412, "Trains": 138, "Books": 57, "Coffee": 44, "Garden": 86}


def main(store: str, port: int) -> None:
    install_engine(click.echo)
    with stratalog.open(store) as opened:
        fill(Sheets(opened))
    port = free_port(port)
    url = f"http://127.0.0.1:{port}"
    say_what_to_do(store, f"{url}/web/sheet/edit.html?in={ORGANISATION}&sheet={NAME}")
    colleagues = Path(__file__).with_name("colleagues.py")
    with subprocess.Popen([sys.executable, str(colleagues), url, ORGANISATION, NAME]) as program:
        try:
            stratalog_program(["sheet", "serve", "--store", store, "--port", str(port)])
        finally:
            program.terminate()


def fill(sheets: Sheets) -> None:
    """Put the workbook there, unless an earlier demo did."""
    if any(sheet.name == NAME for sheet in sheets.list(ORGANISATION)):
        click.echo("the workbook is there already, as it was left")
        return
    workbook = fetched_workbook()
    if workbook is not None:
        click.echo("importing readTest.xlsx of Debian's r-cran-openxlsx")
        sheets.import_file(ORGANISATION, NAME, workbook, file_name="readTest.xlsx", author="import")
    else:
        click.echo("no apt here to fetch a workbook with, so a small one is made")
        make_workbook(sheets)


def fetched_workbook() -> bytes | None:
    """The workbook, taken out of Debian's package; None where there is no apt or no network."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return None
    with tempfile.TemporaryDirectory() as folder:
        try:
            fetch = ["apt-get", "-qq", "download", PACKAGE]
            subprocess.run(fetch, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS_MAX)
            package = next(Path(folder).glob("*.deb"))
            archive = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(package)], check=True, capture_output=True)
        except (OSError, StopIteration, subprocess.SubprocessError):
            return None
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            member = files.extractfile(FILE)
            return None if member is None else member.read()


def make_workbook(sheets: Sheets) -> None:
    """A year of household costs, cell by cell: each is a version."""
    sheet = sheets.create(ORGANISATION, NAME, title="Household", author="import")
    rows = [["Item", "A month", "A year"], *([item, str(cost), ""] for item, cost in ITEMS.items())]
    for row, cells in enumerate(rows, start=1):
        for letter, content in zip("ABC", cells, strict=True):
            sheet.set(f"{letter}{row}", content or f"=B{row}*12", author="import")
    last = len(rows)
    sheet.set(f"A{last + 2}", "Together", author="import")
    sheet.set(f"C{last + 2}", f"=SUM(C2:C{last})", author="import")


def say_what_to_do(store: str, page: str) -> None:
    click.echo()
    click.echo(f"  Open {click.style(page, fg='cyan', bold=True)} in two windows, and type.")
    click.echo("  Two simulated colleagues write in columns I and J. The slider below shows every moment of it.")
    click.echo("  Switch one window to offline, change both, switch back. All sheets are at /web/sheet/.")
    click.echo(f"  Changes are kept in {store}; remove it to begin again.")
    click.echo()


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "data/demo-sheet", int(arguments[1]) if len(arguments) > 1 else PORT)
