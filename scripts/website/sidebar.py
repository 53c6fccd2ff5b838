"""The list of pages in the sidebar: all groups of pages, with the subpages of the current page and of its parents.

Sphinx's own function copies the headings of every page for every page, which takes longer than the rest of the build.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from scripts.website.navigation import grouped

__all__ = ["connect"]

BEFORE_THE_THEME = 400


def connect(app: Any) -> None:
    """Set the sidebar's list of each page before the theme reads it."""
    app.connect("html-page-context", _give, priority=BEFORE_THE_THEME)


def _give(app: Any, name: str, template: str, context: dict[str, Any], tree: Any) -> None:
    context["toctree"] = lambda **_: "".join(_groups(app, name))


def _groups(app: Any, shown: str) -> Iterator[str]:
    open_pages = set(_with_parents(app.env.toctree_includes, shown))
    for caption, pages in grouped(app.project.docnames):
        yield f'<p class="caption" role="heading"><span class="caption-text">{escape(caption)}</span></p>'
        yield from _list(app, pages, shown, open_pages, 1)


def _list(app: Any, pages: list[str], shown: str, open_pages: set[str], level: int) -> Iterator[str]:
    yield "<ul>"
    for page in pages:
        current = " current" if page in open_pages else ""
        link = escape(app.builder.get_relative_uri(shown, page))
        title = escape(app.env.titles[page].astext())
        yield f'<li class="toctree-l{level}{current}"><a class="reference internal{current}" href="{link}">{title}</a>'
        below = app.env.toctree_includes.get(page, [])
        if below and page in open_pages:
            yield from _list(app, below, shown, open_pages, level + 1)
        yield "</li>"
    yield "</ul>"


def _with_parents(includes: dict[str, list[str]], page: str) -> Iterator[str]:
    """Yield a page, the page that lists it, and so on. Does not yield a page that no page lists, such as the root."""
    parents = {below: above for above, pages in includes.items() for below in pages}
    while page in parents:
        yield page
        page = parents[page]
