"""Number formats: the codes of a workbook, such as ``[h]:mm``, and the codes of the engine, such as ``hhhh:mm``.

The engine reads a part of the codes of .xlsx. It drops any other code, and then shows a date as a number of days.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["BUILT_IN", "engine_code", "file_code"]

BUILT_IN: Mapping[int, str] = {
    5: '"$"#,##0_);\\("$"#,##0\\)', 6: '"$"#,##0_);[Red]\\("$"#,##0\\)', 7: '"$"#,##0.00_);\\("$"#,##0.00\\)',
    8: '"$"#,##0.00_);[Red]\\("$"#,##0.00\\)', 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "m/d/yyyy h:mm",
    37: "#,##0_);(#,##0)", 38: "#,##0_);[Red](#,##0)", 39: "#,##0.00_);(#,##0.00)", 40: "#,##0.00_);[Red](#,##0.00)",
    41: '_(* #,##0_);_(* \\(#,##0\\);_(* "-"_);_(@_)', 42: '_("$"* #,##0_);_("$"* \\(#,##0\\);_("$"* "-"_);_(@_)',
    43: '_(* #,##0.00_);_(* \\(#,##0.00\\);_(* "-"??_);_(@_)',
    44: '_("$"* #,##0.00_);_("$"* \\(#,##0.00\\);_("$"* "-"??_);_(@_)', 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss.0",
    48: "##0.0E+0",
}  # fmt: skip
"""The codes of the ids that the engine does not read, or reads as another format (ECMA-376 part 1, 18.8.30)."""

TOKEN = re.compile(
    r"""
    (?P<literal>"[^"]*"?|\\.)
    |(?P<padding>_.|\*.)
    |(?P<hours>\[h+\]:?)
    |(?P<bracket>\[[^\]]*\])
    |(?P<noon>am/pm|a/p)
    |(?P<exponent>(?<=[0\#?.])e[+-][0\#?]+)
    |(?P<date>y+|m+|d+|h+|s+)
    |(?P<fraction>(?<=s)\.0+)
    |(?P<end>;)
    |(?P<other>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
OF_ENGINE = re.compile(
    r'(?P<literal>general|"[^"]*"?|\\.|\[[^\]]*\])|(?P<hours>hhhh)|(?P<noon>a+)|(?P<exponent>e)|.',
    re.IGNORECASE | re.DOTALL,
)
SYMBOL = re.compile(r"\[\$([^\]-]*)(?:-[^\]]*)?\]")
COLOR = re.compile(r"\[(?:black|blue|cyan|green|magenta|red|white|yellow|color ?[0-9]+)\]", re.IGNORECASE)


def engine_code(code: str) -> str:
    """Return the engine's code for a workbook's code.

    Colours, languages, paddings and fractions of seconds are left out. Any other part that the engine does not know
    stays in the code.
    """
    sections = _sections(code)
    if len(sections) == 1 and "@" in code:
        return code  # the import treats texts in such a format itself
    if len(sections) in (2, 3) and any(token == ("other", "@") for token in sections[-1]):
        sections.pop()  # only the fourth section of the engine is for texts
    return ";".join(map(_for_engine, sections))


def file_code(code: str) -> str:
    """Return a workbook's code for the engine's code."""
    return OF_ENGINE.sub(_for_file, code)


def _sections(code: str) -> list[list[tuple[str, str]]]:
    sections: list[list[tuple[str, str]]] = [[]]
    for match in TOKEN.finditer(code):
        kind = match.lastgroup or "other"
        if kind == "end":
            sections.append([])
        else:
            sections[-1].append((kind, match[0]))
    return sections


def _for_engine(section: list[tuple[str, str]]) -> str:
    is_fraction = ("other", "/") in section and not any(kind == "date" for kind, _ in section)
    return "".join(_token_for_engine(kind, text, is_fraction) for kind, text in section)


def _token_for_engine(kind: str, text: str, is_fraction: bool) -> str:
    if kind in ("padding", "fraction"):
        return ""
    if kind == "other" and (text == "'" or not text.isascii()):  # such as €; .xlsx needs no quotation marks
        return f'"{text}"'
    if kind == "hours":
        # Without the escape, the engine would read the hours of a duration as the hours of a day.
        return "hhhh\\:" if text.endswith(":") else "hhhh"
    if kind == "bracket":
        return _bracket_for_engine(text)
    if kind in ("noon", "exponent"):
        return "a" if kind == "noon" else "e"
    if kind == "date":
        date = text.lower()
        return "hh" if date.startswith("h") else {"mmmmm": "mmm"}.get(date, date)
    return "#" if text == "?" and not is_fraction else text


def _bracket_for_engine(text: str) -> str:
    if COLOR.fullmatch(text):
        return ""
    symbol = SYMBOL.fullmatch(text)
    if symbol is None:
        return text
    return f"[${symbol[1]}]" if symbol[1] else ""


def _for_file(match: re.Match[str]) -> str:
    return {"hours": "[h]", "noon": "AM/PM", "exponent": "E+00"}.get(match.lastgroup or "", match[0])
