"""The contract suite of a queue: tests of the port's contract. Use it like `IndexContract`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from stratalog.clock import Clock
from stratalog.errors import Closed, Invalid, LimitExceeded, StratalogError
from stratalog.limits import MESSAGE_BYTES_MAX, RECEIVE_MESSAGES_MAX, VISIBILITY_SECONDS_MAX
from stratalog.ports.queue import Message, Queue
from stratalog.testing.clock import ManualClock

__all__ = ["QueueContract"]


class QueueContract(ABC):
    """Tests of a queue. A subclass implements ``make``."""

    @abstractmethod
    def make(self, clock: Clock, receives_max: int) -> Queue:
        """Return a new, empty queue that delivers a message at most ``receives_max`` times.

        The queue must measure visibility timeouts by ``clock``. Every test calls `make` once.
        """

    def test_an_empty_queue_delivers_no_message(self) -> None:
        queue, _ = self._queue()
        assert queue.receive() == []

    def test_a_message_is_delivered_as_it_was_sent(self) -> None:
        queue, _ = self._queue()
        queue.send("group é/1", [b"\x00body\xff"])
        (message,) = queue.receive()
        assert (message.group, message.body, message.receives) == ("group é/1", b"\x00body\xff", 1)

    def test_the_messages_of_a_group_are_delivered_in_the_order_of_sending(self) -> None:
        queue, _ = self._queue()
        queue.send("g", [b"1", b"2"])
        queue.send("g", [b"3"])
        assert _bodies(queue.receive(2)) == [b"1", b"2"]

    def test_no_other_message_of_a_group_in_flight_is_delivered(self) -> None:
        queue, _ = self._queue()
        queue.send("g", [b"1", b"2", b"3"])
        first, second = queue.receive(2)
        assert queue.receive() == []
        assert queue.acknowledge(first)
        assert queue.receive() == []
        assert queue.acknowledge(second)
        assert _bodies(queue.receive()) == [b"3"]

    def test_a_message_sent_to_a_group_in_flight_waits(self) -> None:
        queue, _ = self._queue()
        queue.send("g", [b"1"])
        queue.receive()
        queue.send("g", [b"2"])
        assert queue.receive() == []

    def test_groups_do_not_wait_for_each_other(self) -> None:
        queue, _ = self._queue()
        queue.send("g", [b"1"])
        queue.send("h", [b"2"])
        assert _bodies(queue.receive(1)) == [b"1"]
        assert _bodies(queue.receive(1)) == [b"2"]

    def test_one_receive_keeps_the_order_of_every_group(self) -> None:
        queue, _ = self._queue()
        for n in range(4):
            queue.send("even" if n % 2 == 0 else "odd", [b"%d" % n])
        given = queue.receive()
        assert [message.body for message in given if message.group == "even"] == [b"0", b"2"]
        assert [message.body for message in given if message.group == "odd"] == [b"1", b"3"]

    def test_a_message_is_delivered_again_after_its_visibility_timeout(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (first,) = queue.receive(visibility_seconds=30)
        clock.sleep(29.9)
        assert queue.receive() == []
        clock.sleep(0.1)
        (again,) = queue.receive()
        assert (again.id, again.body, again.receives) == (first.id, b"1", 2)
        assert again.receipt != first.receipt

    def test_an_acknowledged_message_is_never_delivered_again(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (message,) = queue.receive()
        assert queue.acknowledge(message)
        clock.sleep(3600)
        assert queue.receive() == []
        assert not queue.acknowledge(message)

    def test_a_receipt_is_stale_after_the_visibility_timeout(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (message,) = queue.receive(visibility_seconds=30)
        clock.sleep(30)
        assert not queue.acknowledge(message)
        assert not queue.release(message, after_seconds=60)
        assert _bodies(queue.receive()) == [b"1"]

    def test_a_receipt_is_stale_once_the_message_was_delivered_again(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (first,) = queue.receive(visibility_seconds=30)
        clock.sleep(30)
        (second,) = queue.receive(visibility_seconds=30)
        assert not queue.acknowledge(first)
        assert not queue.release(first)
        assert queue.acknowledge(second)

    def test_a_released_message_is_delivered_again_first(self) -> None:
        queue, _ = self._queue()
        queue.send("g", [b"1", b"2"])
        (message,) = queue.receive(1)
        assert queue.release(message)
        assert not queue.acknowledge(message)
        assert _bodies(queue.receive(1)) == [b"1"]

    def test_a_release_may_hide_the_message_for_longer(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (message,) = queue.receive(visibility_seconds=30)
        assert queue.release(message, after_seconds=100)
        clock.sleep(99)
        assert queue.receive() == []
        clock.sleep(1)
        assert _bodies(queue.receive()) == [b"1"]

    def test_a_release_for_longer_than_the_limit_hides_the_message_until_the_limit(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (message,) = queue.receive(visibility_seconds=30)
        assert queue.release(message, after_seconds=100 * VISIBILITY_SECONDS_MAX)
        clock.sleep(VISIBILITY_SECONDS_MAX - 60)
        assert queue.receive() == []
        clock.sleep(60)
        assert _bodies(queue.receive()) == [b"1"]

    def test_an_extended_message_can_still_be_acknowledged(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (message,) = queue.receive(visibility_seconds=30)
        queue.release(message, after_seconds=100)
        clock.sleep(60)
        assert queue.acknowledge(message)

    def test_a_message_delivered_too_often_becomes_a_dead_letter(self) -> None:
        queue, clock = self._queue(receives_max=2)
        queue.send("g", [b"poison", b"next"])
        for receives in (1, 2):
            (message,) = queue.receive(1, visibility_seconds=30)
            assert (message.body, message.receives) == (b"poison", receives)
            clock.sleep(30)
        assert list(queue.dead_letters()) == []
        assert _bodies(queue.receive(1)) == [b"next"]
        (letter,) = queue.dead_letters()
        assert (letter.id, letter.group, letter.body, letter.receives) == (message.id, "g", b"poison", 2)
        assert letter.dead_ms == clock.wall_ms()

    def test_dead_letters_are_listed_oldest_first_after_an_id(self) -> None:
        queue, clock = self._queue(receives_max=1)
        for n in range(25):
            queue.send(f"g{n % 3}", [b"%d" % n])
        for _ in range(40):
            queue.receive(visibility_seconds=1)
            clock.sleep(1)
        letters = list(queue.dead_letters())
        assert [letter.body for letter in letters] == [b"%d" % n for n in range(25)]
        assert list(queue.dead_letters(after=letters[11].id)) == letters[12:]
        assert list(queue.dead_letters(after=letters[-1].id)) == []

    def test_dead_letters_are_listed_after_any_text_in_the_order_of_texts(self) -> None:
        queue, clock = self._queue(receives_max=1)
        queue.send("g", [b"1", b"2"])
        queue.receive(visibility_seconds=1)
        clock.sleep(1)
        assert queue.receive() == []
        first, second = (letter.id for letter in queue.dead_letters())
        texts = [first[:-1], f"{first}!", f"{second}/", "", "7", "x", "-1", " ", "\u0663", "9" * 40, "0" * 40, "a/b"]
        for after in texts:
            assert [letter.id for letter in queue.dead_letters(after=after)] == [
                id for id in (first, second) if id > after
            ]

    def test_a_send_over_a_bound_sends_nothing(self) -> None:
        queue, _ = self._queue()
        refused: list[tuple[type[Exception], str, list[bytes]]] = [
            (Invalid, "", [b"1"]),
            (Invalid, "g", []),
            (LimitExceeded, "g", [b"1"] * (RECEIVE_MESSAGES_MAX + 1)),
            (LimitExceeded, "g", [b"1", bytes(MESSAGE_BYTES_MAX)]),
        ]
        for kind, group, bodies in refused:
            assert isinstance(_raised(partial(queue.send, group, bodies)), kind)
        assert queue.receive() == []

    def test_a_receive_over_a_bound_is_refused(self) -> None:
        queue, _ = self._queue()
        for limit in (0, RECEIVE_MESSAGES_MAX + 1):
            assert isinstance(_raised(partial(queue.receive, limit)), LimitExceeded)
        for seconds in (0, VISIBILITY_SECONDS_MAX + 1):
            assert isinstance(_raised(partial(queue.receive, visibility_seconds=seconds)), LimitExceeded)

    def test_no_message_and_no_dead_letter_is_older_than_the_oldest_time(self) -> None:
        queue, clock = self._queue(receives_max=1)
        sent_ms = clock.wall_ms()
        queue.send("g", [b"1"])
        clock.sleep(3600)
        assert queue.oldest_ms() <= sent_ms
        (message,) = queue.receive()
        assert queue.oldest_ms() <= sent_ms
        clock.sleep(60)
        assert queue.receive() == []
        assert [letter.id for letter in queue.dead_letters()] == [message.id]
        assert queue.oldest_ms() <= sent_ms

    def test_the_oldest_time_of_an_empty_queue_advances_with_the_clock(self) -> None:
        queue, clock = self._queue()
        queue.send("g", [b"1"])
        (message,) = queue.receive()
        assert queue.acknowledge(message)
        before_ms = queue.oldest_ms()
        clock.sleep(3600)
        assert before_ms < queue.oldest_ms() <= clock.wall_ms()

    def test_threads_share_the_work_and_keep_every_group_in_order(self) -> None:
        queue, _ = self._queue()
        for n in range(60):
            queue.send(f"g{n % 6}", [b"%d" % n])
        done: list[Message] = []
        with ThreadPoolExecutor(6) as threads:
            working = [threads.submit(_work, queue, done) for _ in range(6)]
        for worker in working:
            worker.result()  # raises the error of the thread
        _work(queue, done)
        assert sorted(int(message.body) for message in done) == list(range(60))
        for group in {message.group for message in done}:
            numbers = [int(message.body) for message in done if message.group == group]
            assert numbers == sorted(numbers)

    def test_calls_after_closing_raise_closed(self) -> None:
        queue, _ = self._queue()
        queue.send("g", [b"1"])
        (message,) = queue.receive()
        queue.close()
        queue.close()
        calls: list[Callable[[], object]] = [
            lambda: queue.send("g", [b"1"]),
            queue.receive,
            lambda: queue.acknowledge(message),
            lambda: queue.release(message),
            lambda: list(queue.dead_letters()),
            queue.oldest_ms,
        ]
        for call in calls:
            assert isinstance(_raised(call), Closed)

    def _queue(self, receives_max: int = 10) -> tuple[Queue, ManualClock]:
        clock = ManualClock()
        return self.make(clock, receives_max), clock


def _work(queue: Queue, done: list[Message]) -> None:
    while given := queue.receive(2):
        for message in given:
            done.append(message)
            assert queue.acknowledge(message)


def _bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


def _raised(call: Callable[[], object]) -> StratalogError | None:
    try:
        call()
    except StratalogError as exc:
        return exc
    return None
