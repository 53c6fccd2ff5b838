"""Putting many bodies: puts of different records share a commit if the index has joint commits.

If a joint commit fails or its answer is lost, each of its puts is tried again alone, under the same write id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import islice

import msgspec

from stratalog.arguments import check_class
from stratalog.clock import Observation, new_id
from stratalog.codec import Value
from stratalog.errors import ConditionFailed, Corrupt, Invalid, OutcomeUnknown, StratalogError, Unavailable
from stratalog.keys import record_key
from stratalog.limits import COMMIT_BLOB_BYTES_MAX, COMMIT_BYTES_MAX, COMMIT_WRITES_MAX
from stratalog.log.entries import check_principal, check_write_id
from stratalog.log.environment import Environment
from stratalog.ports.index import Attribute, Item, Put, Write, item_bytes
from stratalog.records.content import RecordBody
from stratalog.records.decisions import RecordCall, Wanted, next_newer, next_put
from stratalog.records.put import Decide, Heads, Planned
from stratalog.records.requests import RecordRequest
from stratalog.records.versions import (
    Name,
    RecordVersion,
    check_metadata,
    check_source_time,
    latest_item,
    version_from_item,
)

__all__ = ["PUT_THREADS", "NewBody", "Stored", "put_many", "put_through", "would_put"]

PUT_THREADS = 16
BATCH_BODIES = 400
BATCH_BYTES = 32 * 1024 * 1024
WRITE_OVERHEAD_BYTES = 1024


class NewBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body to store under ``id``, by default as `Records.put` does."""

    id: str
    body: bytes
    source_time_ms: int | None = None
    metadata: Mapping[str, Value] | None = None
    newer_only: bool = False
    """Whether to discard the body if the latest version's source time is the same or later, as `put_if_newer` does.

    Needs ``source_time_ms``.
    """

    changed_only: bool = False
    """With ``newer_only``: whether to discard the body also if the latest version has the same bytes.

    This suits a source that gives the time of its whole state and not of each record. The latest version keeps its own
    source time.
    """

    write_id: str | None = None
    principal: str = ""
    """The id of the principal that makes the request."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The result of putting one body."""

    id: str
    version: RecordVersion | None = None
    """The new version, or the existing latest version if the put wrote nothing. None on error."""

    new: bool = False
    """Whether this put wrote ``version``, now or in an earlier call with the same write id."""

    error: StratalogError | None = None


class _Put:
    """The put of one body, from the plan to the result."""

    def __init__(self, environment: Environment, organisation: str, heads: Heads, body: NewBody) -> None:
        self.id = body.id
        self.item: Item | None = None
        self.planned: Planned | None = None
        self.error: StratalogError | None = None
        self._made: list[RecordBody] = []
        try:
            call, decide = _asked(environment, organisation, body, self._made)
            self.append = call.append(heads, decide)
            self._call = call
        except StratalogError as exc:
            self.error = exc

    @property
    def open(self) -> bool:
        return self.item is None and self.error is None

    def plan(self) -> None:
        """Plan the write, or settle the put if nothing is to be written.

        The put stays open for `finish` if the index is unreachable, or if the write has guards (a body with a pin).
        """
        try:
            planned = self.append.plan()
        except Unavailable:
            return
        except StratalogError as exc:
            self.error = exc
            return
        if isinstance(planned, Item):
            self.item = planned
        elif not planned.draft.guards:
            self.planned = planned

    def mark_in_doubt(self) -> None:
        """Note that the outcome of the joint commit is unknown."""
        if self.planned is not None:
            self.append.mark_in_doubt(self.planned)

    def landed(self, sent: Observation) -> None:
        """Settle the put after the joint commit succeeded. ``sent`` was observed before the commit was sent."""
        if self.planned is not None:
            try:
                self.item = self.append.landed(self.planned, sent)
            except Unavailable:
                return

    def finish(self) -> Stored:
        """Return the result. If the put is still open, first try it alone."""
        try:
            if self.open:
                self.item = self.append.write()
        except StratalogError as exc:
            self.error = exc
        try:
            return self._answer()
        finally:
            for content in self._made:
                content.release()

    def _restore(self, item: Item) -> None:
        try:
            for content in self._made:
                content.restore(item)
        except Unavailable as exc:
            self.error = exc

    def _answer(self) -> Stored:
        if self.item is not None:
            self._restore(self.item)
        if self.item is None or self.error is not None:
            return Stored(id=self.id, error=self.error)
        new = self.item.attributes["w"] == self._call.write_id
        for content in self._made if new else ():
            content.settle()
        return Stored(id=self.id, version=version_from_item(self._call.name, self.item), new=new)


class _UnstoredBody(RecordBody):
    """A body of a dry run. Decisions call `attributes`, which stores nothing here."""

    def attributes(self) -> dict[str, Attribute]:
        return {"h": self.digest}


def put_many(
    environment: Environment, organisation: str, heads: Heads, bodies: Iterable[NewBody], threads: int
) -> Iterator[Stored]:
    """Yield the results of all bodies in order.

    Raises the errors of iterating over ``bodies``, and TypeError for an item of another class than NewBody. The error
    of a put is part of its result. If the store is closed, a joint commit raises Closed.
    """
    with nullcontext() if environment.index.joint_commits else ThreadPoolExecutor(threads) as pool:
        yield from put_through(pool, environment, organisation, heads, bodies)


