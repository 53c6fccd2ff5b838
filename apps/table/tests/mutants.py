"""Bugs that tests plant in the table, one at a time. A checker in the bug's ``caught_by`` must catch the bug."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from apps.table.tests.workload import Workload
from stratalog import Draft, Rejected, Rules
from stratalog.testing.checkers import Violation
from stratalog_table import jobs, partitions, references, table_draft, tree
from stratalog_table import table as handle
from stratalog_table.jobs import JobTracker
from stratalog_table.layout import TableTally
from stratalog_table.model import FileReference, NewReference, Partition, Region
from stratalog_table.queries import TableView
from stratalog_table.table import Table
from stratalog_table.table_draft import TableDraft
from tests.simulation.mutants import Catch, replaced

__all__ = ["MUTANTS", "Mutant", "hunt"]


class Mutant(msgspec.Struct, frozen=True):
    """A planted bug.

    ``apply`` returns a context with the bug. ``caught_by`` names the checkers that may find the bug.
    """

    name: str
    apply: Callable[[], AbstractContextManager[None]]
    caught_by: tuple[str, ...]


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Run seeds with the bug until a seed fails. The catch is good if a checker in ``caught_by`` found the bug."""
    count = 0
    with mutant.apply():
        for count, seed in enumerate(seeds, 1):
            try:
                Workload(seed).run()
            except Violation as exc:
                return Catch(mutant.name, exc.checker in mutant.caught_by, exc.checker, count, str(exc)[:500])
    return Catch(mutant.name, False, "", count)


def nothing(*args: Any, **options: Any) -> None:
    """Do nothing, in place of the real function."""


_add_file = TableDraft.add_file
_drop_reference = TableDraft.drop_reference
_relocate = TableDraft._relocate
_count_job = TableDraft._count_job
_put_all = partitions._put_all
_replaced_in = jobs._replaced_in
_grown = tree._grown
_put_partition = TableDraft.put_partition
_check_pieces = references._check_pieces


def _add_unchecked(self: TableDraft, filename: str, references: Sequence[NewReference]) -> None:
    """Add a file even if the table tracks it already."""
    if self.is_tracked(filename):
        self.forget_file(filename)
    _add_file(self, filename, references)


def _any_job(held: TableDraft, job: Any, filename: str) -> FileReference:
    reference = held.reference(job.partition, filename)
    if reference is None:
        raise Rejected("File reference not found")
    return reference


def _delete_referenced(draft: Draft, args: Any) -> None:
    held = TableDraft(draft)
    for filename in args["filenames"]:
        if held.count(filename) is None:
            raise Rejected(f"File not found: {filename}")
        held.forget_file(filename)


def _off_by_a_row(self: TableTally, reference: FileReference, by: int) -> TableTally:
    """Keep counting the file of a removed reference."""
    return TableTally(self.files + max(by, 0), self.rows + by * reference.rows, self.sure)


def _all_sure(self: TableTally, reference: FileReference, by: int) -> TableTally:
    """Count the rows of an approximate reference as exact."""
    return TableTally(self.files + by, self.rows + by * reference.rows, self.sure + by * reference.rows)


def _gone_too_soon(self: TableDraft, filename: str, source: str, targets: Sequence[str]) -> None:
    """Record a file as unreferenced when the file loses one of several references."""
    _relocate(self, filename, source, targets)
    if not targets:
        self.draft.put(self.layout.unreferenced(filename), None)


def _reference_stays(self: TableDraft, reference: FileReference, moved_to: Sequence[str] = ()) -> None:
    _drop_reference(self, reference, moved_to)
    self._write(reference)


def _tally_stays(self: TableDraft, reference: FileReference, moved_to: Sequence[str] = ()) -> None:
    before = self._tally(reference.partition)
    _drop_reference(self, reference, moved_to)
    self._tallies[reference.partition] = before


def _job_counted_once(self: TableDraft, job: str, partition: str, by: int) -> None:
    """Count one reference per job and partition, however many references the job gets there."""
    if by < 0 or self.draft.get(self.layout.job(job, partition)) is None:
        _count_job(self, job, partition, by)


def _rows_forgotten(held: TableDraft, reference: FileReference, pieces: tuple[NewReference, ...]) -> None:
    """Accept pieces whose rows do not add up."""
    rows = sum(piece.rows for piece in pieces)
    _check_pieces(held, msgspec.structs.replace(reference, rows=rows), pieces)


