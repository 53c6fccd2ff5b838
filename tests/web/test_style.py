"""Scripts follow the rules of the code for lengths and words, and the linter's settings include every script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.sources import LIBRARY, PACKAGES, PROGRAMS, ROOT, TESTS, short_name
from tests.test_style import RETIRED, RETIRED_NAMES, WORD

FOLDERS = (*PACKAGES, *PROGRAMS, *TESTS)
FILES = [path for folder in FOLDERS for path in sorted(folder.rglob("*.*")) if "node_modules" not in path.parts]
SCRIPTS = [path for path in FILES if path.suffix in {".cjs", ".js", ".mjs"}]
TYPES = [path for path in FILES if path.name.endswith(".d.ts")]
PAGES = [*TYPES, *(path for path in FILES if path.suffix in {".css", ".html"})]
FILE_LINES_MAX = 400
LINE_LENGTH_MAX = 120

BASE = LIBRARY / "web" / "theme" / "base.css"
PROPERTY = re.compile(r"--([\w-]+):")

CHECKED = ROOT / "scripts" / "javascript" / "tsconfig.json"
MADE = {"build", "data", "dist", "htmlcov", "node_modules"}
"""The folders that our commands create. These folders contain none of our scripts."""

TEXT_OR_COMMENT = re.compile(r"""("[^"\n]*"|'[^'\n]*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
TEMPLATE = r"`(?:[^`$\\]|\\.|\$(?!\{)|\$\{(?:[^{}`]|\{[^{}`]*\})*\})*`"
PATTERN = r"(?<=[ (])/(?![/* ])(?:\\.|\[[^\]\n]*\]|[^/\n\\\[])+/"
PROSE = re.compile(rf"{PATTERN}|{TEXT_OR_COMMENT.pattern}|(?P<template>{TEMPLATE})", re.DOTALL)
IN_TEMPLATE = re.compile(r"\$\{((?:[^{}`]|\{[^{}`]*\})*)\}")
STORY = re.compile(r"^  async \w+\((?:base|browser)?\) \{$", re.MULTILINE)
FIXED_NAME = re.compile(r"\w*NotFound\b")
"""The name of a callback of Replicache, which we cannot choose."""


@pytest.mark.parametrize("path", SCRIPTS, ids=short_name)
def test_scripts_and_their_lines_stay_within_the_length_limits(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= FILE_LINES_MAX
    assert [line for line in lines if len(line) > LINE_LENGTH_MAX] == []


@pytest.mark.parametrize("path", [*SCRIPTS, *PAGES], ids=short_name)
def test_no_identifier_of_a_page_uses_a_retired_word(path: Path) -> None:
    assert retired_words(path.name + "\n" + path.read_text()) == set()


@pytest.mark.parametrize("line", ["const patience = 1;", "this.#lastTrouble ??= 1;", 'emit("trouble");', "mend_all()"])
def test_a_retired_word_would_be_noticed(line: str) -> None:
    assert retired_words(line) != set()


@pytest.mark.parametrize("path", [*SCRIPTS, *TYPES], ids=short_name)
def test_no_identifier_in_a_script_uses_a_word_reserved_for_prose(path: Path) -> None:
    assert retired_names(path.name + "\n" + path.read_text()) == set()


@pytest.mark.parametrize(
    "line",
    [
        "const found = 1;",
        "this.#place = 1;",
        "const { slot, used } = row;",
        "isKept()",
        "share = most / all / 2;",
        "test(/^ws:\\/\\//, kept);",
        "`${`a ${keep(1)}`}`",
        "  async isTold(page) {",
    ],
)
def test_a_word_reserved_for_prose_in_an_identifier_would_be_noticed(line: str) -> None:
    assert retired_names(line) != set()


@pytest.mark.parametrize(
    "line",
    [
        "// The whole place.",
        "/* kept */",
        'report("kept");',
        "say(`${count} kept ${of({ it })}, most`);",
        "match(text, /is [/] not kept: [^a]*/);",
        "client.onClientStateNotFound = null;",
        "  async aRecordIsFound(browser) {",
    ],
)
def test_texts_stories_and_stored_fields_may_use_words_reserved_for_prose(line: str) -> None:
    assert retired_names(line) == set()


@pytest.mark.parametrize(
    "line", ["// They tend to.", 'say("much trouble");', "/* beside */", 'see("http://a//lane b");']
)
def test_comments_and_texts_may_use_retired_words(line: str) -> None:
    assert retired_words(line) == set()


@pytest.mark.parametrize("path", [path for path in PAGES if path.suffix == ".css" and path != BASE], ids=short_name)
def test_a_page_takes_its_colours_and_type_from_the_theme(path: Path) -> None:
    tokens = set(PROPERTY.findall(BASE.read_text())) - {"icon"}
    assert tokens & set(PROPERTY.findall(path.read_text())) == set()


def test_lint_and_types_see_every_script() -> None:
    ours = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    paths = [path for folder in ours for path in folder.rglob("*") if path.suffix in {".cjs", ".js", ".mjs"}]
    assert unchecked(path for path in paths if not MADE & {*path.relative_to(ROOT).parts}) == []


@pytest.mark.parametrize("name", ["docs/new.js", "bench/page/new.mjs", "new.js", "src/stratalog/web/new.cjs"])
def test_a_script_in_another_folder_would_be_noticed(name: str) -> None:
    assert unchecked([ROOT / name]) == [name]


def unchecked(paths: Iterable[Path]) -> list[str]:
    """Return the scripts that no pattern of the settings includes. A pattern is a folder, `**/*` and a suffix."""
    patterns = [pattern.split("**/*") for pattern in json.loads(CHECKED.read_text())["include"]]
    included = [((CHECKED.parent / folder).resolve(), suffix) for folder, suffix in patterns]
    return [short_name(path) for path in paths if not any(is_in(path, *pattern) for pattern in included)]


def is_in(path: Path, folder: Path, suffix: str) -> bool:
    return path.is_relative_to(folder) and path.suffix == suffix


def retired_words(text: str) -> set[str]:
    """Return the retired words in identifiers, and in strings of one word, which name events and states."""
    code = TEXT_OR_COMMENT.sub(lambda matched: joined_words(matched[1] or ""), text)
    return RETIRED & {word.lower() for word in WORD.findall(code)}


def retired_names(text: str) -> set[str]:
    """Return the retired names in identifiers, also inside template literals. Names of stories are exempt."""
    code = STORY.sub("", text)
    # Each pass replaces only the innermost template literals.
    while (rest := PROSE.sub(expressions, code)) != code:
        code = rest
    return RETIRED_NAMES & {word.lower() for word in WORD.findall(FIXED_NAME.sub("", code))}


def expressions(match: re.Match[str]) -> str:
    return " ".join(IN_TEMPLATE.findall(match["template"] or ""))


def joined_words(text: str) -> str:
    return "" if " " in text else text
