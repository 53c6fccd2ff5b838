"""Undo reverts the changes of one mutation, and no later change."""

from __future__ import annotations

from typing import Any

import pytest

from stratalog.client import Client, background
from stratalog.errors import OutcomeUnknown
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Rejected
from tests.client.helpers import InProcess, memory_environment, new_document
from tests.threads import until

Step = tuple[str, dict[str, Any]]


def put(value: object) -> Step:
    return "put", {"key": "k", "value": value}


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ([], put(1)),
        ([put(1)], put(2)),
        ([put({"a": 1})], ("patch", {"key": "k", "merge": {"a": None, "b": 2}})),
        ([put([1])], ("append", {"key": "k", "item": 2})),
        ([put(1)], ("inc", {"key": "k", "by": 4})),
        ([put(1)], ("del", {"key": "k"})),
    ],
)
def test_undo_restores_the_previous_value(before: list[Step], step: Step) -> None:
    client = Client(InProcess(new_document()))
    for name, args in before:
        client.mutate(name, args)
    was = dict(client.scan())
    handle = client.mutate(*step)
    client.sync()
    (undoing,) = client.undo(handle)
    assert dict(client.scan()) == was
    client.sync()
    assert undoing.status == "applied"
    assert dict(client.scan()) == was


def test_undo_of_a_patch_leaves_other_members_changed_by_other_clients() -> None:
    document = new_document()
    client = Client(InProcess(document))
    client.mutate(*put({"title": "old", "done": False}))
    handle = client.mutate("patch", {"key": "k", "merge": {"title": "new"}})
    client.sync()
    document.mutate("patch", {"key": "k", "merge": {"done": True}})
    client.sync()
    client.undo(handle)
    assert client.get("k") == {"title": "old", "done": True}


def test_undo_of_an_increment_leaves_increments_of_other_clients() -> None:
    document = new_document()
    client = Client(InProcess(document))
    handle = client.mutate("inc", {"key": "k", "by": 2})
    client.sync()
    document.mutate("inc", {"key": "k", "by": 10})
    client.sync()
    client.undo(handle)
    assert client.get("k") == 10


@pytest.mark.parametrize(
    "later", [put("other"), ("patch", {"key": "k", "merge": {"title": "theirs"}}), ("del", {"key": "k"})]
)
def test_undo_does_not_undo_a_later_change(later: Step) -> None:
    document = new_document()
    client = Client(InProcess(document))
    client.mutate(*put({"title": "old", "done": False}))
    handle = client.mutate("patch", {"key": "k", "merge": {"title": "new"}})
    client.sync()
    document.mutate(*later)
    client.sync()
    shown = dict(client.scan())
    with pytest.raises(Rejected):
        client.undo(handle)
    assert dict(client.scan()) == shown


@pytest.mark.parametrize("before", [{"old": 1}, None], ids=repr)
def test_undo_of_a_patch_that_replaced_an_object_or_null_is_rejected_after_a_later_change(before: object) -> None:
    """An undo is a merge patch (RFC 7396). It cannot set a member to null, and may not restore an object exactly."""
    document = new_document()
    client = Client(InProcess(document))
    client.mutate(*put({"title": before}))
    handle = client.mutate("patch", {"key": "k", "merge": {"title": "new"}})
    client.sync()
    document.mutate("patch", {"key": "k", "merge": {"done": True}})
    client.sync()
    with pytest.raises(Rejected):
        client.undo(handle)
    client.sync()
    assert document.get("k") == {"title": "new", "done": True}


def test_a_mutation_of_several_keys_is_undone_key_by_key() -> None:
    def swap(draft: Draft, args: dict[str, str]) -> None:
        left, right = args["one"], args["other"]
        value = draft.get(left)
        draft.put(left, draft.get(right))
        draft.put(right, value)

    mutators = {**BUILT_IN_MUTATORS, "swap": swap}
    client = Client(InProcess(new_document(mutators=mutators)), mutators=mutators)
    client.mutate("put", {"key": "a", "value": 1})
    client.mutate("put", {"key": "b", "value": 2})
    handle = client.mutate("swap", {"one": "a", "other": "b"})
    assert len(client.undo(handle)) == 2
    client.sync()
    assert dict(client.scan()) == {"a": 1, "b": 2}


