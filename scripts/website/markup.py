"""Markdown of generated pages: text, code and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["anchor", "code", "prose", "table"]


def anchor(heading: str) -> str:
    """The anchor of a heading, as on GitHub and in tests/test_docs.py."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def code(text: str) -> str:
    """``text`` as code in a line. A bar would end a cell of a table."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """A docstring's or a help's text: double backticks become single ones, and angle brackets and stars stay text."""
    parts = re.split(r"(`+[^`]+`+)", text.strip())
    return "".join(
        f"`{part.strip('`')}`" if part.startswith("`") else re.sub(r"([<*_\[\]{}])", r"\\\1", part) for part in parts
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, or nothing where it would have no rows."""
    lines = [_row(row) for row in rows]
    return "\n".join([_row(head), _row(["---"] * len(head)), *lines]) + "\n" if lines else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
