"""The statements that write many rows take their arrays in PostgreSQL's binary format."""

from __future__ import annotations

import re

import pytest

from stratalog.backends import postgres_commits, postgres_queue

ARRAY = r"%(.)::\w+\[\]"
STATEMENTS = [
    value
    for module in (postgres_commits, postgres_queue)
    for value in vars(module).values()
    if isinstance(value, str) and re.search(ARRAY, value)
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_an_array_is_sent_in_the_binary_format(statement: str) -> None:
    """In the text format psycopg escapes each element in Python, and the server parses twice as many bytes."""
    assert set(re.findall(ARRAY, statement)) == {"b"}


def test_seven_statements_take_arrays() -> None:
    assert len(STATEMENTS) == 7
