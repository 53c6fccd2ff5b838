"""StateCache: the newest state of a document in this process. The threads share it, and its version never falls."""

from __future__ import annotations

from operator import attrgetter

from stratalog.documents.snapshots import LOOKS_MAX, load_state
from stratalog.documents.state import State
from stratalog.errors import NotFound, Redacted, Unavailable, VersionForgotten
from stratalog.keys import check_version
from stratalog.log import Log
from stratalog.log.head import Head
from stratalog.newest import Newest
from stratalog.tree.chunks import Chunks

__all__ = ["StateCache", "cached_chunks"]


class StateCache:
    """Holds one state, the newest that any thread has offered. Other versions are loaded from storage and not held.

    These rules hold for any actions of a handle's threads (docs/design.md#a-process-never-goes-back):

    - The version of the held state never falls. After a state is dropped, the cache accepts no older state.
    - Of the held and the offered state the cache keeps the newer state, over the newer of their two snapshots. It does
      not use a snapshot that is known to be gone.
    - The lock inside `Newest` protects only the replacement. No thread reads storage under the lock, so no thread waits
      long for it.
    - A state is immutable, so readers share it without a lock. A decision reads `cached` once and passes that state on,
      since the next read may return a newer state.
    """

    def __init__(self, log: Log, chunks: Chunks) -> None:
        self.log = log
        self._chunks = chunks
        self._shared: Newest[State] = Newest(_version, join=_on_newer_base)

    @property
    def cached(self) -> State | None:
        """The held state, which may be behind the head. None at first, and after the state was dropped."""
        return self._shared.value

    def at(self, version: int | None = None) -> State:
        """Return the state at ``version``, or at the head now if None.

        Raises Invalid, NotFound, VersionForgotten, Redacted, Corrupt, Unavailable.
        """
        if version is None:
            return self.fresh()
        if check_version(version, minimum=0) < self.log.floor():
            raise VersionForgotten("the version is no longer kept", document=self.log.record.name, version=version)
        return self._at_version(version)

    def fresh(self) -> State:
        """Return the state at the head, read now, or a newer state that another thread has made meanwhile.

        A reader may call this method during a commit, and does not wait for the commit. Raises NotFound; Unavailable if
        history was repeatedly forgotten before this method could read it; Corrupt if kept history is missing.
        """
        for _ in range(LOOKS_MAX):
            head = self.log.head()
            try:
                state = self._shared.offer(self._at_head(self._shared.value, head))
            except VersionForgotten:
                continue  # the floor rose above the head that was read; a fresh head is never below the floor
            assert state.version >= head.version, "a fresh state is not older than the head just read"
            return state
        raise Unavailable("the history was forgotten while it was read; read again", document=self.log.record.name)

    def _at_head(self, state: State | None, head: Head) -> State:
        """Return the state at ``head``, or ``state`` if that is newer. Raises VersionForgotten if a floor rises."""
        interval = self.log.environment.settings.snapshot_entries_interval
        if state is not None and state.stale:
            self._shared.drop(state)
            state = None
        if state is None or head.version - state.version > interval:
            return self.load(head.version, head)
        if state.version >= head.version:
            return state
        try:
            state = state.after(self.log.read(state.version, head.version, head=head))
        except (Redacted, VersionForgotten):
            # A floor rose, or a version in between was erased after a newer snapshot was made.
            return self.load(head.version, head)
        # The snapshot of a state may be forgotten with the history below the floor, and its chunks may be collected.
        return self.load(head.version, head) if state.snapshot_version < state.floor else state

    def load(self, version: int, head: Head | None = None) -> State:
        """Return the state at a version, loaded by `load_state`. The cache does not hold this state."""
        return load_state(self.log, self._chunks, version, head)

    def offer(self, state: State) -> State:
        """Hold ``state`` unless a newer state is or was held. Return the held state; ``state`` if no state is held."""
        return self._shared.offer(state)

    def move_onto(self, taken: State) -> None:
        """Move the held state, with its later changes, onto the snapshot of ``taken``, if its own snapshot is older.

        A held state older than the snapshot is left as it is.
        """
        state = self._shared.value
        if state is not None and state.snapshot_version < taken.version <= state.version:
            self._shared.offer(state.onto(taken.version, taken.roots))

    def drop(self, state: State | None) -> None:
        """Drop ``state``. If another state has replaced it, that state stays."""
        self._shared.drop(state)

    def drop_base(self, snapshot_version: int) -> None:
        """Drop the held state if it is based on the snapshot of this version."""
        state = self._shared.value
        if state is not None and state.snapshot_version == snapshot_version:
            self._shared.drop(state)

    def _at_version(self, version: int) -> State:
        state = self._shared.value
        if state is not None and state.version == version and not state.stale:
            return state
        head = self.log.known_head()
        if head is None or head.version < version:
            head = self.log.head()
        if version > head.version:
            raise NotFound("version not found", document=self.log.record.name, version=version, head=head.version)
        return self.load(version, head)


def cached_chunks(log: Log) -> Chunks:
    """Return the chunks of the log's owner, loaded through the store's caches."""
    environment = log.environment
    return Chunks(environment.blobs, log.record.owner, environment.chunk_cache, environment.chunk_source)


_version = attrgetter("version")


def _on_newer_base(newer: State, older: State) -> State:
    """Return the newer state. Move it onto the older state's snapshot if that snapshot is newer and not known lost."""
    if newer.snapshot_version < older.snapshot_version <= newer.version and not older.stale:
        return newer.onto(older.snapshot_version, older.roots)
    return newer
