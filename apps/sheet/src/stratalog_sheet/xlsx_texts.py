"""Texts of workbooks: decodes their escapes, and writes texts for the engine as a user would type them."""

from __future__ import annotations

import re

__all__ = ["as_typed", "decoded", "encoded", "is_link"]

# Texts that the engine may read as a number, a formula, an error or a boolean, or whose first apostrophe it may drop.
NOT_PLAIN = re.compile(
    r"[='#]|\s*[-+.,(%$€£¥]|\s*[0-9][\d\s.,:/%$€£¥eE+\-]*(?:\s*[AaPp][Mm])?\s*$|\s*(?:true|false)\s*$", re.IGNORECASE
)
ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
"""A UTF-16 code unit as ECMA-376 (part 1, 22.9.2.19) writes it."""

LIKE_ESCAPE = re.compile("_(?=x[0-9A-Za-z]{4}_)")
"""The beginning of an escape for the engine, which also decodes an escape with digits that are not hexadecimal."""

UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
"""The characters that XML does not allow, and the carriage return, which a reader of XML changes."""

LINE_END = re.compile("[\n\r\u2028\u2029]")
SURROGATE = re.compile("[\ud800-\udfff]")


def as_typed(text: str, *, is_text: bool = False) -> str:
    """Return the text as a user types it: with an apostrophe before a text that matches `NOT_PLAIN`.

    In a text style (``is_text``), the engine keeps each text unchanged, but reads a text such as ``=A1`` as a formula.
    """
    return f"'{text}" if not is_text and NOT_PLAIN.match(text) else text


def is_link(text: str) -> bool:
    """Return whether the engine reads a text as a link: ``[text](address)``, also after an apostrophe."""
    # The engine has a regular expression, whose time would grow with the square of the text's length.
    if not (text.startswith("[") and text.endswith(")")) or LINE_END.search(text):
        return False
    return 0 < text.find("](", 2) < len(text) - 3


def decoded(text: str) -> str:
    """Return a text of a workbook with its escapes decoded. A surrogate without its pair becomes U+FFFD."""
    plain = ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
    if SURROGATE.search(plain):
        return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain


def encoded(text: str) -> str:
    """Return a text with the escapes that the engine decodes to the same text."""
    return UNWRITABLE.sub(lambda match: f"_x{ord(match[0]):04X}_", LIKE_ESCAPE.sub("_x005F_", text))
