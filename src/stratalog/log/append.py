"""Appends of entries to a log. The threads that share a handle share commits: the leader commits for queued threads.

`plan_append` is a pure function that decides the writes. `LogAppend` is the `ConditionalAppend` that commits them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from operator import attrgetter
from typing import Any

from msgspec import structs

from stratalog.clock import Observation
from stratalog.errors import (
    ConditionFailed,
    HistoryChanged,
    KeyReused,
    NotFound,
    OutcomeUnknown,
    StratalogError,
    Unavailable,
    VersionConflict,
    VersionForgotten,
)
from stratalog.group_commit import CommitDelay, GroupCommit
from stratalog.keys import number
from stratalog.limits import COMMIT_BLOB_BYTES_MAX, COMMIT_BYTES_MAX, COMMIT_WRITES_MAX, OBSERVATION_SECONDS_MAX
from stratalog.log.blob_batch import HELD_BYTES_MAX
from stratalog.log.conditional_append import ConditionalAppend
from stratalog.log.contention import Contention
from stratalog.log.entries import Entry
from stratalog.log.environment import Environment
from stratalog.log.head import Head, first_head, follow_head, head_rank
from stratalog.log.names import NameRecord, reread_name
from stratalog.log.pending_entry import FORGOTTEN, PendingEntry, draw_ids
from stratalog.log.plan import Plan, plan_append
from stratalog.newest import Newest
from stratalog.ports.index import Check, Delete, Equals, Item, Put

__all__ = ["Appender", "LogAppend"]

# A roll-over adds three writes, the check of the head adds one write, and a snapshot adds two writes. A snapshot checks
# the name record too, but not in a commit that rolls over.
JOINT_ENTRIES_MAX = COMMIT_WRITES_MAX - 6
JOINT_BYTES_MAX = COMMIT_BYTES_MAX // 2
# An entry may join a commit whose blobs are below this limit. One entry's blobs have at most `HELD_BYTES_MAX` bytes.
JOINT_BLOB_BYTES_MAX = COMMIT_BLOB_BYTES_MAX - HELD_BYTES_MAX

_in_doubt_versions = attrgetter("in_doubt")


class Appender:
    """Writes entries for all threads that share a handle. It remembers the head, so a lone writer reads nothing.

    Readers and the leader of a group commit share the head and the contention estimate. The estimate affects only the
    cost of an append. All other state that outlives a commit is changed by leaders only.
    """

    def __init__(
        self,
        environment: Environment,
        name: NameRecord,
        entry_as_stored: Callable[[int], Entry],
        segment_ready: Callable[[Head], bool],
        seen: Observation | None,
    ) -> None:
        self.environment = environment
        self.names = Newest(attrgetter("revision"), name)
        self.entry_as_stored = entry_as_stored
        self.segment_ready = segment_ready
        self.contention = Contention()
        self._group_commit: GroupCommit[PendingEntry] = GroupCommit()
        self._delay: CommitDelay[PendingEntry] = CommitDelay(environment.clock)
        self.heads: Newest[Head] = Newest(head_rank)
        self.left_behind: Head | None = None
        self.sent = (0, b"")
        """The version before the last commit that was sent, and the hash of the last entry in this commit."""

        # While the observation rule allows it, a head that is derived from the name record saves a read of the record.
        self.origin = Newest(head_rank, None if seen is None else first_head(name, seen))
        self.ask_again_at = 0
        self.branch_lost = False
        """Whether the index has another history than this process has seen."""

    @property
    def name(self) -> NameRecord:
        """Return the newest name record that this process has seen."""
        return self.names.require()

    def append(self, pending: PendingEntry) -> Entry:
        """Write ``pending`` as the next entry and return it, or raise its error. See `Log.append`.

        An interrupt of the leader ends only the leader's call. The other unsettled entries of its batch return to the
        front of the queue. The next leader finds out by the write ids which of these entries were written.
        """
        self._group_commit.commit(pending, self._serve)
        return pending.answer()

    def head(self) -> Head:
        """Read the head consistently. Return it, or a newer head that another thread has read or written meanwhile."""
        start = self.heads.value or self.origin.value
        read = follow_head(self.environment.index, self.environment.clock, self.name, start)
        # Get the known head after the read: another thread may have read and counted some entries meanwhile.
        known = self.heads.value
        head = self.heads.offer(read)
        if known is not None and head is read:
            others = self._others_between(known, head)
            if others or self.contention.contended:
                self.contention.saw(others, known.seen.seconds_until(head.seen))
        return head

    def known_head(self) -> Head | None:
        """Return the head that this process last read or wrote. Other processes may have appended since."""
        return self.heads.value

    def _others_between(self, known: Head, head: Head) -> int:
        """Return the number of entries between the two heads that other processes wrote.

        A reader may read the entries of this process's commit before the leader learns the outcome. Only the hash
        shows which process wrote these entries.
        """
        before, hash = self.sent
        return max(0, (before if hash == head.hash else head.version) - known.version)

    def turn(self) -> AbstractContextManager[bool]:
        """See `Log.turn`."""
        return self.environment.index.turn(self.name.prefix)

    def is_behind(self) -> bool:
        """See `Log.is_behind`."""
        head = self.heads.value
        if head is None or head is self.left_behind:
            return True
        return self.contention.contended and self.contention.is_behind(head.seen.age_seconds())

    def _serve(self, batch: list[PendingEntry]) -> None:
        if not self._group_commit.waiting and not self._delay.others:
            self._run(batch)
            return
        self._delay.wait(self._group_commit)
        self._fill(batch)
        self._delay.measure(batch, self._run)

    def _fill(self, batch: list[PendingEntry]) -> None:
        """Add queued entries in order until the commit is full; none if the index charges more for a joint commit.

        An entry with a snapshot is the last entry of its commit.
        """
        size, blob_bytes = len(batch[0].body), batch[0].blob_bytes
        entries_max = JOINT_ENTRIES_MAX if self.environment.index.joint_commits else 1
        while len(batch) < entries_max and size < JOINT_BYTES_MAX and blob_bytes < JOINT_BLOB_BYTES_MAX:
            if batch[-1].snapshot is not None or not self._group_commit.take(batch):
                break
            size += len(batch[-1].body)
            blob_bytes += batch[-1].blob_bytes

    def _run(self, batch: list[PendingEntry]) -> None:
        append = LogAppend(self, list(batch))
        try:
            append.run()
        except StratalogError as exc:
            for pending in batch:
                if not pending.settled:
                    pending.fail(exc.copy())  # another thread raises each copy
        except BaseException:
            append.interrupt()
            raise


class LogAppend(ConditionalAppend[Head, Plan]):
    """The append of one batch of entries. Each entry is settled on its own and then leaves the batch."""

    def __init__(self, appender: Appender, batch: list[PendingEntry]) -> None:
        super().__init__(appender.environment)
        self._appender = appender
        self._batch = batch
        draw_ids(appender.environment.clock, batch)

    def _is_settled(self) -> bool:
        return not self._batch

    def _in_doubt(self) -> bool:
        return any(map(_in_doubt_versions, self._batch))

    def _turn(self) -> AbstractContextManager[bool]:
        return self._appender.turn()

    def _pace(self) -> Contention:
        return self._appender.contention

    def _details(self) -> dict[str, Any]:
        return {"log": self._appender.name.name}

    def _reads_first(self) -> bool:
        """Return whether the first try reads the head anew. An entry with an expected version needs no new head."""
        return self._appender.is_behind() and any(pending.expected is None for pending in self._batch)

    def _prepare(self) -> None:
        """Refresh aged blobs of entries. A refresh takes time, so set the time of sending again after a refresh."""
        for pending in self._batch:
            if pending.blob_batch is not None and pending.refresh():
                self._sent = Observation(self._environment.clock)

    def _known_head(self) -> Head | None:
        head, appender = self._appender.heads.value, self._appender
        # The caller that expects a version has just read the head. A second read would only find a newer head.
        if appender.contention.contended and (head is appender.left_behind or self._reads_first()):
            self._environment.count("read first")
            return None
        return head

    def _reread(self) -> Head:
        head = self._appender.head()
        self._fresh = True
        return head

    def _plan(self, head: Head) -> tuple[Plan, Head] | None:
        chosen = self._choose(head)
        if not chosen and not self._fresh:
            head = self._reread()
            chosen = self._choose(head)
        if not chosen:
            self._refuse_all(head)
            return None
        roll_over = self._roll_over_due(head)
        if (roll_over or chosen[-1].snapshot is not None) and not self._is_open(head):
            return None
        name, joint = self._appender.names.require(), self._environment.index.joint_commits
        plan = plan_append(name, head, chosen, self._sent.wall_ms, roll_over=roll_over, checks_head=joint)
        self._appender.sent = (head.version, plan.hashes[-1])
        return plan, head

    def _choose(self, head: Head) -> list[PendingEntry]:
        """Return the entries whose expected version fits the version that they would get after ``head``."""
        chosen: list[PendingEntry] = []
        for pending in self._batch:
            if pending.expected is None or pending.expected == head.version + len(chosen):
                chosen.append(pending)
        return chosen

    def _refuse_all(self, head: Head) -> None:
        """Settle the entries that expect another version. ``head`` was read during this call, or is newer."""
        assert self._fresh, "only a head read during this call justifies a refusal"
        for pending in list(self._batch):
            self._refuse(pending, head)

    def _refuse(self, pending: PendingEntry, head: Head) -> None:
        """Settle an entry that expected another version, by `_is_answered_at` or else by VersionConflict."""
        expected, name = pending.expected or 0, self._appender.name.name
        if not (pending.named and expected < head.version and self._is_answered_at(pending, expected + 1)):
            pending.error = VersionConflict(
                "the log is not at the expected version", log=name, expected=expected, actual=head.version
            )
        self._batch.remove(pending)

    def _is_answered_at(self, pending: PendingEntry, version: int) -> bool:
        """Settle ``pending`` by the entry stored as ``version``. Return False if ``pending`` is not settled.

        A stored entry with the same write id settles ``pending``. The stored entry may be the pending entry itself, may
        be redacted, or may belong to another request. A forgotten ``version`` settles ``pending`` too.
        """
        try:
            entry = self._appender.entry_as_stored(version)
        except VersionForgotten:
            pending.error = OutcomeUnknown(FORGOTTEN, version=version)
            return True
        except NotFound:
            return False
        if entry.write_id != pending.write_id:
            return False
        pending.settle_by(entry, self._appender.name.name)
        return True

    def _is_open(self, head: Head) -> bool:
        """Return whether the head's segment is still current. A sealed segment could be freed before the commit."""
        name, seen = self._appender.name, Observation(self._environment.clock)
        name = self._appender.names.offer(reread_name(self._environment.index, name))
        if name.segment == head.segment:
            return True
        self._appender.heads.drop(head)
        self._appender.origin.offer(first_head(name, seen))
        return False

    def _roll_over_due(self, head: Head) -> bool:
        target = self._environment.settings.segment_entries_target
        over = head.version - head.segment + 1 - target
        if over < 0:
            return False
        if over >= target:
            self._environment.count("roll-over without snapshot", not self._appender.segment_ready(head))
            return True
        if head.version < self._appender.ask_again_at:
            return False
        ready = self._appender.segment_ready(head)
        if not ready:
            self._appender.ask_again_at = head.version + max(1, target // 8)
        return ready

    def _land(self, plan: Plan, head: Head) -> None:
        """Settle the plan, or mark it in doubt if the answer came later than the observation rule allows."""
        assert plan.first == head.version + 1, "a plan is landed with the head that it follows"
        if head.seen.age_seconds() > OBSERVATION_SECONDS_MAX:
            self._mark_in_doubt(plan)
            return
        self._settle(plan)
        appender = self._appender
        last = plan.first + len(plan.batch) - 1
        appender.heads.offer(Head(last, plan.segment, plan.created_ms, plan.hashes[-1], self._sent))
        self._fresh = True
        if appender.contention.contended:
            appender.contention.saw(0, head.seen.seconds_until(self._sent))
            appender.contention.won()
        if plan.segment != head.segment:
            self._environment.count("roll-over")
            # Only the leader offers name records, so `appender.name` is still the record that the plan replaced.
            old = appender.name
            assert old.segment == head.segment, "a roll-over seals the segment that the name record names"
            appender.names.offer(structs.replace(old, segment=plan.segment, hash=head.hash, revision=old.revision + 1))

    def _settle(self, plan: Plan) -> None:
        for position, pending in enumerate(plan.batch):
            assert pending.entry is None, "an entry is settled once"
            try:
                pending.settle(pending.entry_at(plan.first + position, plan.created_ms, plan.hashes[position]))
            except OutcomeUnknown:
                self._mark_in_doubt(plan)
                raise
            self._batch.remove(pending)

    def _learn(self, plan: Plan, head: Head, conflict: ConditionFailed) -> bool:
        """Record the lost race. The next try reads the head after the back-off: a head read now would be outdated."""
        if self._head_is_gone(plan, head, conflict):
            return False
        ours = {pending.write_id for pending in plan.batch}
        if any(item is not None and item.attributes.get("w") in ours for item in conflict.items.values()):
            self._mark_in_doubt(plan)
        self._appender.left_behind = head
        self._appender.contention.lost(self._environment.settings)
        failed = [plan.writes[position] for position in conflict.items]
        if (snapshot := plan.batch[-1].snapshot) is not None:
            snapshot.learn(failed)
        # If only checks of the snapshot failed, no version is taken, and the next try commits the entries again.
        is_taken = any(isinstance(write, Put) for write in failed)
        return not is_taken or any(pending.expected is None for pending in plan.batch)

    def _head_is_gone(self, plan: Plan, head: Head, conflict: ConditionFailed) -> bool:
        """Drop the head and return True if its entry may have been freed since the head was read; else return False.

        Raises HistoryChanged if the entry is missing or replaced although it cannot have been freed yet.
        """
        last = len(plan.writes) - 1
        if last not in conflict.items or not isinstance(plan.writes[last], Check):
            return False
        if head.seen.age_seconds() <= OBSERVATION_SECONDS_MAX:
            self._appender.branch_lost = True
            raise HistoryChanged(
                "the stored history changed behind this handle, as after a restore; open the log again",
                log=self._appender.name.name,
                version=head.version,
            )
        self._appender.heads.drop(head)
        return True

    def _mark_in_doubt(self, plan: Plan) -> None:
        for version, pending in enumerate(plan.batch, plan.first):
            if (plan.partition, version) not in pending.in_doubt:
                pending.in_doubt.append((plan.partition, version))

    def _resolve_doubts(self, head: Head) -> None:
        for pending in list(self._batch):
            for possible in list(pending.in_doubt):
                if self._landed(pending, *possible, head):
                    self._batch.remove(pending)
                    break

    def _landed(self, pending: PendingEntry, partition: str, version: int, head: Head) -> bool:
        item = self._environment.index.get(partition, number(version))
        if item is None and version > head.version:
            return False
        ours = item is not None and item.attributes.get("w") == pending.write_id
        if (item is None or ours) and self._is_answered_at(pending, version):
            # This version may belong to another request, and our own entry may be stored at another version in doubt.
            if not isinstance(pending.error, KeyReused) or pending.in_doubt == [(partition, version)]:
                return True
            pending.error, ours = None, False
        if item is not None and ours:
            self._remove_orphan(item, pending)
        pending.in_doubt.remove((partition, version))
        return False

    def _remove_orphan(self, item: Item, pending: PendingEntry) -> None:
        """Delete an entry that was stored in a freed position, where no reader reads the entry.

        A failed delete is ignored: the orphan stays, as after a crash of the process.
        """
        with suppress(ConditionFailed, Unavailable, OutcomeUnknown):
            self._environment.index.commit([Delete(item.partition, item.sort, Equals("w", pending.write_id))])
