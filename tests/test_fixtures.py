"""A user's project can test its application with the fixtures of `stratalog.testing.fixtures`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.processes import environment, run

CONFTEST = """
import pytest
from stratalog import BUILT_IN_MUTATORS
from stratalog.server import Application

pytest_plugins = ["stratalog.testing.fixtures"]


def add_task(draft, args):
    draft.put(f"tasks/{args['id']}", args["title"])


@pytest.fixture
def application():
    return Application(mutators={**BUILT_IN_MUTATORS, "addTask": add_task})
"""
TESTS = """
def test_a_store(store):
    document = store.create("acme", "plan")
    assert document.mutate("addTask", {"id": 1, "title": "Milk"}).status == "applied"
    assert document.get("tasks/1") == "Milk"


def test_two_clients(two_clients, store):
    ada, bob = two_clients
    ada.mutate("addTask", {"id": 1, "title": "Milk"}).wait(30)
    bob.sync()
    assert bob.get("tasks/1") == "Milk"
    assert store.document("acme", "plan").get("tasks/1") == "Milk"


def test_a_server(server):
    assert server.document_url("a b", "c/d") == server.url + "/v1/organisations/a%20b/documents/c%2Fd"
"""


@pytest.mark.slow
def test_a_project_uses_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_plan.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    assert "3 passed" in run(command, cwd=tmp_path, env=environment()).stdout
