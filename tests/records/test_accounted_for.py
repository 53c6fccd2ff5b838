"""An older library was the model of records.

`docs/coverage.md` has a row for each behaviour and each defect of the older library.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from tests.records import test_bodies, test_defects, test_missing, test_prune, test_put, test_read

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
MODULES = (test_bodies, test_defects, test_missing, test_prune, test_put, test_read)
OF_A_BACKEND = re.compile(r"test_(b46_|b38_b46_|d9_|d14_nothing_comes_between)")
NUMBER = re.compile(r"(?<=_)[bd]\d+(?=_)")


def rows() -> dict[str, str]:
    """The text of each number's row. A number is for example B1 or D3."""
    matches = re.findall(r"^\| ([BD]\d+(?:, B\d+)*) \| (.*)$", PAGE.read_text(), re.MULTILINE)
    return {number: row for numbers, row in matches for number in numbers.split(", ")}


def numbered_tests() -> dict[str, list[str]]:
    """The tests that have a number in their name, each with the names of its parameters."""
    return {
        name: list(inspect.signature(test).parameters)
        for module in MODULES
        for name, test in vars(module).items()
        if name.startswith("test_") and NUMBER.search(name)
    }


def test_every_behaviour_and_defect_number_has_a_row() -> None:
    assert set(rows()) == {f"B{n}" for n in range(1, 63)} | {f"D{n}" for n in range(1, 15)}


def test_every_test_with_a_number_is_listed_in_the_row_of_that_number() -> None:
    numbers = {(number.upper(), name) for name in numbered_tests() for number in NUMBER.findall(name)}
    assert [(number, name) for number, name in numbers if f"::{name}`" not in rows()[number]] == []


def test_every_test_with_a_number_runs_on_every_kind_of_backend() -> None:
    alone = [name for name, arguments in numbered_tests().items() if "world" not in arguments]
    assert [name for name in alone if not OF_A_BACKEND.match(name)] == []
