"""Build the site into a folder: `python -m scripts.website build/site`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from scripts.website.command_reference import command_pages
from scripts.website.http_reference import http_pages
from scripts.website.links import faults
from scripts.website.pages import write_pages
from scripts.website.python_reference import python_pages

CONFIGURATION = Path(__file__).parent
MARKER = ".stratalog-website"
"""The name of a file in each folder that this script made. The script replaces only such folders and empty ones."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m scripts.website FOLDER", file=sys.stderr)
        return 2
    return build(Path(arguments[0]))


def build(site: Path) -> int:
    """Replace the folder ``site`` by a new build, and check its links. Return an exit code.

    The build also replaces two folders next to ``site``: one for Sphinx's source, and one for Sphinx's cache. If
    `is_replaceable` is false for any of the three, this function changes nothing.
    """
    source, cache = site.with_name(f"{site.name}-source"), site.with_name(f"{site.name}-cache")
    folders = (site, source, cache)
    if foreign := [folder for folder in folders if not is_replaceable(folder)]:
        print(f"error: {foreign[0]} exists, and this script did not make it: delete it first", file=sys.stderr)
        return 2
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / MARKER).touch()
    write_pages(source, {**python_pages(), **http_pages(), **command_pages()})
    if code := render(source, site, cache):
        return code
    matches = faults(site)
    for fault in matches:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if matches else 0


def is_replaceable(folder: Path) -> bool:
    """Return whether the build may delete a folder: it does not exist, is empty, or was made by this script."""
    if folder.is_symlink() or not folder.is_dir():
        return not os.path.lexists(folder)
    return (folder / MARKER).is_file() or not any(folder.iterdir())


def render(source: Path, site: Path, cache: Path) -> int:
    """Let Sphinx build ``site`` from ``source``. Return its exit code, which is not 0 after a warning."""
    options = ["-q", "--fail-on-warning", "--keep-going", "-b", "html", "-c", str(CONFIGURATION), "-d", str(cache)]
    return build_main([*options, str(source), str(site)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
