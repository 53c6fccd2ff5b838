"""A dead letter is a failed message or mutation, with the reason. A redrive applies each mutation at most once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from stratalog.documents import Document, Rules
from stratalog.documents.rejections import LAST_ATTEMPT, UNEXPECTED
from stratalog.documents.resumption import LOST_RANGES_MAX
from stratalog.errors import Corrupt, Invalid, NotFound, OutcomeUnknown, Unsupported, VersionForgotten
from stratalog.keys import QUEUE_ATTEMPTS_PARTITION, REJECTED_PARTITION
from stratalog.log import Log, delete_log
from stratalog.ports.index import Item, Put
from stratalog.ports.queue import DeadMessage
from stratalog.protocol import BUILT_IN_MUTATORS, Draft, Mutation
from stratalog.protocol.sync import Push
from stratalog.protocol.weekly_groups import weekly_group
from stratalog.store import Store
from stratalog.sync.push import push
from stratalog.worker.dead_letters import UNKNOWN, RejectedPush, edit_letter, list_letters, redrive, redrive_all
from stratalog.worker.execution import apply
from stratalog.worker.messages import Carried, QueuedPush
from stratalog.worker.settlement import DEAD_MESSAGE
from tests.server.queue_path import QueuePath, kill, named, put

WEEKLY = weekly_group("senders", 1_700_000_000_000)


def inc(client: str, id: int) -> Mutation:
    return Mutation(client=client, id=id, name="inc", args={"key": "n"})


def rejected_path(poisons: int = 1) -> QueuePath:
    """Return a path that has handled one message.

    ``poisons`` mutations of the message killed the worker on every attempt.
    """
    path = QueuePath(kill=kill)
    path.push(inc("ada", 1), *[named("ada", id, "kill") for id in range(2, poisons + 2)], put("ada", poisons + 2))
    path.work_through(3000)
    return path


def repaired(path: QueuePath) -> QueuePath:
    """Return the path after a repair. The mutator ``kill`` no longer kills the worker."""

    def harmless(draft: Draft, args: object) -> None:
        draft.put("repaired", draft.get("repaired", 0) + 1)

    path.store = Store(path.store.environment, path.store.queue, Rules({**BUILT_IN_MUTATORS, "kill": harmless}))
    path.document = path.store.document("acme", "plan")
    path.new_worker()
    return path


def broken(group: str = "g") -> QueuePath:
    """Return a path whose document was damaged until the message became a dead letter. The document is now repaired."""
    path = QueuePath()
    path.push(inc("ada", 1), inc("ada", 2), group=group)
    repair = path.damage()
    path.work_through(2000)
    repair()
    path.store = Store(path.store.environment, path.store.queue, path.store.rules)
    path.document = path.store.document("acme", "plan")
    path.new_worker()
    return path


def letters(path: QueuePath) -> list[RejectedPush]:
    return list(list_letters(path.store))


def without_application(path: QueuePath) -> Store:
    return Store(path.store.environment, path.store.queue, Rules())


def test_a_message_is_not_redriven_without_its_application() -> None:
    path = QueuePath(add=lambda draft, args: draft.put("added", 1))
    sender = Document(path.document.log, path.document.rules)
    path.backlog.push(sender, Push("g", [named("ada", 1, "add")], sender.origin))
    repair = path.damage()
    path.work_through(2000)
    repair()
    (letter,) = letters(path)
    with pytest.raises(Unsupported):
        redrive(without_application(path), letter.id)
    path.store = Store(path.store.environment, path.store.queue, path.store.rules)
    assert [outcome.status for outcome in redrive(path.store, letter.id)] == ["applied"]


def test_a_rejected_mutation_is_not_redriven_without_its_application() -> None:
    path = repaired(rejected_path())
    (letter,) = letters(path)
    with pytest.raises(Unsupported):
        redrive(without_application(path), letter.id)
    assert [outcome.status for outcome in redrive(path.store, letter.id)] == ["applied"]


def test_a_mutation_rejected_after_its_last_attempt_is_a_letter_with_its_reason() -> None:
    (letter,) = letters(rejected_path())
    assert (letter.organisation, letter.document, letter.client, letter.mutation) == ("acme", "plan", "ada", 2)
    assert (letter.reason, letter.redriven_ms) == (
        "rejected after the last attempt, 2 failures: the process ended while it ran",
        0,
    )


def test_a_rejection_after_the_last_attempt_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    path = rejected_path()
    (letter,) = letters(path)
    assert path.store.environment.counters[LAST_ATTEMPT] == 1
    line = f"{LAST_ATTEMPT}: document=plan client=ada id=2 letter={letter.id}"
    assert line in caplog.messages


@pytest.mark.parametrize("name", ["kill", "faulty"])
def test_a_failed_mutation_whose_commit_has_an_unknown_outcome_is_counted(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The next delivery finds the mutation committed, and does not run it again."""

    def faulty(draft: Draft, args: object) -> None:
        raise ZeroDivisionError

    def append_and_fail(log: Log, *args: Any, **options: Any) -> NoReturn:
        append(log, *args, **options)
        monkeypatch.setattr(Log, "append", append)
        raise OutcomeUnknown("the answer was lost")

    append = Log.append
    path = QueuePath(kill=kill, faulty=faulty)
    path.push(named("ada", 1, name))
    monkeypatch.setattr(Log, "append", append_and_fail)
    path.work_through(3000)
    assert path.document.last_mutation("ada") == 1
    assert path.store.environment.counters[LAST_ATTEMPT if name == "kill" else UNEXPECTED] == 1


