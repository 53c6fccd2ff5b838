"""The optimistic state: the canonical state with the pending mutations applied, and the keys that a pull changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, cast

import pytest

from stratalog.client.file import MEMORY, ClientFile
from stratalog.client.local import Local
from stratalog.client.optimistic_state import OptimisticState
from stratalog.codec import encode
from stratalog.errors import Invalid, OutcomeUnknown
from stratalog.protocol.draft import Draft
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators
from stratalog.protocol.rebase import Intent
from stratalog.protocol.sync import Clear, Cookie, Operation, Pulled, PutKey
from stratalog.testing.clock import ManualClock

COOKIE = Cookie(order=1, origin="i", version=1)


@pytest.fixture
def local() -> Iterator[Local]:
    file = ClientFile(MEMORY)
    yield Local(file, ManualClock())
    file.close()


def optimistic(local: Local) -> OptimisticState:
    return OptimisticState(local, BUILT_IN_MUTATORS)


def inc(by: int) -> Intent:
    return Intent("inc", encode({"key": "n", "by": by}))


def pull(local: Local, *patch: Operation) -> None:
    local.apply(local.cookie, Pulled(COOKIE, {}, [*patch]))


def test_a_mutation_is_in_the_optimistic_state_and_pending(local: Local) -> None:
    state = optimistic(local)
    waiting = state.add(inc(2))
    assert state.draft.get("n") == 2
    assert local.load("n") is None
    assert (local.pending(), state.effect(waiting).before) == ([waiting], {"n": None})


def test_a_mutation_that_raises_changes_and_stores_nothing(local: Local) -> None:
    state = optimistic(local)
    with pytest.raises(Invalid):
        state.add(Intent("no such mutator", encode(None)))
    assert (state.draft.changes, local.pending()) == ({}, [])


def test_a_mutator_whose_call_runs_nothing_is_an_error_and_stores_nothing(local: Local) -> None:
    async def work(draft: Draft, args: Any) -> None:
        draft.put("n", 1)

    state = OptimisticState(local, cast(Mutators, {"work": work}))
    with pytest.raises(TypeError, match="must be written with def"):
        state.add(Intent("work", encode({})))
    assert (state.draft.changes, local.pending()) == ({}, [])


def test_a_mutation_that_is_stored_although_its_commit_failed_has_an_effect(
    local: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = local.add

    def fail_late(intent: Intent) -> NoReturn:
        add(intent)
        raise OutcomeUnknown("the transaction's commit failed")

    state = optimistic(local)
    monkeypatch.setattr(local, "add", fail_late)
    with pytest.raises(OutcomeUnknown):
        state.add(inc(2))
    (waiting,) = local.pending()
    assert state.effect(waiting).after == {"n": encode(2)}
    assert state.draft.get("n") == 2


def test_a_rebase_runs_pending_mutations_on_the_new_canonical_state(local: Local) -> None:
    state = optimistic(local)
    waiting = state.add(inc(2))
    pull(local, Clear(), PutKey("n", 40))
    assert state.rebase() == [waiting]
    assert state.draft.get("n") == 42
    assert state.effect(waiting).before == {"n": encode(40)}


def test_pending_mutations_run_again_after_a_restart(local: Local) -> None:
    optimistic(local).add(inc(2))
    assert optimistic(local).draft.get("n") == 2


@pytest.mark.parametrize(
    ("value", "changed"), [(40, ["n", "other"]), (0, ["other"])], ids=["another value", "the same value"]
)
def test_only_keys_whose_value_differs_have_changed(local: Local, value: int, changed: list[str]) -> None:
    state = optimistic(local)
    state.add(inc(2))
    patch: list[Operation] = [Clear(), PutKey("n", value), PutKey("other", 1)]
    before = state.values_before(patch)
    pull(local, *patch)
    state.rebase()
    assert sorted(state.changed_since(before)) == changed
