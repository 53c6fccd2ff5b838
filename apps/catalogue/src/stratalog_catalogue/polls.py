"""Polls of sources, one after another, with retries while a source is unavailable.

A source's checkpoint is stored only after all records before it are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from stratalog import Corrupt, Invalid, NotFound, Records, Store, StratalogError, Unavailable, VersionConflict
from stratalog.clock import Clock, is_interval_over
from stratalog.limits import POINTER_BYTES_MAX
from stratalog.retry import Retry, RetryPolicy
from stratalog_catalogue.dry_run import preview
from stratalog_catalogue.feed import poll_feed, shown_url
from stratalog_catalogue.folder import Checkpoint, Step, is_mirror, poll_folder
from stratalog_catalogue.ingest import IngestCounts, resolve, take
from stratalog_catalogue.limits import CATALOGUE_POLL_TRIES_MAX, CATALOGUE_RETRY_AFTER_SECONDS_MAX
from stratalog_catalogue.names import CHECKPOINTS, POLLS
from stratalog_catalogue.oai import poll_oai
from stratalog_catalogue.source_rename import move_late_records, settings_version
from stratalog_catalogue.sources import Source, read_source, source_names

__all__ = [
    "Connect",
    "Polled",
    "poll",
    "poll_source",
    "preview_source",
    "read_state_again",
    "reason_of",
]

RETRY_POLICY = RetryPolicy(wait_seconds_first=0.5, wait_seconds_max=30)
WITHHELD = "a state lacks too many records, so none was deleted; if the state is correct, poll with --allow-deletions"

BACKOFF_SECONDS_FIRST: Final = 60.0
"""The time after which a source that failed once is due again.

Each further failure doubles this time, up to ``every_seconds``.
"""

RENAMED = "a rename of the source was interrupted; run it again"
MOVED = "the location or selection of the source was changed during the poll; poll it again"

Connect = Callable[[], Any]
"""A function that returns the HTTP client."""


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a source's poll. ``reason`` is the error that ended the poll.

    The records before the error are stored, except in a dry run.
    """

    source: str
    taken: IngestCounts
    reason: str = ""
    dead: bool = False
    """Whether polls failed so often that the source itself is a dead letter."""

    dry_run: bool = False
    """Whether these are the counts of a dry run, which writes nothing."""


def poll(
    store: Store,
    organisation: str,
    connect: Connect,
    *,
    sources: Iterable[str] = (),
    due_only: bool = False,
    allow_deletions: bool = False,
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda count: None,
) -> Iterator[Polled]:
    """Poll these sources, or all sources that are not paused, and yield each outcome when the source's poll ends.

    With ``due_only`` a source is polled only if its checkpoint was last stored at least ``every_seconds`` ago. A source
    whose last poll failed is due after a back-off of at most ``every_seconds`` instead, even if the failed poll stored
    a checkpoint. With ``dry_run`` the function
    ignores ``due_only``, reads the sources and writes nothing. Raises NotFound if a named source is missing, Invalid
    and Corrupt if its settings cannot be read, and Unavailable.
    """
    records, clock = store.records(organisation), store.environment.clock
    named = list(sources)
    for name in named or list(source_names(records)):
        try:
            source = read_source(records, name)
        except NotFound:
            # Another process has removed the source since the names were listed.
            if named:
                raise
            continue
        except (Invalid, Corrupt) as exc:
            if named:
                raise
            yield Polled(source=name, taken=IngestCounts(), reason=str(exc))
            continue
        if source.paused and not named:
            continue
        if source.renamed_to:
            yield Polled(source=name, taken=IngestCounts(), reason=f"{RENAMED} to={source.renamed_to}")
            continue
        if dry_run:
            yield preview_source(records, source, connect, progress, allow_deletions)
        elif not due_only or _is_due(records, source, clock):
            yield poll_source(records, source, connect, clock, progress, allow_deletions)