def test_a_rejected_mutation_has_nothing_to_undo() -> None:
    document = new_document()
    client = Client(InProcess(document))
    client.mutate(*put([]))
    client.sync()
    document.mutate(*put(1))
    handle = client.mutate("append", {"key": "k", "item": 1})
    client.sync()
    assert handle.status == "rejected"
    with pytest.raises(Rejected):
        client.undo(handle)


def test_a_rejected_increment_has_nothing_to_undo() -> None:
    document = new_document()
    client = Client(InProcess(document))
    document.mutate(*put("text"))
    handle = client.mutate("inc", {"key": "k", "by": 5})
    client.sync()
    assert handle.status == "rejected"
    document.mutate(*put(100))
    client.sync()
    with pytest.raises(Rejected, match="the mutation is rejected"):
        client.undo(handle)
    assert client.get("k") == 100


def test_undo_of_an_increment_is_rejected_if_the_number_was_deleted_since() -> None:
    document = new_document()
    client = Client(InProcess(document))
    handle = client.mutate("inc", {"key": "k"})
    client.sync()
    document.mutate("del", {"key": "k"})
    client.sync()
    with pytest.raises(Rejected, match="changed since"):
        client.undo(handle)
    assert client.get("k") is None


def test_undo_of_an_increment_of_unknown_outcome_is_rejected_if_the_number_may_lack_it() -> None:
    document = new_document()
    transport = InProcess(document)
    client = Client(transport)
    document.mutate(*put(10))
    client.sync()
    handle = client.mutate("inc", {"key": "k", "by": 5})
    transport.faults = ["lost-request"]
    with pytest.raises(OutcomeUnknown):
        client.sync()
    transport.servers = (replaced := new_document(memory_environment(seed=1)),)
    replaced.mutate(*put(10))
    client.sync()
    assert handle.status == "unknown"
    with pytest.raises(Rejected, match="changed since"):
        client.undo(handle)
    assert client.get("k") == 10


@pytest.mark.parametrize("step", [put(1), ("inc", {"key": "k", "by": 0})], ids=["put", "inc"])
def test_a_mutation_without_effect_has_nothing_to_undo(step: Step) -> None:
    client = Client(InProcess(new_document()))
    client.mutate(*put(1))
    handle = client.mutate(*step)
    with pytest.raises(Rejected, match="no effect"):
        client.undo(handle)


def test_undo_of_a_lost_mutation_is_rejected() -> None:
    client = Client(InProcess(new_document()))
    handle = client.mutate("inc", {"key": "k"})
    handle.status = "lost"
    with pytest.raises(Rejected, match="the mutation is lost"):
        client.undo(handle)
    assert client.get("k") == 1


def test_a_mutation_is_undone_once_unless_its_undo_was_undone_or_rejected() -> None:
    client = Client(InProcess(new_document()))
    handle = client.mutate("inc", {"key": "k", "by": 5})
    (undone,) = client.undo(handle)
    with pytest.raises(Rejected, match="already undone"):
        client.undo(handle)
    assert client.get("k") == 0
    client.undo(undone)
    assert client.get("k") == 5
    (again,) = client.undo(handle)
    assert client.get("k") == 0
    assert handle.is_undone
    again.status = "rejected"
    assert not handle.is_undone


def test_a_started_client_sends_an_undo_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PULL_SECONDS", 3600)  # before then the client has no other reason for a sync cycle
    document = new_document()
    with Client(InProcess(document)) as client:
        client.start()
        handle = client.mutate("inc", {"key": "k", "by": 5})
        until(lambda: handle.settled)
        client.undo(handle)
        until(lambda: document.get("k") == 0)


def test_a_mutation_can_be_undone_and_redone_very_often() -> None:
    client = Client(InProcess(new_document()))
    first = last = client.mutate("inc", {"key": "k", "by": 5})
    for _ in range(1500):
        (last,) = client.undo(last)
    assert (client.get("k"), first.is_undone) == (5, False)


def test_an_undo_can_be_undone() -> None:
    client = Client(InProcess(new_document()))
    client.mutate(*put(1))
    (undone,) = client.undo(client.mutate(*put(2)))
    client.undo(undone)
    assert client.get("k") == 2
