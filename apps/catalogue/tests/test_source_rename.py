"""The rename of a source loses no data, also after an interruption at any write and after many interruptions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stratalog
from apps.catalogue.tests.helpers import DAY_NS, START_NS, Catalogue, killed_after
from stratalog import Conflict, Invalid, NotFound, Records, Unavailable
from stratalog_catalogue.queries import show_versions
from stratalog_catalogue.source_rename import rename_source
from stratalog_catalogue.sources import put_settings, read_source, source_names

LATER_MS = (START_NS + 9 * DAY_NS) // 1_000_000
VERSIONS = {"ant": ["1", "2", "3"], "bee": ["1"], "cow": ["1", "2"]}
"""The versions of each package of the source `debian`. Polls delete bee and cow, and a later poll adds bee again."""


@pytest.fixture
def debian(catalogue: Catalogue) -> Catalogue:
    return filled(catalogue)


def filled(catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with a source of the versions, one dead letter, and works."""
    catalogue.add()
    for day in range(1, 4):
        catalogue.write_packages({name: has[day - 1] for name, has in VERSIONS.items() if len(has) >= day}, day=day)
        catalogue.poll()
    catalogue.write_packages({"ant": "3", "bee": "1"}, day=5)
    catalogue.poll()
    catalogue.write("no: field\n" + "x" * 10, name="broken", day=5)
    catalogue.poll()
    catalogue.scan()
    return catalogue


