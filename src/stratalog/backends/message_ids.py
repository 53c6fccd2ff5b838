"""Ids of messages in SQL: numbers of 16 digits, so that the order of the texts is the order of the numbers."""

from __future__ import annotations

import re

__all__ = ["last_number", "message_id"]

DIGITS = 16
_LEADING_DIGITS = re.compile(rf"[0-9]{{0,{DIGITS}}}")


def message_id(number: int) -> str:
    """Return the id of the message with this number in the table."""
    return f"{number:0{DIGITS}d}"


def last_number(id: str) -> int:
    """Return the largest number whose id is not after ``id``; -1 if there is none. ``id`` may be any text."""
    digits = _LEADING_DIGITS.match(id)[0]  # type: ignore[index]  # the pattern matches any text
    if len(digits) < DIGITS and id[len(digits) :] <= "9":
        return int(digits.ljust(DIGITS, "0")) - 1  # the ids that begin with these digits are after ``id``
    return int(digits.ljust(DIGITS, "9"))
