"""An exception of a mutator is a rejection by the application, an unexpected fault, or a lack of resources."""

from __future__ import annotations

import errno
import logging
from typing import Any

import msgspec
import pytest

from stratalog.codec import encode
from stratalog.documents import Rules
from stratalog.documents.rejections import UNEXPECTED, list_rejections, write_rejection
from stratalog.errors import Corrupt, NotFound, OutcomeUnknown, Unavailable
from stratalog.keys import REJECTED_PARTITION
from stratalog.maintenance.inspection import inspect_store
from stratalog.ports.index import Item, Put
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation, Rejected
from stratalog.store import Store, open_store
from stratalog.worker.dead_letters import edit_letter, list_letters, redrive

WORK = Mutation(client="ann", id=1, name="work", args={"n": 1})


class Work:
    """A mutator that raises the given exceptions, one per run, and then succeeds."""

    def __init__(self, *raised: BaseException) -> None:
        self.raised = list(raised)

    def __call__(self, draft: Draft, args: Any) -> None:
        if self.raised:
            raise self.raised.pop(0)
        draft.put("done", args["n"])


def opened(*raised: BaseException) -> Store:
    store = open_store("memory:", rules=Rules({**BUILT_IN_MUTATORS, "work": Work(*raised)}))
    store.create("acme", "plan")
    return store


@pytest.mark.parametrize(
    "shortage", [MemoryError(), OSError(errno.EMFILE, "too many"), OSError(errno.ENFILE, ""), OSError(errno.ENOMEM, "")]
)
def test_a_shortage_of_the_process_is_neither_a_rejection_nor_a_dead_letter(shortage: Exception) -> None:
    store = opened(shortage)
    document = store.document("acme", "plan")
    with pytest.raises(type(shortage)):
        document.apply([WORK])
    assert (document.version, list(list_letters(store))) == (0, [])
    assert [outcome.status for outcome in document.apply([WORK])] == ["applied"]
    assert document.get("done") == 1


def test_a_shortage_that_a_mutator_met_at_the_draft_is_no_outcome_whatever_it_made_of_it() -> None:
    store = opened()
    document = store.document("acme", "plan")
    document.mutate("put", {"key": "a", "value": 1})

    def careless(draft: Draft, args: Any) -> None:
        try:
            draft.get("a")
        except Exception:  # noqa: BLE001 - an application may do this
            draft.put("a", "lost")

    def no_memory(self: Any, key: str) -> Any:
        raise MemoryError

    document.rules = Rules({"careless": careless})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stratalog.documents.state.State.slot", no_memory)
        with pytest.raises(MemoryError):
            document.mutate("careless")
    assert document.get("a") == 1


def test_an_interrupt_is_no_outcome() -> None:
    document = opened(KeyboardInterrupt()).document("acme", "plan")
    with pytest.raises(KeyboardInterrupt):
        document.apply([WORK])
    assert document.version == 0


@pytest.mark.parametrize("fault", [ZeroDivisionError("by 0"), RecursionError("full"), OSError(errno.ENOENT, "gone")])
def test_an_unexpected_exception_is_a_rejection_and_a_dead_letter_that_runs_again(fault: Exception) -> None:
    store = opened(fault)
    document = store.document("acme", "plan")
    (outcome,) = document.apply([WORK])
    (letter,) = list_letters(store)
    assert outcome.status == "rejected"
    assert (letter.organisation, letter.document, letter.client, letter.mutation) == ("acme", "plan", "ann", 1)
    assert letter.reason == outcome.reason == f"{type(fault).__name__}: {fault}"
    assert [one.status for one in [*redrive(store, letter.id), *redrive(store, letter.id)]] == ["applied", "seen"]
    assert document.get("done") == 1
    assert [letter.redriven_ms > 0 for letter in list_letters(store)] == [True]


def test_a_letter_of_an_exception_runs_with_other_arguments_too() -> None:
    store = opened(KeyError("n"))
    store.document("acme", "plan").apply([WORK])
    (letter,) = list_letters(store)
    edited = edit_letter(store, letter.id, {"n": 2})
    assert [outcome.status for outcome in redrive(store, edited)] == ["applied"]
    assert store.document("acme", "plan").get("done") == 2


def test_a_redriven_mutation_that_fails_again_is_another_letter() -> None:
    store = opened(ValueError("one"), ValueError("two"))
    store.document("acme", "plan").apply([WORK])
    (first,) = list_letters(store)
    redrive(store, first.id)
    (second,) = [letter for letter in list_letters(store) if letter.id != first.id]
    assert (second.client, second.reason) == (f"redrive/{first.id}", "ValueError: two")
    assert [outcome.status for outcome in redrive(store, second.id)] == ["applied"]


