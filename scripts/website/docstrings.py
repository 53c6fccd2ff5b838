"""Converts our docstrings to the markup that Sphinx reads: lists of modules, and headings."""

from __future__ import annotations

import inspect
import re
from typing import Any

__all__ = ["as_markup", "connect"]

UNDERLINE = re.compile(r"^-{3,}$")
MODULE_LINE = re.compile(r"^(\w+)  +(\S.*)$")


def connect(app: Any) -> None:
    """Register `as_markup` for every docstring."""
    app.connect("autodoc-process-docstring", _process)


def _process(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Convert one docstring in place. For a value without a docstring, remove the docstring of its type."""
    if what == "module" and getattr(thing, "__all__", None):
        lines[:] = without_modules(lines)
    if what in ("data", "attribute") and "\n".join(lines).strip() == inspect.getdoc(type(thing)):
        lines.clear()
    lines[:] = as_markup(lines)


def without_modules(lines: list[str]) -> list[str]:
    """Cut a package's docstring before its first heading, where the list of its private modules begins."""
    ends = (number - 1 for number, line in enumerate(lines) if UNDERLINE.match(line) and number)
    return lines[: next(ends, len(lines))]


def as_markup(lines: list[str]) -> list[str]:
    """Turn a heading into a rubric, and a list of modules into a list of definitions."""
    made: list[str] = []
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if UNDERLINE.match(line):
            continue
        if line and UNDERLINE.match(following):
            made += [f".. rubric:: {line}", ""]
        elif matches := MODULE_LINE.match(line):
            made += [f"``{matches[1]}``", f"   {matches[2]}"]
        else:
            made.append(line)
    return made
