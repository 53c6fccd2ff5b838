"""A check of exports by LibreOffice. An export passes the check if LibreOffice converts the export to CSV."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["has_office", "refused_by_office"]

OFFICE = "soffice"
BATCH = 100
SECONDS_MAX = 600


def has_office() -> bool:
    """Return whether LibreOffice is installed, for example Debian's libreoffice-calc-nogui."""
    return shutil.which(OFFICE) is not None


def refused_by_office(exports: Sequence[Path]) -> Iterator[Path]:
    """Yield the workbooks that LibreOffice does not open."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(0, len(exports), BATCH):
            batch = exports[number : number + BATCH]
            out = Path(folder) / str(number)
            profile = (Path(folder) / "profile").as_uri()
            command = [OFFICE, f"-env:UserInstallation={profile}", "--headless", "--convert-to", "csv"]
            subprocess.run(
                [*command, "--outdir", str(out), *map(str, batch)],
                check=False,
                capture_output=True,
                timeout=SECONDS_MAX,
            )
            yield from (path for path in batch if not (out / f"{path.stem}.csv").exists())
