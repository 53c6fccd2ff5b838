"""Coalescing: the worker applies the waiting messages of a document as one entry.

Each message has the same outcomes as when the worker applies it alone, except that a `seen` may be a `mismatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stratalog.documents import Document
from stratalog.errors import Corrupt, OutcomeUnknown, Unavailable
from stratalog.limits import MUTATIONS_PER_BATCH_MAX
from stratalog.ports.queue import Message
from stratalog.protocol import Draft, Mutation
from stratalog.worker import settlement
from stratalog.worker.coalescing import COALESCED_BYTES_MAX, coalesce
from stratalog.worker.settlement import Settlement, Settler
from tests.server.queue_path import Killed, QueuePath, kill, named, put

BATCH = 10


def settled(path: QueuePath) -> list[Settlement]:
    """Settle the first message of the queue, or several first messages as one entry. Return the settlements."""
    return Settler(path.store).settle_some(path.waiting())


def versions(document: Document) -> list[list[tuple[str, int, str | None]]]:
    return [
        [(mutation.client, mutation.id, mutation.reason) for mutation in version.mutations]
        for version in document.versions()
    ]


def outcomes_of(settlement: Settlement) -> list[tuple[str, int, str]]:
    return [(outcome.client, outcome.id, outcome.status) for outcome in settlement.outcomes]


def test_waiting_messages_are_joined_in_an_entry_and_each_has_its_own_outcomes() -> None:
    path = QueuePath()
    path.push(put("ada", 1), named("ada", 2, "nonsense"))
    path.push(put("ada", 3))
    path.push(put("bob", 1), put("ada", 4))
    done = settled(path)
    assert [outcomes_of(settlement) for settlement in done] == [
        [("ada", 1, "applied"), ("ada", 2, "rejected")],
        [("ada", 3, "applied")],
        [("bob", 1, "applied"), ("ada", 4, "applied")],
    ]
    assert [settlement.version for settlement in done] == [1, 1, 1]
    assert path.document.version == 1


def test_a_worker_doubles_the_number_of_joined_messages_after_each_success() -> None:
    path = QueuePath()
    for id in range(1, 101):
        path.push(put("ada", id, "k", id))
    path.work()
    assert path.document.get("k") == 100
    assert path.document.last_mutation("ada") == 100
    # The worker starts with one message, and doubles the number after each success, up to 10.
    assert path.document.version == 4 + 9


def test_messages_that_repeat_mutations_of_waiting_messages_are_joined() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.push(put("ada", 1), put("ada", 2))
    path.push(put("ada", 2), put("ada", 3))
    done = settled(path)
    assert [status for settlement in done for _, _, status in outcomes_of(settlement)] == [
        "applied",
        "seen",
        "applied",
        "seen",
        "applied",
    ]
    assert path.document.version == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((put("ada", 2),), (put("ada", 1), put("ada", 2))),
        ((put("ada", 1), put("ada", 3)), (put("ada", 2),)),
        ((put("ada", 1),), (put("ada", 3),)),
    ],
)
def test_messages_whose_numbers_neither_continue_nor_repeat_are_not_joined(
    first: tuple[Mutation, ...], second: tuple[Mutation, ...]
) -> None:
    path = QueuePath()
    path.push(*first)
    path.push(*second)
    assert len(coalesce(path.store.environment.blobs, path.waiting())) <= 1


def test_messages_of_different_principals_are_not_joined() -> None:
    path = QueuePath()
    path.worker._size = BATCH
    path.push(put("ada", 1), owner="u-ada")
    path.push(put("bob", 1), owner="u-bob", group="h")
    path.push(put("bob", 2), owner="u-bob", group="h")
    path.work()
    assert versions(path.document) == [[("ada", 1, None)], [("bob", 1, None), ("bob", 2, None)]]
    assert path.document.state().binding("bob") == ("h", "u-bob")


def test_a_redelivered_message_is_applied_alone() -> None:
    path = QueuePath()
    for id in (1, 2, 3):
        path.push(put("ada", id))
    for message in reversed(path.waiting()):
        path.store.queue.release(message)
    path.work()
    assert path.document.version == 3


def test_joined_messages_stay_within_the_limits_of_bytes_and_mutations() -> None:
    path = QueuePath()
    for id in (1, 2, 3):
        path.push(put("ada", id, f"k{id}", path.clock.random_bytes(COALESCED_BYTES_MAX // 2)))
    assert len(settled(path)) == 1
    many = QueuePath()
    many.push(*[put("ada", id) for id in range(1, MUTATIONS_PER_BATCH_MAX)])
    many.push(put("ada", MUTATIONS_PER_BATCH_MAX))
    many.push(put("ada", MUTATIONS_PER_BATCH_MAX + 1))
    assert len(settled(many)) == 2


def test_an_unreadable_message_stops_only_the_messages_after_it() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.push(put("ada", 2))
    path.store.queue.send("acme/plan", [b"\x01 not a push"])
    path.push(put("ada", 3))
    assert len(settled(path)) == 2
    path.work_through(1)
    assert path.document.last_mutation("ada") == 2


def broken(draft: Draft, args: Any) -> None:
    raise Corrupt("the value is damaged")


def test_a_failing_message_among_joined_messages_is_found_and_the_other_messages_are_applied() -> None:
    path = QueuePath(broken=broken)
    path.push(put("ada", 1))
    path.push(put("ada", 2))
    path.work()
    for mutation in (put("ada", 3), put("ada", 4), named("ada", 5, "broken"), put("ada", 6)):
        path.push(mutation)
    path.work()
    assert path.document.last_mutation("ada") == 4
    assert path.failures == ["Corrupt: the value is damaged"]
    path.work_through(1500)
    assert path.document.last_mutation("ada") == 6


def test_the_next_worker_applies_the_messages_before_a_message_that_ends_the_process() -> None:
    path = QueuePath(kill=kill)
    path.worker._size = BATCH
    for mutation in (put("ada", 1), put("ada", 2), named("ada", 3, "kill"), put("ada", 4)):
        path.push(mutation)
    with pytest.raises(Killed):
        path.work()
    assert path.document.version == 0
    path.new_worker()
    path.work_through(400)
    assert [id for version in versions(path.document) for _, id, _ in version] == [1, 2, 3, 4]


def test_an_unavailable_store_does_not_make_the_settler_try_each_joined_message_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the settler tried each message alone, each attempt would wait for the store again.

    The worker later retries the messages one by one.

    """
    path, tries = QueuePath(), 0
    path.push(put("ada", 1))
    path.push(put("ada", 2))

    def away(*arguments: Any, **options: Any) -> None:
        nonlocal tries
        tries += 1
        raise Unavailable("the index is away")

    monkeypatch.setattr(settlement, "apply", away)
    with pytest.raises(Unavailable):
        settled(path)
    assert tries == 1


