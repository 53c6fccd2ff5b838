"""Chooses the tests of a run: all tests, or the quick tests.

``--quick`` leaves out planted bugs, tests marked ``slow``, and tests with emulators, PostgreSQL, a browser or another
service, which it recognises by fixtures, parameters and paths. A quick test may still start a process, such as Node.
`conftest.py` imports the hooks.
"""

from __future__ import annotations

import pytest

__all__ = ["is_quick", "pytest_addoption", "pytest_collection_modifyitems"]

SERVICES = {
    "aws",
    "aws_store",
    "bucket",
    "chromium",
    "deployed",
    "dynamo",
    "node",
    "postgres",
    "postgres_process",
    "sqs",
}
PARAMETERS = {"aws", "dynamodb", "postgres"}
FOLDERS = ("tests/aws/", "tests/e2e/")
FILES = ("test_e2e.py", "test_on_aws.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out planted bugs, slow tests and tests with services")
    parser.addoption("--on-postgresql", action="store_true", help="open each `memory:` store in PostgreSQL instead")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that the options leave out."""
    if config.getoption("quick"):
        left_out = [item for item in items if not is_quick(item)]
        items[:] = [item for item in items if is_quick(item)]
        config.hook.pytest_deselected(items=left_out)


def is_quick(item: pytest.Item) -> bool:
    """Return whether no marker, fixture, parameter or path of a test shows that it is slow or needs a service."""
    if item.nodeid.startswith(FOLDERS) or item.path.name in FILES or SERVICES & set(getattr(item, "fixturenames", ())):
        return False
    if any(item.get_closest_marker(name) for name in ("slow", "mutants")):
        return False
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return not any(isinstance(value, str) and value in PARAMETERS for value in values)
