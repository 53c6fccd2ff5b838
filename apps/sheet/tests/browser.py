"""The engine in a real browser: Chromium opens a page that imports workbooks, and the page shows their states."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from stratalog_sheet.engine import engine_folder
from tests.e2e.serving import find_chromium

OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom"]
SECONDS_MAX = 240
PAGE = """<!doctype html><meta charset="utf-8"><body><pre id="out"></pre>
<script src="{engine}/owl/dist/owl.iife.js"></script>
<script src="{engine}/o-spreadsheet/dist/o_spreadsheet.iife.js"></script>
<script src="books.js"></script>
<script>
const states = books.map((files) => new o_spreadsheet.Model(files, {{ mode: "normal" }})._exportData(false));
document.getElementById("out").textContent = JSON.stringify(states);
</script></body>
"""


def imported(books: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Import workbooks in a browser, and return the engine's states. Each item of ``books`` has a workbook's files."""
    (folder / "books.js").write_text(f"const books = {json.dumps(books)};")
    page = folder / "page.html"
    page.write_text(PAGE.format(engine=engine_folder().as_uri()))
    profile = ["--user-data-dir=" + str(folder / "profile"), f"--timeout={SECONDS_MAX * 1000}"]
    done = subprocess.run(
        [find_chromium(), *OPTIONS, *profile, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    text = done.stdout.partition('<pre id="out">')[2].partition("</pre>")[0]
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", "\u00a0"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, character)
    states: list[dict[str, Any]] = json.loads(text)
    return states
