"""The scan of a catalogue in batches of records, in one process or several. An interrupted scan can resume."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

import msgspec

import stratalog
from stratalog import Invalid, NotFound, Records, Store
from stratalog.struct_types import resolved
from stratalog_catalogue.names import CHECKPOINTS, SOURCES
from stratalog_catalogue.reconciliation import ReconciliationCounts, reconcile_records
from stratalog_catalogue.sources import Source, read_source, read_sources, readable_sources
from stratalog_catalogue.summary import write_summary

__all__ = ["Progress", "reconcile"]

PIECE_RECORDS = 500
PIECES_AHEAD = 3
"""The number of batches per process that are in flight at once."""

PIECES_PER_NOTE = 10
RUN = f"{CHECKPOINTS}!reprocess"

Progress = Callable[[int], None]
Piece = tuple[str, ReconciliationCounts]
"""The last record of a batch, and the batch's counts."""


class ScanRun(msgspec.Struct, frozen=True, kw_only=True):
    """The stored progress of a scan that makes every work again.

    The sources before ``source`` are done, and ``source`` is done up to the record ``after``.
    """

    sources: tuple[str, ...] = ()
    """The sources of the scan. A scan of other sources does not resume this scan."""

    source: str = ""
    after: str = ""


def reconcile(
    store: Store,
    organisation: str,
    *,
    sources: Iterable[str] = (),
    everything: bool = False,
    url: str = "",
    processes: int = 1,
    resume: bool = True,
    skip_unreadable: bool = False,
    progress: Progress = lambda count: None,
) -> ReconciliationCounts:
    """Reconcile the works of these sources, or of all sources, with the stored records.

    The scan reads only the store, and requests no data from a source's system. It makes the works that are out of date.
    With ``everything`` it makes each work again, and resumes an interrupted scan of this kind unless ``resume`` is
    False. If ``processes`` is more than 1, each worker process opens the store at ``url``. After each source, the scan
    stores the source's counts and titles. Raises Invalid, and NotFound for an unknown source. With ``skip_unreadable``
    the scan instead leaves out named sources whose settings are missing or cannot be read.
    """
    if processes > 1 and url in ("", "memory:"):
        raise Invalid("several processes need a store with a URL that each process can open", store=url or "none")
    records = store.records(organisation)
    named = list(sources)
    if named and skip_unreadable:
        chosen = list(readable_sources(records, named))
    else:
        chosen = [read_source(records, name) for name in named] or list(read_sources(records))
    with _pool(url, organisation, processes) as pool:
        scan = _Scan(records, chosen, everything, pool, processes * PIECES_AHEAD, progress)
        return scan.run(resume and everything)


class _Scan:
    """One scan of the chosen sources, in this process or in a pool."""

    def __init__(
        self,
        records: Records,
        chosen: list[Source],
        everything: bool,
        pool: Executor | None,
        ahead: int,
        progress: Progress,
    ) -> None:
        self._records = records
        self._chosen = chosen
        self._names = tuple(source.name for source in chosen)
        self._everything = everything
        self._pool = pool
        self._ahead = ahead
        self._progress = progress

    def run(self, resume: bool) -> ReconciliationCounts:
        """Scan all sources. With ``resume`` continue an interrupted scan."""
        total = ReconciliationCounts(titles=[])
        begun = self._begun() if resume else ScanRun()
        skipped = self._names.index(begun.source) if begun.source in self._names else 0
        for source in self._chosen[skipped:]:
            after = begun.after if source.name == begun.source else ""
            tally = self._source(source, after, self._everything)
            total.add(tally)
            if after:
                # A resumed source was scanned from ``after`` only. Its summary needs the counts of all its records.
                tally = self._source(source, "", False)
            write_summary(self._records, source.name, tally, self._records.environment.clock.wall_ms())
        if self._everything:
            self._note(ScanRun())
        return total

    def _source(self, source: Source, after: str, everything: bool) -> ReconciliationCounts:
        tally = ReconciliationCounts(titles=[])
        for count, (last, part) in enumerate(self._done(source, after, everything), 1):
            tally.add(part)
            tally.titles += part.titles
            self._progress(part.looked_at)
            if everything and count % PIECES_PER_NOTE == 0:
                self._note(ScanRun(sources=self._names, source=source.name, after=last))
        return tally

    def _done(self, source: Source, after: str, everything: bool) -> Iterator[Piece]:
        """Yield the finished batches of a source in order."""
        if self._pool is None:
            for record_ids in _pieces(self._records, source, after):
                yield record_ids[-1], reconcile_records(self._records, source, record_ids, everything)
            return
        under_way: deque[tuple[str, Future[ReconciliationCounts]]] = deque()
        for record_ids in _pieces(self._records, source, after):
            under_way.append((record_ids[-1], self._pool.submit(_in_process, source, record_ids, everything)))
            if len(under_way) >= self._ahead:
                last, future = under_way.popleft()
                yield last, future.result()
        for last, future in under_way:
            yield last, future.result()

    def _begun(self) -> ScanRun:
        try:
            run = msgspec.json.decode(self._records.get(RUN).body, type=resolved(ScanRun))
        except NotFound:
            return ScanRun()
        return run if run.sources == self._names else ScanRun()

    def _note(self, run: ScanRun) -> None:
        self._records.put(RUN, msgspec.json.encode(run))
        self._records.prune(RUN, retain=1)


def _pieces(records: Records, source: Source, after: str) -> Iterator[list[str]]:
    lines = (line.id for line in records.list(after, prefix=f"{SOURCES}{source.name}/"))
    while record_ids := list(islice(lines, PIECE_RECORDS)):
        yield record_ids


_opened: list[Records] = []
"""In a worker process, the records of the store that the process opened. The list has one item."""


def _pool(url: str, organisation: str, processes: int) -> AbstractContextManager[Executor | None]:
    if processes < 2:
        return nullcontext()
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(processes, context, _begin_process, (url, organisation))


def _begin_process(url: str, organisation: str) -> None:
    _opened.append(stratalog.open(url, create=False).records(organisation))


def _in_process(source: Source, record_ids: list[str], everything: bool) -> ReconciliationCounts:
    return reconcile_records(_opened[0], source, record_ids, everything)