def test_a_message_that_failed_for_the_last_time_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    path = broken()
    (letter,) = letters(path)
    assert path.store.environment.counters[DEAD_MESSAGE] == 1
    assert [line for line in caplog.messages if line.startswith(DEAD_MESSAGE)] == [
        f"{DEAD_MESSAGE}: message={letter.id} kind=Corrupt"
    ]


def test_an_unexpected_exception_on_the_queue_path_is_a_letter_and_is_redriven() -> None:
    failing = [ZeroDivisionError("once")]

    def faulty(draft: Draft, args: object) -> None:
        if failing:
            raise failing.pop()
        draft.put("done", 1)

    path = QueuePath(faulty=faulty)
    path.push(named("ada", 1, "faulty"), put("ada", 2))
    path.work()
    (letter,) = letters(path)
    assert (letter.client, letter.mutation, letter.reason) == ("ada", 1, "ZeroDivisionError: once")
    assert path.store.environment.counters[UNEXPECTED] == 1
    assert [outcome.status for outcome in redrive(path.store, letter.id)] == ["applied"]
    assert (path.document.get("done"), path.document.get("k")) == (1, 1)


def test_temporary_memory_errors_reject_no_mutation() -> None:
    short = [MemoryError(), MemoryError(), MemoryError()]

    def greedy(draft: Draft, args: object) -> None:
        if short:
            raise short.pop()
        draft.put("done", 1)

    path = QueuePath(greedy=greedy)
    path.push(named("ada", 1, "greedy"))
    path.work_through(200)
    assert (path.document.get("done"), letters(path)) == (1, [])


def test_a_redriven_mutation_has_a_redrive_client_and_names_its_origin() -> None:
    path = repaired(rejected_path())
    (letter,) = letters(path)
    (outcome,) = redrive(path.store, letter.id)
    assert (outcome.client, outcome.id, outcome.status) == (f"redrive/{letter.id}", 1, "applied")
    assert path.document.get("repaired") == 1
    (version,) = path.document.versions(path.document.version - 1)
    assert version.mutations[0].origin == ("ada", 2)


def test_a_second_redrive_of_a_letter_changes_nothing() -> None:
    path = repaired(rejected_path())
    (letter,) = letters(path)
    assert [redrive(path.store, letter.id)[0].status for _ in range(3)] == ["applied", "seen", "seen"]
    assert path.document.get("repaired") == 1
    assert letters(path)[0].redriven_ms > 0


def test_a_message_is_moved_aside_after_too_many_of_its_mutations_end_the_process() -> None:
    path = rejected_path(poisons=5)
    moved, *gave_up = letters(path)
    assert [letter.mutation for letter in gave_up] == [2, 3, 4]
    assert moved.mutation == 0
    assert moved.reason.startswith("NotRun: delivered 10 times, and not run: client=ada id=5")
    assert path.document.last_mutation("ada") == 4


def test_a_client_pushes_the_rest_again_after_its_message_was_moved_aside() -> None:
    path = rejected_path(poisons=5)
    path.push(*[named("ada", id, "kill") for id in (5, 6)], put("ada", 7))
    path.work_through(3000)
    assert path.document.last_mutation("ada") == 7
    assert path.document.get("k") == 1


def test_a_redrive_of_a_message_uses_its_original_mutation_numbers() -> None:
    path = broken()
    (letter,) = letters(path)
    assert [(outcome.client, outcome.status) for outcome in redrive(path.store, letter.id)] == [("ada", "applied")] * 2
    assert [outcome.status for outcome in redrive(path.store, letter.id)] == ["seen", "seen"]
    assert path.document.get("n") == 2


