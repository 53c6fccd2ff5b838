"""The check of one log: its hash chain with all bodies, and whether the log's other items agree with each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stratalog.errors import Corrupt, NotFound
from stratalog.keys import (
    NAME_SORT,
    checkpoints_partition,
    deleted_partition,
    directory_partition,
    entries_partition,
    family_partition,
    forks_partition,
    name_partition,
    names_partition,
    number,
    parse_number,
    snapshots_partition,
    split_prefix,
)
from stratalog.log import Entry, Environment, Log
from stratalog.log.app_snapshots import ADDRESS_BYTES, manifest_of, read_app_snapshot_back
from stratalog.log.archive import open_archive
from stratalog.log.callbacks import Report
from stratalog.log.directory import LOGS
from stratalog.log.entries import SEAL
from stratalog.log.family_members import depth_of
from stratalog.log.names import read_name, read_name_of
from stratalog.log.pins import Pin, pin_of
from stratalog.log.segments import Segment, list_segments, segment_holding
from stratalog.log.snapshots import Snapshot, list_snapshots
from stratalog.log.verification import ChainReport, verify_log
from stratalog.maintenance.damage import DamageList, entry_key, item_key, segment_key, snapshot_key
from stratalog.ports.index import Item

__all__ = ["LogCheck"]

APP_SNAPSHOT_HEAD = b"\x94\xacapp-snapshot"
HEAD_BYTES_DAMAGED_MAX = 2


class LogCheck:
    """Checks one incarnation of a log through an environment that records unreadable objects.

    The check reads the name record first and compares the other items with it. A commit during the check can make two
    items differ. Therefore `inspect_history` reads a history with damage again.
    """

    def __init__(self, environment: Environment, log: Log, damages: DamageList, upto: int | None) -> None:
        self.log = log
        self.record = log.record
        self._environment = environment
        self._index = environment.index
        self._damages = damages
        self._upto = upto
        self.hashes: dict[int, bytes] = {}
        """The hash stored in the entry of each version that another item names; empty until the entry is read."""

    def run(self, progress: Report | None, visit: Callable[[Entry], None] = lambda entry: None) -> ChainReport:
        """Check all but snapshot bodies and document state. Call ``visit`` with each entry.

        Raises NotFound, Unavailable.
        """
        self.hashes = dict.fromkeys(self._named_versions(), b"")
        report = verify_log(self.log, self._upto, progress=progress, visit=self._visitor(visit))
        self._damages.first = self._damages.last = 0
        self.hashes[report.start] = self.log.hash_at(report.start)
        for finding in report.findings:
            self._damages.add_finding(finding, "entry", "entry body", self._entry_key)
        if any(finding.version == report.start + 1 for finding in report.findings):
            self._doubt_name("its floor or lineage does not lead to the first kept entry")
        segments = list(list_segments(self._index, self.record.prefix))
        firsts = {segment.first for segment in segments}
        for finding in report.findings:
            for first in firsts:
                if finding.kind == "missing" and not finding.key and finding.version <= first <= finding.last:
                    key = segment_key(self.record.prefix, first)
                    self._damages.add("segment record", key, "contradicts", "it begins at an entry that does not exist")
        self._check_name(segments)
        if not self.record.redacted and any(version > self.log.first for version in report.redacted):
            self._doubt_name("it does not record that a version was redacted")
        self._check_segments(segments)
        self._check_directory()
        self._check_family()
        self._check_hashes(report.version)
        return report

    def check_app_snapshots(self) -> None:
        """Read back each app snapshot with its parts."""
        for snapshot in list_snapshots(self._index, self.record.prefix, first=self.record.floor):
            self._damages.first = self._damages.last = snapshot.version
            if not _is_sound(snapshot):
                reason = "it is not a list of the parts of an app snapshot"
                self._damages.add("snapshot", snapshot_key(snapshot.prefix, snapshot.version), "damaged", reason)
                continue
            for reading in read_app_snapshot_back(self._environment.blobs, self.record.owner, snapshot):
                if reading.damage is not None and (reading.damage.is_missing or not reading.key):
                    reason = "a part that it names does not exist"
                    self._damages.add(
                        "snapshot", snapshot_key(snapshot.prefix, snapshot.version), "contradicts", reason
                    )
        self._damages.first = self._damages.last = 0

    def _named_versions(self) -> Iterator[int]:
        yield self.record.segment - 1
        yield from (parent.version for parent in self.record.lineage)
        for item in self._index.query(snapshots_partition(self.record.prefix)):
            yield parse_number(item.sort)
        for item in self._index.query(checkpoints_partition(self.record.prefix)):
            yield int(item.attributes["v"])

    def _visitor(self, visit: Callable[[Entry], None]) -> Callable[[Entry], None]:
        def visit_entry(entry: Entry) -> None:
            if entry.version in self.hashes:
                self.hashes[entry.version] = entry.hash
            self._damages.first = self._damages.last = entry.version
            visit(entry)
            # The log may now read ahead. If it then finds a damaged object, this version does not need the object.
            self._damages.first = self._damages.last = 0

        return visit_entry

    def _entry_key(self, version: int) -> str:
        return entry_key(self._index, self.record, version)

    def _doubt_name(self, reason: str) -> None:
        """Report the name record too: of two items that differ, either may be the damaged one."""
        key = item_key(name_partition(self.record.organisation, self.record.name), NAME_SORT)
        self._damages.add("name record", key, "contradicts", reason)

    def _check_name(self, segments: list[Segment]) -> None:
        record, own = self.record, self.log.first + 1
        if not any(segment.first == record.segment for segment in segments):
            missing = segment_key(record.prefix, record.segment)
            self._damages.add("segment record", missing, "missing", "the name record names a segment without a record")
            self._doubt_name("the segment that it names has no record")
        elif segments[-1].first != record.segment and not self._rolled_over():
            self._doubt_name("the segment that it names is not the last segment")
        if bool(record.floor) != bool(record.floor_hash):
            self._doubt_name("it has a floor without its hash, or a hash without the floor")
        known = self.hashes.get(record.segment - 1)
        if known and known != record.hash and record.segment > own:
            self._doubt_name("its hash differs from that of the version that it names")
        if record.lineage and record.segment == own and record.hash != record.lineage[-1].hash:
            self._doubt_name("its hash differs from that of the fork point")
        for parent in record.lineage:
            known = self.hashes.get(parent.version)
            if known and known != parent.hash:
                self._doubt_name("its lineage contradicts the history of an ancestor")
            self._check_pin(parent.prefix, parent.version)
            above = read_name(self._index, parent.organisation, parent.name)
            if above is not None and above.incarnation == parent.incarnation and above.origin != record.origin:
                self._doubt_name("its origin differs from that of its ancestor")
                above_key = item_key(name_partition(parent.organisation, parent.name), NAME_SORT)
                self._damages.add("name record", above_key, "contradicts", "its origin differs from that of its fork")

    def _rolled_over(self) -> bool:
        """Return whether the name record now names another segment than the record that was read, or is gone."""
        now = read_name(self._index, self.record.organisation, self.record.name)
        return now is None or now.segment != self.record.segment

    def _check_pin(self, parent: str, version: int) -> None:
        partition, sort = forks_partition(parent), Pin(version, self.record.prefix).sort
        if self._index.get(partition, sort) is None:
            reason = "an ancestor has no pin of its fork"
            self._damages.add("pin", item_key(partition, sort), "missing", reason, derivable=True)
            self._doubt_name("an ancestor that it names has no pin of this log")

    def _check_segments(self, segments: list[Segment]) -> None:
        floor = max(self.log.first, self.record.floor)
        if segments and segments[0].first > floor + 1:
            self._miss_segment(self.log.first + 1)
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            key = segment_key(self.record.prefix, segment.first)
            if segment.last and following is not None and segment.last != following.first - 1:
                self._damages.add("segment record", key, "contradicts", "it does not end where the next segment begins")
                if segment.first <= segment.last < following.first:
                    self._miss_segment(segment.last + 1)
            if bool(segment.marked_ms) != bool(segment.last) or 0 < segment.last < segment.first:
                self._damages.add("segment record", key, "contradicts", "its mark contradicts its last version")
            is_retained = following is None or following.first - 1 > self.record.floor
            if segment.is_forgotten and is_retained:
                self._damages.add("segment record", key, "contradicts", "it is marked as forgotten above the floor")
            # A segment at or below the floor may still name the base of an earlier floor, until it is forgotten.
            if segment.base and is_retained and segment.base != self.record.floor:
                self._damages.add("segment record", key, "contradicts", "its base is not the floor")
            self._check_begin(segment, key, segment is segments[0])
            if is_retained and segment.first <= self.record.floor:
                self._check_forgotten(segment)
            if following is not None:
                self._check_seal(segment, following)
            if segment.archive is not None:
                self._check_archive(segment)

    def _check_forgotten(self, segment: Segment) -> None:
        """Check that the forgotten entries of a segment with kept entries can be decoded: a backup copies them too."""
        for _ in self._index.query(
            entries_partition(self.record.prefix, segment.first), before=number(self.record.floor + 1)
        ):
            pass

    def _miss_segment(self, first: int) -> None:
        key = segment_key(self.record.prefix, first)
        self._damages.add("segment record", key, "missing", "a segment has no record")

    def _check_begin(self, segment: Segment, key: str, is_first: bool) -> None:
        """Check an unmarked segment's time: its first entry's time. The first segment may have the log's time."""
        entry = self._item(segment, segment.first)
        entry_ms = entry.attributes["c"] if entry is not None else 0
        times = (entry_ms, self.record.created_ms if is_first else entry_ms)
        if not segment.marked_ms and segment.created_ms not in times:
            self._doubt_begin(key)

    def _doubt_begin(self, key: str) -> None:
        self._damages.add("segment record", key, "contradicts", "its time differs from that of its first entry")

    def _item(self, segment: Segment, version: int) -> Item | None:
        return self._index.get(entries_partition(self.record.prefix, segment.first), number(version))

    def _check_seal(self, segment: Segment, following: Segment) -> None:
        """Check a segment's seal. Skip a marked segment: another process with another clock may be freeing it."""
        if segment.marked_ms:
            return
        seal = self._item(segment, following.first)
        item_partition = entries_partition(self.record.prefix, segment.first)
        key = item_key(item_partition, number(following.first))
        if seal is None or seal.attributes.get("k") != SEAL:
            # The segment may have been marked and freed since its record was read. A freed segment needs no seal.
            if segment_holding(self._index, self.record.prefix, segment.first) != segment:
                return
            last = next(self._index.query(item_partition, reverse=True, limit=1), None)
            if last is not None and last.attributes.get("k") == SEAL and parse_number(last.sort) < following.first:
                self._miss_segment(parse_number(last.sort))
            else:
                self._damages.add("seal", key, "missing", "a segment ends without a seal", derivable=True)
        elif seal.attributes["c"] != following.created_ms:
            self._damages.add("seal", key, "contradicts", "its time is not the next segment's time", derivable=True)
            self._doubt_begin(segment_key(self.record.prefix, following.first))

    def _check_archive(self, segment: Segment) -> None:
        """Read the archive itself. Instead of a damaged archive, other readers use the entries until they are freed."""
        self._damages.first, self._damages.last = segment.first, segment.last
        record = self.record
        key = f"{record.owner}/archive/{segment.archive.address.hex()}" if segment.archive else ""
        try:
            items = open_archive(self._environment, record.prefix, record.owner, segment)
        except (Corrupt, NotFound) as exc:
            self._damages.add("archive", key, "damaged", str(exc), derivable=not segment.freed)
            record_key = segment_key(record.prefix, segment.first)
            self._damages.add(
                "segment record", record_key, "contradicts", "the archive that it names is missing or damaged"
            )
        else:
            self._compare_archived(segment, {item.sort: item for item in items})
            times = (self.record.created_ms, items[0].attributes.get("c") if items else 0)
            if segment.created_ms not in times:
                self._doubt_begin(segment_key(record.prefix, segment.first))
        self._damages.first = self._damages.last = 0

    def _compare_archived(self, segment: Segment, archived: dict[str, Item]) -> None:
        """Compare the entries that are archived but not freed yet with their archive."""
        if segment.freed:
            return
        for item in self._index.query(entries_partition(self.record.prefix, segment.first)):
            known = archived.get(item.sort)
            if known is not None and dict(known.attributes) != dict(item.attributes):
                again = segment_holding(self._index, self.record.prefix, segment.first)
                if again == segment:
                    key = item_key(item.partition, item.sort)
                    self._damages.add("entry", key, "contradicts", "it differs from the entry in the archive")

    def _check_directory(self) -> None:
        """Compare the name record with the directory line (kind and time) and with the name line (kind)."""
        record = self.record
        line = self._index.get(directory_partition(record.organisation, LOGS, 0), record.name)
        key = item_key(directory_partition(record.organisation, LOGS, 0), record.name)
        if line is None:
            self._damages.add("directory line", key, "missing", "a live log is not listed", derivable=True)
        elif (line.attributes["k"], line.attributes["c"]) != (record.kind, record.created_ms):
            self._damages.add("directory line", key, "contradicts", "its kind or time differs from the name record")
            self._doubt_name("its kind or time differs from that of the directory")
        name_line = self._index.get(names_partition(record.name), record.organisation)
        key = item_key(names_partition(record.name), record.organisation)
        if name_line is None:
            self._damages.add("name line", key, "missing", "a live log has no line under its name", derivable=True)
        elif name_line.attributes["k"] != record.kind:
            is_listed_so = line is not None and line.attributes["k"] == record.kind
            reason = "its kind differs from that of the name record"
            self._damages.add("name line", key, "contradicts", reason, derivable=is_listed_so)

    def _check_family(self) -> None:
        record, partition = self.record, family_partition(self.record.owner)
        member = self._index.get(partition, record.prefix)
        if member is None:
            reason = "a log is not a member of its family"
            self._damages.add("family member", item_key(partition, record.prefix), "missing", reason, derivable=True)
            self._doubt_name("its family does not list it")
        elif record.owner == record.prefix:
            if depth_of(member):
                self._doubt_depth(member)
        elif record.lineage:
            parent = self._index.get(partition, record.lineage[-1].prefix)
            # The depth is not the length of the lineage. A fork at its parent's own fork point has the same lineage as
            # its parent, but is one level deeper.
            if parent is not None and depth_of(member) <= depth_of(parent):
                self._doubt_depth(member)
        for item in self._index.query(forks_partition(record.prefix)):
            self._check_fork(item)
        for other in self._index.query(partition):
            self._check_relative(other.sort)

    def _doubt_depth(self, member: Item) -> None:
        key = item_key(member.partition, member.sort)
        self._damages.add("family member", key, "contradicts", "its position in the family is wrong", derivable=True)

    def _check_relative(self, prefix: str) -> None:
        """Check that a family member is live and listed, or deleted and listed for the sweep."""
        organisation, log = split_prefix(prefix)
        record = read_name_of(self._index, prefix)
        if record is not None and not record.deleted_ms:
            partition = directory_partition(organisation, LOGS, 0)
            if self._index.get(partition, log) is None and log != self.record.name:
                reason = "a live log is not listed"
                self._damages.add("directory line", item_key(partition, log), "missing", reason, derivable=True)
        elif self._is_garbage(organisation, prefix):
            key = item_key(deleted_partition(organisation), prefix)
            self._damages.add("deleted incarnation", key, "missing", "a deleted log is not listed for the sweep")

    def _is_garbage(self, organisation: str, prefix: str) -> bool:
        """Return whether a deleted member is not listed for the sweep, so that no sweep would delete it."""
        # Read the line first, because a sweep deletes it last. Otherwise a sweep between the reads looks like damage.
        if self._index.get(deleted_partition(organisation), prefix) is not None:
            return False
        return self._index.get(family_partition(self.record.owner), prefix) is not None

    def _check_fork(self, item: Item) -> None:
        """Check that a pin's fork is live and names this log, or is deleted and listed for the sweep."""
        pin = pin_of(item)
        fork = read_name_of(self._index, pin.prefix)
        if fork is not None and not fork.deleted_ms:
            versions = {parent.prefix: parent.version for parent in fork.lineage}
            if versions.get(self.record.prefix) == pin.version:
                return
        elif self._index.get(deleted_partition(split_prefix(pin.prefix)[0]), pin.prefix) is not None:
            return
        if self._index.get(item.partition, item.sort) is not None:
            key = item_key(item.partition, item.sort)
            self._damages.add("pin", key, "contradicts", "no live fork names the pinned version")

    def _check_hashes(self, version: int) -> None:
        """Compare the hashes in snapshots and projection checkpoints with the hashes of the entries."""
        for snapshot in list_snapshots(self._index, self.record.prefix, first=self.record.floor):
            known = self.hashes.get(snapshot.version)
            if self._upto is None and snapshot.version > version:
                at = snapshot.version, snapshot.version
                reason = "a snapshot names a version that does not exist"
                self._damages.add("entry", self._entry_key(snapshot.version), "missing", reason, at=at)
            if (known and known != snapshot.hash) or (self._upto is None and snapshot.version > version):
                key = snapshot_key(snapshot.prefix, snapshot.version)
                self._damages.add("snapshot", key, "contradicts", "its hash contradicts the entries")
        for item in self._index.query(checkpoints_partition(self.record.prefix)):
            projected = int(item.attributes["v"])
            known = self.hashes.get(projected)
            if (known and known != item.attributes["h"]) or (self._upto is None and projected > version):
                key = item_key(item.partition, item.sort)
                self._damages.add("projection checkpoint", key, "contradicts", "no entry has its version and hash")


def _is_sound(snapshot: Snapshot) -> bool:
    """Return whether the snapshot is a valid app snapshot or clearly of another model.

    The body of another model's snapshot differs from an app snapshot's body in more than `HEAD_BYTES_DAMAGED_MAX` of
    the first bytes.
    """
    manifest = manifest_of(snapshot)
    if manifest is not None:
        # The list of parts is either inline or a body, and an app snapshot has at least one part.
        if manifest.inline is None:
            return manifest.body is not None
        return manifest.body is None and len(manifest.inline) > 0 and len(manifest.inline) % ADDRESS_BYTES == 0
    return sum(a != b for a, b in zip(snapshot.body, APP_SNAPSHOT_HEAD, strict=False)) > HEAD_BYTES_DAMAGED_MAX
