"""Hostile writers: they reuse write ids and numbers for other content, and use names that are reserved for the store.

The same writers also make honest retries: an honest retry repeats the original request in another form. Under any
faults, the store must not accept a hostile call, and must not answer an honest retry with a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stratalog.clock import Clock
from stratalog.documents import Document
from stratalog.errors import KeyReused, ReservedName, StratalogError, VersionConflict
from stratalog.log import Event, Log
from stratalog.protocol import Mutation
from stratalog.protocol.sync import Push, Pushed
from stratalog.records import NewBody, Records, RecordVersion, Stored
from stratalog.testing.checkers import Answered, CheckedAppend, Violation
from stratalog.testing.scheduler import Scheduler
from tests.simulation.actors import choose

__all__ = ["check_refused_name", "push_as_the_store", "reuse_append", "reuse_number", "reuse_record", "reuse_update"]

Puts = Callable[[Sequence[NewBody]], Iterable[Stored]]
RESERVED = ("replay/aaaaaaaaaaaaaaaa/0", "replay/x", "redrive/0000000000000001/1")


def reuse_append(
    scheduler: Scheduler, clock: Clock, log: Log, appends: Sequence[CheckedAppend], content: Callable[[str], Event]
) -> None:
    """Append the same event with a new author, or other events, under the write id of an acknowledged append."""
    known = [append for append in appends if append.outcome is Answered.ACKNOWLEDGED]
    if not known:
        return
    used, honest = choose(clock, known), clock.random() < 0.5
    event = content(used.write_id)
    events = [_in_another_form(event)] if honest else choose(clock, ([event, event], [Event("forged", event.data)]))

    def append() -> int:
        return log.append(events, expected=used.version - 1, author="renamed", write_id=used.write_id).version

    _judge(scheduler, honest, used.version, append)


def reuse_record(
    scheduler: Scheduler, clock: Clock, records: Records, puts: Puts, body: NewBody, stored: RecordVersion
) -> None:
    """Write a record again under the write id of its latest version ``stored``. No other actor writes the record."""
    id, write_id, version = body.id, stored.write_id, stored.version
    other = NewBody(id=id, body=b"forged", write_id=write_id)
    honest: list[Callable[[], int]] = [
        lambda: records.put(id, bytearray(body.body), write_id=write_id).version,
        lambda: records.put(id, body.body, expected=version - 1, write_id=write_id).version,
        lambda: _version_of(puts([body])),
    ]
    forged: list[Callable[[], int]] = [
        lambda: records.put(id, b"forged", write_id=write_id).version,
        lambda: records.put(id, body.body, metadata={"forged": True}, write_id=write_id).version,
        lambda: records.put(id, b"forged", expected=version - 1, write_id=write_id).version,
        lambda: records.update(id, lambda before: before + b"forged", write_id=write_id).version,
        lambda: records.delete(id, write_id=write_id).version,
        lambda: _version_of(puts([other])),
        lambda: _version_of(puts([other])),
    ]
    is_honest = clock.random() < 0.4
    _judge(scheduler, is_honest, version, choose(clock, honest if is_honest else forged))


def reuse_update(scheduler: Scheduler, clock: Clock, records: Records, id: str, write_id: str) -> None:
    """Update a record that no other actor writes, and repeat the call. The repeated update computes another body."""

    def update() -> int:
        return records.update(id, lambda before: before + b"+", create=b"1", write_id=write_id).version

    try:
        version = update()
    except StratalogError:
        return
    _judge(scheduler, True, version, update)


def reuse_number(scheduler: Scheduler, document: Document, last: Mutation, group: str, owner: str) -> None:
    """Push the last number of a client that has finished, first with another payload, then with the original one."""
    forged = Mutation(client=last.client, id=last.id, name="put", args={"key": "forged", "value": last.id})
    for mutation, expected in ((forged, "mismatch"), (last, "seen")):
        [outcome] = document.apply([mutation], group=group, owner=owner)
        if outcome.status not in (expected, "collected", "unknown-client"):
            raise Violation(
                "key-bound", "a push under a used number got a wrong outcome", outcome=outcome, expected=expected
            )
        scheduler.counts.bump("numbers reused")


def push_as_the_store(clock: Clock, group: str) -> Push:
    """Return a push under a client id that is reserved for the store."""
    args: dict[str, Any] = {"key": "forged", "value": 1}
    return Push(group, [Mutation(client=choose(clock, RESERVED), id=1, name="put", args=args)])


def check_refused_name(scheduler: Scheduler, answer: Pushed | StratalogError | None) -> None:
    """Check that a push under a reserved name was not accepted."""
    if isinstance(answer, Pushed):
        raise Violation("reserved", "a push under a name reserved for the store was accepted", answer=answer)
    scheduler.counts.bump("names refused", isinstance(answer, ReservedName))


def _judge(scheduler: Scheduler, honest: bool, version: int, call: Callable[[], int]) -> None:
    """Check the answer to a call under a used write id.

    Raises any other error of the call, since such an error breaks no rule.
    """
    try:
        answered = call()
    except KeyReused as exc:
        if honest:
            raise Violation("honest-retry", "an honest retry was rejected with KeyReused", error=exc) from exc
        scheduler.counts.bump("keys reused")
    except VersionConflict as exc:
        raise Violation("honest-retry", "a used write id was not recognised", error=exc, honest=honest) from exc
    else:
        if not honest:
            raise Violation("key-bound", "another request under a used write id was accepted", version=version)
        if answered != version:
            raise Violation(
                "honest-retry",
                "an honest retry got another version than the original request",
                version=version,
                answered=answered,
            )
        scheduler.counts.bump("honest retries")


def _version_of(stored: Iterable[Stored]) -> int:
    [stored_version] = stored
    if stored_version.error is not None:
        raise stored_version.error
    assert stored_version.version is not None
    return stored_version.version.version


def _in_another_form(event: Event) -> Event:
    """Return the same event, but with the keys of its data in another order."""
    data: dict[str, Any] = event.data
    return Event(event.type, dict(reversed(data.items())), event.schema)