@pytest.mark.parametrize("first", ["client", "operator"])
def test_a_repeated_push_and_a_redrive_of_the_same_message_apply_it_once(first: str) -> None:
    path = broken()
    (letter,) = letters(path)
    for who in sorted(("client", "operator"), key=lambda who: who != first):
        if who == "client":
            push(path.document, Push("g", [inc("ada", 1), inc("ada", 2)]))
        else:
            redrive(path.store, letter.id)
    assert path.document.get("n") == 2


def test_a_redrive_for_a_deleted_document_does_not_change_the_recreated_document() -> None:
    for path in (broken(), repaired(rejected_path())):
        (letter,) = letters(path)
        delete_log(path.document.log)
        heir = path.store.create("acme", "plan")
        with pytest.raises(NotFound):
            redrive(path.store, letter.id)
        assert heir.version == 0


def test_letters_are_listed_in_order_after_an_id() -> None:
    path = rejected_path(poisons=5)
    ids = [letter.id for letter in letters(path)]
    assert ids == sorted(ids)
    assert [letter.id for letter in list_letters(path.store, after=ids[1])] == ids[2:]


def test_a_redrive_of_an_unknown_letter_is_not_found() -> None:
    path = QueuePath()
    for id in ("0000000000000001", "0000000000000001/1"):
        with pytest.raises(NotFound):
            redrive(path.store, id)


def with_arguments() -> QueuePath:
    """Return a path whose worker rejected a mutation with arguments. The mutator is now repaired."""
    path = QueuePath(kill=kill)
    path.push(Mutation(client="ada", id=1, name="kill", args={"by": 1}))
    path.work_through(3000)

    def add(draft: Draft, args: dict[str, int]) -> None:
        draft.put("n", draft.get("n", 0) + args["by"])

    path.store = Store(path.store.environment, path.store.queue, Rules({**BUILT_IN_MUTATORS, "kill": add}))
    path.document = path.store.document("acme", "plan")
    return path


def test_edited_arguments_make_a_separate_letter() -> None:
    path = with_arguments()
    (letter,) = letters(path)
    edited = edit_letter(path.store, letter.id, {"by": 10.0})
    assert [(listed.id, listed.edited) for listed in letters(path)] == [(letter.id, False), (edited, True)]
    assert [redrive(path.store, id)[0].status for id in (edited, edited, letter.id)] == ["applied", "seen", "applied"]
    assert path.document.get("n") == 11
    assert path.document.last_mutation(f"redrive/{edited}") == 1


def damage(path: QueuePath, partition: str, letter: str) -> None:
    """Replace a stored item by an item of another kind."""
    path.store.environment.index.commit([Put(Item(partition, letter, {"reason": 1}))])


def test_a_damaged_letter_affects_no_other_letter() -> None:
    path = rejected_path(poisons=2)
    first, second = (letter.id for letter in letters(path))
    damage(path, REJECTED_PARTITION, first)
    listed = letters(path)
    assert [letter.id for letter in listed] == [first, second]
    assert (listed[0].document, listed[0].reason[:22]) == ("", "the letter is damaged:")
    path = repaired(path)
    assert [outcome.status for outcome in redrive(path.store, second)] == ["applied"]
    edited = edit_letter(path.store, second, {"by": 2})
    assert edit_letter(path.store, edited, {"by": 2}) == edited
    results = dict(redrive_all(path.store))
    assert isinstance(results.pop(first), Corrupt)
    statuses = {
        id: outcome.status for id, outcomes in results.items() if isinstance(outcomes, list) for outcome in outcomes
    }
    assert statuses == {second: "seen", edited: "applied"}


def test_a_damaged_letter_with_edited_arguments_is_replaced() -> None:
    path = with_arguments()
    (letter,) = letters(path)
    edited = edit_letter(path.store, letter.id, {"by": 10})
    damage(path, REJECTED_PARTITION, edited)
    assert edit_letter(path.store, letter.id, {"by": 10}) == edited
    assert [outcome.status for outcome in redrive(path.store, edited)] == ["applied"]


def test_a_letter_whose_attempt_record_is_damaged_is_listed_and_redriven() -> None:
    path = broken()
    (letter,) = letters(path)
    damage(path, QUEUE_ATTEMPTS_PARTITION, letter.id)
    (listed,) = letters(path)
    assert (listed.id, listed.document, listed.reason) == (letter.id, "plan", UNKNOWN)
    assert [outcome.status for outcome in redrive(path.store, letter.id)] == ["applied", "applied"]
    assert letters(path)[0].redriven_ms > 0


