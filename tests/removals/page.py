"""Reads the bugs of docs/guarantees.md, and the tests, planted bugs and simulated worlds that guard against each."""

from __future__ import annotations

import re

import msgspec

from tests.sources import ROOT

__all__ = ["Bug", "bugs"]

PAGE = ROOT / "docs" / "guarantees.md"
ROW = re.compile(r"^\| (B\d+) \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`((?:tests|src|apps)/[\w/]+\.py::\w+(?:\[[\w-]+\])?)`")
MUTANTS = re.compile(r"(?<!\w)mutants?((?:(?:,| and)?\s`[^`/]+`)+)")
WORLDS = re.compile(r"(?<!\w)worlds?((?:(?:,| and)?\s`[^`/]+`)+)")
NOT_HELD = "not held"


class Bug(msgspec.Struct, frozen=True):
    """A row of the page. ``is_open``: the page says that nothing guards against the bug."""

    name: str
    text: str
    tests: tuple[str, ...]
    mutants: tuple[str, ...]
    worlds: tuple[str, ...]
    is_open: bool


def bugs(text: str | None = None) -> list[Bug]:
    """Return the rows of the page, or of ``text``, in order."""
    return [_bug(*match.groups()) for match in ROW.finditer(PAGE.read_text() if text is None else text)]


def _bug(name: str, text: str, origin: str, holders: str) -> Bug:
    return Bug(
        name,
        text,
        tuple(dict.fromkeys(TEST.findall(holders))),
        _names(MUTANTS, holders),
        _names(WORLDS, holders),
        holders.startswith(NOT_HELD),
    )


def _names(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(name for names in pattern.findall(text) for name in re.findall(r"`([^`]+)`", names))
