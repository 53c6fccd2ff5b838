"""Collecting deletes what nothing refers to, and nothing else."""

from __future__ import annotations

from stratalog.backends.memory import MemoryBlobs, MemoryIndex
from stratalog.codec import sha256
from stratalog.documents import Document, verify
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log import Place, Settings, create_log
from stratalog.log.retention import free_segments
from stratalog.operations.collect import collect_family, owners
from stratalog.testing.clock import ManualClock

LONG = "long " * 500
OLD_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1


def a_document(segment_entries_target: int = 4) -> Document:
    clock = ManualClock()
    settings = Settings(segment_entries_target=segment_entries_target, snapshot_entries_interval=3)
    place = Place(MemoryIndex(), MemoryBlobs(clock), clock, settings)
    return Document(create_log(place, "acme", "budget", "document"))


def put(document: Document, key: str, value: object) -> None:
    assert document.mutate("put", {"key": key, "value": value}).status == "applied"


def owner(document: Document) -> str:
    return document.log.record.owner


def age(document: Document) -> None:
    document.log.place.clock.sleep(OLD_SECONDS)


def keys(document: Document) -> set[str]:
    return {stat.key for stat in document.log.place.blobs.list(f"{owner(document)}/")}


def orphan(document: Document) -> str:
    """A blob that a writer put and whose commit never came."""
    body = b"an orphan"
    key = f"{owner(document)}/bodies/{sha256(body).hex()}"
    document.log.place.blobs.put(key, body)
    return key


def test_an_old_orphan_goes_and_all_else_stays() -> None:
    document = a_document()
    put(document, "notes/a", LONG)
    gone = orphan(document)
    before = keys(document)
    age(document)
    found = collect_family(document.log.place, owner(document))
    assert found.garbage == (gone,)
    assert keys(document) == before - {gone}
    assert document.get("notes/a") == LONG


def test_a_young_orphan_stays() -> None:
    document = a_document()
    kept = orphan(document)
    found = collect_family(document.log.place, owner(document))
    assert (found.garbage, found.young) == ((), 1)
    assert kept in keys(document)


def test_a_dry_run_lists_exactly_what_a_run_deletes() -> None:
    document = a_document()
    put(document, "notes/a", LONG)
    orphan(document)
    age(document)
    before = keys(document)
    planned = collect_family(document.log.place, owner(document), dry_run=True)
    assert keys(document) == before
    assert collect_family(document.log.place, owner(document)) == planned


def test_a_blob_put_again_while_it_is_looked_at_stays() -> None:
    document = a_document()
    gone = orphan(document)
    age(document)

    class PutAgain(MemoryBlobs):
        def stat(self, key: str):  # type: ignore[no-untyped-def]
            document.log.place.blobs.put(key, b"an orphan")
            return blobs.stat(key)

    blobs = document.log.place.blobs
    looking = PutAgain(document.log.place.clock)
    looking.list = blobs.list  # type: ignore[method-assign]
    looking.get = blobs.get  # type: ignore[method-assign]
    looking.delete = blobs.delete  # type: ignore[method-assign]
    place = Place(document.log.place.index, looking, document.log.place.clock)
    assert collect_family(place, owner(document)).garbage == ()
    assert gone in keys(document)


def test_values_of_every_kept_version_stay_and_those_of_forgotten_ones_go() -> None:
    document = a_document()
    for number in range(12):
        put(document, "notes/a", f"{number} {LONG}")
    document.forget_below(9, lambda floor: None)
    age(document)
    free_segments(document.log)
    age(document)
    found = collect_family(document.log.place, owner(document))
    assert any("/items/notes/" in key for key in found.garbage)
    assert [document.get("notes/a", at=version)[:2].strip() for version in range(9, 13)] == ["8", "9", "10", "11"]
    assert verify(document).version == document.version


def test_an_archive_stays_and_what_its_entries_name() -> None:
    document = a_document()
    for number in range(9):
        put(document, "notes/a", f"{number} {LONG}")
    assert document.archive() > 0
    age(document)
    free_segments(document.log)
    assert collect_family(document.log.place, owner(document)).garbage == ()
    assert document.get("notes/a", at=1) == f"0 {LONG}"


def test_what_only_a_fork_needs_stays() -> None:
    document = a_document()
    for number in range(6):
        put(document, "notes/a", f"{number} {LONG}")
    copy = document.fork("copy", at=2)
    put(copy, "notes/b", f"copy {LONG}")
    age(document)
    assert collect_family(document.log.place, owner(document)).garbage == ()
    assert copy.at().whole() == {"notes/a": f"1 {LONG}", "notes/b": f"copy {LONG}"}


def test_a_family_is_collected_once_however_many_forks_it_has() -> None:
    document = a_document()
    put(document, "notes/a", LONG)
    document.fork("copy")
    assert list(owners(document.log.place, "acme")) == [owner(document)]
