"""Records: named values of up to 64 GiB with versions 1, 2, 3 …: small bodies in the index, large bodies in blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from stratalog.clock import new_id
from stratalog.codec import Value
from stratalog.errors import Invalid, LimitExceeded, NotFound, Unavailable, VersionForgotten
from stratalog.keys import escape, record_key
from stratalog.log.directory import RECORDS, Listing, list_directory
from stratalog.log.entries import check_principal, check_write_id
from stratalog.log.environment import Environment
from stratalog.log.listed_items import Damaged, raise_damage
from stratalog.records.batch import PUT_THREADS, NewBody, Stored, put_many, would_put
from stratalog.records.content import RecordBody, stream_item, stream_version
from stratalog.records.decisions import (
    Contents,
    RecordCall,
    Wanted,
    next_deletion,
    next_newer,
    next_put,
    next_revival,
    next_update,
)
from stratalog.records.failures import (
    CountedFailure,
    DeadLetter,
    count_failure,
    failure_item,
    letter_from_item,
    list_dead_letters,
    resolve_failures,
)
from stratalog.records.history import check_superseded, item_of, items_in_order
from stratalog.records.put import Decide, Heads
from stratalog.records.redaction import redact_item
from stratalog.records.requests import Operation, RecordRequest
from stratalog.records.retention import collect_blobs, free_versions, prune_versions
from stratalog.records.versions import Name, Record, RecordVersion, check_metadata, check_source_time, version_from_item

__all__ = ["Body", "Declined", "Records"]

Body = bytes | bytearray | memoryview | Iterable[bytes]
READ_ATTEMPTS_MAX = 10


class Declined(Exception):
    """Raised by the function given to `Records.update` to leave the record as it is. Propagates to the caller."""


class Records:
    """The records of an organisation. Safe to use from many threads.

    All methods share these errors. Invalid and LimitExceeded are raised for an invalid name or value. Unavailable means
    that the call could not be completed in time, and that nothing was written; only `free` may have deleted items.
    Methods that write also raise ContentionError, with the same meaning. OutcomeUnknown means that a write may exist.
    Corrupt means that stored data are damaged or missing.

    A caller's own ``write_id`` is bound to the request and to ``principal``, the id of the requesting principal. The id
    of a put is bound to the body, metadata and source time. The id of an update, deletion or undeletion is bound to the
    operation. Another use of the id raises KeyReused, and nothing is written. A call finds an earlier use of the id
    only in the latest version, or with ``expected`` also in the version that follows ``expected``.
    """

    def __init__(self, environment: Environment, organisation: str, *, failures_max: int = 5) -> None:
        escape(organisation, "organisation")
        if failures_max < 1:
            raise Invalid("the number of failures must be at least 1", value=failures_max)
        self.environment = environment
        self.organisation = organisation
        self._failures_max = failures_max
        self._heads = Heads()

    def __repr__(self) -> str:
        return f"<Records {self.organisation}>"

    def get(self, id: str, version: int | None = None, *, size_max: int | None = None) -> Record:
        """Return a version with its body, the latest by default.

        Raises NotFound if the record or version does not exist, or if the version is a deletion, whose number is then
        in the details as ``version``. Raises VersionForgotten, Redacted. Raises Corrupt if the body is missing or
        damaged. Raises LimitExceeded, before reading the body, if the body is larger than ``size_max`` bytes.

        The latest version is read without the floor. If all kept versions are lost, a forgotten version that is not
        freed yet is returned as the latest; ``stratalog verify`` names the lost versions.
        """
        for _ in range(READ_ATTEMPTS_MAX):
            version_record, pieces = self._open(id, version)
            if size_max is not None and version_record.size > size_max:
                raise LimitExceeded(
                    "the body is larger than the requested limit", record=id, value=version_record.size, limit=size_max
                )
            try:
                return Record(version_record, b"".join(pieces))
            except VersionForgotten:
                if version is not None:
                    raise
                check_superseded(self.environment, self._name(id), version_record.version)
        raise Unavailable("other writers kept superseding the latest version", record=id)

    def open(self, id: str, version: int | None = None) -> Iterator[bytes]:
        """Return the body of a version in verified parts.

        Raises the errors of `get`, some of them during the iteration.
        """
        return self._open(id, version)[1]

    def stat(self, id: str, version: int | None = None) -> RecordVersion:
        """Return a version, by default the latest, without reading its body; also a deletion or a redacted version.

        Raises NotFound, VersionForgotten.
        """
        name = self._name(id)
        return version_from_item(name, item_of(self.environment, name, version))

    def versions(self, id: str, *, reverse: bool = False, before: int | None = None) -> Iterator[RecordVersion]:
        """Yield all kept versions below ``before``, or by default up to the version that is now the latest, in order.

        With ``reverse`` the newest version comes first. The versions are yielded without their bodies.

        Raises NotFound, Corrupt.
        """
        name = self._name(id)
        for item in items_in_order(self.environment, name, reverse=reverse, before=before):
            yield version_from_item(name, item)

    def put(
        self,
        id: str,
        body: Body,
        *,
        expected: int | None = None,
        source_time_ms: int | None = None,
        metadata: Mapping[str, Value] | None = None,
        write_id: str | None = None,
        first_attempt: bool = False,
        principal: str = "",
        equal: Callable[[bytes, bytes], bool] | None = None,
        size: int | None = None,
    ) -> RecordVersion:
        """Store ``body`` as the next version, or return the version that already has it.

        ``expected`` is the version that the new version must follow (0: the record must be new). If a put is repeated
        with the same ``expected``, it returns the version that the first put wrote. With only the same ``write_id`` it
        does so while that version is the latest; after a later version it stores the body again. The put makes no
        version if the latest version has the same bytes, or if ``equal(stored, body)`` returns true. Metadata and
        source time, if given, must also be the same. ``size``, if given, must be the size of ``body`` in bytes. An
        iterable is read once, and a file in pieces.

        To find out whether this put stored the body, pass a new ``write_id``, and compare it with that of the result.
        If the version after ``expected`` is forgotten, a put with a ``write_id`` raises OutcomeUnknown, since an
        earlier call with the same id may have stored that version. With ``first_attempt`` there was no earlier call, so
        the put raises VersionConflict.

        Raises VersionConflict with ``expected`` and ``actual``; QuotaExceeded, ContentionError.
        """
        call = self._call(id, write_id, principal, "put", first_attempt)
        given = {**check_metadata(metadata), **check_source_time(source_time_ms)}
        if equal is not None and not isinstance(body, bytes | bytearray | memoryview):
            raise Invalid("the body to compare must be bytes", record=id)
        content = RecordBody(self.environment, call.name, body, size)
        wanted = Wanted(given, metadata is not None, content, equal)
        call = call.asking(given, content, equal)
        return self._run(call, next_put(call, wanted, expected), [content])

    def put_if_newer(
        self,
        id: str,
        body: Body,
        source_time_ms: int,
        *,
        metadata: Mapping[str, Value] | None = None,
        write_id: str | None = None,
        principal: str = "",
    ) -> RecordVersion | None:
        """Store ``body``, or discard it and return None if the latest version's source time is the same or later."""
        call = self._call(id, write_id, principal, "newer")
        given = {**check_metadata(metadata), **check_source_time(source_time_ms)}
        content = RecordBody(self.environment, call.name, body)
        call = call.asking(given, content)
        stored = self._run(call, next_newer(call, given, content, source_time_ms), [content])
        return stored if stored.write_id == call.write_id else None

    def put_many(self, bodies: Iterable[NewBody], *, threads: int = PUT_THREADS) -> Iterator[Stored]:
        """Store many bodies, each by the rules of `put` or `put_if_newer`. Yield the results in the order of the
        bodies.

        The bodies are stored while the caller takes the results: without a loop over them, nothing is stored.

        If the index has joint commits, puts of different records share commits, which makes a put cheaper. Otherwise
        ``threads`` puts run in parallel. The call is no transaction: each put succeeds or fails alone. The error of a
        put is part of its result, and is not raised. The call reads at most 400 bodies ahead. Bodies of one
        record keep their order.
        """
        return put_many(self.environment, self.organisation, self._heads, bodies, threads)

    def would_put(self, body: NewBody) -> bool:
        """Return whether `put_many` would make a version of the body now. Use it for a dry run. Writes nothing.

        The answer ignores quotas and rates. Raises Invalid and LimitExceeded as a put does, and Unavailable.
        """
        return would_put(self.environment, self.organisation, body)

    def update(
        self,
        id: str,
        function: Callable[[bytes], bytes],
        *,
        create: bytes | None = None,
        write_id: str | None = None,
        principal: str = "",
    ) -> RecordVersion:
        """Call ``function`` with the latest body, and store its result as the next version.

        Metadata and source time stay. If other writers commit first, ``function`` is called again with the new body;
        only the last result is stored. An error of ``function`` propagates, and nothing is written. If the record does
        not exist or is deleted, ``create`` is stored as it is; without ``create`` NotFound is raised. A result
        with the same bytes makes no version.
        """
        call = self._call(id, write_id, principal, "update")
        made: Contents = []
        return self._run(call, next_update(call, function, create, made), made, fresh=True)

    def delete(
        self,
        id: str,
        *,
        expected: int | None = None,
        source_time_ms: int | None = None,
        write_id: str | None = None,
        principal: str = "",
    ) -> RecordVersion:
        """Store a deletion as the next version; earlier versions stay readable. Do nothing if the record is deleted.

        The deletion has the given source time, or the source time of the previous version. Raises NotFound,
        VersionConflict.
        """
        call = self._call(id, write_id, principal, "delete")
        return self._run(call, next_deletion(call, check_source_time(source_time_ms), expected), [])

    def undelete(self, id: str, *, write_id: str | None = None, principal: str = "") -> RecordVersion:
        """Store the version before the deletion again, as a new version. Do nothing if the record is not deleted.

        Raises NotFound, Redacted, and VersionForgotten if the version before the deletion was pruned.
        """
        call = self._call(id, write_id, principal, "undelete")
        return self._run(call, next_revival(call), [])

    def redact(self, id: str, version: int) -> RecordVersion:
        """Erase the body of a version for good; its time, metadata, principal, write id and hash stay.

        Later reads of the body raise Redacted. The collector frees the body's blob if no other version refers to it.
        The call does not change a deletion or a redacted version. Raises NotFound, VersionForgotten.
        """
        name = self._name(id)
        return version_from_item(name, redact_item(self.environment, name, version))

    def prune(self, id: str, *, retain: int | None = None, before_ms: int | None = None) -> int:
        """Forget all but the newest ``retain`` versions, or versions superseded at or before ``before_ms``.

        Return the oldest version kept. Reads of forgotten versions raise VersionForgotten at once. `free` deletes these
        versions when no writer can rely on them any more. Raises NotFound. Raises Corrupt if the body of the oldest
        version kept or of the latest one is damaged: nothing is forgotten.
        """
        return prune_versions(self.environment, self._name(id), retain=retain, before_ms=before_ms)

    def free(self, id: str) -> int:
        """Delete versions that were forgotten long enough ago, and unreferenced blobs. Return the count of versions."""
        name = self._name(id)
        freed = free_versions(self.environment, name)
        collect_blobs(self.environment, name)
        return freed

    def list(self, after: str = "", *, prefix: str = "", damaged: Damaged = raise_damage) -> Iterator[Listing]:
        """Yield every record ever created, also deleted records, after the id ``after``, in order of the ids' UTF-8.

        With ``prefix``, yield only the records whose id begins with ``prefix``. ``damaged`` is called with the error of
        each damaged line of the list, which names the line. Without ``damaged``, the list raises this error.
        """
        index = self.environment.index
        return list_directory(index, self.organisation, RECORDS, after=after, prefix=prefix, damaged=damaged)

    def fail(
        self, id: str, reason: str, *, body: Body | None = None, pointer: str = "", write_id: str | None = None
    ) -> DeadLetter:
        """Count a failure to ingest this record, and keep the reason and input of the last failure.

        From the ``failures_max``-th failure on, the record is a dead letter, until `resolve_dead_letter` is called. A
        call that repeats the ``write_id`` of the last failure, as after OutcomeUnknown, counts nothing.
        """
        name, own = self._name(id), self._write_id(write_id)
        content = None if body is None else RecordBody(self.environment, name, body)
        try:
            failure = CountedFailure(own, reason, pointer, content)
            return count_failure(self.environment, name, failure, self._failures_max)
        finally:
            if content is not None:
                content.release()

    def failure(self, id: str) -> DeadLetter | None:
        """Return the failures of a record, even if it is no dead letter yet; None without failures. Costs one read."""
        item = failure_item(self.environment, self._name(id))
        return None if item is None else letter_from_item(id, item)

    def dead_letters(self, after: str = "", *, damaged: Damaged = raise_damage) -> Iterator[DeadLetter]:
        """Yield the records that failed too often, after the id ``after``, in order of the ids' UTF-8.

        ``damaged`` is called as in `list`.
        """
        return list_dead_letters(self.environment, self.organisation, after=after, damaged=damaged)

    def open_dead_letter(self, id: str) -> Iterator[bytes]:
        """Return the body stored with the last failure, in verified parts.

        Raises NotFound if no body is stored. The iteration also raises NotFound if the failures were resolved, or a
        later failure replaced the body, meanwhile.
        """
        name = self._name(id)
        item = failure_item(self.environment, name)
        if item is None:
            raise NotFound("dead letter not found: the record has no failures", record=id)
        if "n" not in item.attributes:
            raise NotFound("the last failure of the record has no stored body", record=id)
        return stream_item(self.environment, name, item)

    def resolve_dead_letter(self, id: str) -> None:
        """Forget the record's failures, even if it is no dead letter. Raises NotFound for a record without failures."""
        resolve_failures(self.environment, self._name(id))

    def _name(self, id: str) -> Name:
        record_key(id)
        return Name(self.organisation, id)

    def _call(
        self, id: str, write_id: str | None, principal: str, operation: Operation, first_attempt: bool = False
    ) -> RecordCall:
        own = self._write_id(write_id)
        request = RecordRequest(operation, principal=check_principal(principal))
        return RecordCall(self.environment, self._name(id), own, write_id is not None and not first_attempt, request)

    def _write_id(self, given: str | None) -> str:
        return new_id(self.environment.clock) if given is None else check_write_id(given)

    def _open(self, id: str, version: int | None) -> tuple[RecordVersion, Iterator[bytes]]:
        name = self._name(id)
        item = item_of(self.environment, name, version)
        latest = version_from_item(name, item)
        if latest.deleted:
            raise NotFound("the record is deleted", record=id, version=latest.version)
        return latest, stream_version(self.environment, name, item)

    def _run(self, call: RecordCall, decide: Decide, made: Contents, *, fresh: bool = False) -> RecordVersion:
        """Put the version that ``decide`` returns. Settle the content that was stored; release other contents."""
        try:
            item = call.append(self._heads, decide, fresh=fresh).write()
            if item.attributes["w"] == call.write_id:
                for content in made:
                    if content.digest == item.attributes["h"]:
                        content.settle()
            for content in made:
                content.restore(item)
            return version_from_item(call.name, item)
        finally:
            for content in made:
                content.release()