def _a_leaf_short(held: TableDraft, wanted: Iterable[Partition]) -> None:
    _put_all(held, list(wanted)[:-1])


def _first_leaf_lost(top: Partition, edges: Sequence[str], new_id: Callable[[], str]) -> list[Partition]:
    """Omit the first of several split points."""
    return _grown(top, edges[1:] if len(edges) > 2 else edges, new_id)


def _inner_uncounted(self: TableDraft, partition: Partition) -> None:
    """Do not count a split leaf as an inner partition with references."""
    count, self._count_inner = self._count_inner, nothing  # type: ignore[method-assign]
    _put_partition(self, partition)
    self._count_inner = count  # type: ignore[method-assign]


def _split_tally_lost(self: TableDraft, partition: Partition) -> None:
    """Lose the tally of a leaf that is split."""
    _put_partition(self, partition)
    self._tallies[partition.id] = TableTally()


def _mark_stays(self: TableDraft, filename: str) -> None:
    """Forget a file, but keep its row in the list of unreferenced files."""
    self.draft.delete(self.layout.file(filename))


def _initialised_over_files(draft: Draft, args: Any) -> None:
    wanted = table_draft.read(args, partitions.Partitions)
    partitions._plant(draft, partitions._moved_on(table_draft.meta_of(draft)), wanted.partitions)


def _forgets_too_much(draft: Draft, args: Any) -> None:
    """Purge rows of the current collections instead of the rows that clears left behind."""
    meta = table_draft.meta_of(draft)
    for name in ("file", "of", "unreferenced"):
        for key in list(draft.keys(f"{name}{meta.files}/"))[: args["limit"]]:
            draft.delete(key)
    draft.put("table", draft.get("table"))


def _still_inner(draft: Draft, args: Any) -> None:
    """Keep the count of inner partitions with references after a clear."""
    inner = draft.get("inner")
    _clear_files(draft, args)
    draft.put("inner", inner)


_clear_files = partitions.clear_files


def _leaves_unwritten(draft: Draft, args: Any) -> None:
    """Clear without writing the empty tallies of the leaves."""
    meta = table_draft.meta_of(draft)
    table_draft.put_meta(draft, msgspec.structs.replace(meta, files=meta.files + 1))
    draft.delete("inner")


def _rejection_untold(version: int, args: Any, reason: str | None) -> Iterator[Any]:
    if reason is None:
        yield from _replaced_in(version, args, reason)


def _a_version_behind(self: JobTracker, document: Any, after: int, upto: int) -> None:
    """Advance the tracker to a version without the events of that version."""
    events = [
        event
        for version in self._table.versions(after, upto)
        if version.version < upto
        for event in jobs.events_of(version)
    ]
    document.mutate("track", {"after": after, "upto": upto, "events": events})


def _since_before(self: TableView, upto: int) -> Iterator[str]:
    for row in self._view.list(self._layout.unreferenced()):
        if row.version < upto:
            yield row.key.split("/", 1)[1]


def _below_only(self: TableView, leaves: Any, region: Region) -> list[Any]:
    """Omit the partitions above the leaves from a range."""
    return []


def _early_end(self: TableView, region: Region) -> Iterator[Any]:
    """Omit the last leaf of a range."""
    holdings = list(_in_order(self, region))
    return iter(holdings[:-1] if len(holdings) > 1 else holdings)


_in_order = TableView._leaves_in_order


def _young_too(self: Table, time_ms: int) -> Iterator[str]:
    """Treat every file without references as garbage, whatever its age."""
    return self.at().unreferenced(self.version)


def _referenced_too(self: Table, time_ms: int) -> Iterator[str]:
    """Treat a referenced file as garbage."""
    yield from _unreferenced_before(self, time_ms)
    yield from [reference.filename for reference in self.at().file_references()[:1]]


_unreferenced_before = Table.unreferenced_before


def _untold(version: int, args: Any, reason: str | None) -> Iterator[Any]:
    return iter(())


def teller(name: str, bug: Callable[..., Iterator[Any]]) -> Callable[[], AbstractContextManager[None]]:
    """Return an ``apply`` with which ``bug`` reads the tracker's events of the transactions ``name``."""
    return replaced(jobs, "_EVENT_READERS", {**jobs._EVENT_READERS, name: bug})


