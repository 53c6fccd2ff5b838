"""Worker: a long-lived process that receives pushes from the queue and applies them to documents, which stay loaded.

The worker's handling of a message, by the result:

    ===================================  ========================================================
    settled (`settlement.py`)            acknowledged
    an error of a port                   kept with extended visibility and tried again: counts as no failure
    any other error, a damaged document  released for a while; delivered again up to the queue's limit
    the end of the process               delivered again when its visibility timeout ends
    ===================================  ========================================================

The queue may deliver a message to two workers. The log stays correct in this case, too.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager, suppress

from stratalog.arguments import CheckedStruct, check_class
from stratalog.clock import Clock, Observation
from stratalog.errors import Closed, StratalogError
from stratalog.limits import QUEUE_RECEIVES_MAX, RECEIVE_MESSAGES_MAX, WORKER_MESSAGES_MAX
from stratalog.ports.queue import Message
from stratalog.process_fork import close_in_child
from stratalog.retry import Retry, RetryPolicy
from stratalog.store import Store
from stratalog.worker.execution import TRANSIENT
from stratalog.worker.settlement import Settlement, Settler, again_seconds

__all__ = ["Worker", "WorkerSettings", "heartbeats"]

ReportFailure = Callable[[Message, str], None]


class WorkerSettings(CheckedStruct, frozen=True, kw_only=True):
    """Settings of a worker."""

    visibility_seconds: float = 30
    """The time for which a message is hidden from other workers. The worker's heartbeats extend this time."""

    receives_max: int = QUEUE_RECEIVES_MAX
    """The worker treats the delivery with this number as a message's last delivery. At most the queue's own limit."""

    messages_max: int = WORKER_MESSAGES_MAX
    """The maximum number of received, unsettled messages. Messages for an unreachable document count too."""

    retry_seconds_first: float = 0.1
    retry_seconds_max: float = 30
    """The limits of the random wait before the worker tries a message again whose document cannot be reached."""

    failure_seconds_max: float = 300
    """The longest wait before the next delivery of a failed message."""

    idle_seconds_first: float = 0.005
    idle_seconds_max: float = 0.05
    """The first and the longest wait of a worker that has nothing to do."""


