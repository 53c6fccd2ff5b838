"""Each contract suite itself fails for a faulty backend, even if only a thread of the suite meets the fault."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.errors import LimitExceeded, Unavailable
from stratalog.ports.announcements import Heard
from stratalog.ports.index import NO_BLOBS, Write
from stratalog.testing import announcements_contract
from stratalog.testing.announcements_contract import AnnouncementsContract
from stratalog.testing.blobs_contract import BlobsContract
from stratalog.testing.commit_contract import CommitContract
from stratalog.testing.queue_contract import QueueContract


def is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class FaultyBlobs(MemoryBlobs):
    """Outside the main thread, each put stores the blob and then fails, and each delete fails and deletes nothing."""

    def put(self, *arguments: Any, **options: Any) -> None:
        super().put(*arguments, **options)
        if not is_in_main_thread():
            raise Unavailable("simulated")

    def delete(self, *arguments: Any, **options: Any) -> bool:
        if not is_in_main_thread():
            raise Unavailable("simulated")
        return super().delete(*arguments, **options)


class FaultyQueue(MemoryQueue):
    """Receives one message at a time. Outside the main thread, `acknowledge` removes the message but returns False."""

    def receive(self, *_: Any, **options: Any) -> Any:
        return super().receive(1, **options)

    def acknowledge(self, *arguments: Any, **options: Any) -> bool:
        return super().acknowledge(*arguments, **options) and is_in_main_thread()


class FaultyIndex(MemoryIndex):
    """Raises LimitExceeded for every commit that has blobs, even if another error is right."""

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        if blobs:
            raise LimitExceeded("simulated")
        super().commit(writes, blobs)


class DirectAnnouncements:
    """Calls the listeners of other simulated processes directly. ``fault`` names the planted fault, if any."""

    def __init__(self, ends: list[DirectAnnouncements], fault: str) -> None:
        self._ends = ends
        self._fault = fault
        self._heard: Heard = lambda organisation, name: None
        self._listens = False
        ends.append(self)

    def announce(self, organisation: str, name: str) -> None:
        if self._fault == "raises after closing" and self not in self._ends:
            raise Unavailable("simulated")
        others = [end for end in self._ends if end is not self or self._fault == "hears itself"]
        for end in others[:1] if self._fault == "reaches one alone" else others:
            end._heard(organisation, name if self._fault != "cuts the name" else name.partition("\0")[0])

    def listen(self, heard: Heard) -> None:
        if self._fault != "keeps its first listener" or not self._listens:
            self._heard, self._listens = heard, True

    def close(self) -> None:
        if self._fault == "closes once" or (self in self._ends and self._fault != "hears when closed"):
            self._ends.remove(self)


ANNOUNCEMENTS = sorted(name for name in vars(AnnouncementsContract) if name.startswith("test_"))


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        ("", []),
        ("hears itself", ["test_a_process_does_not_hear_its_own_hints"]),
        ("reaches one alone", ["test_a_hint_reaches_all_other_processes", "test_no_hint_is_heard_after_closing"]),
        ("cuts the name", ["test_a_name_may_have_any_characters"]),
        ("keeps its first listener", ["test_a_later_listener_replaces_the_earlier_one"]),
        ("hears when closed", ["test_no_hint_is_heard_after_closing"]),
        ("closes once", ["test_closing_twice_is_harmless"]),
        ("raises after closing", ["test_announcing_after_closing_raises_nothing"]),
    ],
)
def test_each_planted_fault_of_announcements_fails_the_expected_contract_tests(
    fault: str, failing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcements_contract, "TRIES_MAX", 3)
    monkeypatch.setattr(announcements_contract, "TRY_SECONDS", 0.001)

    class Suite(AnnouncementsContract):
        def make(self, processes: int) -> Sequence[DirectAnnouncements]:
            ends: list[DirectAnnouncements] = []
            return [DirectAnnouncements(ends, fault) for _ in range(processes)]

    failed = []
    for name in ANNOUNCEMENTS:
        try:
            getattr(Suite(), name)()
        except (AssertionError, Unavailable, ValueError):
            failed.append(name)
    assert failed == failing


@pytest.mark.parametrize(
    "test",
    [
        BlobsContract.test_a_delete_at_the_same_time_loses_no_put,
        BlobsContract.test_all_deletes_of_one_generation_at_once_return_true,
        BlobsContract.test_threads_may_put_one_blob_at_once,
    ],
)
def test_an_error_of_a_thread_fails_the_suite_of_blobs(test: Any) -> None:
    class Suite(BlobsContract):
        make = staticmethod(FaultyBlobs)  # type: ignore[assignment]

    with pytest.raises(Unavailable):
        test(Suite())


def test_an_assertion_of_a_thread_fails_the_suite_of_queues() -> None:
    class Suite(QueueContract):
        make = staticmethod(FaultyQueue)  # type: ignore[assignment]

    with pytest.raises(AssertionError):
        Suite().test_threads_share_the_work_and_keep_every_group_in_order()


def test_the_wrong_error_fails_the_suite_of_commits() -> None:
    class Suite(CommitContract):
        def make(self, clock: Any) -> Any:
            blobs = MemoryBlobs(clock)
            return FaultyIndex(blobs), blobs

    class WithoutBlobs(CommitContract):
        def make(self, clock: Any) -> Any:
            return FaultyIndex(), MemoryBlobs(clock)

    WithoutBlobs().test_a_blob_under_another_hash_is_refused()
    with pytest.raises(AssertionError):
        Suite().test_a_blob_under_another_hash_is_refused()
