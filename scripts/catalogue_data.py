#!/usr/bin/env python3
"""Gather real records for a catalogue in a folder: successive states of Debian's packages, RFCs, and films.

`packages` and `sources` have a file for each state of Debian's indexes. The first state is the release that this
machine runs. The next states add the suites updates, security and backports, one after another. The last states are
testing and unstable. `rfc` has the entries of the RFC index as JSON, and `rfc-xml` has RFCs as XML, both from Debian's
packages of RFCs. apt fetches all these records with the mirrors and the settings of this machine, and checks Debian's
signatures. The script installs nothing. The script keeps apt's files in the folder `apt`, so that another run fetches
only new data. The films are the file that scripts/dataset.py pins by hash.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path

APT_HELPER = "/usr/lib/apt/apt-helper"
UNPACK = ["dpkg-deb", "--fsys-tarfile"]
KEYRINGS = ("debian-archive-keyring.pgp", "debian-archive-keyring.gpg")
ADDED = ("-updates", "-security", "-backports")
LATER = ("testing", "unstable")
RFC_PACKAGES = ("doc-rfc-std", "doc-rfc-fyi-bcp", "doc-rfc-misc", "doc-rfc-experimental")
TIMEOUT_SECONDS = 600
LARGE_BYTES = 400 * 1024
ROOT = Path(__file__).parents[1]
FILMS = ROOT / ".venv" / "share" / "vega-datasets" / "movies.json"

Index = tuple[str, Path, float]
"""A suite, the path of its index, and the time at which Debian signed the release."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", type=int, default=0, metavar="COUNT", help="records of a state  [default: all]")
    parser.add_argument("--small", action="store_true", help="fetch only this machine's release and some RFCs: 25 MB")
    given = parser.parse_args()
    write_films(given.folder / "films")
    gather(given.folder, given.packages, given.small)


def gather(folder: Path, count: int, small: bool) -> None:
    """Write all records that apt fetches."""
    apt = Apt(folder / "apt")
    codename, archive, security = mirrors()
    suites = [codename, *(codename + end for end in ADDED), *(() if small else LATER)]
    apt.update([line for suite in suites for line in apt.lines(suite, archive, security, small)])
    write_states(folder / "packages", apt.indexes("Packages", suites), package_key, count)
    if not small:
        write_states(folder / "sources", apt.indexes("Sources", suites), source_key, count)
    for package in RFC_PACKAGES[: 1 if small else None]:
        write_rfcs(folder, apt.download(package))


class Apt:
    """apt with its own lists and its own cache, and otherwise with the settings of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        for name in ("lists/partial", "cache/archives/partial", "packages"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        self._sources = self._folder / "sources.list"
        settings = {
            "Dir::Etc::sourcelist": self._sources,
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": self._folder / "lists",
            "Dir::Cache": self._folder / "cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "",
        }
        self._options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]

    @staticmethod
    def lines(suite: str, archive: str, security: str, small: bool) -> Iterator[str]:
        """Yield the lines of apt's sources list for a suite."""
        uri = security if suite.endswith("-security") else archive
        keyring = next((path for name in KEYRINGS if (path := Path("/usr/share/keyrings") / name).exists()), None)
        signed = f"[signed-by={keyring}] " if keyring else ""
        components = "main non-free" if not suite.endswith(ADDED) and suite not in LATER else "main"
        if uri:
            yield f"deb {signed}{uri} {suite} {components}"
        if uri and not small:
            yield f"deb-src {signed}{uri} {suite} main"

    def update(self, lines: list[str]) -> None:
        """Fetch the indexes. If the mirror does not have a suite, apt fetches the other suites."""
        self._sources.write_text("\n".join(lines) + "\n")
        say("fetching Debian's indexes with apt")
        command = ["apt-get", *self._options, "-qq", "update"]
        subprocess.run(command, check=False, capture_output=True, timeout=TIMEOUT_SECONDS)

    def indexes(self, kind: str, suites: list[str]) -> list[Index]:
        """Return the fetched main indexes of a kind, in the order of ``suites``."""
        form = "$(RELEASE)\t$(COMPONENT)\t$(FILENAME)"
        asked = ["apt-get", *self._options, "indextargets", "--format", form, f"Created-By: {kind}"]
        by_release: dict[str, Index] = {}
        for line in run(asked).decode().splitlines():
            release, component, name = line.split("\t")
            held = next((path for path in Path(name).parent.glob(Path(name).name + "*")), None)
            if component == "main" and held is not None:
                by_release[release] = (release, held, signed_at(held))
        return [by_release[suite] for suite in suites if suite in by_release]

    def download(self, package: str) -> Path | None:
        """Download a package and return its file, or None if the mirror does not have the package."""
        say(f"fetching {package}")
        command = ["apt-get", *self._options, "-qq", "download", package]
        folder = self._folder / "packages"
        subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=TIMEOUT_SECONDS)
        return next(iter(sorted(folder.glob(f"{package}_*.deb"), reverse=True)), None)


