"""Creation of the queues on SQS, and their URLs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stratalog.backends.boto import RequestRefused, once
from stratalog.backends.service_request import Retryable, wait_until_ready
from stratalog.clock import Clock
from stratalog.errors import Unavailable

__all__ = ["RETENTION_SECONDS", "create_queues", "find_queues", "prepare_queues"]

RETENTION_SECONDS = 14 * 24 * 3600
FIRST_USE_SECONDS = 1.0
"""A new queue can be used one second after its creation: see CreateQueue in the API reference of SQS."""
DELETED_RECENTLY = "QueueDeletedRecently"
MISSING = frozenset({"NonExistentQueue", "QueueDoesNotExist"})


def find_queues(client: Any, name: str) -> tuple[str, str]:
    """Return the URLs of the FIFO queue ``name`` and its dead-letter queue.

    Raises Unavailable. If a queue is missing, the error names this queue.
    """
    urls = []
    for full_name in _names(name):
        url = _url(client, full_name)
        if not url:
            raise Unavailable("the queue does not exist; `stratalog init` creates it", queue=full_name)
        urls.append(url)
    return urls[0], urls[1]


def prepare_queues(client: Any, name: str, clock: Clock) -> list[str]:
    """Create the queues that are missing, wait until they can be used, and return their full names.

    After Unavailable or OutcomeUnknown, call `prepare_queues` again.
    """
    missing = _missing(client, name)
    if missing:
        wait_until_ready(clock, partial(_are_created, client, name), "queue", name)
        clock.sleep(FIRST_USE_SECONDS)
        wait_until_ready(clock, lambda: not _missing(client, name), "queue", name)
    return missing


def create_queues(client: Any, name: str) -> tuple[str, str]:
    """Create the FIFO queue ``name`` and its dead-letter queue if they are missing, and return their URLs.

    After Unavailable or OutcomeUnknown, call `create_queues` again.
    """
    attributes = {
        "FifoQueue": "true",
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        "MessageRetentionPeriod": str(RETENTION_SECONDS),
    }
    queue, dead = (
        _queue_url(partial(client.create_queue, QueueName=full_name, Attributes=attributes), writes=True)
        for full_name in _names(name)
    )
    return queue, dead


def _are_created(client: Any, name: str) -> bool:
    """Create the queues. Return False while SQS blocks the name of a queue that was deleted in the last 60 seconds."""
    try:
        create_queues(client, name)
    except RequestRefused as exc:
        if exc.reason != DELETED_RECENTLY:
            raise
        return False
    return True


def _missing(client: Any, name: str) -> list[str]:
    return [full_name for full_name in _names(name) if not _url(client, full_name)]


def _names(name: str) -> tuple[str, str]:
    return f"{name}.fifo", f"{name}-dead.fifo"


def _url(client: Any, full_name: str) -> str:
    """Return the URL of a queue; empty if the queue does not exist."""
    try:
        return _queue_url(partial(client.get_queue_url, QueueName=full_name), writes=False)
    except RequestRefused as exc:
        if exc.reason not in MISSING:
            raise
        return ""


def _queue_url(request: Callable[[], Any], *, writes: bool) -> str:
    try:
        return str(once("SQS", request, writes=writes, field="QueueUrl")["QueueUrl"])
    except Retryable as exc:
        raise exc.error from exc
