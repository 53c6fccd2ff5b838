"""Dead letters: records that an adapter failed to ingest too often, with the reason and input of the last failure.

The collector of a record's blobs keeps the body of the record's last failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from stratalog.errors import (
    ConditionFailed,
    ContentionError,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from stratalog.keys import dead_letters_partition, failures_partition, id_sort, record_key, unescape
from stratalog.limits import POINTER_BYTES_MAX, REASON_BYTES_MAX
from stratalog.log.bodies import BodyRef
from stratalog.log.commit import commit_once
from stratalog.log.directory import organisation_missing
from stratalog.log.environment import Environment
from stratalog.log.listed_items import Damaged, decoded, list_items, raise_damage
from stratalog.ports.index import NO_BLOBS, Absent, Attribute, Condition, Delete, Equals, Item, Put, Write
from stratalog.ports.stored_attributes import Count, Hash, Packed, Time, read_attributes
from stratalog.records.content import RecordBody
from stratalog.records.versions import Name, decode_ref

__all__ = [
    "DEAD_RECORD",
    "DeadLetter",
    "StoredFailures",
    "count_failure",
    "failure_item",
    "failure_items",
    "letter_from_item",
    "list_dead_letters",
    "resolve_failures",
]

NOUN = "a count of failures"
DEAD_RECORD = "dead letter of a record"
"""The name under which `Environment.report` reports a new dead letter. Alarms match this name."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A record's failures so far, with the input of the last failure."""

    id: str
    failures: int
    dead: bool
    """Whether the record failed so often that it is in the list of dead letters."""

    reason: str
    first_ms: int
    last_ms: int
    pointer: str = ""
    """The caller's description of the place of the input, e.g. a URL."""

    size: int | None = None
    """The size of the stored body in bytes; None if no body was given."""

    ref: BodyRef | None = None
    """The reference to the stored body; None if the item itself holds the body, or if no body was given."""


class CountedFailure(msgspec.Struct, frozen=True):
    """One failure to count. After a lost answer, ``write_id`` shows whether the commit counted it."""

    write_id: str
    reason: str
    pointer: str
    content: RecordBody | None


class StoredFailures(msgspec.Struct, frozen=True, gc=False):
    """The attributes of a count of failures."""

    q: Count
    d: Count
    y: str
    f: Time
    l: Time  # noqa: E741 - the name of the stored attribute
    w: str
    s: str = ""
    n: Count | None = None
    h: Hash = b""
    b: bytes = b""
    z: bytes = b""
    x: Packed = b""


def count_failure(environment: Environment, name: Name, failure: CountedFailure, failures_max: int) -> DeadLetter:
    """Count one more failure. From the ``failures_max``-th failure on, the record is in the list of dead letters.

    A failure with the same write id as the last counted failure is not counted again.

    Raises Invalid, LimitExceeded, ContentionError, Unavailable: the failure is not counted. Raises OutcomeUnknown if
    the failure may be counted, or if it is counted and its body may be lost.
    """
    _check_texts(failure)
    retry = environment.retry()
    while True:
        known = failure_item(environment, name)
        if known is not None and known.attributes["w"] == failure.write_id:
            if known.attributes["q"] == failures_max:
                _report(environment, name, known)  # the earlier call may have ended before its report
            if failure.content is not None:
                _make_sure(failure.content, name)
            return letter_from_item(name.id, known)
        item = _next(environment, name, known, failure, failures_max)
        writes = _writes(name, known, item, failure)
        if known is None:
            writes += organisation_missing(environment, name.organisation)
        try:
            blobs = failure.content.blobs if failure.content is not None else NO_BLOBS
            commit_once(environment, writes, lambda: _counted(environment, name, failure), blobs)
        except ConditionFailed as exc:
            # If the count changed too, read it first: a call with this write id may have counted the failure.
            if failure.content is not None and failure.content.guards() and 0 not in exc.items:
                raise failure.content.lost_pin() from exc
            if not retry.wait(exc):
                raise ContentionError("other writers kept counting failures first", record=name.id) from exc
            continue
        if item.attributes["d"] and not (known and known.attributes["d"]):
            _report(environment, name, item)  # before `_make_sure`, which may raise an error
        if failure.content is not None:
            _make_sure(failure.content, name)
        return letter_from_item(name.id, item)


def resolve_failures(environment: Environment, name: Name) -> None:
    """Forget a record's failures, and remove the record from the list of dead letters.

    Raises NotFound if the record has no failures. Raises ContentionError or Unavailable: this call has changed nothing.
    Raises OutcomeUnknown if the failures may be forgotten.
    """
    retry = environment.retry()
    while True:
        known = failure_item(environment, name)
        if known is None:
            raise NotFound("dead letter not found: the record has no failures", record=name.id)
        writes: list[Write] = [Delete(known.partition, known.sort, _unchanged(known))]
        if known.attributes["d"]:
            writes.append(Delete(dead_letters_partition(name.organisation), id_sort(name.id)))
        try:
            commit_once(environment, writes, partial(_forgotten, environment, name, known))
            return
        except ConditionFailed as exc:
            environment.count("record failures conflict")
            if not retry.wait(exc):
                raise ContentionError("other writers kept counting failures first", record=name.id) from exc