class Worker:
    """Applies queued pushes. Pushes that wait together for one document become one entry if they can be combined.

    Several processes may work on one store. Each process runs one worker. Other threads may call ``stop`` and
    ``heartbeat``. The worker calls ``report_failure`` with each failed message and the reason. The threads of the
    ``executor`` acknowledge applied messages while the worker applies further messages. The acknowledgements and the
    applied pushes can then share a transaction of the store. Without ``executor``, the worker acknowledges applied
    messages before it applies other messages.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings | None = None,
        report_failure: ReportFailure = lambda message, reason: None,
        executor: Executor | None = None,
    ) -> None:
        self._store = store
        self._settings = WorkerSettings() if settings is None else settings
        check_class(Store, store=store)
        check_class(WorkerSettings, settings=self._settings)
        self._retry_policy = RetryPolicy(
            wait_seconds_first=self._settings.retry_seconds_first, wait_seconds_max=self._settings.retry_seconds_max
        )
        self._settler = Settler(store, self._settings.receives_max)
        self._report_failure = report_failure
        self._executor = executor
        self._finishing: list[tuple[Message, Future[None]]] = []
        self._clock: Clock = store.environment.clock
        self._hands: dict[str, _Hand] = {}
        self._lock = threading.Lock()
        close_in_child(self, "_lock")
        self._stopping = False
        self._is_news_turn = False
        # At first receive one message at a time: if that message ends the process, no other message fails with it.
        # Each success doubles the number.
        self._size = 1

    @property
    def counts(self) -> Counter[str]:
        """Counts of mutations by outcome, and of messages."""
        return self._settler.counts

    def run(self, *, drain: bool = False) -> None:
        """Work until `stop` is called; with ``drain`` until the queue delivers no message. Raises Closed."""
        idle = 0
        while not self._stopping:
            # Read the list before `step`: until a message is acknowledged, the queue may hold back the rest of its
            # group.
            finishing = self._unfinished()
            if self.step():
                idle = 0
            elif drain and not self._hands and not finishing:
                break
            elif finishing:
                # A group delivers nothing more until all its delivered messages are acknowledged.
                wait(finishing, timeout=self._settings.idle_seconds_max)
            else:
                first, maximum = self._settings.idle_seconds_first, self._settings.idle_seconds_max
                self._clock.sleep(min(maximum, first * 2 ** min(idle, 30)))
                idle += 1
        for group in list(self._hands):
            self._give_back(group, 0)
        wait(self._unfinished())
        self._unfinished()

    def stop(self) -> None:
        """Make `run` end after the current step, and release the unsettled messages."""
        self._stopping = True

    def step(self) -> bool:
        """Settle the first messages of a group, or receive messages. Return False if there is nothing to do now."""
        self.heartbeat()
        now = self._clock.boot_ms()
        due = [hand for hand in self._hands.values() if hand.due_ms <= now]
        hand = next((hand for hand in due if not hand.retry.attempts), None)
        # Alternate between retries of unreachable documents and new messages, so that neither kind waits for ever.
        self._is_news_turn = not self._is_news_turn
        if hand is None and (self._is_news_turn or not due) and self._receive():
            return True
        hand = hand or (due[0] if due else None)
        if hand is not None:
            self._work(hand)
        return hand is not None

    def heartbeat(self) -> None:
        """Extend the visibility of unsettled messages after a third of their timeout. Any thread may call this."""
        with self._lock:
            hands = list(self._hands.items())
        for group, hand in hands:
            if hand.seen.age_seconds() > self._settings.visibility_seconds / 3:
                with suppress(*TRANSIENT), self._lock:
                    # The worker may have released the group meanwhile. An extension would hide its messages again.
                    if self._hands.get(group) is hand:
                        self._extend(hand)

    def _extend(self, hand: _Hand) -> None:
        # Take the observation before the requests: the queue may start the timeouts at any time after the observation.
        seen = Observation(self._clock)
        release, seconds = self._store.queue.release, self._settings.visibility_seconds
        extended = [release(message, after_seconds=seconds) for message in list(hand.messages)]
        if extended and all(extended):
            hand.seen = seen

    def _receive(self) -> bool:
        room = self._settings.messages_max - sum(len(hand.messages) for hand in self._hands.values())
        if room < 1:
            return False
        # Take the observation before the request: the queue may start the timeouts at any time after the observation.
        seen = Observation(self._clock)
        try:
            limit = min(self._size, room)
            given = self._store.queue.receive(limit, visibility_seconds=self._settings.visibility_seconds)
        except TRANSIENT:
            self.counts["port errors"] += 1
            return False
        groups = dict.fromkeys(message.group for message in given)
        hands = {group: _Hand(seen, Retry(self._clock, self._retry_policy)) for group in groups}
        for message in given:
            hands[message.group].messages.append(message)
        with self._lock:
            self._hands.update(hands)
        return bool(given)

    def _work(self, hand: _Hand) -> None:
        """Settle the first messages of a group. If their visibility ended, drop them: another worker may have them."""
        message = hand.messages[0]
        if hand.seen.age_seconds() >= self._settings.visibility_seconds:
            self.counts["visibility ended"] += 1
            self._drop(message.group)
            return
        try:
            count = self._settle(hand.messages[:1] if hand.retry.attempts else hand.messages)
        except TRANSIENT:
            self.counts["port errors"] += 1
            hand.due_ms = self._clock.boot_ms() + round(hand.retry.next_seconds() * 1000)
        except Closed:
            raise
        except Exception as exc:  # noqa: BLE001 - one message that cannot be settled must not stop the others
            self._fail(message, exc)
        else:
            self._next(hand, count)

    def _next(self, hand: _Hand, count: int) -> None:
        with self._lock:
            group = hand.messages[0].group
            del hand.messages[:count]
            hand.retry.reset()
            if not hand.messages:
                self._hands.pop(group, None)
        self._size = min(2 * self._size, RECEIVE_MESSAGES_MAX)

    def _settle(self, messages: Sequence[Message]) -> int:
        """Apply and acknowledge the first messages; return their number. After an error, call `_settle` again."""
        settled = self._settler.settle_some(messages)
        for settlement in settled:
            self._finish(settlement)
        self.counts["messages"] += len(settled)
        return len(settled)

    def _finish(self, settled: Settlement) -> None:
        if self._executor is None:
            self._settler.finish(settled)
        else:
            self._unfinished()
            self._finishing.append((settled.message, self._executor.submit(self._settler.finish, settled)))

    def _unfinished(self) -> list[Future[None]]:
        """Return the acknowledgements in progress, and note the failures of those that have ended. Raises Closed."""
        before, self._finishing = self._finishing, []
        for message, future in before:
            if future.done():
                self._note_end(message, future)
            else:
                self._finishing.append((message, future))
        return [future for _, future in self._finishing]

    def _note_end(self, message: Message, future: Future[None]) -> None:
        """Note a failed acknowledgement. The queue delivers the message again when its visibility ends."""
        try:
            future.result()
        except TRANSIENT:
            self.counts["port errors"] += 1
        except Closed:
            raise
        except Exception as exc:  # noqa: BLE001 - one message that cannot be acknowledged must not stop the others
            self._report_failure(message, self._settler.note_failure(message, exc))

    def _fail(self, message: Message, error: Exception) -> None:
        """Store the reason. Release the message for a while, with all later messages of its group."""
        self._report_failure(message, self._settler.note_failure(message, error))
        self._size = 1
        self._give_back(message.group, again_seconds(message, self._settings.failure_seconds_max))

    def _give_back(self, group: str, after_seconds: float) -> None:
        """Release the unsettled messages of a group, the last first, so that no message overtakes another."""
        for message in reversed(self._drop(group)):
            with suppress(*TRANSIENT):
                self._store.queue.release(message, after_seconds=after_seconds)

    def _drop(self, group: str) -> list[Message]:
        with self._lock:
            return self._hands.pop(group).messages


class _Hand:
    """The unsettled messages of one group in this worker, in order, and the time of the first message's next try."""

    def __init__(self, seen: Observation, retry: Retry) -> None:
        self.messages: list[Message] = []
        self.seen = seen
        self.retry = retry
        self.due_ms = 0


@contextmanager
def heartbeats(worker: Worker, seconds: float) -> Iterator[None]:
    """Run a thread that sends the worker's heartbeats every ``seconds``, so that messages stay hidden."""
    ending = threading.Event()

    def send_heartbeats() -> None:
        while not ending.wait(seconds):
            with suppress(StratalogError):
                worker.heartbeat()

    thread = threading.Thread(target=send_heartbeats, name="stratalog-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