def would_put(environment: Environment, organisation: str, body: NewBody) -> bool:
    """Return whether a put of the body would make a version, by the decision that a put makes. Writes nothing."""
    call, decide = _asked(environment, organisation, body, [], _UnstoredBody)
    return not isinstance(decide(latest_item(environment.index, call.name.partition)), Item)


def put_through(
    pool: Executor | None, environment: Environment, organisation: str, heads: Heads, bodies: Iterable[NewBody]
) -> Iterator[Stored]:
    """Yield the results of all bodies in order. Use the threads of ``pool``, or joint commits if ``pool`` is None."""
    rest = iter(bodies)
    while batch := _next_batch(rest):
        puts = [_Put(environment, organisation, heads, body) for body in batch]
        if pool is None:
            _put_jointly(environment, puts)
            yield from (put.finish() for put in puts)
        else:
            yield from _put_at_once(pool, puts)


def _put_jointly(environment: Environment, puts: list[_Put]) -> None:
    """Commit the first put of each record jointly, in groups that fit into one commit. Leave all other puts open."""
    # A dict keeps the last value of each key. So the reversed order keeps the first put of each record. The loop below
    # reverses the order again.
    firsts = {put.id: put for put in reversed(puts) if put.error is None}
    group: list[_Put] = []
    writes: dict[tuple[str, str], Write] = {}
    size = blob_bytes = 0
    for put in reversed(firsts.values()):
        put.plan()
        if put.planned is None:
            continue
        more = {_key(write): write for write in put.planned.writes}
        more_bytes = item_bytes(put.planned.item) + WRITE_OVERHEAD_BYTES
        more_blob_bytes = sum(map(len, put.planned.blobs.values()))
        if (
            len(writes.keys() | more.keys()) > COMMIT_WRITES_MAX
            or size + more_bytes > COMMIT_BYTES_MAX
            or blob_bytes + more_blob_bytes > COMMIT_BLOB_BYTES_MAX
        ):
            _commit(environment, group, list(writes.values()))
            group, writes, size, blob_bytes = [], {}, 0, 0
        group.append(put)
        writes |= more
        size += more_bytes
        blob_bytes += more_blob_bytes
    if group:
        _commit(environment, group, list(writes.values()))


def _commit(environment: Environment, group: list[_Put], writes: list[Write]) -> None:
    sent = Observation(environment.clock)
    try:
        environment.index.commit(writes, _blobs(group))
    except OutcomeUnknown:
        for put in group:
            put.mark_in_doubt()
    except (ConditionFailed, Corrupt, Unavailable):  # Corrupt: the item of one put is damaged
        environment.count("record joint put failed")
    else:
        for put in group:
            put.landed(sent)


def _blobs(group: list[_Put]) -> dict[str, bytes]:
    """Return the blobs of a joint commit."""
    return {key: body for put in group if put.planned for key, body in put.planned.blobs.items()}


def _put_at_once(pool: Executor, puts: list[_Put]) -> Iterator[Stored]:
    """Run puts of one record one after another, and of different records in parallel; yield the results in order."""
    rows: dict[str, list[_Put]] = {}
    for put in puts:
        rows.setdefault(put.id, []).append(put)
    done = {id: pool.submit(_finish, row) for id, row in rows.items()}
    for put in puts:
        yield done[put.id].result().pop(0)


def _finish(row: list[_Put]) -> list[Stored]:
    return [put.finish() for put in row]


def _asked(
    environment: Environment,
    organisation: str,
    body: NewBody,
    made: list[RecordBody],
    kind: type[RecordBody] = RecordBody,
) -> tuple[RecordCall, Decide]:
    call = _call(environment, organisation, body)
    given = {**check_metadata(body.metadata), **check_source_time(body.source_time_ms)}
    content = kind(environment, call.name, body.body)
    made.append(content)
    call = call.asking(given, content)
    return call, _decide(call, body, given, content)


def _call(environment: Environment, organisation: str, body: NewBody) -> RecordCall:
    record_key(body.id)
    own = new_id(environment.clock) if body.write_id is None else check_write_id(body.write_id)
    principal = check_principal(body.principal)
    request = RecordRequest("newer" if body.newer_only else "put", principal=principal)
    return RecordCall(environment, Name(organisation, body.id), own, body.write_id is not None, request)


def _decide(call: RecordCall, body: NewBody, given: dict[str, Attribute], content: RecordBody) -> Decide:
    if not body.newer_only:
        return next_put(call, Wanted(given, body.metadata is not None, content, None), None)
    if body.source_time_ms is None:
        raise Invalid("a body with newer_only needs source_time_ms", record=body.id)
    return next_newer(call, given, content, body.source_time_ms, body.changed_only)


def _next_batch(rest: Iterator[NewBody]) -> list[NewBody]:
    """Return at most `BATCH_BODIES` next bodies. Stop after the body with which they exceed `BATCH_BYTES`."""
    batch: list[NewBody] = []
    size = 0
    for body in islice(rest, BATCH_BODIES):
        check_class(NewBody, body=body)
        batch.append(body)
        size += len(body.body)
        if size > BATCH_BYTES:
            break
    return batch


def _key(write: Write) -> tuple[str, str]:
    item = write.item if isinstance(write, Put) else write
    return item.partition, item.sort
