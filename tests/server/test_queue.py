"""The server answers some pushes immediately and queues the other pushes. A worker applies the queued pushes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from stratalog.backends.memory import MemoryQueue
from stratalog.backends.sqlite import SqliteDatabase
from stratalog.clock import Observation
from stratalog.documents import Document, Rules
from stratalog.documents.history import Applied
from stratalog.errors import Corrupt, Invalid, OutcomeUnknown, QueueFull, Unavailable
from stratalog.limits import MESSAGE_BYTES_MAX, MUTATION_TRIES_MAX, QUEUE_RECEIVES_MAX
from stratalog.log import delete_log
from stratalog.maintenance.collection import collect
from stratalog.ports.queue import Message
from stratalog.protocol import Draft, Mutation
from stratalog.protocol.sync import Push
from stratalog.sync.push import push
from stratalog.worker.dead_letters import list_letters
from stratalog.worker.execution import SUSPECT_RECEIVES
from stratalog.worker.messages import read_message
from stratalog.worker.queued_pushes import QueuedPushes
from stratalog.worker.worker import Worker, WorkerSettings
from tests.server.helpers import Follower
from tests.server.queue_path import AtOnce, QueuePath, kill, named, put


def statuses(outcomes: Any) -> list[str]:
    return [outcome.status for outcome in outcomes]


def committed(path: QueuePath) -> list[Applied]:
    return [mutation for version in path.document.versions() for mutation in version.mutations]


def test_a_push_is_queued_and_applied_later() -> None:
    path = QueuePath()
    answer = path.push(put("ada", 1), put("ada", 2, "other"))
    assert (answer.queued, answer.outcomes) == (True, [])
    assert path.document.version == 0
    path.work()
    assert path.document.get("k") == 1
    assert path.document.last_mutation("ada") == 2
    assert path.waiting() == []


def test_pushes_of_a_document_are_applied_in_order() -> None:
    path = QueuePath()
    for id in range(1, 30):
        path.push(put("ada", id, "k", id))
    path.work()
    assert path.document.get("k") == 29
    assert path.worker.counts["applied"] == 29


def test_the_queue_path_and_a_direct_push_give_the_same_document() -> None:
    queued, direct = QueuePath(), QueuePath()
    mutations = [put("ada", 1), named("ada", 2, "unknown"), put("ada", 3, "k", {"a": [1.5]}), put("bob", 2)]
    queued.push(*mutations)
    queued.work()
    push(direct.document, Push("g", mutations))
    committed_mutations, expected = (
        [
            (mutation.client, mutation.id, mutation.name, mutation.args, mutation.reason)
            for version in path.document.versions()
            for mutation in version.mutations
        ]
        for path in (queued, direct)
    )
    assert committed_mutations == expected
    assert queued.document.at().content_digest() == direct.document.at().content_digest()


def test_an_unstorable_mutation_is_rejected_on_the_queue_path_and_on_the_direct_path() -> None:
    queued, direct = QueuePath(), QueuePath()
    mutations = [put("ada", 1, "k", "\ud800"), put("ada", 2), put("ada", 3, "k", 10**30)]
    assert queued.push(*mutations).queued
    queued.work()
    push(direct.document, Push("g", mutations))
    for path in (queued, direct):
        reasons = [mutation.reason is not None for mutation in committed(path)]
        assert reasons == [True, False, True]
    assert statuses(push(queued.document, Push("g", mutations)).outcomes) == ["seen", "seen", "seen"]


def test_the_next_pull_reports_a_rejection() -> None:
    path, follower = QueuePath(), Follower()
    path.push(put("ada", 1))
    path.work()
    follower.pull(path.document)
    path.push(named("ada", 2, "nonsense"))
    path.work()
    assert [rejection.reason for rejection in follower.pull(path.document).rejected] == ["no such mutator: nonsense"]


def test_a_push_that_was_applied_before_is_seen_and_not_queued() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.work()
    assert statuses(path.push(put("ada", 1)).outcomes) == ["seen"]
    assert path.waiting() == []


def test_a_push_with_a_final_refusal_is_answered_immediately_and_not_queued() -> None:
    path = QueuePath()
    path.push(put("ada", 1), owner="u-ada")
    path.work()
    assert statuses(path.push(put("ada", 2), owner="u-mallory").outcomes) == ["wrong-group"]
    assert statuses(path.push(put("guest", 1), owner="u-mallory").outcomes) == ["wrong-group"]
    heir = path.backlog.push(path.document, Push("g", [put("bob", 1)], "another"))
    assert statuses(heir.outcomes) == ["unknown-client"]
    path.document.collect_clients(["ada"], ["g"])
    assert statuses(path.push(put("ada", 2), owner="u-ada").outcomes) == ["collected"]
    assert path.waiting() == []


def test_without_an_origin_a_push_that_is_a_gap_is_refused_immediately_and_not_queued() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.work()
    path.backlog = QueuedPushes(path.store)
    for mutation, status in ((put("ada", 3), "gap"), (put("bob", 2), "unknown-client")):
        assert statuses(path.backlog.push(path.document, Push("g", [mutation])).outcomes) == [status]
        assert path.push(mutation).queued
    path.backlog = QueuedPushes(path.store)
    assert path.backlog.push(path.document, Push("g", [put("ada", 2), put("bob", 2)])).queued


def test_without_an_origin_a_later_push_is_queued_behind_a_waiting_push_of_its_client() -> None:
    path = QueuePath()
    for id in (1, 2, 3):
        assert path.backlog.push(path.document, Push("g", [put("ada", id)])).queued
    path.work()
    assert path.document.last_mutation("ada") == 3


def test_an_invalid_push_is_refused_and_not_queued() -> None:
    path = QueuePath()
    with pytest.raises(Invalid):
        path.push(put("ada", 0))
    assert path.waiting() == []


def test_a_queued_push_of_another_principal_s_group_has_no_effect() -> None:
    path = QueuePath()
    path.push(put("ada", 1), owner="u-ada")
    path.push(put("mallory", 1, "k", "mine"), owner="u-mallory")
    path.work()
    assert path.document.get("k") == 1
    assert path.document.last_mutation("mallory") == 0


def test_a_mutation_behind_a_gap_is_dropped_and_a_later_push_applies_the_mutation() -> None:
    path = QueuePath()
    path.push(put("ada", 2, "b"), put("bob", 1, "c"))
    path.work()
    assert path.worker.counts["unknown-client"] == 1
    assert path.document.get("c") == 1
    assert path.waiting() == []
    path.push(put("ada", 1, "a"), put("ada", 2, "b"))
    path.work()
    assert path.document.last_mutation("ada") == 2


def test_a_push_that_repeats_mutations_that_the_queue_lost_is_queued_and_applied() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    for message in path.waiting():
        path.store.queue.acknowledge(message)
    assert path.push(put("ada", 1), put("ada", 2)).queued
    path.work()
    assert path.document.last_mutation("ada") == 2


def test_a_message_for_a_deleted_document_is_settled_and_counts_for_another_incarnation() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    delete_log(path.document.log)
    path.work_through(1)
    heir = path.store.create("acme", "plan")
    assert (heir.version, path.worker.counts["of another incarnation"]) == (0, 1)


def test_a_message_for_an_older_incarnation_is_dropped() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    delete_log(path.document.log)
    heir = path.store.create("acme", "plan")
    path.work()
    assert (heir.version, path.waiting()) == (0, [])


def test_a_push_too_large_for_a_message_is_stored_in_blobs_that_are_removed_later() -> None:
    path = QueuePath()
    path.push(*[put("ada", id, f"k{id}", path.clock.random_bytes(3 * 2**20)) for id in range(1, 5)])
    assert len(list(path.store.environment.blobs.list("acme/queue/plan@"))) == 3
    path.work()
    assert path.document.last_mutation("ada") == 4
    assert list(path.store.environment.blobs.list("acme/queue/")) == []


def test_a_message_never_exceeds_the_size_limit_of_a_queue() -> None:
    path, sizes = QueuePath(), []
    for size in range(MESSAGE_BYTES_MAX - 2048, MESSAGE_BYTES_MAX + 2048, 512):
        path.push(put("ada", 1, "k", path.clock.random_bytes(size)))
        (message,) = path.waiting()
        path.store.queue.acknowledge(message)
        sizes.append(len(message.body))
    assert MESSAGE_BYTES_MAX - 512 < max(sizes) <= MESSAGE_BYTES_MAX
    assert min(sizes) < 1024


def test_a_large_push_that_waits_for_a_year_is_applied_after_a_collection() -> None:
    path = QueuePath()
    path.backlog = QueuedPushes(path.store, message_bytes_max=2_000)
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 4_000)))  # does not compress to the size of a message
    path.push(put("ada", 1, "items/k", text))
    path.clock.sleep(365 * 86_400)
    (large,) = path.store.environment.blobs.list("acme/queue/")
    assert collect(path.store.environment, "acme", queue=lambda: path.store.queue).garbage == ()
    path.work()
    assert path.document.get("items/k") == text
    assert path.store.environment.blobs.stat(large.key) is None


def test_a_message_whose_claim_check_was_removed_before_its_acknowledgement_is_settled() -> None:
    path = QueuePath()
    path.push(put("ada", 1, "k", path.clock.random_bytes(2**21)))
    acknowledge = path.store.queue.acknowledge
    path.store.queue.acknowledge = lambda message: raises(Unavailable("simulated"))  # type: ignore[method-assign]
    path.worker.step()
    path.worker.step()
    path.store.queue.acknowledge = acknowledge  # type: ignore[method-assign]
    path.new_worker()
    path.work_through(60)
    assert (path.document.version, path.waiting()) == (1, [])


def test_too_many_pushes_of_one_document_are_refused_until_some_are_applied() -> None:
    path = QueuePath()
    path.backlog = QueuedPushes(path.store, pushes_max=3)
    other = path.store.create("acme", "other")
    for id in (1, 2, 3):
        path.push(put("ada", id))
    with pytest.raises(QueueFull) as refused:
        path.push(put("ada", 4))
    assert refused.value.details["limit"] == 3
    assert path.push(put("ada", 1), document=other).queued
    path.work()
    assert path.push(put("ada", 4)).queued


def test_a_single_principal_fills_no_more_than_half_of_a_document_s_queue() -> None:
    path = QueuePath()
    path.backlog = QueuedPushes(path.store, pushes_max=6)
    for id in (1, 2, 3):
        path.push(put("ada", id), owner="ada")
    with pytest.raises(QueueFull, match="of the principal") as refused:
        path.push(put("ada", 4), owner="ada")
    assert (refused.value.details["limit"], refused.value.details["scope"]) == (3, "principal")
    for id in (1, 2, 3):
        assert path.push(put("bob", id), group="bobs", owner="bob").queued
    with pytest.raises(QueueFull, match="of the document"):
        path.push(put("cyd", 1), group="cyds", owner="cyd")
    path.work()
    assert path.push(put("ada", 4), owner="ada").queued


def test_dropped_pushes_do_not_fill_the_queue_for_ever() -> None:
    path = QueuePath()
    path.backlog = QueuedPushes(path.store, pushes_max=2)
    path.push(put("bob", 7))
    path.push(put("ada", 1))
    path.work()
    assert path.push(put("ada", 2)).queued
    path.work()
    path.push(put("bob", 7))
    path.push(put("carl", 7))
    path.work()
    with pytest.raises(QueueFull):
        path.push(put("bob", 7))
    path.clock.sleep(1000)
    assert path.push(put("bob", 7)).queued


def raises(error: Exception) -> Any:
    raise error


def test_a_commit_with_an_unknown_outcome_is_retried_and_does_not_count_as_a_failure() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    (message,) = path.waiting()
    path.store.queue.release(message)
    commit = path.store.environment.index.commit
    left = [150]

    def failing(writes: Any, *blobs: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise OutcomeUnknown("simulated")
        commit(writes, *blobs)

    path.store.environment.index.commit = failing  # type: ignore[method-assign]
    path.work_through(300)
    assert path.document.get("k") == 1
    assert path.worker.counts["port errors"] > 0
    assert list(path.store.queue.dead_letters()) == []


def test_no_message_is_lost_if_every_commit_fails_for_an_hour() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    commit = path.store.environment.index.commit
    path.store.environment.index.commit = lambda *_: raises(Unavailable("simulated"))  # type: ignore[method-assign]
    path.work_through(3600)
    path.store.environment.index.commit = commit  # type: ignore[method-assign]
    path.work_through(60)
    assert path.document.get("k") == 1
    assert list(path.store.queue.dead_letters()) == []


def test_a_worker_polls_an_unavailable_queue_again() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.store.queue.receive = lambda *arguments, **options: raises(Unavailable("simulated"))  # type: ignore[method-assign]
    path.work_through(10)
    del path.store.queue.receive
    path.work()
    assert (path.document.version, path.worker.counts["port errors"] > 0) == (1, True)


def test_a_worker_at_its_limit_of_messages_receives_no_more_messages() -> None:
    path = QueuePath()
    others = [path.store.create("acme", f"other-{number}") for number in range(3)]
    worker = Worker(path.store, WorkerSettings(messages_max=2))
    for document in others:
        path.push(put("ada", 1), document=document)
        document.apply = lambda *arguments, **options: raises(Unavailable("simulated"))  # type: ignore[method-assign]
    for _ in range(50):
        worker.step()
    assert len(path.waiting()) == 1


def test_a_port_error_does_not_count_against_a_mutation_suspected_of_ending_the_process() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    for _ in range(SUSPECT_RECEIVES - 1):
        path.waiting()
        path.clock.sleep(31)
    apply, left = path.document.apply, [10]

    def failing(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        return raises(OutcomeUnknown("simulated")) if left[0] > 0 else apply(*arguments, **options)

    path.document.apply = failing  # type: ignore[method-assign]
    path.work_through(600)
    assert [mutation.reason for mutation in committed(path)] == [None]


def test_a_document_deleted_amid_a_message_is_no_failure() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    apply = path.document.apply

    def deleted(*arguments: Any, **options: Any) -> Any:
        delete_log(path.document.log)
        return apply(*arguments, **options)

    path.document.apply = deleted  # type: ignore[method-assign]
    path.work()
    assert (path.failures, path.waiting()) == ([], [])


def test_a_message_with_a_damaged_claim_check_becomes_a_dead_letter() -> None:
    path = QueuePath()
    path.push(put("ada", 1, "k", path.clock.random_bytes(2**21)))
    path.store.environment.blobs.get = lambda key: raises(Corrupt("a hash differs"))  # type: ignore[method-assign]
    path.work_through(2000)
    (letter,) = list_letters(path.store)
    assert letter.reason == "Corrupt: a hash differs"


def test_an_unreadable_message_becomes_a_dead_letter_and_stops_no_other_message() -> None:
    path = QueuePath()
    path.store.queue.send("acme/plan", [b"\x02of a newer format"])
    path.push(put("ada", 1))
    path.work_through(2000)
    (letter,) = list_letters(path.store)
    assert (letter.document, letter.reason.split(":")[0]) == ("", "Unsupported")
    assert path.document.version == 1


def test_a_failed_background_acknowledgement_is_repeated_after_redelivery() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    acknowledge, left = path.store.queue.acknowledge, [1]

    def failing(message: Message) -> bool:
        left[0] -= 1
        return raises(OutcomeUnknown("simulated")) if left[0] >= 0 else acknowledge(message)

    path.store.queue.acknowledge = failing  # type: ignore[method-assign]
    worker = Worker(path.store, executor=AtOnce())
    worker.run(drain=True)
    path.clock.sleep(31)
    worker.run(drain=True)
    assert (worker.counts["applied"], worker.counts["seen"], worker.counts["port errors"]) == (1, 1, 1)
    assert path.waiting() == []


def test_an_unexpected_error_of_a_background_acknowledgement_is_reported() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.store.queue.acknowledge = lambda message: raises(Corrupt("simulated"))  # type: ignore[method-assign]
    reported: list[str] = []
    worker = Worker(path.store, report_failure=lambda message, reason: reported.append(reason), executor=AtOnce())
    worker.run(drain=True)
    assert [reason.split(":")[0] for reason in reported] == ["Corrupt"]
    assert (worker.counts["applied"], worker.counts["failures"]) == (1, 1)


def test_a_stopped_worker_ends_although_messages_wait() -> None:
    path = QueuePath()
    path.push(put("ada", 1))

    def last(draft: Draft, args: Any) -> None:
        path.worker.stop()

    path.store.rules.mutators["last"] = last  # type: ignore[index]
    path.push(named("ada", 2, "last"))
    path.push(put("bob", 1), group="h")
    path.worker.run()
    assert (path.document.last_mutation("ada"), path.document.last_mutation("bob")) == (2, 0)


def test_unreachable_documents_do_not_stop_a_reachable_document() -> None:
    path = QueuePath()
    lost = [path.store.create("acme", f"lost-{number}") for number in range(40)]
    for document in lost:
        path.push(put("ada", 1), document=document)
        document.apply = lambda *arguments, **options: path.out_of_reach()  # type: ignore[method-assign]
    for _ in range(200):
        path.worker.step()
    path.push(put("ada", 1))
    for _ in range(4):
        path.worker.step()
    assert path.document.version == 1
    for document in lost:
        del document.apply
    path.work_through(60)
    assert [document.version for document in lost] == [1] * len(lost)


def test_new_messages_do_not_starve_the_retry_of_a_document() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.document.apply = lambda *arguments, **options: raises(Unavailable("simulated"))  # type: ignore[method-assign]
    path.worker.step()
    path.worker.step()
    del path.document.apply
    path.clock.sleep(1)  # shorter than the visibility timeout: the queue does not deliver the message again
    for number in range(60):
        path.push(put("ada", 1), document=path.store.create("acme", f"other-{number}"))
    for _ in range(30):
        path.worker.step()
    assert path.document.version == 1


def test_a_broken_document_blocks_no_other_and_its_message_becomes_a_dead_letter() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    other = path.store.create("acme", "other")
    path.push(put("ada", 1), document=other)
    path.damage()
    path.work_through(1)
    assert other.version == 1
    path.work_through(2000)
    (letter,) = list_letters(path.store)
    assert (letter.document, letter.receives) == ("plan", 10)
    assert letter.reason.startswith("Corrupt: ")


def test_messages_behind_a_failed_message_wait_for_its_retry() -> None:
    path = QueuePath()
    for id in range(1, 6):
        path.push(put("ada", id))
    apply = path.document.apply
    path.worker.step()
    path.worker.step()
    path.document.apply = lambda *arguments, **options: raises(RuntimeError("a fault"))  # type: ignore[method-assign]
    path.work_through(5)
    path.document.apply = apply  # type: ignore[method-assign]
    path.work_through(60)
    assert path.document.last_mutation("ada") == 5
    assert path.worker.counts["gap"] == 0


def test_a_mutation_that_ends_the_process_is_rejected_and_later_mutations_are_applied() -> None:
    path = QueuePath(kill=kill)
    path.push(put("ada", 1, "a"), named("ada", 2, "kill"), put("ada", 3, "b"))
    path.push(put("ada", 4, "c"))
    assert path.work_through(1000) >= 3
    assert path.document.last_mutation("ada") == 4
    assert dict(path.document.scan()) == {"a": 1, "b": 1, "c": 1}
    reasons = {mutation.id: mutation.reason for mutation in committed(path)}
    assert [id for id, reason in reasons.items() if reason] == [2]
    assert "rejected after the last attempt" in (reasons[2] or "")
    assert list(path.store.queue.dead_letters()) == []


def test_a_gap_in_a_message_does_not_hide_a_mutation_that_ends_the_process() -> None:
    path = QueuePath(kill=kill)
    path.push(put("bob", 7), named("ada", 1, "kill"))
    path.work_through(1000)
    assert path.document.last_mutation("ada") == 1
    assert list(path.store.queue.dead_letters()) == []


def test_a_message_whose_claim_check_another_worker_removes_is_settled() -> None:
    path = QueuePath()
    path.push(put("ada", 1, "k", path.clock.random_bytes(2**21)))
    blobs = path.store.environment.blobs
    get = blobs.get

    def removed(key: str) -> bytes:
        for stat in blobs.list("acme/queue/"):
            blobs.delete(stat.key, stat.stamp)
        return get(key)

    blobs.get = removed  # type: ignore[method-assign]
    path.work()
    assert (path.waiting(), path.failures) == ([], [])


def test_several_mutations_of_a_message_that_end_the_process_are_all_rejected() -> None:
    path = QueuePath(kill=kill)
    path.push(*[named("ada", id, "kill") for id in range(1, 4)])
    path.work_through(2000)
    assert path.document.last_mutation("ada") == 3
    assert list(path.store.queue.dead_letters()) == []


def test_a_mutation_that_ends_the_process_does_not_delay_other_documents() -> None:
    path = QueuePath(kill=kill)
    path.push(named("ada", 1, "kill"))
    others = [path.store.create("acme", f"other-{number}") for number in range(5)]
    for other in others:
        path.push(put("ada", 1), document=other)
    path.work_through(5)
    assert [other.version for other in others] == [1] * 5
    path.work_through(1000)
    assert path.document.last_mutation("ada") == 1


def test_a_mutation_whose_execution_always_raises_is_rejected_with_the_exception() -> None:
    path = QueuePath()
    path.push(put("ada", 1, "fine"), put("ada", 2, "cursed"), put("ada", 3, "after"))
    apply = path.document.apply

    def cursed(mutations: list[Mutation], **options: Any) -> Any:
        if any(mutation.args["key"] == "cursed" for mutation in mutations):
            raise RuntimeError("a fault")
        return apply(mutations, **options)

    path.document.apply = cursed  # type: ignore[method-assign]
    path.work_through(2000)
    assert path.document.last_mutation("ada") == 3
    reasons = [mutation.reason for mutation in committed(path)]
    assert "RuntimeError: a fault" in (reasons[1] or "")
    assert (reasons[0], reasons[2]) == (None, None)


def test_two_workers_with_the_same_message_apply_the_message_once() -> None:
    path = QueuePath()
    path.push(put("ada", 1), Mutation(client="ada", id=2, name="inc", args={"key": "n"}))
    first, second = path.worker, Worker(path.store)
    assert first.step()
    path.clock.sleep(31)
    assert second.step()
    assert second.step()
    assert first.step()
    assert path.document.get("n") == 1


@pytest.mark.parametrize("backend", [MemoryQueue, SqliteDatabase])
def test_a_worker_s_limit_of_receives_equals_the_limit_of_its_queue(backend: type[Any]) -> None:
    parameters = inspect.signature(backend).parameters
    assert parameters["receives_max"].default == QUEUE_RECEIVES_MAX == WorkerSettings().receives_max
    assert SUSPECT_RECEIVES + MUTATION_TRIES_MAX < QUEUE_RECEIVES_MAX


def test_a_worker_s_heartbeat_extends_the_visibility_timeout_of_its_message() -> None:
    path = QueuePath()
    path.push(put("ada", 1))
    path.worker.step()
    for _ in range(20):
        path.clock.sleep(11)
        path.worker.heartbeat()
    assert path.waiting() == []
    path.worker.step()
    assert path.document.version == 1


def test_a_heartbeat_hides_no_message_that_the_worker_released_meanwhile() -> None:
    path = QueuePath()
    path.damage()
    path.push(put("ada", 1))
    path.worker.step()
    (hand,) = path.worker._hands.values()

    class FailsMeanwhile(Observation):
        def age_seconds(self) -> float:
            hand.seen = Observation(path.clock)
            path.worker._work(hand)
            return path.worker._settings.visibility_seconds

    hand.seen = FailsMeanwhile(path.clock)
    path.worker.heartbeat()
    assert len(path.failures) == 1
    path.clock.sleep(2)
    assert len(path.waiting()) == 1


def test_a_stopped_worker_releases_its_unfinished_messages() -> None:
    path = QueuePath()
    for id in range(1, 6):
        path.push(put("ada", id))
    for _ in range(3):
        path.worker.step()
    path.worker.stop()
    path.worker.run()
    assert [read_message(message.body).document for message in path.waiting()] == ["plan"] * 4


def test_a_mutator_sees_the_writes_of_the_previous_message() -> None:
    def copy(draft: Draft, args: Any) -> None:
        draft.put("copy", draft.get("k"))

    path = QueuePath(copy=copy)
    path.push(put("ada", 1))
    path.push(named("ada", 2, "copy"))
    path.work()
    assert path.document.get("copy") == 1


def test_a_worker_without_a_mutator_leaves_the_push_to_a_worker_with_the_mutator() -> None:
    def add(draft: Draft, args: Any) -> None:
        draft.put("added", args)

    path = QueuePath(add=add)
    rules = path.document.rules
    sender = Document(path.document.log, rules)
    for id in (1, 2):
        mutation = Mutation(client="ada", id=id, name="add", args=id)
        assert path.backlog.push(sender, Push("g", [mutation], sender.origin)).queued
    path.document.rules = Rules()
    for _ in range(SUSPECT_RECEIVES + 1):
        path.work()
        path.clock.sleep(400)
    assert committed(path) == []
    assert len(path.failures) > SUSPECT_RECEIVES
    assert all("Unsupported: this process lacks a mutator of the push" in reason for reason in path.failures)
    path.document.rules = rules
    path.new_worker()
    path.work()
    assert [mutation.reason for mutation in committed(path)] == [None, None]
    assert path.document.get("added") == 2


def test_a_mutation_that_neither_the_server_nor_the_worker_knows_is_rejected() -> None:
    path = QueuePath()
    path.push(named("ada", 1, "nonsense"), put("ada", 2))
    path.work()
    assert [mutation.reason for mutation in committed(path)] == ["no such mutator: nonsense", None]
