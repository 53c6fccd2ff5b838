"""Measures delays of the sheet in a browser, on loopback: ``python -m bench.sheet_browser [--edits N]``.

One window sets a cell. The program measures the time until the model of another window has the value, and the time
until that window paints the value. The program also measures the time to open a sheet of 100,000 cells, and the time of
the model alone. The program needs Chromium. The server is a process with SQLite.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import statistics
import subprocess
import sys
import tempfile
import zipfile

import stratalog
from apps.sheet.tests.test_e2e import HERE
from stratalog_sheet import Sheets
from stratalog_sheet.cells import cell_name
from stratalog_sheet.engine_files import install_engine
from tests.e2e.serving import find_chromium, node_with

ROWS, COLUMNS = 1000, 100
FORMULA_EVERY = 25
SERVE = "from stratalog.cli import main; main()"
DATA = re.compile(rb"<sheetData.*?</sheetData>|<sheetData */>", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--edits", type=int, default=200)
    options = parser.parse_args()
    install_engine(print)
    with tempfile.TemporaryDirectory() as folder:
        with stratalog.open(folder) as store:
            sheets = Sheets(store)
            small = sheets.create("local", "small")
            sheets.import_file("local", "large", workbook(small.export()), file_name="large.xlsx")
            sheets.close()
        measurements = measured(folder, options.edits)
    for name in ("known", "painted"):
        cuts = statistics.quantiles(measurements[name], n=100)
        print(f"set in one window, {name} in another: p50 {cuts[49]:.1f} ms, p99 {cuts[98]:.1f} ms")
    for load in measurements["loads"]:
        print(
            f"open {ROWS * COLUMNS:,} cells: {load['total']:.0f} ms, of which the model alone {load['engine']:.0f} ms"
        )


def measured(folder: str, edits: int) -> dict[str, list]:  # type: ignore[type-arg]
    """Run a server of this store, and return the browser's measurements."""
    node = node_with(HERE)
    command = [sys.executable, "-c", SERVE, "sheet", "serve", "--store", folder, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = re.findall(r"http://[\d.:]+", server.stdout.readline())[0]
            driver = [node, "measure.mjs", url, find_chromium(), str(edits), "small", "large"]
            completed = subprocess.run(driver, cwd=HERE, capture_output=True, text=True, check=True)
            measurements: dict[str, list] = json.loads(completed.stdout)  # type: ignore[type-arg]
            return measurements
        finally:
            server.terminate()


def workbook(empty: bytes) -> bytes:
    """Return the empty workbook with 100,000 cells added. Each 25th column sums 24 cells of the row above."""
    rows = []
    for row in range(ROWS):
        cells = "".join(_cell(row, column) for column in range(COLUMNS))
        rows.append(f'<row r="{row + 1}">{cells}</row>')
    data = f"<sheetData>{''.join(rows)}</sheetData>".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(empty)) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            body = source.read(name)
            target.writestr(name, DATA.sub(lambda _: data, body) if name.startswith("xl/worksheets/sheet") else body)
    return packed.getvalue()


def _cell(row: int, column: int) -> str:
    name = cell_name(column, row)
    if row and column % FORMULA_EVERY == FORMULA_EVERY - 1:
        left = cell_name(column - FORMULA_EVERY + 1, row - 1)
        return f'<c r="{name}"><f>SUM({left}:{cell_name(column - 1, row - 1)})</f><v>0</v></c>'
    return f'<c r="{name}"><v>{row * column % 977}</v></c>'


if __name__ == "__main__":
    main()
