"""Writes the repository's pages into the source folder of the site, with links to the pages of the site."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from os.path import relpath
from pathlib import Path

from scripts.website.navigation import contents, grouped

__all__ = ["ROOT", "repository_pages", "rewritten", "write_pages"]

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)
# Pages and folders of the repository that have another path in the source folder.
PLACED = {"README.md": "index.md", "docs/index.md": "contents.md", "formats": "formats/index.md"}
FOLDERS = {"docs/": "", "formats/": "formats/"}
FORMATS = """# Formats

The bytes that Stratalog stores and sends. Each format has a version, a page here, and golden files that a test reads.

"""
DECISIONS = """# Decisions

Each page has the context of a decision, the decision and its consequences. The newest decisions are last.

"""


def repository_pages(root: Path = ROOT) -> dict[str, str]:
    """Return the pages of the repository that the site shows: path in the repository → path in the source folder."""
    paths = [
        *root.glob("*.md"),
        *root.glob("docs/**/*.md"),
        *root.glob("formats/*.md"),
        *root.glob("apps/*/README.md"),
    ]
    return {path: target_of(path) for path in sorted(page.relative_to(root).as_posix() for page in paths)}


def target_of(path: str) -> str:
    """Return the path in the source folder for a file of the repository."""
    if path in PLACED:
        return PLACED[path]
    if path.startswith("apps/") and path.endswith("/README.md"):
        return path.removesuffix("/README.md") + ".md"
    for folder, target in FOLDERS.items():
        if path.startswith(folder):
            return target + path.removeprefix(folder)
    return path


def write_pages(source: Path, generated: Mapping[str, str]) -> None:
    """Write the repository's pages, the ``generated`` pages to their paths in ``source``, and the lists of contents."""
    texts = dict(generated)
    linked: set[str] = set()
    for path, target in repository_pages().items():
        text, files = rewritten(path, (ROOT / path).read_text())
        texts[target] = text
        linked |= files
    texts["formats/index.md"] = FORMATS + contents(below("formats/", texts))
    texts["decisions/index.md"] = DECISIONS + contents(below("decisions/", texts))
    names = [target.rpartition(".")[0] for target in texts]
    texts["index.md"] += "\n" + "\n".join(contents(pages, caption, hidden=True) for caption, pages in grouped(names))
    for target, text in texts.items():
        write(source / target, text)
    for path in linked:
        copy = source / target_of(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)


def below(folder: str, texts: Mapping[str, str]) -> list[str]:
    """Return the pages of a folder, sorted."""
    return sorted(
        path.rpartition(".")[0] for path in texts if path.startswith(folder) and not path.endswith("/index.md")
    )


def rewritten(path: str, text: str) -> tuple[str, set[str]]:
    """Return a page's text with the links of the site, and the linked files that are not pages.

    Raises ValueError for a link to a path that is no file of the repository.
    """
    pages = repository_pages() | PLACED
    files: set[str] = set()

    def within_the_site(match: re.Match[str]) -> str:
        if re.match(r"[a-z]+:", match[2]):
            return match[0]
        linked = relpath((ROOT / path).parent / match[2], ROOT)
        if linked not in pages:
            if not (ROOT / linked).is_file():
                raise ValueError(f"{path}: {match[2]} is no file that the site can show")
            files.add(linked)
        target = relpath(target_of(linked), Path(target_of(path)).parent)
        return f"{match[1]}{target}{match[3]}"

    parts = FENCE.split(text)
    return "".join(part if FENCE.fullmatch(part) else LINK.sub(within_the_site, part) for part in parts), files


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
