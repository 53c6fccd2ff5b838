"""A listing of dead letters may still run when SQS shows the received letters again. A class in memory replaces SQS."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from stratalog.backends.sqs import SqsQueue
from stratalog.testing.clock import ManualClock

REQUEST_SECONDS = 0.05


class DeadQueue:
    """A FIFO queue by SQS's rules, with one letter in each group. A receive returns the first visible letters."""

    def __init__(self, clock: ManualClock, count: int) -> None:
        self.clock = clock
        self.visible_ms = [0] * count
        self.requests = 0
        self._receipts = itertools.count()
        self._position_of: dict[str, int] = {}

    def receive_message(self, **options: Any) -> dict[str, Any]:
        self.requests += 1
        self.clock.sleep(REQUEST_SECONDS)
        now = self.clock.wall_ms()
        visible = (position for position, until in enumerate(self.visible_ms) if until <= now)
        shown = list(itertools.islice(visible, options["MaxNumberOfMessages"]))
        until = now + options["VisibilityTimeout"] * 1000
        return {"Messages": [self._show(position, until) for position in shown]}

    def change_message_visibility_batch(self, **options: Any) -> dict[str, Any]:
        for entry in options["Entries"]:
            self.visible_ms[self._position_of[entry["ReceiptHandle"]]] = self.clock.wall_ms()
        return {}

    def close(self) -> None:
        """Do nothing, since there is no connection."""

    def _show(self, position: int, visible_ms: int) -> dict[str, Any]:
        self.visible_ms[position] = visible_ms
        receipt = str(next(self._receipts))
        self._position_of[receipt] = position
        attributes = {
            "MessageDeduplicationId": f"{position:06d}",
            "MessageGroupId": f"{position}",
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "0",
        }
        return {"Body": "eA==", "ReceiptHandle": receipt, "Attributes": attributes, "MessageAttributes": {}}


@pytest.mark.parametrize("count", [0, 9, 1000, 20_000])
def test_a_listing_that_outlasts_the_visibility_timeout_lists_all_dead_letters(count: int) -> None:
    clock = ManualClock()
    service = DeadQueue(clock, count)
    letters = list(SqsQueue(service, "live", "dead", clock).dead_letters())
    assert [letter.id for letter in letters] == [f"{position:06d}" for position in range(count)]
    assert service.requests <= 4 * (count // 10 + 1) + 1
    assert all(until <= clock.wall_ms() for until in service.visible_ms)
