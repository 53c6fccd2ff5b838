"""Names of sheets in .xlsx files: other programs refuse a file with some characters in a name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from stratalog_sheet.formulas import quote_sheet, tokens, unquote_sheet

__all__ = ["file_names", "link_location", "with_file_names"]

NAME_CHARACTERS = 31
"""Excel allows this many characters in the name of a sheet."""

FORBIDDEN = re.compile(r"^'|'$|[:\\/?*\[\]]")


def file_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the names that a file cannot contain, each with a name that no other sheet has."""
    used = {name.lower() for name in names}
    changed: dict[str, str] = {}
    for name in names:
        plain = FORBIDDEN.sub("_", name)
        if plain == name or name in changed:
            continue
        candidate, number = plain, 1
        while candidate.lower() in used:
            number += 1
            candidate = f"{plain[: NAME_CHARACTERS - len(str(number))]}{number}"
        changed[name] = candidate
        used.add(candidate.lower())
    return changed


def with_file_names(formula: str, changed: Mapping[str, str]) -> str:
    """Return the formula with the names of sheets that `file_names` changed."""
    if not changed or "!" not in formula:
        return formula
    pieces = tokens(formula)
    for piece, follows in pairwise(pieces):
        if piece.kind == "quoted" and follows.text == "!":
            name = unquote_sheet(piece.text)
            piece.text = quote_sheet(changed[name]) if name in changed else piece.text
    return "".join(piece.text for piece in pieces)


def link_location(location: str, changed: Mapping[str, str]) -> str:
    """Return the location of a link with the sheet's name quoted: the engine writes the name without quotes."""
    name, _, cells = location.rpartition("!")
    return f"{quote_sheet(changed.get(name, name))}!{cells}" if name and cells else location