def mirrors() -> tuple[str, str, str]:
    """Return the codename of this machine's Debian release, and the URIs of its archive and its security archive."""
    form = "$(RELEASE)\t$(CODENAME)\t$(ORIGIN)\t$(REPO_URI)"
    try:
        lines = run(["apt-get", "indextargets", "--format", form, "Created-By: Packages"]).decode().splitlines()
    except (OSError, subprocess.SubprocessError):
        sys.exit("there is no apt here, so there are no packages and no RFCs")
    targets = [tuple(line.split("\t")) for line in lines]
    uris = {codename: uri for _, codename, origin, uri in targets if origin == "Debian"}
    codename = next((name for name in uris if "-" not in name), "")
    if not codename:
        sys.exit("apt has no package indexes of Debian here: run `apt-get update` first")
    return codename, uris[codename], uris.get(f"{codename}-security", "")


def write_states(folder: Path, indexes: list[Index], key: Callable[[bytes], str], count: int) -> None:
    """Write a file for each state, each with a later time.

    Paragraphs of a later suite replace earlier paragraphs with the same key. Testing and unstable replace all
    paragraphs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state: dict[str, bytes] = {}
    time = 0.0
    for number, (suite, path, signed) in enumerate(indexes, 1):
        published = paragraphs(path, key)
        before, state = state, published if suite in LATER else {**state, **published}
        names = before if before and count else sorted(state, key=lambda name: rank(name, state[name]))[: count or None]
        state = {name: state[name] for name in sorted(names) if name in state}
        time = max(time + 1, signed)
        file = folder / f"{number}-{suite}"
        file.write_bytes(b"\n".join(state.values()))
        os.utime(file, (time, time))
        report_state(folder.name, suite, before, state)


def rank(name: str, paragraph: bytes) -> tuple[bool, bytes]:
    """Return a sort key that chooses first the packages of every system, then a sample of the other packages."""
    optional = field(paragraph, b"Priority") not in ("required", "important", "standard")
    return optional, hashlib.sha256(name.encode()).digest()


def paragraphs(index: Path, key: Callable[[bytes], str]) -> dict[str, bytes]:
    """Return the paragraphs of an index, each by the key of its record in a catalogue."""
    parts = (part.strip() + b"\n" for part in run([APT_HELPER, "cat-file", str(index)]).split(b"\n\n"))
    return {name: paragraph for paragraph in parts if (name := key(paragraph))}


def package_key(paragraph: bytes) -> str:
    name, machine = field(paragraph, b"Package"), field(paragraph, b"Architecture")
    return f"{name}/{machine}" if name and machine else ""


def source_key(paragraph: bytes) -> str:
    """Return a source's name, or "" for a source that the archive keeps only for packages that contain parts of it."""
    return "" if field(paragraph, b"Extra-Source-Only") == "yes" else field(paragraph, b"Package")


def field(paragraph: bytes, name: bytes) -> str:
    match = re.search(rb"^" + name + rb": (.*)$", paragraph, re.MULTILINE)
    return match[1].decode() if match else ""


def signed_at(index: Path) -> float:
    """Return the time at which Debian signed the release of an index, or else the time of the index file."""
    stem = re.sub(r"_main_(binary-.*|source)_.*$", "_InRelease", index.name)
    text = (index.parent / stem).read_text(errors="replace")
    match = re.search(r"^Date: (.*)$", text, re.MULTILINE)
    return parsedate_to_datetime(match[1]).timestamp() if match else index.stat().st_mtime


def write_rfcs(folder: Path, package: Path | None) -> None:
    """Write the files of a package of RFCs: entries of the index as JSON, and the XML files of RFCs."""
    if package is None:
        say("the mirror does not have this package of RFCs")
        return
    with (
        subprocess.Popen([*UNPACK, str(package)], stdout=subprocess.PIPE) as unpacked,
        tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive,
    ):
        for member in archive:
            name = Path(member.name).name
            subfolder = {".json": "rfc", ".gz": "rfc-xml"}.get(Path(name).suffix)
            wanted = re.fullmatch(r"rfc\d+\.(json|xml\.gz)", name)
            content = archive.extractfile(member) if wanted and subfolder and member.isreg() else None
            if content is not None:
                path = folder / str(subfolder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
                os.utime(path, (member.mtime, member.mtime))


def write_films(folder: Path) -> None:
    if FILMS.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "movies.json").write_bytes(FILMS.read_bytes())


def report_state(name: str, suite: str, before: dict[str, bytes], state: dict[str, bytes]) -> None:
    """Print the size of a state, and its differences from the previous state."""
    new = sum(key not in before for key in state)
    changed = sum(key in before and before[key] != body for key, body in state.items())
    gone = sum(key not in state for key in before)
    sizes = sorted(map(len, state.values()))
    large = sum(size > LARGE_BYTES for size in sizes)
    say(
        f"{name} {suite}: {len(state):,} records, {new:,} new, {changed:,} changed, {gone:,} gone; "
        f"largest {sizes[-1]:,} bytes, {large} over 400 KB"
    )


def run(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS).stdout


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
