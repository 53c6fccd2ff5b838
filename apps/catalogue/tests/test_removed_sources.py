"""A source that takes the name of a removed or renamed source reads everything, also if the former source is polled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from apps.catalogue.tests.helpers import Catalogue
from stratalog import NotFound, Records, Unavailable
from stratalog_catalogue.names import CHECKPOINTS
from stratalog_catalogue.polls import Polled, poll_source
from stratalog_catalogue.source_rename import rename_source
from stratalog_catalogue.sources import Source, read_source, remove_source

KINDS: dict[str, dict[str, Any]] = {
    "records": {"format": "json", "transformer": "plain", "id": "id", "complete": False},
    "states": {"format": "json", "transformer": "plain", "id": "id"},
    "files": {"format": "file", "transformer": "plain", "complete": False},
    "mirror": {"format": "file", "transformer": "plain"},
}


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    return KINDS[request.param]


def write(catalogue: Catalogue, name: str, day: int = 1) -> None:
    catalogue.write(f'[{{"id": "{name}"}}]', source="books", name=name, day=day)


class Meanwhile(Records):
    """Records that call ``event`` once, before the first put of a checkpoint, as another process might."""

    event: Callable[[], object] | None = None

    def put(self, id: str, *given: Any, **more: Any) -> Any:
        event, self.event = self.event, None if id.startswith(CHECKPOINTS) else self.event
        if event is not None and id.startswith(CHECKPOINTS):
            event()
        return super().put(id, *given, **more)


def polled_during(catalogue: Catalogue, event: Callable[[], object]) -> str:
    """Poll the source while another process does something, and return the reason why the poll ended."""
    records = Meanwhile(catalogue.records.environment, "acme")
    records.event = event
    source, clock = read_source(records, "books"), catalogue.store.environment.clock
    return poll_source(records, source, catalogue.connect, clock).reason


def test_a_new_source_with_the_former_name_of_a_renamed_source_stores_unchanged_records(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    catalogue.add("books", **settings)
    write(catalogue, "a")
    catalogue.poll()
    ids = catalogue.ids("source/books/")
    rename_source(catalogue.records, "books", "volumes")
    catalogue.add("books", **settings)
    assert catalogue.poll("books").taken.new == 1
    assert (catalogue.ids("source/books/"), catalogue.ids("source/volumes/")) == (ids, ids)
    catalogue.scan()
    assert (catalogue.ids("works/books/"), catalogue.ids("works/volumes/")) == (ids, ids)


@pytest.mark.parametrize("polled_before", [False, True])
def test_a_poll_that_runs_during_a_removal_saves_no_checkpoint(
    catalogue: Catalogue, settings: dict[str, Any], polled_before: bool
) -> None:
    catalogue.add("books", **settings)
    if polled_before:
        catalogue.poll()
    write(catalogue, "a")
    reason = polled_during(catalogue, lambda: remove_source(catalogue.records, "books"))
    assert "source not found" in reason
    with pytest.raises(NotFound):
        catalogue.records.get(f"{CHECKPOINTS}books")
    assert len(catalogue.ids("source/books/")) == 1


def test_a_poll_that_outlives_its_source_makes_no_new_source_of_that_name_skip_files(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    catalogue.add("books", **settings)
    write(catalogue, "a")

    def replace() -> None:
        rename_source(catalogue.records, "books", "volumes")
        catalogue.add("books", **settings)

    assert polled_during(catalogue, replace) == ""
    catalogue.poll("books")
    assert len(catalogue.ids("source/books/")) == len(catalogue.ids("source/volumes/")) == 1


def test_a_poll_of_a_former_location_ends_when_a_poll_of_the_new_location_has_saved_its_checkpoint(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    catalogue.add("books", **settings)
    write(catalogue, "a")

    def move() -> None:
        (catalogue.folder / "books").rename(catalogue.folder / "moved")
        catalogue.add("books", **settings, location=str(catalogue.folder / "moved"))
        catalogue.poll()

    assert "the location or selection of the source was changed" in polled_during(catalogue, move)
    assert catalogue.poll().taken.read == 0


def test_a_new_source_ignores_a_checkpoint_that_was_saved_during_the_removal(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    """The poll begins after the removal deleted the checkpoint, and saves before the removal deletes the settings."""
    catalogue.add("books", **settings)
    write(catalogue, "a")

    class Removing(Records):
        def delete(self, id: str, **given: Any) -> Any:
            if id.startswith("catalogue/source/"):
                catalogue.poll()
            return super().delete(id, **given)

    remove_source(Removing(catalogue.records.environment, "acme"), "books")
    catalogue.add("books", **settings)
    assert catalogue.poll().taken.read == 1


class Slow(Records):
    """The records as a slow poll uses them: it lists files before a rename, and stores records after the rename."""

    begun: threading.Event
    moved: threading.Event

    def put_many(self, *given: Any, **more: Any) -> Any:
        self.begun.set()
        assert self.moved.wait(60)
        return super().put_many(*given, **more)


def test_a_rename_loses_no_record_that_an_earlier_poll_stores_after_the_last_pass_of_the_rename(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    catalogue.add("books", **settings)
    write(catalogue, "a")
    catalogue.poll()
    write(catalogue, "b", day=2)
    slow = Slow(catalogue.records.environment, "acme")
    slow.begun, slow.moved = threading.Event(), threading.Event()
    source, clock = read_source(slow, "books"), catalogue.store.environment.clock
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(poll_source, slow, source, catalogue.connect, clock)
        assert slow.begun.wait(60)

        class Renaming(Records):
            def dead_letters(self, *given: Any, **named: Any) -> Any:
                slow.moved.set()
                polled.result(60)
                return super().dead_letters(*given, **named)

        rename_source(Renaming(catalogue.records.environment, "acme"), "books", "volumes")
    catalogue.poll("volumes")
    assert any("b" in id for id in catalogue.ids("source/volumes/"))


def test_a_poll_that_outlives_a_rename_moves_its_records_to_the_new_name(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    source = catalogue.add("books", **settings)
    write(catalogue, "a")
    renamed = []

    def rename(_: int) -> None:
        if not renamed:
            renamed.append(rename_source(catalogue.records, "books", "volumes"))

    polled = poll_source(catalogue.records, source, catalogue.connect, catalogue.store.environment.clock, rename)
    assert (polled.taken.new, "source not found" in polled.reason) == (1, True)
    (id,) = catalogue.ids("source/")
    assert id.startswith("volumes/")
    assert catalogue.poll("volumes").taken.new == 0
    catalogue.add("books", **settings)
    assert catalogue.poll("books").taken.new == 1


def test_a_poll_that_fails_after_a_rename_moves_its_records_to_the_new_name(
    catalogue: Catalogue, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = catalogue.store.environment.clock
    monkeypatch.setattr(clock, "sleep", lambda seconds: None)
    source = catalogue.add("books", **settings)
    write(catalogue, "a")
    write(catalogue, "b", day=2)
    renamed = []

    def rename(_: int) -> None:
        if renamed:
            raise Unavailable("the source ends the connection")
        renamed.append(rename_source(catalogue.records, "books", "volumes"))

    assert "source not found" in poll_source(catalogue.records, source, catalogue.connect, clock, rename).reason
    assert renamed
    assert catalogue.ids("source/books/") == []


def polled_while(catalogue: Catalogue, source: Source, event: Callable[[], object]) -> Polled:
    """Poll a source, and let another process do something after the poll has read its first record."""
    events = iter([event])

    def once(_: int) -> None:
        if (meanwhile := next(events, None)) is not None:
            meanwhile()

    return poll_source(catalogue.records, source, catalogue.connect, catalogue.store.environment.clock, once)


def test_a_poll_that_breaks_off_after_a_rename_moves_its_records_and_counts_no_failure(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    source = catalogue.add("books", **settings)
    write(catalogue, "a")
    write(catalogue, "b", day=2)

    def read(_: int) -> None:
        if catalogue.records.stat("catalogue/source/books").deleted:
            raise ValueError("the source sends nonsense")
        rename_source(catalogue.records, "books", "volumes")

    clock = catalogue.store.environment.clock
    ended = poll_source(catalogue.records, source, catalogue.connect, clock, read)
    assert ("source not found" in ended.reason, ended.dead) == (True, False)
    assert (catalogue.ids("source/books/"), list(catalogue.records.dead_letters())) == ([], [])


def test_a_late_record_goes_to_the_source_that_its_poll_has_read(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    """The source is renamed twice, and a second source has its first name and is renamed, all during one poll."""
    source = catalogue.add("books", **settings)
    write(catalogue, "a")

    def rename() -> None:
        rename_source(catalogue.records, "books", "volumes")
        rename_source(catalogue.records, "volumes", "tomes")
        catalogue.add("books", **settings)
        rename_source(catalogue.records, "books", "leaflets")

    polled_while(catalogue, source, rename)
    assert catalogue.ids("source/books/") == catalogue.ids("source/leaflets/") == []
    assert len(catalogue.ids("source/tomes/")) == 1


def test_a_late_record_stays_if_a_later_source_of_its_name_was_removed(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    source = catalogue.add("books", **settings)
    write(catalogue, "a")

    def replace() -> None:
        rename_source(catalogue.records, "books", "volumes")
        catalogue.add("books", **settings)
        remove_source(catalogue.records, "books")

    polled_while(catalogue, source, replace)
    assert (len(catalogue.ids("source/books/")), catalogue.ids("source/volumes/")) == (1, [])


def test_a_late_version_does_not_bring_back_a_record_that_the_renamed_source_has_deleted(
    catalogue: Catalogue,
) -> None:
    source = catalogue.add("books", **KINDS["states"])
    catalogue.write('[{"id": "a"}]', source="books", name="1", day=1)

    def rename() -> None:
        rename_source(catalogue.records, "books", "volumes")
        catalogue.write('[{"id": "a"}, {"id": "b"}]', source="books", name="1", day=2)
        catalogue.poll("volumes")
        catalogue.write('[{"id": "b"}]', source="books", name="1", day=3)
        catalogue.poll("volumes")

    polled_while(catalogue, source, rename)
    assert (catalogue.ids("source/volumes/"), catalogue.ids("source/books/")) == (["b"], [])


def test_a_record_that_comes_after_a_rename_replaces_no_later_version(
    catalogue: Catalogue, settings: dict[str, Any]
) -> None:
    source = catalogue.add("books", **settings)
    write(catalogue, "a")
    renamed = []

    def rename(_: int) -> None:
        if not renamed:
            renamed.append(rename_source(catalogue.records, "books", "volumes"))
            catalogue.write(b'{"id": "a", "title": "later"}', source="books", name="a", day=9)
            catalogue.poll("volumes")

    poll_source(catalogue.records, source, catalogue.connect, catalogue.store.environment.clock, rename)
    (id,) = catalogue.ids("source/volumes/")
    assert b"later" in catalogue.records.get(f"source/volumes/{id}").body
    assert catalogue.ids("source/books/") == []
