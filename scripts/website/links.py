"""Checks of the built HTML: links within the site lead to an existing page and anchor, and no page loads from
another host.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["faults"]

# The elements whose files a browser fetches without a click.
FETCHED = {
    "script": "src",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
IN_STYLES = re.compile(r"""url\(\s*['"]?(?:https?:)?//|@import\s+['"]?(?:https?:)?//""")
NOT_FETCHED = {"canonical", "next", "prev", "index", "search", "author"}


class Page(HTMLParser):
    """The links of a page, its anchors, and the files that a browser fetches for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.fetched: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        source = given.get(FETCHED.get(tag, ""), "")
        if source and not set(given.get("rel", "").split()) & NOT_FETCHED:
            self.fetched.append(source)


def faults(site: Path) -> list[str]:
    """Return each broken link, and each request to another host."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    matches = [
        f"{_name(site, path)}: {fault}" for path, page in pages.items() for fault in _page_faults(path, page, pages)
    ]
    return matches + [f"{_name(site, path)}: loads from another host" for path in _styles_that_ask(site)]


def _page_faults(path: Path, page: Page, pages: dict[Path, Page]) -> list[str]:
    outside = [f"{source} is fetched from another host" for source in page.fetched if _is_outside(source)]
    inside = [link for link in [*page.links, *page.fetched] if not _is_outside(link)]
    return outside + [f"{link} leads nowhere" for link in dict.fromkeys(inside) if not _leads(path, link, pages)]


def _leads(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    anchor = unquote(parts.fragment)
    return target.is_file() and (not anchor or target not in pages or anchor in pages[target].anchors)


def _is_outside(source: str) -> bool:
    parts = urlsplit(source)
    return parts.scheme in ("http", "https") or bool(parts.netloc)


def _styles_that_ask(site: Path) -> list[Path]:
    return [path for path in sorted(site.rglob("*.css")) if IN_STYLES.search(path.read_text())]


def _name(site: Path, path: Path) -> str:
    return path.relative_to(site).as_posix()
