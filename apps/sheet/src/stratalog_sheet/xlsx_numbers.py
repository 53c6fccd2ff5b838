"""Numbers and stored values in the XML of worksheets."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["number_text", "parse_number", "typed_value"]

NUMBER = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*", re.ASCII)


def typed_value(kind: str, text: str) -> Any:
    """Return a stored value as a boolean, a number or a text."""
    if kind == "b":
        return text in ("1", "true")
    number = parse_number(text) if kind == "" else None
    return text if number is None else number


def parse_number(text: str) -> float | None:
    """Return the number in a text of the XML; None for another text, an infinity or NaN."""
    number = float(text) if NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def number_text(number: float) -> str:
    """Return a decimal text of a number, without an exponent."""
    if number == int(number) and abs(number) < 1e21:
        return str(int(number))
    text = repr(number)
    return text if "e" not in text else f"{number:.{min(330, _decimals(text))}f}"


def _decimals(text: str) -> int:
    """Return the number of decimals of a number in exponent notation."""
    mantissa, _, exponent = text.partition("e")
    return max(0, len(mantissa.partition(".")[2]) - int(exponent))
