"""The speed of a catalogue on one machine: ``python -m bench.catalogue [--json PATH] [--quick]``.

The store is in a folder, and its records resemble Debian's. The benchmark measures `put_many`, the first ingest, and a
second poll without changes. Then one scan makes the works, and the next scan finds nothing to do. The benchmark remakes
all works with one process and with two processes: first without changes, and then so that each work changes. It reads
the counts that the last scan stored, and searches. A new process writes and reads one large record. Each row has the
wall time, and the CPU time of the measuring process. The CPU time depends less on other work of the machine, but does
not include the worker processes.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

import stratalog
from stratalog import NewBody, Records, Store
from stratalog.codec import sha256
from stratalog_catalogue import transformers
from stratalog_catalogue.folder import poll_folder
from stratalog_catalogue.ingest import take
from stratalog_catalogue.model import Work
from stratalog_catalogue.queries import search
from stratalog_catalogue.sources import Source, add_source, read_source
from stratalog_catalogue.summary import read_stats
from stratalog_catalogue.workers import reconcile

PARAGRAPH = """Package: p{n}
Architecture: amd64
Version: {version}
Maintainer: Jo Doe <jo@example.org>
Depends: libc6 (>= 2.36), libfoo{k} (>= 1.0), default-mta | mail-transport-agent
Section: devel
Size: {n}
SHA256: {digest}
Description: a program with the number {n}
 It does one thing, and does it well: {words}
"""
RECORDS = 100_000
RECORDS_QUICK = 2000
LARGE_BYTES = 1 << 30
PIECE = 1 << 20


class Row(msgspec.Struct, frozen=True):
    """The wall time and the CPU time of ``count`` operations together."""

    name: str
    count: int
    seconds: float
    cpu_seconds: float
    memory_mb: float = 0

    @property
    def line(self) -> str:
        rate = f"{self.count / self.seconds:>10,.0f}/s {self.count / max(self.cpu_seconds, 1e-6):>10,.0f}/s of CPU"
        memory = f"  {self.memory_mb:,.0f} MB" if self.memory_mb else ""
        return f"{self.name:38} {self.count:>9,} in {self.seconds:8.3f} s {rate}{memory}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--large", type=int, metavar="BYTES", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.large:
        print(msgspec.json.encode(large_record(options.large)).decode())
        return
    rows = []
    for row in measured(RECORDS_QUICK if options.quick else RECORDS, PIECE if options.quick else LARGE_BYTES):
        rows.append(row)
        print(row.line, flush=True)
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")


def measured(count: int, large: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = str(folder / "store")
        with stratalog.open(url) as store:
            yield from of_catalogue(store, url, folder, count)
    yield of_large(large)


def of_catalogue(store: Store, url: str, folder: Path, count: int) -> Iterator[Row]:
    records = store.records("bench")
    (folder / "in").mkdir()
    write(folder / "in" / "Packages", count, 1)
    settings = {"format": "rfc822", "transformer": "debian-package", "id": "Package,Architecture", "complete": True}
    add_source(records, Source(name="debian", adapter="folder", location=str(folder / "in"), **settings))
    source = read_source(records, "debian")

    def poll() -> None:
        for step in poll_folder(source, {}, store.environment.clock):
            take(records, source, step)

    yield timed("put_many, new records", count, lambda: put_all(records, count))
    yield timed("ingest, new", count, poll)
    yield timed("ingest, unchanged", count, poll)
    yield timed("scan, works made", count, lambda: reconcile(store, "bench"))
    yield timed("scan, nothing changed", count, lambda: reconcile(store, "bench"))
    yield timed("reprocess, 1 process", count, lambda: reconcile(store, "bench", everything=True))
    again = {"everything": True, "url": url, "processes": 2}
    yield timed("reprocess, 2 processes", count, lambda: reconcile(store, "bench", **again))
    yield timed("reprocess, all rewritten", count, lambda: rewritten(store))
    yield timed("reprocess, all rewritten, 2 processes", count, lambda: reconcile(store, "bench", **again))
    yield timed("stats", 1, lambda: read_stats(records))
    yield timed("search by two words of the title", 1, lambda: search(records, f"number {count - 1}"))


def rewritten(store: Store) -> None:
    """Remake all works by a second version of the transformer, which changes the bytes of each work.

    Only this process uses the second version. Worker processes use the first version.
    """
    before = transformers.TRANSFORMERS
    second = transformers.Transformer("debian-package/3", lambda given: renamed(before["debian-package"].make(given)))
    transformers.TRANSFORMERS = {**before, "debian-package": second}
    try:
        if reconcile(store, "bench", everything=True).same:
            raise AssertionError("a work did not change")
    finally:
        transformers.TRANSFORMERS = before


def renamed(work: Work) -> Work:
    return msgspec.structs.replace(work, title=f"{work.title}.")


def put_all(records: Records, count: int) -> None:
    bodies = (NewBody(id=f"small/{n}", body=paragraph(n, 1)) for n in range(count))
    if not all(stored.new for stored in records.put_many(bodies)):
        raise AssertionError("a new record was not stored as new")


def write(path: Path, count: int, version: int) -> None:
    with path.open("wb") as file:
        for n in range(count):
            file.write(paragraph(n, version) + b"\n")


def paragraph(n: int, version: int) -> bytes:
    digest = sha256(b"%d" % n).hex()
    text = PARAGRAPH.format(n=n, version=version, k=n % 97, digest=digest, words=f"{digest[:20]} " * 10)
    return text.encode()


def of_large(size: int) -> Row:
    """Measure a large record in a new process, so that no other record adds to the peak of memory."""
    command = [sys.executable, "-m", "bench.catalogue", "--large", str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return msgspec.json.decode(done.stdout, type=Row)


def large_record(size: int) -> Row:
    def pieces() -> Iterator[bytes]:
        for n in range(size // PIECE):
            yield sha256(b"%d" % n) * (PIECE // 32)

    def there_and_back(records: Records) -> None:
        stored = records.put("large", pieces(), size=size)
        if sum(map(len, records.open("large"))) != stored.size:
            raise AssertionError("a large record was read incompletely")

    with tempfile.TemporaryDirectory() as name, stratalog.open(Path(name) / "store") as store:
        row = timed(f"a record of {size >> 20:,} MB in and out", 1, lambda: there_and_back(store.records("bench")))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return msgspec.structs.replace(row, memory_mb=memory)


def timed(name: str, count: int, function: Callable[[], object]) -> Row:
    begun, cpu = time.perf_counter(), time.process_time()
    function()
    return Row(name, count, time.perf_counter() - begun, time.process_time() - cpu)


if __name__ == "__main__":
    main()
