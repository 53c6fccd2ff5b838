"""Chooses the tests of a run: all tests, the quick tests, or all tests with only a sample of the planted bugs.

``--quick`` leaves out planted bugs, tests that start emulators, a browser or Node, and tests marked ``slow``, such as
tests that kill processes. ``--sample-mutants SEED`` keeps a random quarter of the planted bugs.
`make test` derives the seed from the commit, and `make mutants` runs all planted bugs. `conftest.py` imports the hooks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

__all__ = ["drawn", "is_quick", "pytest_addoption", "pytest_collection_modifyitems"]

SERVICES = {"aws", "aws_store", "bucket", "chromium", "deployed", "dynamo", "node", "postgres", "sqs"}
PARAMETERS = {"aws", "dynamodb", "postgres"}
FOLDERS = ("tests/aws/", "tests/e2e/")
FILES = ("test_e2e.py", "test_on_aws.py")
MUTANTS_SHARE = 1 / 4


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run only tests that use one process and take little time")
    parser.addoption("--sample-mutants", type=int, metavar="SEED", help="keep a quarter of the planted bugs")
    parser.addoption("--on-postgresql", action="store_true", help="open each `memory:` store in PostgreSQL instead")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that the options leave out."""
    seed = config.getoption("sample_mutants")
    if config.getoption("quick"):
        _keep(config, items, is_quick)
    elif seed is not None:
        hunts = [item.nodeid for item in items if item.get_closest_marker("mutants")]
        chosen = drawn(hunts, seed)
        _keep(config, items, lambda item: item.nodeid in chosen or not item.get_closest_marker("mutants"))


def drawn(names: Sequence[str], seed: int) -> set[str]:
    """Return a random quarter of the names. The same names and seed give the same quarter in any order."""
    return set(random.Random(seed).sample(sorted(names), round(len(names) * MUTANTS_SHARE)))


def _keep(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> None:
    left_out = [item for item in items if not wanted(item)]
    items[:] = [item for item in items if wanted(item)]
    config.hook.pytest_deselected(items=left_out)


def is_quick(item: pytest.Item) -> bool:
    """Return whether a test runs in one process and takes little time."""
    if item.nodeid.startswith(FOLDERS) or item.path.name in FILES or SERVICES & set(getattr(item, "fixturenames", ())):
        return False
    if any(item.get_closest_marker(name) for name in ("slow", "mutants")):
        return False
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return not any(isinstance(value, str) and value in PARAMETERS for value in values)