def poll_source(
    records: Records,
    source: Source,
    connect: Connect,
    clock: Clock,
    progress: Callable[[int], None] = lambda count: None,
    allow_deletions: bool = False,
) -> Polled:
    """Poll a source and return the outcome.

    If the source or the store is unavailable, the function tries again from the newest checkpoint. It makes at most
    `CATALOGUE_POLL_TRIES_MAX` tries from one checkpoint. Raises Unavailable if the store is unavailable when the poll
    counts its failure, or forgets earlier failures after a success.

    If a complete state lacks too many records, the poll deletes no record unless ``allow_deletions`` is True, and the
    next poll reads the state again. A failed poll counts as a failure of the source. Repeated failures make the source
    a dead letter.
    """
    counts = IngestCounts()
    tries, retry = 0, Retry(clock, RETRY_POLICY)
    settings: int | None = None
    while True:
        try:
            if settings is None:
                settings = settings_version(records, source.name)
            checkpoint, version = _checkpoint(records, source)
            # Read the settings after the checkpoint. If the source was removed, renamed or moved before this read, the
            # poll ends here. If not, the removal, the rename or the next poll of the new location changes the
            # checkpoint's version, and this poll cannot save.
            if (reason := _reason_to_end(records, source)) is not None:
                if counts.read or tries:  # a failed try may have stored records, too
                    move_late_records(records, source.name, settings)
                return Polled(source=source.name, taken=counts, reason=reason)
            newest = checkpoint
            for step in _steps(source, checkpoint, connect, clock):
                taken = take(records, source, step, progress, allow_deletions)
                counts.add(taken)
                _refuse_withheld(source, taken)
                newest = step.checkpoint
                version = _save_checkpoint(records, source, newest, clock.wall_ms(), version)
                if newest != checkpoint:
                    # Progress was stored: after a failure the poll resumes from this checkpoint, with all tries again.
                    tries, retry = 0, Retry(clock, RETRY_POLICY)
            _save_checkpoint(records, source, newest, clock.wall_ms(), version)
            break
        except VersionConflict:
            continue  # another poll has saved a checkpoint, or the checkpoint was forgotten: begin from the newest one
        except Exception as exc:  # noqa: BLE001 - an error of one poll must not stop the other polls
            tries += 1
            if tries < CATALOGUE_POLL_TRIES_MAX and isinstance(exc, Unavailable | OSError):
                clock.sleep(_retry_seconds(retry, exc))
                continue
            return _broken_off(records, source, settings, counts, exc)
    if records.failure(POLLS + source.name) is not None:
        resolve(records, POLLS + source.name)
    return Polled(source=source.name, taken=counts)


def preview_source(
    records: Records,
    source: Source,
    connect: Connect,
    progress: Callable[[int], None] = lambda count: None,
    allow_deletions: bool = False,
) -> Polled:
    """Read a source once and return the counts of a poll. The function writes no checkpoint and no failure count."""
    counts, reason = IngestCounts(), ""
    try:
        for step in _steps(source, _checkpoint(records, source)[0], connect, records.environment.clock):
            taken = preview(records, source, step, progress, allow_deletions)
            counts.add(taken)
            _refuse_withheld(source, taken)
    except Exception as exc:  # noqa: BLE001 - an error of one source must not stop the other sources
        reason = reason_of(exc)
    return Polled(source=source.name, taken=counts, reason=reason, dry_run=True)


def _broken_off(
    records: Records, source: Source, settings: int | None, counts: IngestCounts, cause: Exception
) -> Polled:
    """Count a failed poll of a source and return its outcome. Raises Unavailable if the store is unavailable.

    A failed poll of a source that was removed, renamed or moved meanwhile is no failure of the source.
    """
    ended = None
    with suppress(Corrupt, Invalid):  # settings that cannot be read name no other reason
        ended = _reason_to_end(records, source)
    if ended is not None and settings is not None:
        move_late_records(records, source.name, settings)
        return Polled(source=source.name, taken=counts, reason=ended)
    reason = reason_of(cause)
    letter = records.fail(POLLS + source.name, reason[:300], pointer=_pointer(source))
    return Polled(source=source.name, taken=counts, reason=reason, dead=letter.dead)


def _refuse_withheld(source: Source, taken: IngestCounts) -> None:
    """Raise Invalid if deletions were withheld, so that the poll ends before its checkpoint is stored."""
    if taken.withheld:
        raise Invalid(WITHHELD, missing=taken.withheld, limit=f"{source.deletions_percent_max} %")


def reason_of(cause: Exception) -> str:
    """Return an error as the reason of a failure, in UTF-8."""
    reason = str(cause) if isinstance(cause, StratalogError | OSError) else f"{type(cause).__name__}: {cause}"
    return reason.encode(errors="replace").decode() or type(cause).__name__


