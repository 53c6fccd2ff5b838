"""Bugs planted in records. A checker of the world of records must catch each bug."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

import msgspec

from stratalog.clock import Observation
from stratalog.codec import sha256
from stratalog.errors import OutcomeUnknown, StratalogError
from stratalog.keys import number
from stratalog.log.bodies import BodyRef
from stratalog.log.conditional_append import ConditionalAppend
from stratalog.log.environment import Environment
from stratalog.ports.index import Attribute, Index, Item, Write
from stratalog.records import batch, content, decisions, redaction, retention
from stratalog.records import put as record_put
from stratalog.records.batch import Stored, _Put
from stratalog.records.chain import chained
from stratalog.records.content import RecordBody
from stratalog.records.decisions import RecordCall, Wanted, next_put
from stratalog.records.floor import Floor
from stratalog.records.put import Decide, Planned, RecordAppend
from stratalog.records.requests import RecordRequest, same_request
from stratalog.records.versions import Name
from stratalog.testing.faults import Weather
from tests.simulation.mutants import Mutant, replaced, together
from tests.simulation.world_records import RecordsWorld

__all__ = ["MUTANTS"]


class _LossyWorld(RecordsWorld):
    """A world with more lost answers and freezes than most seeds draw. Some bugs need both faults at one commit."""

    weather = Weather(lost_answer=0.05, late=0.05, freeze_before=0.05, freeze_after=0.05)


_put_jointly = batch._put_jointly
_put_at_once = batch._put_at_once


_if_ours = RecordAppend._if_ours
_note = RecordAppend._note
_on_base = retention._on_base
_chained = chained
_attributes = RecordCall.attributes


def _chained_without_time(before: bytes | None, version: int, attributes: Mapping[str, Any]) -> bytes:
    return _chained(before, version, {name: value for name, value in attributes.items() if name != "t"})


def _chained_once(before: bytes | None, version: int, attributes: Mapping[str, Any]) -> bytes:
    """Keep a hash that the attributes already have."""
    return attributes.get("ch") or _chained(before, version, attributes)


def _attributes_without_principal(self: RecordCall) -> dict[str, Attribute]:
    """Attribute an undeletion to the principal of the previous version."""
    attributes = _attributes(self)
    if self.request.operation == "undelete":
        attributes.pop("p", None)
    return attributes


def _on_its_own_hash(index: Index, name: Name, floor: Floor) -> Floor | None:
    """Put the hash of the oldest retained version into the floor, instead of the hash of the version before."""
    based = _on_base(index, name, floor)
    item = index.get(name.partition, number(floor.version))
    return msgspec.structs.replace(based, hash=item.attributes["ch"]) if based and item else None


def _noted(self: RecordAppend, planned: Planned) -> None:
    self._last_put = planned.item  # type: ignore[attr-defined]
    _note(self, planned)


def _upload_later(self: RecordBody, body: bytes | None) -> None:
    """Write a reference to the blob of the body, but do not put the blob yet."""
    if body is not None:
        self._point_to(BodyRef(sha256(body), len(body)))


def _refresh_late(self: RecordBody) -> None:
    """Put the blob after the commit of the reference."""
    if self.bytes is not None and "x" in self._attributes:
        self._environment.blobs.put(f"{content.body_prefix(self._name)}/{self.digest.hex()}", self.bytes)


@contextmanager
def _pointer_first() -> Iterator[None]:
    with replaced(RecordBody, "_upload", _upload_later)(), replaced(RecordBody, "refresh", _refresh_late)():
        yield


def _commit_unheard(environment: Environment, group: list[_Put], writes: list[Write]) -> None:
    """Treat a commit without an answer as successful."""
    sent = Observation(environment.clock)
    try:
        environment.index.commit(writes, batch._blobs(group))
    except OutcomeUnknown:
        environment.count("assumed done")
    except StratalogError:
        return
    for put in group:
        put.landed(sent)


def _put_last_first(environment: Environment, puts: list[_Put]) -> None:
    """Put the last of several bodies of one record into the joint commit, instead of the first."""
    _put_jointly(environment, puts[::-1])


def _put_each_at_once(pool: Executor, puts: list[_Put]) -> Iterator[Stored]:
    """Put all bodies concurrently, even those of one record."""
    for done in [pool.submit(put.finish) for put in puts]:
        yield done.result()


def _next_of_any_age(call: RecordCall, attributes: dict[str, Attribute], content: RecordBody, *_: object) -> Decide:
    """Store the body even if its source time is not newer."""
    return next_put(call, Wanted(attributes, False, content, None), None)


def _answer_by_record(pool: Executor, puts: list[_Put]) -> Iterator[Stored]:
    """Yield the answers in the order of the record ids instead of the order of the bodies."""
    return _put_at_once(pool, sorted(puts, key=lambda put: put.id))


class _UnboundCall(RecordCall, frozen=True):
    """A call that recognises its version by the write id, and does not compare the request."""

    def wrote(self, item: Item | None) -> bool:
        return item is not None and item.attributes.get("w") == self.write_id


def _same_but_updates(stored: Item, asked: RecordRequest) -> bool:
    """Treat a retry of an update as another request, because the retry may compute another body."""
    return same_request(stored, asked) and asked.operation != "update"


def _hash_of_the_last_try(self: RecordAppend, version: int, item: Item) -> Item | None:
    """Return the item of the last try instead of the stored item, which an earlier try wrote."""
    landed = _if_ours(self, version, item)
    sent: Item | None = getattr(self, "_last_put", None)
    return sent if landed is not None and sent is not None and sent.sort == item.sort else landed


@contextmanager
def _answered_from_memory() -> Iterator[None]:
    with replaced(RecordAppend, "_note", _noted)(), replaced(RecordAppend, "_if_ours", _hash_of_the_last_try)():
        yield


MUTANTS = (
    Mutant(
        "records: hash copied from the predecessor",
        RecordsWorld,
        together(replaced(decisions, "CHAIN_ATTRIBUTES", ()), replaced(record_put, "chained", _chained_once)),
        ("chain",),
    ),
    Mutant(
        "records: principal copied from the predecessor",
        RecordsWorld,
        replaced(RecordCall, "attributes", _attributes_without_principal),
        ("chain",),
    ),
    Mutant(
        "records: a hash without the source's time",
        RecordsWorld,
        replaced(record_put, "chained", _chained_without_time),
        ("chain",),
    ),
    Mutant("records: hash of the last try returned", _LossyWorld, _answered_from_memory, ("chain",)),
    Mutant(
        "records: redacted digest without the salt",
        RecordsWorld,
        replaced(redaction, "body_digest", lambda salt, body_hash: body_hash),
        ("chain",),
    ),
    Mutant(
        "records: floor with the hash of the wrong version",
        RecordsWorld,
        replaced(retention, "_on_base", _on_its_own_hash),
        ("chain",),
    ),
    Mutant(
        "records: request of a write id not compared",
        RecordsWorld,
        replaced(decisions, "same_request", lambda stored, asked: True),
        ("key-bound",),
    ),
    Mutant(
        "records: request of a joint put not compared",
        RecordsWorld,
        replaced(batch, "RecordCall", _UnboundCall),
        ("key-bound",),
    ),
    Mutant(
        "records: retried update with another body is a conflict",
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
        replaced(retention, "_older_than_grace", lambda cluster, stat: True),
        ("dangling",),
    ),
    Mutant(
        "records: put in doubt reported as failed",
        RecordsWorld,
        replaced(ConditionalAppend, "_verdict", lambda self, cause: cause),
        ("refused",),
    ),
    Mutant(
        "records: own write not recognised",
        RecordsWorld,
        replaced(RecordAppend, "_landed", lambda self, version: self._doubts.discard(version)),
        ("acknowledged", "once", "refused"),
    ),
    Mutant(
        "records: joint commit in doubt forgotten",
        _LossyWorld,
        replaced(_Put, "mark_in_doubt", lambda self: None),
        ("acknowledged", "dangling", "once", "refused"),
    ),
    Mutant(
        "records: unanswered joint commit counted as done",
        RecordsWorld,
        replaced(batch, "_commit", _commit_unheard),
        ("acknowledged", "real-time", "read", "key-bound", "chain"),
    ),
    Mutant(
        "records: last body of a record first",
        RecordsWorld,
        replaced(batch, "_put_jointly", _put_last_first),
        ("writer-order",),
    ),
    Mutant(
        "records: bodies of a record in parallel",
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
        "records: stale body of a batch stored",
        RecordsWorld,
        replaced(batch, "next_newer", _next_of_any_age),
        ("newer",),
    ),
)