def history_of(catalogue: Catalogue, source: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return each record of a source with its versions. A rename must leave the versions unchanged."""
    prefix, history = f"source/{source}/", {}
    for line in catalogue.records.list(prefix=prefix):
        versions = [
            (
                version.deleted,
                version.source_time_ms,
                dict(version.metadata),
                b"" if version.deleted else catalogue.records.get(line.id, version.version).body,
            )
            for version in catalogue.records.versions(line.id)
        ]
        history[line.id.removeprefix(prefix)] = versions
    return history


def letters_of(catalogue: Catalogue) -> list[tuple[str, bytes]]:
    letters = list(catalogue.records.dead_letters())
    return [(letter.id, b"".join(catalogue.records.open_dead_letter(letter.id))) for letter in letters]


def test_a_renamed_source_has_its_records_versions_letters_works_and_checkpoint(debian: Catalogue) -> None:
    before, works, letters = history_of(debian, "debian"), debian.ids("works/debian/"), letters_of(debian)
    assert {id: [deleted for deleted, *_ in versions] for id, versions in before.items()} == {
        "ant/amd64": [False, False, False],
        "bee/amd64": [False, True, False],
        "cow/amd64": [False, False, True],
    }
    assert len(letters) == 1
    done = rename_source(debian.records, "debian", "packages")
    assert (done.records, done.versions, done.letters) == (3, sum(map(len, before.values())), 1)
    assert history_of(debian, "packages") == before
    assert (debian.ids("source/debian/"), debian.ids("works/debian/")) == ([], [])
    assert letters_of(debian) == [(letters[0][0].replace("/debian/", "/packages/"), letters[0][1])]
    assert list(source_names(debian.records)) == ["packages"]
    assert debian.poll().taken.read == 0  # The rename moved the checkpoint, so the poll reads nothing.
    debian.scan()
    assert debian.ids("works/packages/") == works
    with pytest.raises(NotFound):
        debian.poll("debian")
    debian.write_packages({"ant": "4", "bee": "1"}, day=9)
    assert (debian.poll().taken.new, debian.poll().taken.deleted) == (1, 0)
    assert next(version.version for version in show_versions(debian.records, "packages", "ant/amd64")) == 4


def test_a_source_whose_stored_pattern_is_refused_by_now_can_be_renamed(catalogue: Catalogue) -> None:
    put_settings(catalogue.records, msgspec.structs.replace(catalogue.add(), pattern=""))
    rename_source(catalogue.records, "debian", "packages")
    assert read_source(catalogue.records, "packages").pattern == ""


class CutOff(Records):
    """Records that raise Unavailable for every write after the next ``left`` writes."""

    left = 0

    def put(self, *args: Any, **given: Any) -> Any:
        return self._write(super().put, *args, **given)

    def delete(self, *args: Any, **given: Any) -> Any:
        return self._write(super().delete, *args, **given)

    def _write(self, write: Callable[..., Any], *args: Any, **given: Any) -> Any:
        if not self.left:
            raise Unavailable("the store is away")
        self.left -= 1
        return write(*args, **given)


def test_a_rename_killed_at_any_write_resumes_without_loss_or_duplicates(tmp_path: Path) -> None:
    is_killed, writes = True, 0
    while is_killed:
        folder = tmp_path / str(writes)
        folder.mkdir()
        with stratalog.open("memory:") as store:
            debian = filled(Catalogue(store, folder))
            before, letters = history_of(debian, "debian"), letters_of(debian)
            with killed_after(debian.records, writes):
                rename_source(debian.records, "debian", "packages")
                is_killed = False
            if is_killed:
                rename_source(debian.records, "debian", "packages")
            assert history_of(debian, "packages") == before
            assert letters_of(debian) == [(id.replace("/debian/", "/packages/"), body) for id, body in letters]
            assert (list(source_names(debian.records)), debian.ids("source/debian/")) == (["packages"], [])
            assert (debian.poll().taken.read, debian.scan().made) == (0, 2)
        writes += 1
    assert writes > 20


def test_a_rename_interrupted_many_times_resumes_without_loss_or_duplicates(debian: Catalogue) -> None:
    before, letters = history_of(debian, "debian"), letters_of(debian)
    records, cuts = CutOff(debian.records.environment, "acme"), 0
    while True:
        # Each run may make one more write than the previous run, so each run is interrupted at a different point.
        records.left = cuts + 1
        try:
            rename_source(records, "debian", "packages")
            break
        except Unavailable:
            cuts += 1
            assert cuts < 100
            if "debian" in source_names(debian.records) and read_source(debian.records, "debian").renamed_to:
                assert "run it again" in debian.poll("debian").reason
    assert cuts > 3
    assert history_of(debian, "packages") == before
    assert len(letters_of(debian)) == len(letters)
    assert list(source_names(debian.records)) == ["packages"]


@pytest.mark.parametrize("name", ["debian", "packages"])
def test_no_source_can_take_either_name_of_an_interrupted_rename(tmp_path: Path, name: str) -> None:
    is_killed, writes, refused = True, 1, 0
    while is_killed:
        folder = tmp_path / str(writes)
        folder.mkdir()
        with stratalog.open("memory:") as store:
            debian = filled(Catalogue(store, folder))
            before = history_of(debian, "debian")
            with killed_after(debian.records, writes):
                rename_source(debian.records, "debian", "packages")
                is_killed = False
            if is_killed:
                with pytest.raises(Conflict, match="run it again first"):
                    debian.add(name)
                refused += 1
                rename_source(debian.records, "debian", "packages")
            assert history_of(debian, "packages") == before
            assert list(source_names(debian.records)) == ["packages"]
        writes += 4
    assert refused > 3


def test_records_that_a_running_poll_writes_during_a_rename_are_moved(debian: Catalogue) -> None:
    class Written(Records):
        is_late = True

        def delete(self, id: str, **given: Any) -> Any:
            done = super().delete(id, **given)
            if self.is_late and id.startswith("source/debian/bee"):
                self.is_late = False
                super().put("source/debian/late", b"late", source_time_ms=1)
                super().put("source/debian/ant/amd64", b"later", source_time_ms=LATER_MS)
                super().put("source/debian/bee/amd64", b"of an old state", source_time_ms=2)
            return done

    rename_source(Written(debian.records.environment, "acme"), "debian", "packages")
    assert "late" in debian.ids("source/packages/")
    assert debian.records.get("source/packages/ant/amd64").body == b"later"
    assert debian.records.get("source/packages/bee/amd64").body != b"of an old state"
    assert debian.ids("source/debian/") == []


def test_a_rename_to_a_used_or_invalid_name_is_refused(debian: Catalogue) -> None:
    debian.add("other")
    with pytest.raises(Conflict):
        rename_source(debian.records, "debian", "other")
    with pytest.raises(Invalid):
        rename_source(debian.records, "debian", "debian")
    with pytest.raises(Invalid):
        rename_source(debian.records, "debian", "No Name")
    debian.records.put("source/gone/1", b"of a source that was removed")
    with pytest.raises(Conflict):
        rename_source(debian.records, "debian", "gone")
    assert len(debian.ids("source/debian/")) == 2


def test_a_source_can_be_renamed_back_to_its_old_name(debian: Catalogue) -> None:
    before = {id: versions[-1] for id, versions in history_of(debian, "debian").items()}
    for name, other in (("debian", "packages"), ("packages", "debian"), ("debian", "packages")):
        rename_source(debian.records, name, other)
    after = history_of(debian, "packages")
    assert {id: versions[-1] for id, versions in after.items()} == before
    # The three versions of the first rename and of the third, and the second rename's deletion. The source deleted cow.
    assert [len(after[f"{name}/amd64"]) for name in ("ant", "bee", "cow")] == [7, 7, 6]
    (moved,) = islice(show_versions(debian.records, "debian", "ant/amd64"), 1)
    assert (moved.deleted, moved.source_time_ms) == (True, None)


def debian_letters(catalogue: Catalogue) -> list[tuple[str, int | None]]:
    return [(letter.id, letter.size) for letter in catalogue.records.dead_letters()]


def dismissed_at(monkeypatch: pytest.MonkeyPatch, name: str, ids: list[str]) -> None:
    """Let another process resolve the letters ``ids`` when the rename calls the method ``name`` of the records."""
    called = getattr(Records, name)

    def raced(records: Records, *arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(Records, name, called)
        result = called(records, *arguments, **options)
        for id in ids:
            records.resolve_dead_letter(id)
        return result

    monkeypatch.setattr(Records, name, raced)


def test_letters_dismissed_during_a_rename_neither_fail_the_rename_nor_reappear(
    debian: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the rename moves the first letter, the first and the second letter are dismissed. Only one has a body."""
    strict = Records(debian.records.environment, debian.records.organisation, failures_max=1)
    strict.fail("source/debian/other", "unreadable", pointer='{"id": "other"}')
    letters = [id for id, _ in debian_letters(debian)]
    assert len(letters) == 2
    dismissed_at(monkeypatch, "failure", letters)
    assert rename_source(debian.records, "debian", "apt").letters == 0
    assert [*source_names(debian.records)] == ["apt"]
    assert debian_letters(debian) == []


def test_a_letter_that_is_dismissed_after_its_copy_counts_as_moved(
    debian: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    [(id, size)] = debian_letters(debian)
    dismissed_at(monkeypatch, "fail", [id])
    assert rename_source(debian.records, "debian", "apt").letters == 1
    assert debian_letters(debian) == [(id.replace("/debian/", "/apt/"), size)]