def test_a_rule_of_the_application_is_no_dead_letter() -> None:
    store = opened(Rejected("not so"))
    document = store.document("acme", "plan")
    document.apply([WORK])
    document.mutate("put", {"key": "", "value": 1})
    document.apply([Mutation(client="local", name="no such")])
    assert list(list_letters(store)) == []
    assert store.environment.counters[UNEXPECTED] == 0


def test_an_unexpected_exception_is_counted_and_logged_without_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    store = opened(ValueError("secret"))
    with caplog.at_level(logging.ERROR, "stratalog"):
        store.document("acme", "plan").apply([WORK])
    assert store.environment.counters[UNEXPECTED] == 1
    assert caplog.messages == [f"{UNEXPECTED}: document=plan client=ann id=1 mutator=work kind=ValueError"]


def test_a_letter_whose_mutation_came_out_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer stores the letter before the entry. A process that stops in between leaves only the letter."""
    store = opened(ValueError("once"))
    document = store.document("acme", "plan")
    with monkeypatch.context() as patch:
        patch.setattr(document._writer, "_append", lambda *arguments: (_ for _ in ()).throw(Unavailable("away")))
        with pytest.raises(Unavailable):
            document.apply([WORK])
    assert store.environment.counters[UNEXPECTED] == 0
    ((letter, rejection),) = list_rejections(store.environment.index)
    assert rejection.receives == 0
    assert [outcome.status for outcome in document.apply([WORK])] == ["applied"]
    with pytest.raises(NotFound):
        redrive(store, letter)


def test_no_rejection_is_committed_whose_letter_could_not_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(ValueError("once"))
    document = store.document("acme", "plan")

    def lost(*arguments: Any) -> None:
        raise OutcomeUnknown("lost")

    monkeypatch.setattr("stratalog.documents.writer.write_letters", lost)
    with pytest.raises(OutcomeUnknown):
        document.apply([WORK])
    assert document.version == 0


def test_a_batch_of_more_faults_than_one_commit_holds_leaves_a_letter_for_each() -> None:
    store = opened(*[ValueError(str(number)) for number in range(150)])
    document = store.document("acme", "plan")
    document.apply([Mutation(client="ann", id=number, name="work") for number in range(1, 151)])
    assert {letter.mutation for letter in list_letters(store)} == {*range(1, 151)}


@pytest.mark.parametrize("attribute", ["args", "organisation", "document", "incarnation", "client", "id", "reason"])
@pytest.mark.parametrize("is_edited", [False, True])
def test_a_letter_that_is_not_what_was_written_runs_nothing(attribute: str, is_edited: bool) -> None:
    store = opened(KeyError("n"))
    document = store.document("acme", "plan")
    document.apply([WORK])
    (listed,) = list_letters(store)
    letter = edit_letter(store, listed.id, {"n": 2}) if is_edited else listed.id
    index = store.environment.index
    item = index.get(REJECTED_PARTITION, letter)
    assert item is not None
    other: Any = {"args": encode({"n": 3}), "id": 2}.get(attribute, "other")
    index.commit([Put(Item(REJECTED_PARTITION, letter, {**item.attributes, attribute: other}))])
    with pytest.raises(Corrupt):
        redrive(store, letter)
    assert document.version == 1
    assert [damage.kind for damage in inspect_store(store)] == ["rejected mutation"]


def test_arguments_that_are_not_those_of_the_letter_s_name_run_nothing() -> None:
    """The letter is intact, but other arguments are stored under its name."""
    store = opened(KeyError("n"))
    store.document("acme", "plan").apply([WORK])
    (listed,) = list_letters(store)
    edited = edit_letter(store, listed.id, {"n": 2})
    index = store.environment.index
    rejection = dict(list_rejections(index))[edited]
    for letter, args in ((edited, encode({"n": 3})), (edited, b""), (listed.id, encode({"n": 3}))):
        write_rejection(index, letter, msgspec.structs.replace(rejection, args=args))
        with pytest.raises(Corrupt):
            redrive(store, letter)
    assert store.document("acme", "plan").version == 1


def test_an_edited_letter_that_is_damaged_is_made_again() -> None:
    store = opened(KeyError("n"))
    store.document("acme", "plan").apply([WORK])
    (listed,) = list_letters(store)
    edited = edit_letter(store, listed.id, {"n": 2})
    index = store.environment.index
    item = index.get(REJECTED_PARTITION, edited)
    assert item is not None
    index.commit([Put(Item(REJECTED_PARTITION, edited, {**item.attributes, "args": b"\x03"}))])
    assert edit_letter(store, listed.id, {"n": 2}) == edited
    assert [outcome.status for outcome in redrive(store, edited)] == ["applied"]
    assert store.document("acme", "plan").get("done") == 2
