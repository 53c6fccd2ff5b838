"""Bugs planted in the records. Each must be caught by a checker of their world."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from stratalog.clock import Observation
from stratalog.codec import sha256
from stratalog.errors import OutcomeUnknown, StratalogError
from stratalog.log.bodies import BodyRef
from stratalog.log.conditional_append import ConditionalAppend
from stratalog.log.environment import Environment
from stratalog.ports.index import Attribute, Item, Write
from stratalog.records import batch, content, decisions, retention
from stratalog.records.batch import Stored, _Put
from stratalog.records.content import RecordBody
from stratalog.records.decisions import RecordCall, Wanted, next_put
from stratalog.records.put import Decide, RecordAppend
from stratalog.records.requests import RecordRequest, same_request
from stratalog.testing.faults import Weather
from tests.simulation.mutants import Mutant, replaced
from tests.simulation.world_records import RecordsWorld

__all__ = ["MUTANTS"]


class _LossyWorld(RecordsWorld):
    """Answers are lost and processes freeze more often than in any drawn weather: some bugs need both at one commit."""

    weather = Weather(lost_answer=0.05, late=0.05, freeze_before=0.05, freeze_after=0.05)


_put_jointly = batch._put_jointly
_put_at_once = batch._put_at_once


def _upload_later(self: RecordBody, body: bytes | None) -> None:
    """The pointer first."""
    if body is not None:
        self._point_to(BodyRef(sha256(body), len(body)))


def _refresh_late(self: RecordBody) -> None:
    """The blob second."""
    if self.bytes is not None and "x" in self._attributes:
        self._environment.blobs.put(f"{content.body_prefix(self._name)}/{self.digest.hex()}", self.bytes)


@contextmanager
def _pointer_first() -> Iterator[None]:
    with replaced(RecordBody, "_upload", _upload_later)(), replaced(RecordBody, "refresh", _refresh_late)():
        yield


def _commit_unheard(environment: Environment, group: list[_Put], writes: list[Write]) -> None:
    """What was not answered is taken for done."""
    sent = Observation(environment.clock)
    try:
        environment.index.commit(writes, batch._blobs(group))
    except OutcomeUnknown:
        environment.counters["assumed done"] += 1
    except StratalogError:
        return
    for put in group:
        put.landed(sent)


def _put_last_first(environment: Environment, puts: list[_Put]) -> None:
    """Of several bodies of one record the last one is in the joint commit."""
    _put_jointly(environment, puts[::-1])


def _put_each_at_once(pool: Executor, puts: list[_Put]) -> Iterator[Stored]:
    """Those of one record, too."""
    for done in [pool.submit(put.finish) for put in puts]:
        yield done.result()


def _next_of_any_age(call: RecordCall, said: dict[str, Attribute], content: RecordBody, *_: object) -> Decide:
    """The source's time is kept, and not looked at."""
    return next_put(call, Wanted(said, False, content, None), None)


def _answer_by_record(pool: Executor, puts: list[_Put]) -> Iterator[Stored]:
    """Answers come record by record, whatever the order of the bodies was."""
    return _put_at_once(pool, sorted(puts, key=lambda put: put.id))


class _UnboundCall(RecordCall, frozen=True):
    """A call that knows its version by the write id alone."""

    def wrote(self, item: Item | None) -> bool:
        return item is not None and item.attributes.get("w") == self.write_id


def _same_but_updates(stored: Item, asked: RecordRequest) -> bool:
    """An update computes another body when it is tried again, so it counts as another one."""
    return same_request(stored, asked) and asked.operation != "update"


MUTANTS = (
    Mutant(
        "records: write id bound to nothing",
        RecordsWorld,
        replaced(decisions, "same_request", lambda stored, asked: True),
        ("key-bound",),
    ),
    Mutant(
        "records: write id of a joint put bound to nothing",
        RecordsWorld,
        replaced(batch, "RecordCall", _UnboundCall),
        ("key-bound",),
    ),
    Mutant(
        "records: update computed anew called a conflict",
        RecordsWorld,
        replaced(decisions, "same_request", _same_but_updates),
        ("honest-retry",),
    ),
    Mutant(
        "records: observation rule ignored",
        RecordsWorld,
        replaced(retention, "free_time_reached", lambda clock, marked_ms: True),
        ("acknowledged", "real-time", "read", "body"),
    ),
    Mutant("records: pointer before blob", RecordsWorld, _pointer_first, ("dangling",)),
    Mutant(
        "records: blobs collected while young",
        RecordsWorld,
        replaced(retention, "_older_than_grace", lambda place, stat: True),
        ("dangling",),
    ),
    Mutant(
        "records: doubt forgotten",
        RecordsWorld,
        replaced(ConditionalAppend, "_verdict", lambda self, cause: cause),
        ("refused",),
    ),
    Mutant(
        "records: own write not known again",
        RecordsWorld,
        replaced(RecordAppend, "_landed", lambda self, version: self._doubts.discard(version)),
        ("acknowledged", "once", "refused"),
    ),
    Mutant(
        "records: joint commit in doubt forgotten",
        _LossyWorld,
        replaced(_Put, "mark_in_doubt", lambda self: None),
        ("acknowledged", "once", "refused"),
    ),
    Mutant(
        "records: unanswered joint commit taken for done",
        RecordsWorld,
        replaced(batch, "_commit", _commit_unheard),
        ("acknowledged", "real-time", "read", "key-bound"),
    ),
    Mutant(
        "records: last body of a record first",
        RecordsWorld,
        replaced(batch, "_put_jointly", _put_last_first),
        ("writer-order",),
    ),
    Mutant(
        "records: bodies of a record at once",
        RecordsWorld,
        replaced(batch, "_put_at_once", _put_each_at_once),
        ("writer-order",),
    ),
    Mutant(
        "records: answers in another order",
        RecordsWorld,
        replaced(batch, "_put_at_once", _answer_by_record),
        ("batch",),
    ),
    Mutant(
        "records: stale body of a batch taken in",
        RecordsWorld,
        replaced(batch, "next_newer", _next_of_any_age),
        ("newer",),
    ),
)
