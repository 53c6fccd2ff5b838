"""Document: the handle with which a program changes one document and reads any of its versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from stratalog.arguments import check_class
from stratalog.documents import history as past
from stratalog.documents.base import prove_base, require_base
from stratalog.documents.commits import BASE, FLOOR
from stratalog.documents.expiry import IdleClients, collection_of_clients, idle_clients
from stratalog.documents.resumption import resumption_of
from stratalog.documents.rules import Rules
from stratalog.documents.snapshot_schedule import SnapshotSchedule
from stratalog.documents.snapshots import base_digest, load_state, tree_roots
from stratalog.documents.state import State
from stratalog.documents.state_cache import StateCache, cached_chunks
from stratalog.documents.values import Values
from stratalog.documents.view import View
from stratalog.documents.writer import Approve, MutationBatch, Writer
from stratalog.errors import ContentionError, Invalid, LimitExceeded, OutcomeUnknown, Unavailable
from stratalog.limits import MUTATIONS_PER_BATCH_MAX
from stratalog.log import Entry, Event, Log
from stratalog.log.callbacks import Report, Stop, never, quiet
from stratalog.log.lifecycle import fork_log
from stratalog.log.retention import archive_segments, free_segments_below, raise_floor_onto
from stratalog.log.snapshots import Snapshot
from stratalog.protocol.messages import Mutation, Outcome, check_identity, check_mutation, check_unreserved
from stratalog.protocol.mutators import wrong_arguments
from stratalog.tree.chunks import Chunks

__all__ = ["DEFAULT_CLIENT", "Approve", "Document"]

DEFAULT_CLIENT = "local"


class Document:
    """A log of mutations, and the state derived from it.

    Threads may share a handle. A handle belongs to one incarnation. Once the incarnation is deleted, commits and reads
    of the newest version raise NotFound. If a restore has replaced the history, commits may raise HistoryChanged.
    """

    def __init__(self, log: Log, rules: Rules | None = None, *, chunks: Chunks | None = None) -> None:
        """``chunks`` replace the document's default chunks, for reads through another cache than the store's."""
        check_class(Log, log=log)
        self.log = log
        self.rules: Rules = Rules() if rules is None else rules
        check_class(Rules, rules=self.rules)
        self.stored_values: Values = Values(log.environment.blobs, log.record.owner, self.rules.metadata_fields)
        self.chunks: Chunks = chunks or cached_chunks(log)
        self._states = StateCache(log, self.chunks)
        self._writer = Writer(log, self._states, self.stored_values)
        self._snapshots = SnapshotSchedule(log, self._states)

    def __repr__(self) -> str:
        return f"<Document {self.organisation}/{self.name}>"

    def __bool__(self) -> bool:
        return True  # even if the document has no keys and ``len`` is 0

    def __getitem__(self, key: str) -> Any:
        """The newest value of ``key``. Raises KeyError."""
        return self.at()[key]

    def __contains__(self, key: object) -> bool:
        return key in self.at()

    def __iter__(self) -> Iterator[str]:
        """The keys of the newest version, in order."""
        return iter(self.at())

    def __len__(self) -> int:
        """The number of keys of the newest version."""
        return len(self.at())

    def keys(self) -> NoReturn:
        """Raise TypeError: ``dict(document)`` could read keys at different versions. Use ``dict(document.at())``."""
        raise TypeError("a document changes while it is read: use a view of one version, as in dict(document.at())")

    @property
    def organisation(self) -> str:
        """The organisation that owns the document."""
        return self.log.record.organisation

    @property
    def name(self) -> str:
        """The document's id, unique in its organisation."""
        return self.log.record.name

    @property
    def origin(self) -> str:
        """The history that the document's clients belong to: the log's origin, or a fork's hash at its fork point.

        Copies, exports and imports keep this value, so clients continue with a copy or a restored document. A fork has
        effects of its parent's clients, but begins without clients. So its origin differs from its parent's.
        """
        record = self.log.record
        return record.lineage[-1].hash.hex() if record.lineage else record.origin

    @property
    def version(self) -> int:
        """The newest version, read now."""
        return self.log.head().version

    # Changing

    def put(self, key: str, value: Any, *, client: str = DEFAULT_CLIENT, author: str = "") -> Outcome:
        """Set ``key`` to ``value``: JSON or bytes. The outcome is ``rejected`` for an invalid key. See `mutate`.

        ::

            document.put("cells/C2", 100, client="ada")
        """
        return self.mutate("put", {"key": key, "value": value}, client=client, author=author)

    def delete(self, key: str, *, client: str = DEFAULT_CLIENT, author: str = "") -> Outcome:
        """Delete ``key``. An absent key is no error. `Store.delete` deletes the document. See `mutate`."""
        return self.mutate("del", {"key": key}, client=client, author=author)

    def patch(self, key: str, merge: Any, *, client: str = DEFAULT_CLIENT, author: str = "") -> Outcome:
        """Apply a JSON merge patch (RFC 7396) to the value of ``key``. See `mutate`.

        ::

            document.patch("people/ada", {"email": "ada@example.com", "fax": None})  # sets one field, removes another
        """
        return self.mutate("patch", {"key": key, "merge": merge}, client=client, author=author)

    def increment(self, key: str, by: float = 1, *, client: str = DEFAULT_CLIENT, author: str = "") -> Outcome:
        """Add ``by`` to the number under ``key``. An absent key counts as 0. See `mutate`.

        The outcome is ``rejected`` if the value is no number.
        """
        return self.mutate("inc", {"key": key, "by": by}, client=client, author=author)

    def append(self, key: str, item: Any, *, client: str = DEFAULT_CLIENT, author: str = "") -> Outcome:
        """Add ``item`` to the end of the list under ``key``. An absent key counts as an empty list. See `mutate`.

        The outcome is ``rejected`` if the value is no list.
        """
        return self.mutate("append", {"key": key, "item": item}, client=client, author=author)

    def mutate(
        self, name: str, args: Any = None, *, client: str = DEFAULT_CLIENT, id: int = 0, author: str = ""
    ) -> Outcome:
        """Run the mutator ``name`` with ``args`` and commit its changes. Returns the outcome.

        ``client`` names the sequence of mutations that this mutation belongs to. The mutation gets the number after the
        client's last number, unless ``id`` is given. The entry records ``author``, or else ``client``.

        ::

            outcome = document.mutate("inc", {"key": "cells/C2", "by": 5}, client="ada")
            outcome.status, outcome.version  # ("applied", 2)

        A mutator that raises `Rejected` makes a rejected outcome, which is committed with its reason.

        Raises Invalid for a mutator that the document's rules do not have, and for wrong argument names of a built-in
        mutator. Raises ReservedName for a client that only the store itself may use. After these errors nothing is
        written. Also raises the errors of `apply`.
        """
        self._check_callable(name, args)
        mutation = check_unreserved(Mutation(client=client, name=name, args=args, id=id))
        return self.apply([mutation], author=author or client)[0]

    def apply(
        self,
        mutations: Sequence[Mutation],
        *,
        group: str = "",
        owner: str = "",
        author: str = "",
        admitted: bool = False,
    ) -> list[Outcome]:
        """Apply a batch in order as one entry; return the outcome of each mutation.

        A mutation that was seen before is skipped. A gap stops only the client with the gap. A rejection is committed
        with its reason. If a mutator raises an unexpected exception, the rejection is also recorded as a dead letter.
        If the batch writes nothing, its outcomes come from a fresh state. A new client is bound to ``group`` and
        ``owner``. ``admitted`` means that the batch was acknowledged earlier, so no quota refuses it.

        Raises Invalid or LimitExceeded for a batch that may not be committed, and NotFound, QuotaExceeded, Corrupt,
        ContentionError or Unavailable: nothing is written. Raises OutcomeUnknown: apply the same batch again, with the
        same ids. A shortage of memory or files in a mutator (MemoryError, OSError) propagates, and nothing is written.
        """
        if len(mutations) > MUTATIONS_PER_BATCH_MAX:
            raise LimitExceeded("a batch has too many mutations", value=len(mutations), limit=MUTATIONS_PER_BATCH_MAX)
        batch = list(map(check_mutation, mutations))
        check_identity(group, "group", empty=True)
        check_identity(owner, "owner", empty=True)
        return self._commit(MutationBatch(batch, self.rules.mutators, group, owner, author, admitted=admitted))

    def apply_merge(self, mutations: Sequence[Mutation], approve: Approve, *, author: str = "") -> list[Outcome]:
        """Apply a batch of a merge as `apply` does, if ``approve`` accepts its run on the state.

        If ``approve`` refuses a run on an old state, the batch runs again on a fresh state. Raises the errors of
        ``approve``: nothing is written.
        """
        batch = [check_mutation(mutation) for mutation in mutations]
        return self._commit(MutationBatch(batch, self.rules.mutators, author=author, approve=approve))

    def collect_clients(self, clients: Sequence[str], groups: Sequence[str] = ()) -> Entry:
        """Forget clients, in one entry. Leave a collected marker for each of ``groups``: late mutations have no effect.

        The first mutation of a client whose group is not in ``groups``, if sent again, is applied again.
        Raises Invalid, LimitExceeded, NotFound, ContentionError, Unavailable, OutcomeUnknown.
        """
        expired = sorted({check_identity(group, "group") for group in groups})
        wanted = sorted({check_identity(client, "client") for client in clients})

        def collect(state: State) -> Event:
            return collection_of_clients(state, wanted, expired)

        entry, _ = self._writer.append_decided(collect)
        assert entry is not None, "a collection always commits an entry"
        return entry

    def expire_clients(
        self, before_ms: int, *, stop: Stop = never, dry_run: bool = False, report: Report = quiet
    ) -> int:
        """Forget the clients of groups that have committed nothing since ``before_ms``; return their number.

        Each group leaves a collected marker: its late mutations have the outcome `collected`, and its clients begin
        anew in another group. A client without a group is kept, and a weekly group whose queued pushes may wait. Reads
        the row of every client in a group. ``stop`` is called before each entry, ``report`` after it with its number of
        clients. ``dry_run`` only counts. Raises NotFound, ContentionError, Unavailable, and OutcomeUnknown: call again.
        """
        version = self.log.newest_version_at(before_ms)
        expired, position = 0, ""
        idle: IdleClients | None = None

        def expire(state: State) -> Event | None:
            nonlocal idle
            idle = idle_clients(state, version, position) if version else None
            return None if idle is None or dry_run else idle.event()

        while not stop():
            self._writer.append_decided(expire)
            if idle is None:
                break
            expired, position = expired + len(idle.clients), idle.position
            report(len(idle.clients))
        return expired

    def resume(self, group: str, owner: str, reported: Mapping[str, int], order: int | None = None) -> State:
        """Raise the numbers of a group's clients to the numbers that a lost branch reported; return the newest state.

        ``order`` is the order of a cookie that certainly belongs to a lost branch: new cookies then get higher orders.
        Commits only if a number or the order changes. Raises NotFound, ContentionError, Unavailable, and
        OutcomeUnknown: call it again.
        """

        def resume(state: State) -> Event | None:
            raised = resumption_of(state, group, owner, reported, order, self.log.environment.clock.wall_ms())
            return None if raised is None else raised.event()

        return self._writer.append_decided(resume, owner)[1]

    # Reading

    def at(self, version: int | None = None) -> View:
        """Return the whole state at a version (the newest, if None). The view reads a value from storage only on use.

        Raises NotFound, VersionForgotten, Redacted; Invalid if ``version`` is no whole number.
        """
        return View(self.state(version), self.stored_values)

    def get(self, key: str, default: Any = None, *, at: int | None = None) -> Any:
        """Return one value at a version, or ``default``."""
        return self.at(at).get(key, default)

    def scan(self, prefix: str = "", *, at: int | None = None) -> Iterator[tuple[str, Any]]:
        """Yield keys and values at a version, in order of keys."""
        return self.at(at).scan(prefix)

    def state(self, version: int | None = None) -> State:
        """Return the state behind `at`: immutable and shared."""
        return self._states.at(version)

    def versions(self, after: int | None = None, upto: int | None = None) -> Iterator[past.Version]:
        """Yield the versions after ``after`` (the floor, if None) up to ``upto``, with mutations and patch, in order.

        `at` gives the full state of any version.
        """
        return (row.load() for row in self.unread_versions(after, upto))

    def unread_versions(self, after: int | None = None, upto: int | None = None) -> Iterator[past.Unread[past.Version]]:
        """Yield the rows of `versions`, not yet loaded. The caller reserves memory for each row and then loads it."""
        return past.versions(self.log, self.stored_values, after, upto)

    def history(self, key: str, *, at: int | None = None) -> Iterator[past.KeyChange]:
        """Yield the changes of one key, newest first.

        Reads the entries that changed the key, and below a redacted version perhaps other entries too.
        """
        return (row.load() for row in self.unread_history(key, at=at))

    def unread_history(self, key: str, *, at: int | None = None) -> Iterator[past.Unread[past.KeyChange]]:
        """Yield the rows of `history`, not yet loaded; the caller loads each row."""
        return past.key_changes(self.log, self.stored_values, self.state, key, at)

    def diff(self, source: int, target: int, *, after: str = "") -> Iterator[past.Difference]:
        """Yield the keys after ``after`` that differ between two versions, in order. Reads only changed parts."""
        return (row.load() for row in self.unread_diff(source, target, after=after))

    def unread_diff(self, source: int, target: int, *, after: str = "") -> Iterator[past.Unread[past.Difference]]:
        """Yield the rows of `diff`, not yet loaded; the caller loads each row."""
        return past.diff(self.stored_values, self.state(source), self.state(target), after)

    def applied_in(self, client: str, id: int) -> int | None:
        """Return the version that committed a mutation; None if no version did, or the client is forgotten.

        Raises VersionForgotten or Redacted if a version committed the mutation but can no longer be determined.
        """
        return past.applied_in(self.log, self.state(), client, id)

    def last_mutation(self, client: str) -> int:
        """Return the client's last mutation number, committed here or raised by `resume`; 0 for an unknown client."""
        newest = self.state().client(client)
        return newest.id if newest else 0

    # Copies, snapshots, retention

    def fork(self, name: str, *, at: int | None = None) -> Document:
        """Create a document with this document's history up to ``at`` (the newest version, if None), in one commit.

        The fork starts without clients. Raises Redacted if ``at`` has no state, and the errors of `Store.fork_log`.
        """
        version = self.version if at is None else at

        def require_state() -> None:
            """Raise Redacted if no state of the fork's version can be loaded: nobody could open the fork.

            Caches may still hold erased content, so this check loads the state anew.
            """
            load_state(self.log, self.chunks, version)

        return Document(fork_log(self.log, name, version, require_state=require_state), self.rules)

    def snapshot(self, version: int | None = None) -> int:
        """Make the snapshot of a version (the newest, if None) unless it exists; return the version.

        Other threads' commits continue meanwhile. A handle takes one snapshot at a time: this call waits for its turn.
        If the document's former snapshot is deleted twice meanwhile, no snapshot is made.
        """
        return self._snapshots.take(version)

    def archive(self, upto: int | None = None, *, report: Report = quiet) -> int:
        """Move sealed segments that end at or below ``upto`` to blobs like `archive_segments`; return their number."""
        return archive_segments(self.log, upto, report=report)

    def forget_below(self, version: int, *, progress: Report | None = None) -> int:
        """Forget the versions below ``version`` and return the new floor. The floor never rises above a pinned version.

        Nor does it rise above `Rules.oldest_needed`. The snapshot of the floor replaces those versions. The method
        first makes the snapshot, compares it with the state computed from the log, and reads back the chunks, and all
        values that no recent scrub has read. ``progress`` is called with the entries read since its last call.

        Raises NotFound for a version beyond the head, Corrupt if the snapshot or its log is damaged, Redacted if the
        new floor has no state, Unavailable, ContentionError: the floor is unchanged. Raises OutcomeUnknown: the floor
        is unchanged or rose, and the next call resumes.
        """
        permitted = partial(self.rules.permitted_floor, self)
        floor = raise_floor_onto(self.log, version, lambda floor: self._prove_base(floor, progress), permitted)
        try:
            if self.state().floor < floor:
                self._writer.append(Event(FLOOR, floor))
        except (ContentionError, Unavailable) as exc:
            raise OutcomeUnknown("the floor rose, but its entry may be missing: call again", floor=floor) from exc
        return floor

    def free_segments(self, stop: Stop = never, report: Report = quiet) -> int:
        """Delete entries that were archived or forgotten long enough ago; return the number of segments. Restartable.

        First reads back the archive, or the snapshot that history begins with, as `free_segments` does for other logs.
        """
        return free_segments_below(self.log, lambda: require_base(self), stop, report)

    def _check_callable(self, name: str, args: Any) -> None:
        """Raise Invalid for a call that could only be rejected: a caller in this process can correct it at once."""
        mutator = self.rules.mutators.get(name)
        if mutator is None:
            raise Invalid("no such mutator", mutator=name, known=", ".join(sorted(self.rules.mutators)))
        if (reason := wrong_arguments(mutator, args)) is not None:
            raise Invalid(reason, mutator=name)

    def _prove_base(self, floor: int, progress: Report | None) -> Snapshot:
        """Make and prove the base snapshot. Record its digest in an entry, so that the hash chain covers it."""
        base = self._snapshots.take_base(floor)
        prove_base(self, base, progress)
        self._writer.append(Event(BASE, [floor, base_digest(tree_roots(self._states.load(floor)))]))
        return base

    def _commit(self, batch: MutationBatch) -> list[Outcome]:
        outcomes = self._writer.commit(batch)
        self._snapshots.begin_if_due()
        return outcomes
