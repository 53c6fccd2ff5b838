"""Names of users and sheets that the page makes: no name has half of a character."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.node import node_program

PAGE = Path(__file__).parent.parent / "src/stratalog_sheet/web"
PROGRAM = """
const [page, stored, text] = process.argv.slice(1);
const items = new Map(stored ? [["stratalog name", JSON.parse(stored)]] : []);
const setItem = (name, value) => items.set(name, value);
globalThis.localStorage = { getItem: (name) => items.get(name) ?? null, setItem };
const { ownName, rename } = await import(`${page}/identity.js`);
const { freshName } = await import(`${page}/names.js`);
const names = [ownName(), rename(text), freshName(text)];
console.log(JSON.stringify(names.map((name) => [name.isWellFormed(), name.length, name])));
"""
LONG = "x" + "\N{MATHEMATICAL BOLD CAPITAL A}" * 30


def names_of(stored: str, text: str) -> list[tuple[bool, int, str]]:
    """Return the names that the page makes of a stored name and a typed text: (is well-formed, length, name)."""
    command = [node_program(), "--input-type=module", "--eval", PROGRAM, str(PAGE), json.dumps(stored), text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [tuple(name) for name in json.loads(done.stdout)]


def test_a_long_name_ends_with_a_whole_character() -> None:
    own, user, sheet = names_of("Ada", LONG)
    assert own == (True, 3, "Ada")
    assert user == (True, 39, LONG[:20])
    assert sheet[0]
    assert sheet[2].startswith(LONG[:20].lower() + "-")


def test_a_stored_name_with_half_of_a_character_is_repaired() -> None:
    assert names_of("Ada\ud83d", "Bob")[0] == (True, 4, "Ada\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(("title", "start"), [("!?", "sheet-"), ("Budget 2026", "budget-2026-")])
def test_the_name_of_a_sheet_has_the_words_of_its_title(title: str, start: str) -> None:
    assert names_of("Ada", title)[2][2].startswith(start)
