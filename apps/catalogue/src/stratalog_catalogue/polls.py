"""Polls: each source in turn, tried again when it is out of reach, its checkpoint stored once what came is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from stratalog import NotFound, Records, Store, StratalogError, Unavailable
from stratalog.clock import Clock
from stratalog.retry import Retry, RetryPolicy
from stratalog_catalogue.feed import poll_feed
from stratalog_catalogue.folder import Checkpoint, Step, poll_folder
from stratalog_catalogue.ingest import IngestCounts, take
from stratalog_catalogue.names import CHECKPOINTS
from stratalog_catalogue.oai import poll_oai
from stratalog_catalogue.sources import Source, read_source, read_sources

__all__ = ["Connect", "Polled", "forget_checkpoint", "poll", "poll_source"]

TRIES_MAX = 4
RETRY_POLICY = RetryPolicy(wait_seconds_first=0.5, wait_seconds_max=30)
ASKED_SECONDS_MAX = 300.0
"""A server that asks for a longer wait than this is left to the next poll."""

POLLS = "polls/"

Connect = Callable[[], Any]
"""Makes the client that HTTP is spoken with."""


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a poll of a source. ``reason`` is why it broke off; what was taken before that stays."""

    source: str
    taken: IngestCounts
    reason: str = ""
    dead: bool = False
    """Whether it broke off so often by now that the source itself is a dead letter."""


def poll(
    store: Store,
    organisation: str,
    connect: Connect,
    *,
    sources: Iterable[str] = (),
    due_only: bool = False,
    progress: Callable[[int], None] = lambda count: None,
) -> Iterator[Polled]:
    """Poll these sources, or all; ``due_only`` those whose last poll is long enough ago. Answers as they come."""
    records, clock = store.records(organisation), store.environment.clock
    chosen = [read_source(records, name) for name in sources] or list(read_sources(records))
    for source in chosen:
        if not due_only or _is_due(records, source, clock.wall_ms()):
            yield poll_source(records, source, connect, clock, progress)


def poll_source(
    records: Records,
    source: Source,
    connect: Connect,
    clock: Clock,
    progress: Callable[[int], None] = lambda count: None,
) -> Polled:
    """Poll a source, again after each failure, from the checkpoint that was stored last; so often at most.

    The failure of a whole poll is counted beside the source: as often as a record's it makes a dead letter.
    """
    counts, retry = IngestCounts(), Retry(clock, RETRY_POLICY)
    for left in reversed(range(TRIES_MAX)):
        try:
            for step in _steps(source, _checkpoint(records, source), connect):
                counts.add(take(records, source, step, progress))
                _save_checkpoint(records, source, step.checkpoint, clock.wall_ms())
            _save_checkpoint(records, source, _checkpoint(records, source), clock.wall_ms())
        except (StratalogError, OSError) as exc:
            if left and isinstance(exc, Unavailable | OSError):
                clock.sleep(_retry_seconds(retry, exc))
                continue
            letter = records.fail(POLLS + source.name, str(exc)[:300] or type(exc).__name__, pointer=source.location)
            return Polled(source=source.name, taken=counts, reason=str(exc), dead=letter.dead)
        break
    if records.failure(POLLS + source.name) is not None:
        records.resolve_dead_letter(POLLS + source.name)
    return Polled(source=source.name, taken=counts)


def forget_checkpoint(records: Records, source: str) -> None:
    """Let the next poll read everything; what stands already is written no second time."""
    try:
        records.delete(CHECKPOINTS + source)
    except NotFound:
        return


def _steps(source: Source, checkpoint: Checkpoint, connect: Connect) -> Iterator[Step]:
    if source.adapter == "folder":
        return poll_folder(source, checkpoint)
    return (poll_oai if source.adapter == "oai" else poll_feed)(source, checkpoint, connect)


def _retry_seconds(retry: Retry, cause: StratalogError | OSError) -> float:
    """How long to wait: as the server asks, within bounds, else longer each time."""
    asked = cause.details.get("retry_after_seconds") if isinstance(cause, StratalogError) else None
    if asked is not None:
        return min(float(asked), ASKED_SECONDS_MAX)
    return retry.next_seconds()


def _checkpoint(records: Records, source: Source) -> Checkpoint:
    try:
        checkpoint: Checkpoint = msgspec.json.decode(records.get(CHECKPOINTS + source.name).body)
    except NotFound:
        return {}
    return checkpoint if checkpoint.get("location") == source.scope else {}


def _save_checkpoint(records: Records, source: Source, checkpoint: Checkpoint, now_ms: int) -> None:
    """Store a checkpoint, after all records before it."""
    saved = {**checkpoint, "location": source.scope, "polled_ms": now_ms}
    records.put(CHECKPOINTS + source.name, msgspec.json.encode(saved))
    records.prune(CHECKPOINTS + source.name, retain=2)


def _is_due(records: Records, source: Source, now_ms: int) -> bool:
    return now_ms - int(_checkpoint(records, source).get("polled_ms", 0)) >= source.every_seconds * 1000
