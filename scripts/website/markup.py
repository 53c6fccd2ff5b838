"""Markdown of generated pages: text, code and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["anchor", "code", "prose", "table"]


def anchor(heading: str) -> str:
    """Return the anchor of a heading, by the same rule as GitHub and tests/test_docs.py."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def code(text: str) -> str:
    """Return ``text`` as inline code, or an empty text if ``text`` is empty."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """Convert a docstring or a help text: make double backticks single, and escape Markdown's special characters."""
    parts = re.split(r"(`+[^`]+`+)", text.strip())
    return "".join(
        f"`{part.strip('`')}`" if part.startswith("`") else re.sub(r"([<*_\[\]{}])", r"\\\1", part) for part in parts
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or an empty text if there are no rows."""
    lines = [_row(row) for row in rows]
    return "\n".join([_row(head), _row(["---"] * len(head)), *lines]) + "\n" if lines else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
