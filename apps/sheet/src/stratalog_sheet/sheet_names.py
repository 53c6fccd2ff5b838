"""Names of sheets that .xlsx files or the engine cannot contain, and their replacements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from stratalog_sheet.formulas import quote_sheet, unquote_sheet

__all__ = ["NO_NAMES", "engine_names", "file_names", "link_location", "with_sheet_names"]

NAME_CHARACTERS = 31
"""Excel allows this many characters in the name of a sheet."""

FORBIDDEN = re.compile(r"^'|'$|[:\\/?*\[\]]")
NO_NAMES: Mapping[str, str] = {}
APOSTROPHE = re.compile("'")
SHEET = re.compile(
    r"""(?P<other>"(?:[^"]|"")*"|\#[A-Z/0]+!|\[(?:[^\[\]']|'.)*\])"""
    r"""|(?P<quoted>'(?:[^']|'')*')(?=!)|(?P<plain>(?<![\w.\]])[\w.]+)(?=!)"""
)


def file_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the names that a file cannot contain, each with a name that no other sheet has."""
    return _changed(names, FORBIDDEN, "_")


def engine_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the names to which the engine reads no reference, each with a name that no other sheet has."""
    return _changed(names, APOSTROPHE, "\N{RIGHT SINGLE QUOTATION MARK}")


def with_sheet_names(formula: str, changed: Mapping[str, str]) -> str:
    """Return the formula with the changed names of sheets, and with quotation marks where a file needs them.

    The engine writes a name such as ``2024`` or ``A1`` without them.
    """
    if "!" not in formula:
        return formula
    return SHEET.sub(lambda match: _reference(match, changed), formula)


def link_location(location: str, changed: Mapping[str, str]) -> str:
    """Return the location of a link with the sheet's name quoted: the engine writes the name without quotes."""
    name, _, cells = location.rpartition("!")
    return f"{quote_sheet(changed.get(name, name))}!{cells}" if name and cells else location


def _reference(match: re.Match[str], changed: Mapping[str, str]) -> str:
    name = unquote_sheet(match[0])
    is_changed = match["quoted"] is not None and name in changed
    return quote_sheet(changed.get(name, name)) if is_changed or match["plain"] else match[0]


def _changed(names: Sequence[str], forbidden: re.Pattern[str], replacement: str) -> Mapping[str, str]:
    used = {name.lower() for name in names}
    changed: dict[str, str] = {}
    for name in names:
        plain = forbidden.sub(replacement, name)
        if plain == name or name in changed:
            continue
        candidate, number = plain, 1
        while candidate.lower() in used:
            number += 1
            candidate = f"{plain[: NAME_CHARACTERS - len(str(number))]}{number}"
        changed[name] = candidate
        used.add(candidate.lower())
    return changed
