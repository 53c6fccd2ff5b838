"""The contract suites fail for a faulty backend without the help of a test runner."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.errors import LimitExceeded, Unavailable
from stratalog.ports.index import NO_BLOBS, Write
from stratalog.testing.blobs_contract import BlobsContract
from stratalog.testing.commit_contract import CommitContract
from stratalog.testing.queue_contract import QueueContract


def is_in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class FaultyBlobs(MemoryBlobs):
    """In other threads than the main thread, each put stores the blob and then fails, and each delete only fails."""

    def put(self, *arguments: Any, **options: Any) -> None:
        super().put(*arguments, **options)
        if not is_in_main_thread():
            raise Unavailable("simulated")

    def delete(self, *arguments: Any, **options: Any) -> bool:
        if not is_in_main_thread():
            raise Unavailable("simulated")
        return super().delete(*arguments, **options)


class FaultyQueue(MemoryQueue):
    """Receives one message at a time. In other threads than the main thread, `acknowledge` works but returns False."""

    def receive(self, *_: Any, **options: Any) -> Any:
        return super().receive(1, **options)

    def acknowledge(self, *arguments: Any, **options: Any) -> bool:
        return super().acknowledge(*arguments, **options) and is_in_main_thread()


class FaultyIndex(MemoryIndex):
    """Refuses blobs with the wrong error."""

    def commit(self, writes: Sequence[Write], blobs: Mapping[str, bytes] = NO_BLOBS) -> None:
        if blobs:
            raise LimitExceeded("simulated")
        super().commit(writes, blobs)


@pytest.mark.parametrize(
    "test",
    [
        BlobsContract.test_of_a_put_and_a_delete_at_once_no_put_is_lost,
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