def read_state_again(records: Records, source: Source) -> bool:
    """Make the next poll read the newest complete state of a source, even if the state has not changed.

    Return False if the checkpoint is damaged. The next poll then fails.
    """
    while True:
        try:
            checkpoint, version = _checkpoint(records, source)
            _save_checkpoint(records, source, {**checkpoint, "again": True}, 0, version)
            return True
        except VersionConflict:
            continue
        except Corrupt:
            return False


def _pointer(source: Source) -> str:
    """Return a source's location to show in its dead letter."""
    shown = source.location if source.adapter == "folder" else shown_url(source.location)
    return shown.encode(errors="replace")[:POINTER_BYTES_MAX].decode(errors="ignore")


def _steps(source: Source, checkpoint: Checkpoint, connect: Connect, clock: Clock) -> Iterator[Step]:
    if source.adapter == "folder":
        return poll_folder(source, checkpoint, clock)
    return (poll_oai if source.adapter == "oai" else poll_feed)(source, checkpoint, connect, clock)


def _retry_seconds(retry: Retry, cause: Exception) -> float:
    """Return the seconds to wait: the server's Retry-After up to a limit, else an increasing back-off."""
    asked = cause.details.get("retry_after_seconds") if isinstance(cause, StratalogError) else None
    if asked is not None:
        return min(float(asked), CATALOGUE_RETRY_AFTER_SECONDS_MAX)
    return retry.next_seconds()


def _reason_to_end(records: Records, source: Source) -> str | None:
    """Return why a poll of the source must not continue, or None if it may."""
    try:
        stored = read_source(records, source.name)
    except NotFound as exc:
        return str(exc)
    if stored.renamed_to:
        return f"{RENAMED} to={stored.renamed_to}"
    return MOVED if stored.scope != source.scope else None


def _checkpoint(records: Records, source: Source) -> tuple[Checkpoint, int]:
    """Return the source's checkpoint and the version of its record. Raises Corrupt and Unavailable.

    If the checkpoint is of another scope, return {}, or only the time of the last state for a mirror.
    """
    try:
        read = records.get(CHECKPOINTS + source.name)
        checkpoint: Checkpoint = msgspec.json.decode(read.body, type=dict[str, Any])
    except NotFound as exc:
        return {}, int(exc.details.get("version", 0))
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Corrupt("the source's checkpoint cannot be read", source=source.name, reason=str(exc)) from exc
    return _in_scope(source, checkpoint), read.version.version


def _in_scope(source: Source, checkpoint: Checkpoint) -> Checkpoint:
    if checkpoint.get("location") == source.scope:
        return checkpoint
    # A poll deletes the records that a mirror's state lacks. So a state of the new folder must not be older than the
    # last state of the old folder.
    return {"newest": checkpoint["newest"]} if is_mirror(source) and "newest" in checkpoint else {}


def _save_checkpoint(records: Records, source: Source, checkpoint: Checkpoint, now_ms: int, expected: int) -> int:
    """Store a checkpoint after the version ``expected``, and return its version. Raises VersionConflict.

    The caller has stored all records before the checkpoint.
    """
    saved = {**checkpoint, "location": source.scope, "polled_ms": now_ms}
    stored = records.put(CHECKPOINTS + source.name, msgspec.json.encode(saved), expected=expected)
    records.prune(CHECKPOINTS + source.name, retain=2)
    return stored.version


def _is_due(records: Records, source: Source, clock: Clock) -> bool:
    """Return whether a source is due now.

    A source with a damaged checkpoint is due after its back-off, so that the poll reports the damage.
    """
    failed = records.failure(POLLS + source.name)
    if failed is not None:  # the failed poll may have stored a checkpoint, so ignore the time of the checkpoint
        return is_interval_over(clock, failed.last_ms, _backoff_seconds(source, failed.failures) * 1000)
    try:
        polled_ms = _checkpoint(records, source)[0].get("polled_ms", 0)
    except Corrupt:
        return True
    return not isinstance(polled_ms, int) or is_interval_over(clock, polled_ms, source.every_seconds * 1000)


def _backoff_seconds(source: Source, failures: int) -> float:
    """Return the time from a source's last failure until the source is due again."""
    return min(source.every_seconds, BACKOFF_SECONDS_FIRST * 2.0 ** min(failures - 1, 30))