def test_a_redrive_of_all_letters_lists_the_queue_and_the_rejections_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = rejected_path(poisons=5)
    ids = [letter.id for letter in letters(path)]
    path = repaired(path)
    listed = []

    def dead_letters(after: str = "") -> Iterator[DeadMessage]:
        listed.append("queue")
        return listed_letters(after=after)

    def query(partition: str, **options: Any) -> Iterator[Item]:
        listed.extend(["rejections"] * (partition == REJECTED_PARTITION))
        return queried(partition, **options)

    listed_letters, queried = path.store.queue.dead_letters, path.store.environment.index.query
    monkeypatch.setattr(path.store.queue, "dead_letters", dead_letters)
    monkeypatch.setattr(path.store.environment.index, "query", query)
    assert [id for id, _ in redrive_all(path.store)] == ids
    assert sorted(listed) == ["queue", "rejections"]


def test_equal_edits_share_a_letter_and_undoing_an_edit_returns_the_original_letter() -> None:
    path = with_arguments()
    (letter,) = letters(path)
    edited = edit_letter(path.store, letter.id, {"by": 10})
    redrive(path.store, edited)
    assert edit_letter(path.store, letter.id, {"by": 10.0}) == edited
    assert edit_letter(path.store, edited, {"by": 10}) == edited
    assert edit_letter(path.store, edited, {"by": 1}) == letter.id
    assert [listed.redriven_ms > 0 for listed in letters(path)] == [False, True]


def test_the_arguments_of_a_message_moved_aside_cannot_be_edited() -> None:
    path = broken()
    (letter,) = letters(path)
    with pytest.raises(Invalid):
        edit_letter(path.store, letter.id, {"by": 10})
    with pytest.raises(NotFound):
        edit_letter(path.store, "none/1", {"by": 10})


def test_a_push_of_a_weekly_group_is_applied_although_an_earlier_push_is_a_dead_letter() -> None:
    path = broken(WEEKLY)
    path.push(inc("ada", 3), inc("ada", 4), group=WEEKLY)
    path.push(inc("ada", 5), group=WEEKLY)
    path.work()
    assert path.document.get("n") == 3
    (letter,) = letters(path)
    assert [outcome.status for outcome in redrive(path.store, letter.id)] == ["applied", "applied"]
    assert [outcome.status for outcome in redrive(path.store, letter.id)] == ["seen", "seen"]
    assert path.document.get("n") == 5


def test_no_push_of_a_weekly_group_is_applied_twice_after_a_missing_push() -> None:
    document = QueuePath().document
    missing, later = (
        QueuedPush(WEEKLY, document.origin, "", "", [Carried("ada", id, "inc", {"key": "n"})]) for id in (1, 2)
    )
    statuses = [outcome.status for push in (later, missing, later, missing) for outcome in apply(document, push)]
    assert statuses == ["applied", "applied", "seen", "seen"]
    assert document.get("n") == 2


def with_missing_pushes(document: Document) -> list[QueuedPush]:
    """Apply the even pushes of a sender, and return all pushes. A state cannot keep so many lost ranges."""
    pushes = [
        QueuedPush(WEEKLY, document.origin, "", "", [Carried("ada", id, "inc", {"key": "n"})])
        for id in range(1, 2 * LOST_RANGES_MAX + 9)
    ]
    assert {apply(document, push)[0].status for push in pushes[1::2]} == {"applied"}
    return pushes


def test_each_missing_push_of_a_weekly_group_is_applied_once_however_many_are_missing() -> None:
    document = QueuePath().document
    pushes = with_missing_pushes(document)
    assert {apply(document, push)[0].status for push in pushes[::2]} == {"applied"}
    assert {apply(document, push)[0].status for push in pushes} == {"seen"}
    assert document.get("n") == len(pushes)


def test_a_missing_push_whose_number_the_log_has_forgotten_is_not_called_seen() -> None:
    document = QueuePath().document
    first, _, third, *_ = with_missing_pushes(document)
    apply(document, third)
    document.forget_below(document.version)
    with pytest.raises(VersionForgotten):
        apply(document, first)
    assert apply(document, third)[0].status == "seen"


def test_an_applied_push_after_many_missing_pushes_is_seen_although_the_log_has_forgotten_it() -> None:
    document = QueuePath().document
    pushes = [
        QueuedPush(WEEKLY, document.origin, "", "", [Carried("ada", id, "inc", {"key": "n"})]) for id in range(1, 101)
    ]
    assert {apply(document, push)[0].status for push in pushes[1::2]} == {"applied"}
    document.forget_below(document.version)
    assert {apply(document, push)[0].status for push in pushes[1::2]} == {"seen"}
    assert {apply(document, push)[0].status for push in pushes[::2]} == {"applied"}
    assert document.get("n") == len(pushes)
