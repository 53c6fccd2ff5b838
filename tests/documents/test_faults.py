"""An exception of a mutator is a rejection by the application, an unexpected fault, or a lack of resources."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stratalog.codec import encode
from stratalog.documents import Rules
from stratalog.documents.rejections import UNEXPECTED, read_rejection, write_rejection
from stratalog.errors import Corrupt, NotFound, OutcomeUnknown, Unavailable
from stratalog.keys import REJECTED_PARTITION
from stratalog.maintenance.inspection import inspect_store
from stratalog.ports.index import Item, Put
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation, Rejected
from stratalog.protocol.rebase import Intent, rebase
from stratalog.store import Store, open_store
from stratalog.worker.dead_letters import edit_letter, list_letters, redrive
from tests.protocol.test_draft import draft_on
from tests.threads import join_all, start_all

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


class WithoutReason(Rejected):
    """A rejection of an application whose constructor sets no reason."""

    def __init__(self, who: str) -> None:
        self.who = who


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        (Rejected({"balance": 5}), "{'balance': 5}"),  # type: ignore[arg-type]
        (Rejected(["too", "poor"]), "['too', 'poor']"),  # type: ignore[arg-type]
        (Rejected(b"poor"), "b'poor'"),  # type: ignore[arg-type]
        (Rejected(None), "None"),  # type: ignore[arg-type]
        (Rejected("a \ud800"), "a ?"),
        (WithoutReason("ann"), "ann"),
        (Unprintable(), "Unprintable"),
        (ValueError("a \ud800"), "ValueError: a ?"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_exception_of_a_mutator_becomes_a_reason_that_can_be_read_back(raised: Exception, reason: str) -> None:
    document = opened(raised).document("acme", "plan")
    (outcome,) = document.apply([WORK])
    assert (outcome.status, outcome.reason) == ("rejected", reason)
    assert [made.reason for version in document.versions() for made in version.mutations] == [reason]
    (effect,) = rebase(draft_on(), {"work": Work(raised)}, [Intent(WORK.name, encode(WORK.args))])
    assert effect.reason == reason


def refused_writes(own: bool) -> list[str]:
    """Return the reasons of a mutator's writes to its own document, or else to another document."""
    store = open_store("memory:", rules=Rules({**BUILT_IN_MUTATORS, "work": lambda draft, args: writes[args["n"]]()}))
    document, other = store.create("acme", "plan"), store.create("acme", "other")
    written = document if own else other
    written.put("a", 1)
    writes: list[Callable[[], Any]] = [
        lambda: written.put("a", 2),
        lambda: written.forget_below(1),
        lambda: written.collect_clients(["local"]),
    ]
    outcomes = [document.mutate("work", {"n": number}) for number in range(len(writes))]
    assert written.get("a") == 1
    return [outcome.reason or "" for outcome in outcomes]


WRITES = "RuntimeError: a mutator must not write to a document: it changes its draft"


def test_a_mutator_that_writes_to_another_document_is_rejected() -> None:
    assert refused_writes(own=False) == [WRITES] * 3


def test_a_mutator_that_writes_to_its_own_document_is_rejected_and_does_not_wait_for_itself() -> None:
    reasons: list[str] = []
    join_all(start_all([lambda: reasons.extend(refused_writes(own=True))]))
    assert reasons == [WRITES] * 3


@pytest.mark.parametrize(
    "shortage", [MemoryError(), OSError(errno.EMFILE, "too many"), OSError(errno.ENFILE, ""), OSError(errno.ENOMEM, "")]
)
def test_a_resource_shortage_in_a_mutator_is_neither_a_rejection_nor_a_dead_letter(shortage: Exception) -> None:
    store = opened(shortage)
    document = store.document("acme", "plan")
    with pytest.raises(type(shortage)):
        document.apply([WORK])
    assert (document.version, list(list_letters(store))) == (0, [])
    assert [outcome.status for outcome in document.apply([WORK])] == ["applied"]
    assert document.get("done") == 1


def test_a_memory_error_of_the_draft_is_raised_even_if_the_mutator_catches_the_error() -> None:
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


def test_an_interrupt_of_a_mutator_commits_nothing() -> None:
    document = opened(KeyboardInterrupt()).document("acme", "plan")
    with pytest.raises(KeyboardInterrupt):
        document.apply([WORK])
    assert document.version == 0


@pytest.mark.parametrize("fault", [ZeroDivisionError("by 0"), RecursionError("full"), OSError(errno.ENOENT, "gone")])
def test_an_unexpected_exception_is_a_rejection_and_a_dead_letter_that_can_be_redriven(fault: Exception) -> None:
    store = opened(fault)
    document = store.document("acme", "plan")
    (outcome,) = document.apply([WORK])
    (letter,) = list_letters(store)
    assert outcome.status == "rejected"
    assert (letter.organisation, letter.document, letter.client, letter.mutation) == ("acme", "plan", "ann", 1)
    assert letter.reason == outcome.reason == f"{type(fault).__name__}: {fault}"
    assert [outcome.status for outcome in [*redrive(store, letter.id), *redrive(store, letter.id)]] == [
        "applied",
        "seen",
    ]
    assert document.get("done") == 1
    assert [letter.redriven_ms > 0 for letter in list_letters(store)] == [True]


async def waits(draft: Draft, args: Any) -> None:
    draft.put("done", args["n"])


