"""A command over the whole store skips a log that is deleted after the command has listed it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pkgutil import resolve_name

import pytest

import stratalog
from stratalog.cli.program import DAMAGED
from stratalog.keys import NAME_SORT, name_partition
from stratalog.log.listed_items import Damaged
from stratalog.maintenance.verification import HistoryName
from stratalog.ports.index import Delete
from tests.cli.conftest import Run

LISTINGS = (
    "stratalog.maintenance.checkpoint.list_histories",
    "stratalog.cli.verification.list_histories",
    "stratalog.cli.verification.inspected_histories",
    "stratalog.cli.inspection.inspected_histories",
)
NOT_FOUND = 3


def listed_before_a_deletion(
    list_all: Callable[..., Iterator[HistoryName]], store: stratalog.Store, *options: Damaged
) -> Iterator[HistoryName]:
    """List the histories of the store, and then delete one of them."""
    histories = list(list_all(store, *options))
    assert len(histories) == 2
    store.delete(store.document("acme", "budget"))
    yield from histories


@pytest.mark.parametrize("command", ["verify", "verify --quick", "repair", "checkpoint --all --key key --lines list"])
def test_a_command_over_the_store_skips_a_log_that_is_deleted_meanwhile(
    command: str, budget: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget("checkpoint-key", "example.com/ledger", "key")
    budget("create", "acme/plan")
    for name in LISTINGS:
        monkeypatch.setattr(name, partial(listed_before_a_deletion, resolve_name(name)))
    budget(*command.split())
    with stratalog.open("store") as store:
        assert [listing.id for listing in store.list("acme")] == ["plan"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("verify", DAMAGED),
        ("verify --quick", DAMAGED),
        ("repair", DAMAGED),
        ("checkpoint --all --key key --lines list", NOT_FOUND),
    ],
)
def test_a_listed_log_without_a_name_record_is_not_skipped(command: str, code: int, budget: Run) -> None:
    budget("checkpoint-key", "example.com/ledger", "key")
    with stratalog.open("store") as store:
        store.environment.index.commit([Delete(name_partition("acme", "budget"), NAME_SORT)])
    budget(*command.split(), code=code)


@pytest.mark.parametrize("command", ["verify", "verify --quick", "repair"])
def test_a_log_that_is_named_and_does_not_exist_is_not_found(command: str, budget: Run) -> None:
    budget(*command.split(), "acme/other", code=NOT_FOUND)
