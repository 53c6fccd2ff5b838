"""Writers that lost a race take turns. A writer gives its turn back before it waits for anything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stratalog import Document, Log
from stratalog.errors import ContentionError, Unavailable, VersionConflict
from stratalog.log import open_log
from stratalog.ports.index import Write
from stratalog.records import Records
from stratalog.store import open_store
from tests.log.helpers import (
    NAME,
    ORGANISATION,
    ScriptedIndex,
    after,
    another,
    clock_of,
    event,
    fill,
    new_log,
    scripted,
)


def rival_of(log: Log) -> Log:
    return open_log(another(log.environment), ORGANISATION, NAME)


def test_a_lone_writer_takes_no_turn() -> None:
    log = new_log()
    fill(log, 5)
    assert scripted(log.environment).turns == []


def test_a_writer_that_lost_a_race_takes_the_turn_and_does_not_back_off() -> None:
    log = new_log()
    fill(log, 1)
    index = scripted(log.environment)
    index.grants_turns = True
    index.script = [after(lambda: rival_of(log).append(event()))]
    begun = clock_of(log.environment).boot_ms()
    assert log.append(event()).version == 3
    assert index.turns == [log.record.prefix]
    assert clock_of(log.environment).boot_ms() == begun


def test_a_writer_that_lost_a_race_backs_off_on_an_index_without_turns() -> None:
    log = new_log()
    fill(log, 1)
    scripted(log.environment).script = [after(lambda: rival_of(log).append(event()))]
    clock_of(log.environment).random = lambda: 0.999  # type: ignore[method-assign]
    begun = clock_of(log.environment).boot_ms()
    log.append(event())
    assert clock_of(log.environment).boot_ms() > begun


def test_a_version_conflict_is_raised_without_a_turn() -> None:
    log = new_log()
    fill(log, 1)
    rival_of(log).append(event())
    with pytest.raises(VersionConflict):
        log.append(event(), expected=1)
    assert scripted(log.environment).turns == []


def test_a_writer_releases_its_turn_while_the_index_is_unavailable() -> None:
    log = new_log()
    fill(log, 1)
    index = scripted(log.environment)
    inside: list[bool] = []
    slept: list[bool] = []

    @contextmanager
    def turn(partition: str) -> Iterator[bool]:
        inside.append(True)
        yield True
        inside.pop()

    index.turn = turn  # type: ignore[method-assign]
    index.script = [after(lambda: rival_of(log).append(event())), _unavailable, _unavailable]
    clock_of(log.environment).sleep = lambda seconds: slept.append(bool(inside))  # type: ignore[method-assign]
    log.append(event())
    assert slept == [False, False]


def _unavailable(index: ScriptedIndex, writes: Sequence[Write]) -> None:
    raise Unavailable("scripted")


class Busy:
    """A store and a busy rival process. The rival commits before each commit of the store, but never during a turn."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store(folder)
        self.rival = open_store(folder)

    def __enter__(self) -> Busy:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self.rival.close()

    def interfere(self, commit: object) -> None:
        """Call ``commit``, which writes in the rival process, before each of the store's commits outside a turn."""
        index = self.store.environment.index
        real = index.commit
        running = False

        def commit_second(writes: Sequence[Write], *blobs: Any) -> None:
            nonlocal running
            if not running and not index._file._turnstile._in_turn:  # type: ignore[attr-defined]
                running = True
                commit()  # type: ignore[operator]
                running = False
            real(writes, *blobs)

        index.commit = commit_second  # type: ignore[method-assign]


def test_a_writer_with_a_busy_rival_commits_at_its_second_try(tmp_path: Path) -> None:
    with Busy(tmp_path) as busy:
        log = busy.store.create_log("acme", "events")
        other: Log = busy.rival.log("acme", "events")
        busy.interfere(lambda: other.append(event()))
        for _ in range(3):
            log.append(event())
        assert 1 <= busy.store.environment.counters["conflict"] <= 3
        assert len(list(log.read())) == 3 + busy.store.environment.counters["conflict"]


def test_a_document_with_a_busy_rival_commits_at_its_second_try(tmp_path: Path) -> None:
    with Busy(tmp_path) as busy:
        document: Document = busy.store.create("acme", "plan")
        document.mutate("inc", {"key": "a/n", "by": 1})
        other = busy.rival.document("acme", "plan")
        busy.interfere(lambda: other.mutate("inc", {"key": "a/n", "by": 1}, client="other"))
        for _ in range(3):
            document.mutate("inc", {"key": "a/n", "by": 1})
        assert document.get("a/n") == 1 + 3 + busy.store.environment.counters["conflict"]
        assert 1 <= busy.store.environment.counters["conflict"] <= 3


def test_a_record_with_a_busy_rival_is_put_at_the_second_try(tmp_path: Path) -> None:
    with Busy(tmp_path) as busy:
        records: Records = busy.store.records("acme")
        records.put("r", b"1")
        other = busy.rival.records("acme")
        busy.interfere(lambda: other.put("r", b"other"))
        for number in range(3):
            records.put("r", b"%d" % number)
        assert busy.store.environment.counters["conflict"] == 3


def test_without_turns_a_writer_with_a_busy_rival_raises_contention_error(tmp_path: Path) -> None:
    with Busy(tmp_path) as busy:
        busy.store.environment.settings = type(busy.store.environment.settings)(append_seconds_max=0.05)
        log = busy.store.create_log("acme", "events")
        other: Log = busy.rival.log("acme", "events")
        busy.interfere(lambda: other.append(event()))
        index = busy.store.environment.index
        index.turn = lambda partition: _no_turn()  # type: ignore[method-assign]
        with pytest.raises(ContentionError):
            log.append(event())


@contextmanager
def _no_turn() -> Iterator[bool]:
    yield False