def yields(draft: Draft, args: Any) -> Iterator[None]:
    draft.put("done", args["n"])
    yield


@pytest.mark.parametrize(("unrun", "reason"), [(waits, "must be written with def"), (yields, "must not contain yield")])
def test_a_mutator_whose_call_runs_nothing_is_rejected_and_not_applied(unrun: Any, reason: str) -> None:
    document = open_store("memory:", rules=Rules({"work": unrun})).create("acme", "plan")
    outcome = document.apply([WORK])[0]
    assert outcome.status == "rejected"
    assert reason in str(outcome.reason)


def test_a_dead_letter_can_be_redriven_with_edited_arguments() -> None:
    store = opened(KeyError("n"))
    store.document("acme", "plan").apply([WORK])
    (letter,) = list_letters(store)
    edited = edit_letter(store, letter.id, {"n": 2})
    assert [outcome.status for outcome in redrive(store, edited)] == ["applied"]
    assert store.document("acme", "plan").get("done") == 2


def test_a_redriven_mutation_that_fails_again_becomes_a_new_dead_letter() -> None:
    store = opened(ValueError("one"), ValueError("two"))
    store.document("acme", "plan").apply([WORK])
    (first,) = list_letters(store)
    redrive(store, first.id)
    (second,) = [letter for letter in list_letters(store) if letter.id != first.id]
    assert (second.client, second.reason) == (f"redrive/{first.id}", "ValueError: two")
    assert [outcome.status for outcome in redrive(store, second.id)] == ["applied"]


def test_a_rejection_by_a_rule_of_the_application_is_no_dead_letter() -> None:
    store = opened(Rejected("not so"))
    document = store.document("acme", "plan")
    document.apply([WORK])
    document.mutate("put", {"key": "", "value": 1})
    document.apply([Mutation(client="local", name="no such")])
    assert list(list_letters(store)) == []
    assert store.environment.counters[UNEXPECTED] == 0


def test_an_unexpected_exception_is_counted_and_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    store = opened(ValueError("secret"))
    with caplog.at_level(logging.ERROR, "stratalog"):
        store.document("acme", "plan").apply([WORK])
    assert store.environment.counters[UNEXPECTED] == 1
    (message,) = caplog.messages
    named, _, at = message.rpartition(" at=test_faults.py:")
    assert named == f"{UNEXPECTED}: document=plan client=ann id=1 mutator=work kind=ValueError"
    assert "raise self.raised.pop(0)" in Path(__file__).read_text().splitlines()[int(at) - 1]


def test_a_dead_letter_whose_rejection_was_not_committed_cannot_be_redriven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer stores the letter before the entry. A process that stops in between leaves only the letter."""
    store = opened(ValueError("once"))
    document = store.document("acme", "plan")
    with monkeypatch.context() as patch:
        patch.setattr(document._writer, "_append", lambda *arguments: (_ for _ in ()).throw(Unavailable("away")))
        with pytest.raises(Unavailable):
            document.apply([WORK])
    assert store.environment.counters[UNEXPECTED] == 0
    (item,) = store.environment.index.query(REJECTED_PARTITION)
    assert read_rejection(item).receives == 0
    assert [outcome.status for outcome in document.apply([WORK])] == ["applied"]
    with pytest.raises(NotFound):
        redrive(store, item.sort)


def test_a_rejection_is_not_committed_if_its_dead_letter_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(ValueError("once"))
    document = store.document("acme", "plan")

    def lost(*arguments: Any) -> None:
        raise OutcomeUnknown("lost")

    monkeypatch.setattr("stratalog.documents.writer.write_letters", lost)
    with pytest.raises(OutcomeUnknown):
        document.apply([WORK])
    assert document.version == 0


def test_each_fault_of_a_batch_larger_than_a_commit_has_a_dead_letter() -> None:
    store = opened(*[ValueError(str(number)) for number in range(150)])
    document = store.document("acme", "plan")
    document.apply([Mutation(client="ann", id=number, name="work") for number in range(1, 151)])
    assert {letter.mutation for letter in list_letters(store)} == {*range(1, 151)}


@pytest.mark.parametrize("attribute", ["args", "organisation", "document", "incarnation", "client", "id", "reason"])
@pytest.mark.parametrize("is_edited", [False, True])
def test_an_altered_dead_letter_is_corrupt_and_runs_nothing(attribute: str, is_edited: bool) -> None:
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


def test_a_dead_letter_whose_arguments_do_not_match_its_name_runs_nothing() -> None:
    """The stored letter can be decoded, but its arguments are not the ones that belong to its name."""
    store = opened(KeyError("n"))
    store.document("acme", "plan").apply([WORK])
    (listed,) = list_letters(store)
    edited = edit_letter(store, listed.id, {"n": 2})
    index = store.environment.index
    item = index.get(REJECTED_PARTITION, edited)
    assert item is not None
    rejection = read_rejection(item)
    for letter, args in ((edited, encode({"n": 3})), (edited, b""), (listed.id, encode({"n": 3}))):
        write_rejection(index, letter, msgspec.structs.replace(rejection, args=args))
        with pytest.raises(Corrupt):
            redrive(store, letter)
    assert store.document("acme", "plan").version == 1


def test_editing_a_dead_letter_again_replaces_a_damaged_edited_letter() -> None:
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
