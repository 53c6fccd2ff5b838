"""The copy command copies a store from a folder to PostgreSQL, then to AWS, then back to PostgreSQL and a folder."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import stratalog
from tests.cli.conftest import Run, run
from tests.cloud.conftest import aws_store
from tests.cloud.test_copying import folder
from tests.maintenance.growing import contents_of

__all__ = ["aws_store", "folder", "run"]


def test_a_store_moves_to_postgresql_then_to_aws_and_back(
    folder: Path, tmp_path: Path, postgres: str, aws_store: str, run: Run
) -> None:
    """The heads prove that all copies have the same history, since each head's hash covers all entries before it."""
    homes = [str(folder), postgres, aws_store, f"{postgres}_again", str(tmp_path / "back")]
    for source, target in pairwise(homes):
        copied = json.loads(run("copy", source, target, "--json").stdout)
        assert copied["items_written"] > 0
    with stratalog.open(folder) as store:
        expected, heads = contents_of(store), heads_of(store)
    for home in homes[1:]:
        with stratalog.open(home, create=False) as store:
            assert contents_of(store) == expected
            assert heads_of(store) == heads


def test_a_copy_shows_no_password(tmp_path: Path, postgres: str, run: Run) -> None:
    run("--store", str(tmp_path), "init")
    printed = run("copy", str(tmp_path), f"{postgres}&password=secret")
    assert "copied" in printed.stdout
    assert "secret" not in printed.stdout + printed.stderr


def heads_of(store: stratalog.Store) -> dict[str, bytes]:
    """Return the hash of the newest entry of every log, by organisation and name."""
    return {
        f"{organisation}/{line.id}": store.log(organisation, line.id).head().hash
        for organisation in store.organisations()
        for line in store.list(organisation)
    }
