#!/usr/bin/env python3
"""Gather real records for a catalogue in a folder: Debian's packages in three states, a JSON set, an XML set.

Debian's indexes are those that apt on this machine holds: the stable release, the same with the packages of its updates
in their place, and then with those of the security suite, which may be older or newer. So each state differs from the
one before in real records. Their content is what Debian's signed releases say it is, which apt verified. The films are
those that scripts/dataset.py pins by hash. The XML set is made of the same packages, since no package that we may fetch
was found to carry the RFC index.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from email.utils import parsedate_to_datetime
from pathlib import Path
from xml.sax.saxutils import escape

APT_HELPER = "/usr/lib/apt/apt-helper"
STATES = ("updates", "security")
TIMEOUT_SECONDS = 300
ROOT = Path(__file__).parents[1]
FILMS = ROOT / ".venv" / "share" / "vega-datasets" / "movies.json"
DAY_SECONDS = 86_400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packages", type=int, default=0, metavar="COUNT", help="at most so many  [default: all]")
    given = parser.parse_args()
    write_debian(given.folder / "debian", given.packages)
    if FILMS.exists():
        (given.folder / "films").mkdir(parents=True, exist_ok=True)
        (given.folder / "films" / "movies.json").write_bytes(FILMS.read_bytes())


def write_debian(folder: Path, count: int) -> None:
    """One file for each state, whose time is the day that its newest release was signed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / "debian-xml").mkdir(exist_ok=True)
    indexes = debian_indexes()
    if not indexes:
        sys.exit("apt has no package indexes here: run `apt-get update` first")
    packages: dict[str, bytes] = {}
    time = 0.0
    for number, (name, parts) in enumerate(stages(indexes), 1):
        for path, signed in parts:
            packages |= paragraphs(path)
            time = max(time, signed)
        chosen = sorted(packages)[: count or None]
        state = folder / f"{number}-{name}"
        state.write_bytes(b"\n".join(packages[key] for key in chosen))
        os.utime(state, (time + number, time + number))
    write_xml(folder.parent / "debian-xml" / "packages.xml", [packages[key] for key in chosen[:2000]])


def stages(indexes: dict[str, list[tuple[Path, float]]]) -> list[tuple[str, list[tuple[Path, float]]]]:
    """The release first, then what was published after it, each where there is any."""
    first = [one for suite, found in indexes.items() if not suite.endswith(STATES) for one in found]
    later = [(end, [one for suite, found in indexes.items() if suite.endswith(end) for one in found]) for end in STATES]
    return [("release", first), *((name, found) for name, found in later if found)]


def debian_indexes() -> dict[str, list[tuple[Path, float]]]:
    """By suite, the indexes of packages that apt holds, each with when its release was signed."""
    asked = [
        "apt-get",
        "indextargets",
        "--format",
        "$(CODENAME)\t$(SUITE)\t$(ORIGIN)\t$(FILENAME)",
        "Created-By: Packages",
    ]
    found: dict[str, list[tuple[Path, float]]] = {}
    for line in run(asked).decode().splitlines():
        codename, suite, origin, name = line.split("\t")
        held = next((path for path in Path(name).parent.glob(Path(name).name + "*")), None)
        if origin.startswith("Debian") and held is not None:
            found.setdefault(codename if "-" in codename else suite, []).append((held, signed_at(held)))
    return found


def signed_at(index: Path) -> float:
    """When the release that an index belongs to was signed."""
    stem = re.sub(r"_[^_]+_binary-.*$", "_InRelease", index.name)
    text = (index.parent / stem).read_text(errors="replace")
    match = re.search(r"^Date: (.*)$", text, re.MULTILINE)
    return parsedate_to_datetime(match[1]).timestamp() if match else index.stat().st_mtime


def paragraphs(index: Path) -> dict[str, bytes]:
    """Each package's paragraph by its name and architecture."""
    found: dict[str, bytes] = {}
    for paragraph in run([APT_HELPER, "cat-file", str(index)]).split(b"\n\n"):
        name = re.search(rb"^Package: (.*)$", paragraph, re.MULTILINE)
        machine = re.search(rb"^Architecture: (.*)$", paragraph, re.MULTILINE)
        if name and machine:
            found[f"{name[1].decode()}/{machine[1].decode()}"] = paragraph.strip() + b"\n"
    return found


def write_xml(path: Path, packages: list[bytes]) -> None:
    """The same packages' names, summaries and people as XML, in Dublin Core's words."""
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<records xmlns="http://purl.org/dc/elements/1.1/">\n')
        for package in packages:
            fields = dict(re.findall(r"^(\S+): (.*)$", package.decode(errors="replace"), re.MULTILINE))
            said = {
                "identifier": fields["Package"],
                "title": fields.get("Description", fields["Package"]),
                "creator": fields.get("Maintainer", "").partition("<")[0].strip(),
                "subject": fields.get("Section", ""),
                "type": "software",
            }
            rows = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in said.items() if text)
            file.write(f"<record>{rows}</record>\n")
        file.write("</records>\n")


def run(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_SECONDS).stdout


if __name__ == "__main__":
    main()