def list_dead_letters(
    environment: Environment, organisation: str, *, after: str = "", damaged: Damaged = raise_damage
) -> Iterator[DeadLetter]:
    """Yield the dead letters after the id ``after``, in order of the ids' UTF-8. Reads by pages.

    ``damaged`` is called with the error of each damaged letter.
    """
    start, partition = id_sort(after, "after") if after else None, dead_letters_partition(organisation)
    items = list_items(environment.index, partition, after=start)
    return decoded(items, lambda item: letter_from_item(item.sort, item), damaged, partition=partition)


def failure_item(environment: Environment, name: Name) -> Item | None:
    """Return the item that counts a record's failures, with the last failure's body; None without failures.

    Its attributes have the types and ranges of a count of failures. Raises Corrupt.
    """
    item = environment.index.get(failures_partition(name.organisation), name.key)
    if item is not None:
        read_attributes(item, StoredFailures, NOUN)
    return item


def failure_items(environment: Environment, name: Name) -> Iterator[Item]:
    """Yield the item that counts a record's failures, and the equal item of its dead letter. Raises Corrupt.

    If one of the two items is lost, the other still refers to the last failure's body. Uses only the key of ``name``.
    """
    counted = failure_item(environment, name)
    if counted is not None:
        yield counted
    head, mark, _ = name.key.partition("~")
    partition, start = dead_letters_partition(name.organisation), unescape(head)
    # The key of a long id has only the beginning of the id, so compare the keys of the letters with this beginning.
    letters = environment.index.query(partition, after=start) if mark else [environment.index.get(partition, start)]
    for letter in letters:
        if letter is None or not letter.sort.startswith(start):
            return
        if record_key(letter.sort) == name.key:
            read_attributes(letter, StoredFailures, NOUN)
            yield letter


def _report(environment: Environment, name: Name, item: Item) -> None:
    """Report a new dead letter. A failure that is repeated with its write id may report it once more."""
    environment.report(DEAD_RECORD, record=name.id, failures=item.attributes["q"])


def _make_sure(content: RecordBody, name: Name) -> None:
    try:
        content.refresh()
    except Unavailable as exc:
        raise OutcomeUnknown("the failure is counted, but its body may be lost", record=name.id) from exc
    content.settle()


def _next(environment: Environment, name: Name, known: Item | None, failure: CountedFailure, failures_max: int) -> Item:
    now_ms = environment.clock.wall_ms()
    before: Mapping[str, Any] = known.attributes if known else {"q": 0, "d": 0, "f": now_ms}
    count = before["q"] + 1
    attributes: dict[str, Attribute] = {
        "q": count,
        # A record stays a dead letter until it is resolved, even if another process allows more failures.
        "d": int(before["d"] or count >= failures_max),
        "y": failure.reason,
        "f": before["f"],
        "l": max(now_ms, before["f"]),
        "w": failure.write_id,
    }
    if failure.pointer:
        attributes["s"] = failure.pointer
    if failure.content is not None:
        attributes |= failure.content.attributes()
    return Item(failures_partition(name.organisation), name.key, attributes)


def _writes(name: Name, known: Item | None, item: Item, failure: CountedFailure) -> list[Write]:
    writes: list[Write] = [Put(item, _unchanged(known))]
    if failure.content is not None:
        writes += failure.content.guards()
    if item.attributes["d"]:
        writes.append(Put(Item(dead_letters_partition(name.organisation), id_sort(name.id), item.attributes)))
    return writes


def _counted(environment: Environment, name: Name, failure: CountedFailure) -> bool:
    item = failure_item(environment, name)
    return item is not None and item.attributes["w"] == failure.write_id


def _forgotten(environment: Environment, name: Name, known: Item) -> bool:
    """Return whether the failures of ``known`` are forgotten. The item may now store failures of a new count.

    Until a count is forgotten, it keeps the time of its first failure, and its number only grows.
    """
    item = failure_item(environment, name)
    if item is None:
        return True
    before: Any = known.attributes
    now: Any = item.attributes
    is_same = now["w"] == before["w"] or (now["f"] == before["f"] and now["q"] > before["q"])
    return not is_same


def _unchanged(known: Item | None) -> Condition:
    return Equals("w", known.attributes["w"]) if known else Absent()


def letter_from_item(id: str, item: Item) -> DeadLetter:
    """Return the failures that an item counts. Raises Corrupt."""
    stored = read_attributes(item, StoredFailures, NOUN)
    return DeadLetter(
        id=id,
        failures=stored.q,
        dead=bool(stored.d),
        reason=stored.y,
        first_ms=stored.f,
        last_ms=stored.l,
        pointer=stored.s,
        size=stored.n,
        ref=decode_ref(item.attributes["x"]) if "x" in item.attributes else None,
    )


def _check_texts(failure: CountedFailure) -> None:
    if not failure.reason:
        raise Invalid("a failure needs a reason", value=failure.reason)
    for what, text, limit in (
        ("reason", failure.reason, REASON_BYTES_MAX),
        ("pointer", failure.pointer, POINTER_BYTES_MAX),
    ):
        size = len(text.encode(errors="surrogatepass"))
        if size > limit:
            raise LimitExceeded(f"a failure's {what} is too long", value=size, limit=limit)
