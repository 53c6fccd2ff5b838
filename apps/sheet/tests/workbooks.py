"""The 13 real workbooks of Debian's package r-cran-openxlsx. apt fetches the package once.

The workbooks are MIT-licensed test data of that package, and not a part of this repository.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGE = "r-cran-openxlsx"
INSIDE = "usr/lib/R/site-library/openxlsx/extdata"
CACHE = Path.home() / ".cache" / "stratalog" / "workbooks"
COUNT = 13
LARGE = "readTest.xlsx"


def workbooks() -> list[Path]:
    """Return the paths of the workbooks in order of name. Fetches them if they are missing."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with CACHE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if len(list(CACHE.glob("*.xlsx"))) != COUNT:
            _fetch()
    paths = sorted(CACHE.glob("*.xlsx"))
    assert len(paths) == COUNT, f"{PACKAGE} has {len(paths)} workbooks"
    return paths


def large() -> bytes:
    """Return the file of a workbook with 123,000 cells: 91,399 have a value, and 4,168 of these are formulas."""
    return next(path for path in workbooks() if path.name == LARGE).read_bytes()


def _fetch() -> None:
    with tempfile.TemporaryDirectory() as folder:
        if subprocess.run(["apt-get", "download", PACKAGE], cwd=folder, capture_output=True, check=False).returncode:
            # scripts/bootstrap takes the same lock.
            with (Path(tempfile.gettempdir()) / "stratalog-apt.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                subprocess.run(["apt-get", "-qq", "update"], check=True)
            subprocess.run(["apt-get", "download", PACKAGE], cwd=folder, capture_output=True, check=True)
        (package,) = Path(folder).glob("*.deb")
        subprocess.run(["dpkg", "-x", str(package), f"{folder}/files"], check=True)
        shutil.rmtree(CACHE, ignore_errors=True)
        CACHE.mkdir()
        for path in (Path(folder) / "files" / INSIDE).glob("*.xlsx"):
            shutil.copy(path, CACHE)