def test_a_message_that_meets_an_unreachable_store_does_not_delay_the_messages_before_it() -> None:
    left = [1000]

    def far(draft: Draft, args: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise Unavailable("simulated")

    path = QueuePath(far=far)
    path.worker._size = BATCH
    for mutation in (put("ada", 1), named("ada", 2, "far"), put("ada", 3)):
        path.push(mutation)
    path.work_through(3)
    assert path.document.last_mutation("ada") == 1
    left[0] = 0
    path.work_through(60)
    assert path.document.last_mutation("ada") == 3


@pytest.mark.parametrize("takes_effect", [True, False])
def test_joined_messages_are_applied_once_if_the_answer_to_their_commit_is_lost(takes_effect: bool) -> None:
    path = QueuePath()
    path.worker._size = BATCH
    for id in range(1, 5):
        path.push(Mutation(client="ada", id=id, name="inc", args={"key": "n", "by": 1}))
    losing(path, takes_effect)
    path.work_through(300)
    assert path.document.get("n") == 4
    assert path.waiting() == []


def losing(path: QueuePath, takes_effect: bool, times: int = 200) -> None:
    """Lose the next ``times`` answers to commits. With ``takes_place``, the index commits the writes first."""
    commit, left = path.store.environment.index.commit, [times]

    def failing(writes: Any, *blobs: Any) -> None:
        if not left[0]:
            return commit(writes, *blobs)
        left[0] -= 1
        if takes_effect:
            commit(writes, *blobs)
        raise OutcomeUnknown("simulated")

    path.store.environment.index.commit = failing  # type: ignore[method-assign]


Pushes = list[tuple[str, list[tuple[str, int, str]]]]


@settings(max_examples=120, deadline=None)
@given(
    pushes=st.lists(
        st.tuples(
            st.sampled_from(["g", "g", "g", "h"]),
            st.lists(
                st.tuples(st.sampled_from(["ada", "bob"]), st.integers(1, 5), st.sampled_from(["put", "no"])),
                min_size=1,
                max_size=3,
            ),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_joined_messages_have_the_same_outcomes_as_single_messages(pushes: Pushes) -> None:
    """Joined and single messages give the same content, last numbers of clients and outcomes, with one exception.

    The settler has all payloads of a batch of joined messages. So a mutation that repeats an earlier number with
    another payload may be a `mismatch` in the batch. If the settler settles its message alone, the mutation is `seen`,
    unless the number is the client's last number. The settler applies the mutation in neither case.
    """
    joined, *joined_state = run(pushes, lambda settler, messages: settler.settle_some(messages))
    alone, *alone_state = run(pushes, lambda settler, messages: [settler.settle(messages[0])])
    assert joined_state == alone_state
    pairs = zip(chain.from_iterable(joined), chain.from_iterable(alone), strict=True)
    assert {(joined, single) for joined, single in pairs if joined != single} <= {
        ((client, id, "mismatch"), (client, id, "seen")) for client in ("ada", "bob") for id in range(1, 6)
    }


def run(pushes: Pushes, settle: Callable[[Settler, list[Message]], list[Settlement]]) -> Any:
    path = QueuePath()
    for group, mutations in pushes:
        path.push(*[named_or_put(*item) for item in mutations], group=group)
    messages, settler, outcomes = path.waiting(), Settler(path.store), []
    while messages:
        done = settle(settler, messages)
        outcomes += [outcomes_of(item) for item in done]
        messages = messages[len(done) :]
    last = {client: path.document.last_mutation(client) for client in ("ada", "bob")}
    return outcomes, last, path.document.at().content_digest()


def named_or_put(client: str, id: int, name: str) -> Mutation:
    return named(client, id, "nonsense") if name == "no" else put(client, id, f"{client}/{id}", id)