def mutator(name: str, bug: Callable[[Draft, Any], None]) -> Callable[[], AbstractContextManager[None]]:
    """Return an ``apply`` with which ``bug`` replaces the mutator ``name``."""
    return replaced(handle, "RULES", Rules({**handle.MUTATORS, name: bug}))


MUTANTS = (
    Mutant("add: a tracked name is not checked", replaced(TableDraft, "add_file", _add_unchecked), ("verdict",)),
    Mutant("add: a name declared garbage is not checked", replaced(table_draft, "COLLECTED", "none/"), ("verdict",)),
    Mutant("add: the partitions are not checked", replaced(TableDraft, "check_apart", nothing), ("verdict",)),
    Mutant(
        "assign: a reference of another job is assigned", replaced(references, "_check_free", nothing), ("verdict",)
    ),
    Mutant("assign: a job counts only one reference", replaced(TableDraft, "_count_job", _job_counted_once), ("jobs",)),
    Mutant("replace: the job of the inputs is not checked", replaced(references, "_input", _any_job), ("verdict",)),
    Mutant("replace: the reference stays", replaced(TableDraft, "drop_reference", _reference_stays), ("references",)),
    Mutant("replace: the tally stays", replaced(TableDraft, "drop_reference", _tally_stays), ("tallies",)),
    Mutant("tallies: a removed file is still counted", replaced(TableTally, "changed", _off_by_a_row), ("tallies",)),
    Mutant("tallies: approximate rows count as exact", replaced(TableTally, "changed", _all_sure), ("tallies",)),
    Mutant(
        "garbage: a file with another reference is listed",
        replaced(TableDraft, "_relocate", _gone_too_soon),
        ("files", "unreferenced", "lost"),
    ),
    Mutant(
        "garbage: files of the given version are omitted",
        replaced(TableView, "unreferenced", _since_before),
        ("unreferenced", "lost"),
    ),
    Mutant(
        "split: pieces that do not add up are accepted",
        replaced(references, "_check_pieces", _rows_forgotten),
        ("verdict",),
    ),
    Mutant(
        "split: pieces that leave out a part are accepted",
        replaced(references, "_covers", lambda *any: True),
        ("verdict",),
    ),
    Mutant("tree: the last partition is not written", replaced(partitions, "_put_all", _a_leaf_short), ("partitions",)),
    Mutant("tree: the first split point is omitted", replaced(tree, "_grown", _first_leaf_lost), ("partitions",)),
    Mutant(
        "tree: a split leaf with references is not counted",
        replaced(TableDraft, "put_partition", _inner_uncounted),
        ("ranges", "tallies"),
    ),
    Mutant(
        "tree: the tally of a split leaf is lost",
        replaced(TableDraft, "put_partition", _split_tally_lost),
        ("tallies", "ranges"),
    ),
    Mutant("tracker: a rejection is not read", teller("replace_file_references", _rejection_untold), ("tracker",)),
    Mutant(
        "tracker: the last version of a step is not read",
        replaced(JobTracker, "_advance", _a_version_behind),
        ("tracker",),
    ),
    Mutant("ranges: partitions above the leaves are omitted", replaced(TableView, "_above", _below_only), ("ranges",)),
    Mutant("ranges: the last leaf is omitted", replaced(TableView, "_leaves_in_order", _early_end), ("ranges",)),
    Mutant("delete: a file with references is deleted", mutator("delete_files", _delete_referenced), ("verdict",)),
    Mutant("purge: current rows are deleted", mutator("purge", _forgets_too_much), ("files", "unreferenced")),
    Mutant("clear: the count of inner partitions stays", mutator("clear_files", _still_inner), ("tallies",)),
    Mutant(
        "clear: the tallies of the leaves are not written",
        mutator("clear_files", _leaves_unwritten),
        ("tallies", "leftovers"),
    ),
    Mutant(
        "initialise: a table with files is accepted",
        mutator("initialise_partitions", _initialised_over_files),
        ("verdict",),
    ),
    Mutant(
        "delete: the row of an unreferenced file stays",
        replaced(TableDraft, "forget_file", _mark_stays),
        ("unreferenced", "leftovers"),
    ),
    Mutant("garbage: young files are collected", replaced(Table, "unreferenced_before", _young_too), ("files", "lost")),
    Mutant(
        "garbage: a referenced file is collected", replaced(Table, "unreferenced_before", _referenced_too), ("lost",)
    ),
    Mutant("tracker: a clear is not read", teller("clear_files", _untold), ("tracker",)),
)
