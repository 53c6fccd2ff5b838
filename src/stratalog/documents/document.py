"""Document: the handle through which people and programs change one document and look at any of its versions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from stratalog.documents import history as past
from stratalog.documents.commit_builder import commit_of
from stratalog.documents.commits import COLLECT, FLOOR
from stratalog.documents.run import Run, run_batch
from stratalog.documents.snapshots import load_state, roots_of, take_snapshot
from stratalog.documents.state import State
from stratalog.documents.values import Values
from stratalog.documents.view import View
from stratalog.errors import (
    ContentionError,
    Invalid,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionConflict,
    VersionForgotten,
)
from stratalog.limits import MUTATIONS_PER_BATCH_MAX
from stratalog.log import Entry, Event, Log
from stratalog.log.blob_batch import BlobBatch
from stratalog.log.head import Head
from stratalog.log.lifecycle import delete_log, fork_log
from stratalog.log.retention import archive_segments, raise_floor
from stratalog.log.snapshots import newest_snapshot
from stratalog.newest import Newest
from stratalog.ports.index import no_turn
from stratalog.process_fork import close_in_child
from stratalog.protocol.messages import Mutation, Outcome, check_identity, check_mutation
from stratalog.protocol.mutators import BUILT_IN_MUTATORS, Mutators
from stratalog.retry import Retry
from stratalog.tree.chunks import Chunks

__all__ = ["DEFAULT_CLIENT", "Document", "Rules"]

DEFAULT_CLIENT = "local"


class Rules(msgspec.Struct, frozen=True):
    """What an application brings: its mutators, and the item fields that are kept inline as metadata."""

    mutators: Mutators = BUILT_IN_MUTATORS
    metadata_fields: tuple[str, ...] = ("id", "name")


class Document:
    """A log of mutations, and the state that follows from it.

    Safe to share between threads. A handle speaks of one incarnation; once that is deleted, calls raise NotFound.
    """

    def __init__(self, log: Log, rules: Rules | None = None) -> None:
        self.log = log
        self.rules = rules or Rules()
        self.values = Values(log.environment.blobs, log.record.owner, self.rules.metadata_fields)
        self.chunks = Chunks(log.environment.blobs, log.record.owner)
        self._turn = threading.Lock()
        self._snapshots = threading.Lock()
        close_in_child(self, "_turn", "_snapshots")
        self._state: Newest[State] = Newest(_version, join=_on_newer_base)

    @property
    def organisation(self) -> str:
        """Who it belongs to."""
        return self.log.record.organisation

    @property
    def name(self) -> str:
        """Its id, unique in the store."""
        return self.log.record.name

    @property
    def version(self) -> int:
        """The newest version, read now."""
        return self.log.head().version

    # Changing

    def mutate(
        self, name: str, args: Any = None, *, client: str = DEFAULT_CLIENT, id: int = 0, author: str = ""
    ) -> Outcome:
        """Apply one mutation, numbered after the client's last unless ``id`` is given. See `apply`."""
        return self.apply([Mutation(client=client, name=name, args=args, id=id)], author=author or client)[0]

    def apply(
        self, mutations: Sequence[Mutation], *, group: str = "", owner: str = "", author: str = ""
    ) -> list[Outcome]:
        """Apply a batch as one entry, in order; answer what became of each.

        A mutation seen before is skipped, a gap stops its client only, a rejection is committed with its reason. Final
        answers come from a fresh head. ``group`` and ``owner`` are bound to a client at first sight.

        Raises Invalid or LimitExceeded for what may not be committed: nothing is written. Raises NotFound,
        ContentionError, Unavailable — nothing written — and OutcomeUnknown: apply the same batch again, with its ids.
        """
        if len(mutations) > MUTATIONS_PER_BATCH_MAX:
            raise LimitExceeded("a batch has too many mutations", value=len(mutations), limit=MUTATIONS_PER_BATCH_MAX)
        batch = [check_mutation(mutation) for mutation in mutations]
        check_identity(group, "group", empty=True)
        check_identity(owner, "owner", empty=True)
        with self._turn:
            outcomes = self._commit_batch(batch, group, owner, author)
            self._keep_snapshots()
        return outcomes

    def collect_clients(self, clients: Sequence[str], groups: Sequence[str] = ()) -> Entry:
        """Forget clients, as an entry; each group leaves a tombstone, so that its late mutations have no effect.

        A client without a group leaves none: its first mutation, sent again, is applied again. Raises Invalid.
        """
        buried = sorted(check_identity(group, "group") for group in groups)
        bindings = {check_identity(client, "client"): self.state().binding(client) for client in clients}
        forgotten = [[client, bound[0] if bound else ""] for client, bound in sorted(bindings.items())]
        return self._append_event(Event(COLLECT, [forgotten, buried]))

    def delete(self) -> None:
        """Delete the document. Its name may be used again; that is another incarnation."""
        delete_log(self.log)

    # Looking

    def at(self, version: int | None = None) -> View:
        """The whole state at a version (the newest, if None), to be read as far as it is looked at.

        Raises NotFound, VersionForgotten.
        """
        return View(self.state(version), self.values)

    def get(self, key: str, default: Any = None, *, at: int | None = None) -> Any:
        """One value at a version, or ``default``."""
        return self.at(at).get(key, default)

    def scan(self, prefix: str = "", *, at: int | None = None) -> Iterator[tuple[str, Any]]:
        """Keys and values at a version, in order."""
        return self.at(at).scan(prefix)

    def state(self, version: int | None = None) -> State:
        """The state behind `at`: immutable, shared."""
        if version is None:
            return self._fresh_state()
        if type(version) is not int or version < 0:
            raise Invalid("a version must be a whole number", value=version)
        if version < self.log.floor():
            raise VersionForgotten("the version is not kept", document=self.name, version=version)
        return self._state_at(version)

    def versions(self, after: int | None = None, upto: int | None = None) -> Iterator[past.Version]:
        """Versions after ``after`` (after the floor, if None) with their mutations and patch, in order.

        `at` gives the full state of any of them.
        """
        start = self.log.floor() if after is None else after
        return past.versions(self.log, self.values, start, upto)

    def history(self, key: str, *, at: int | None = None) -> Iterator[past.KeyChange]:
        """The changes of one key, newest first; reads those entries only."""
        return past.key_changes(self.log, self.values, self.state(at), key)

    def diff(self, source: int, target: int) -> Iterator[past.Difference]:
        """The keys that differ between two versions, in order; costs what changed."""
        return past.diff(self.values, self.state(source), self.state(target))

    def applied_in(self, client: str, id: int) -> int | None:
        """The version that committed a mutation; None if none has. Raises VersionForgotten: applied, but not kept."""
        return past.applied_in(self.log, self.state(), client, id)

    def last_mutation(self, client: str) -> int:
        """The number of the client's newest committed mutation; 0 for a client nobody has seen."""
        found = self.state().client(client)
        return found.id if found else 0

    # Copies, snapshots, retention

    def fork(self, name: str, *, at: int | None = None) -> Document:
        """A new document whose history up to ``at`` is this one's. One commit; clients start empty."""
        version = self.version if at is None else at
        return Document(fork_log(self.log, name, version), self.rules)

    def snapshot(self, version: int | None = None) -> int:
        """Make the snapshot of a version if there is none; answer the version.

        Commits of other threads go on meanwhile; other snapshots by this handle wait, so that one is in memory at most.
        """
        with self._snapshots:
            state = self.state(version)
            taken = take_snapshot(self.log, state)
            if not _is_made(taken):
                self._stand_on(taken)
                taken = take_snapshot(self.log, load_state(self.log, self.chunks, state.version))
            self._stand_on(taken)
        return state.version

    def archive(self, upto: int | None = None) -> int:
        """Move sealed segments that end at or below ``upto`` to blobs; they stay readable. Answer how many."""
        return archive_segments(self.log, upto)

    def forget_below(self, version: int, verify: Callable[[int], None]) -> int:
        """Raise the floor: versions below it are forgotten. ``verify`` must prove the base by rebuilding it."""

        def make_base(floor: int) -> None:
            self.snapshot(floor)
            base = newest_snapshot(self.log.environment.index, self.log.record.prefix, floor)
            if base is None or base.version < floor:
                raise Unavailable("the base snapshot could not be made", version=floor)
            verify(floor)

        floor = raise_floor(self.log, version, make_base)
        if self.state().floor < floor:
            self._append_event(Event(FLOOR, floor))
        return floor

    # The state of this process

    def _commit_batch(self, batch: list[Mutation], group: str, owner: str, author: str) -> list[Outcome]:
        """Steps 1 to 4 of DESIGN §7, until the batch is committed. The time budget begins with the first lost race."""
        retry: Retry | None = None
        lost: VersionConflict | None = None
        state = self._state.value
        fresh = state is None or self.log.is_behind()
        while True:
            # What must be read first is read inside the turn: a busy process would commit between the two.
            with self.log.turn() if fresh else no_turn() as has_turn:
                if retry and lost and not retry.wait(lost, has_turn=has_turn):
                    raise ContentionError("others kept changing the document first", document=self.name) from lost
                if state is None or fresh:
                    state = self._fresh_state()
                try:
                    run = self._try_batch(state, batch, group, owner, author)
                    if run.ran or fresh:
                        return run.outcomes
                except VersionConflict as exc:
                    lost, retry = exc, retry or self.log.retry()
            fresh = True

    def _try_batch(self, state: State, batch: list[Mutation], group: str, owner: str, author: str) -> Run:
        """The batch run on ``state``, and committed where it has an effect. Raises VersionConflict."""
        try:
            run = run_batch(state, self.values, self.rules.mutators, batch, group, owner)
            if run.ran:
                entry = self._append(state, run, author)
                self._state.offer(state.after([entry]))
        except (Unavailable, OutcomeUnknown):
            self._state.drop(state)
            raise
        return run

    def _append(self, state: State, run: Run, author: str) -> Entry:
        upload = BlobBatch(self.log.environment)
        event = commit_of(state, run, self.values, upload).event()
        return self.log.append(event, expected=state.version, author=author, upload=upload, checked=True)

    def _append_event(self, event: Event) -> Entry:
        with self._turn:
            state = self._state.value
            entry = self.log.append(event)
            self._state.drop(state)
        return entry

    def _fresh_state(self) -> State:
        """The state at the head, read now; or a newer one that another thread has made meanwhile.

        Readers come here beside a commit and do not wait for it.
        """
        head = self.log.head()
        state, interval = self._state.value, self.log.environment.settings.snapshot_entries_interval
        if state is not None and state.stale:
            self._state.drop(state)
            state = None
        if state is None or head.version - state.version > interval:
            return self._state.offer(self._load(head.version, head))
        if state.version >= head.version:
            return state
        state = state.after(self.log.read(state.version, head.version, head=head))
        if state.snapshot_version < state.floor:
            # The snapshot beneath went with the history; its chunks are the collector's.
            state = self._load(head.version, head)
        return self._state.offer(state)

    def _load(self, version: int, head: Head) -> State:
        return load_state(self.log, self.chunks, version, head)

    def _state_at(self, version: int) -> State:
        state = self._state.value
        if state is not None and state.version == version:
            return state
        head = self.log.known_head()
        if head is None or head.version < version:
            head = self.log.head()
        if version > head.version:
            raise NotFound("no such version", document=self.name, version=version, head=head.version)
        return self._load(version, head)

    def _keep_snapshots(self) -> None:
        """The writer that crosses the interval makes the snapshot, after its commit. One that fails is made up later:
        the lag stays, so that the next commit sees it, as does one that comes while another is made.
        """
        state = self._state.value
        interval = self.log.environment.settings.snapshot_entries_interval
        if state is None or state.version - max(state.snapshot_version, self.log.first) < interval:
            return
        if not self._snapshots.acquire(blocking=False):
            return
        try:
            newest = newest_snapshot(self.log.environment.index, self.log.record.prefix, state.version)
            if newest and newest.version > state.snapshot_version:
                state = self._state.offer(state.onto(newest.version, roots_of(newest)))
            if state.version - state.snapshot_version >= interval:
                self._stand_on(take_snapshot(self.log, state))
        except (Unavailable, OutcomeUnknown):
            self.log.environment.counters["snapshot failed"] += 1
        except StratalogError:
            # The commit stands whatever becomes of its snapshot. Where a chunk is gone, so is the base of the state.
            self._forget_base(state.snapshot_version)
            self.log.environment.counters["snapshot failed"] += 1
        finally:
            self._snapshots.release()

    def _stand_on(self, taken: State) -> None:
        """Stand on the snapshot that was made, with what was committed since, unless on a newer one by now.

        Where the snapshot was not made because its own base is gone, states on that base are dropped.
        """
        if not _is_made(taken):
            self._forget_base(taken.snapshot_version)
            return
        state = self._state.value
        if state is not None and state.snapshot_version < taken.version <= state.version:
            self._state.offer(state.onto(taken.version, taken.roots))

    def _forget_base(self, snapshot_version: int) -> None:
        state = self._state.value
        if state is not None and state.snapshot_version == snapshot_version:
            self._state.drop(state)


_version = attrgetter("version")


def _on_newer_base(newer: State, older: State) -> State:
    """The newer state, on the snapshot of the older one where that is newer and not known to be gone."""
    if newer.snapshot_version < older.snapshot_version <= newer.version and not older.stale:
        return newer.onto(older.snapshot_version, older.roots)
    return newer


def _is_made(taken: State) -> bool:
    return taken.snapshot_version == taken.version
