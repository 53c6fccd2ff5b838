"""Each kind of client continues after a restore of its server, and after a move to a copy of the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.branches.__main__ import Drivers
from tests.branches.members import Member, NodeMember, PythonMember, token_of, tokens
from tests.branches.servers import BranchServer

KINDS = ("python", "replicache", "browser", "chromium")
REQUESTS_MAX = 1000
"""More requests than any client sends in one sync cycle."""


class Stage:
    """A server with a document, and the members that use it. Members in Node are tabs of one browser."""

    def __init__(self, kind: str, folder: Path, drivers: Drivers) -> None:
        self.kind = kind
        self.folder = folder
        self.drivers = drivers
        self.server = BranchServer(folder / "store", killed=kind == "python")
        self.server.create()
        self.server.start()
        self.members: list[Member] = []

    def open(self, server: BranchServer | None = None) -> Member:
        name = f"{self.folder.name}-{len(self.members)}"
        at = server or self.server
        if self.kind == "python":
            member: Member = PythonMember(name, at, self.folder, len(self.members))
        else:
            member = NodeMember(self.drivers.driver(self.kind), self.kind, name, at, self.folder.name)
        self.members.append(member)
        return member

    def backup(self) -> Path:
        return self.server.copy(self.folder / "backup")

    def somebody(self, item: str) -> None:
        """Commit an item as another client."""
        with self.server.document() as document:
            document.mutate("append", {"key": "list", "item": item})

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.server.close()


@pytest.fixture(scope="module")
def drivers() -> Iterator[Drivers]:
    with Drivers() as running:
        yield running


@pytest.fixture(params=KINDS)
def stage(request: pytest.FixtureRequest, tmp_path: Path, drivers: Drivers) -> Iterator[Stage]:
    made = Stage(request.param, tmp_path, drivers)
    try:
        yield made
    finally:
        made.close()


def append(member: Member, number: int) -> None:
    assert member.change("append", {"key": "list", "item": (member.name, number)})


def numbers(member: Member) -> list[Any]:
    """Return the items of a member's list. An item that a member appended is returned as its number alone."""
    return [item if isinstance(item, str) else item[1] for item in member.report().shown.get("list", [])]


def settle(*members: Member) -> None:
    for member in members:
        for _ in range(100):
            if member.sync() and not member.report().pending:
                break
        else:
            raise AssertionError(f"{member.name} still has pending mutations: {member.report().pending}")


def check_end(member: Member, expected: list[Any], lost: list[int]) -> None:
    report = member.report()
    assert numbers(member) == expected
    assert report.pending == report.faults == []
    if report.failures is not None:
        assert {(each.status, token_of(each.args)) for each in report.failures} == {
            ("lost", (member.name, number)) for number in lost
        }


def committed(member: Member) -> list[int]:
    """Return the numbers of a member's mutations in the log of its server, in order."""
    tokens = [token_of(mutation.args) for mutation in member.server.committed()]
    return [token[1] for token in tokens if token is not None and token[0] == member.name]


def test_after_a_restore_pending_mutations_are_applied_once_and_lost_are_reported(stage: Stage) -> None:
    ada = stage.open()
    append(ada, 0)
    settle(ada)
    backup = stage.backup()
    append(ada, 1)
    settle(ada)
    append(ada, 2)
    stage.server.put_back(backup)
    settle(ada)
    check_end(ada, [0, 2], lost=[1])
    assert committed(ada) == [0, 2]


def test_a_client_that_began_after_the_backup_continues(stage: Stage) -> None:
    backup = stage.backup()
    ada = stage.open()
    append(ada, 0)
    settle(ada)
    append(ada, 1)
    stage.server.put_back(backup)
    settle(ada)
    check_end(ada, [1], lost=[0])
    assert committed(ada) == [1]


def test_no_lost_mutation_is_shown_after_a_restore_that_reached_the_same_version(stage: Stage) -> None:
    ada = stage.open()
    append(ada, 0)
    settle(ada)
    backup = stage.backup()
    append(ada, 1)
    settle(ada)
    stage.server.put_back(backup)
    stage.somebody("other")
    settle(ada)
    check_end(ada, [0, "other"], lost=[1])


def test_two_tabs_at_different_versions_converge_after_a_restore(stage: Stage) -> None:
    ada, bob = stage.open(), stage.open()
    append(ada, 0)
    append(bob, 0)
    settle(ada, bob, ada)
    backup = stage.backup()
    append(ada, 1)
    settle(ada)
    append(bob, 1)
    stage.server.put_back(backup)
    settle(bob, ada, bob)
    append(ada, 2)
    settle(ada, bob)
    # A tab of Replicache sometimes reads the pending mutations of other tabs, and then pushes them too. So the restored
    # server may get ada's mutation 1 from bob's tab.
    again = [1] if stage.kind == "replicache" and 1 in committed(ada) else []
    assert committed(ada) == [0, *again, 2]
    assert committed(bob) == [0, 1]
    check_end(ada, [0, 0, 1, *again, 2], lost=[1])
    check_end(bob, [0, 0, 1, *again, 2], lost=[])


def test_a_push_delayed_until_after_the_restore_is_applied_once(stage: Stage) -> None:
    ada = stage.open()
    append(ada, 0)
    settle(ada)
    backup = stage.backup()
    append(ada, 1)
    settle(ada)
    append(ada, 2)
    # Replicache immediately retries a failed request. These retries must not arrive before the restore.
    ada.sync("late", *["unreached"] * REQUESTS_MAX)
    stage.server.put_back(backup)
    ada.deliver_late()
    settle(ada)
    ada.deliver_late()
    settle(ada)
    check_end(ada, [0, 2], lost=[1])
    assert committed(ada) == [0, 2]


def test_a_client_moves_to_a_diverged_copy_and_back(stage: Stage) -> None:
    ada = stage.open()
    append(ada, 0)
    settle(ada)
    first, second = stage.server, BranchServer(stage.backup())
    try:
        second.start()
        append(ada, 1)
        settle(ada)
        with second.document() as document:
            document.mutate("append", {"key": "list", "item": "other"})
        ada.move(second)
        settle(ada)
        assert numbers(ada) == [0, "other"]
        append(ada, 2)
        settle(ada)
        assert numbers(ada) == [0, "other", 2]
        append(ada, 3)
        ada.move(first)
        settle(ada)
        assert numbers(ada) == [0, 1, 3]
        assert committed(ada) == [0, 1, 3]
        report = ada.report()
        assert report.faults == []
        assert report.failures is None or tokens([each.args for each in report.failures]) == {
            (ada.name, 1),
            (ada.name, 2),
        }
    finally:
        second.close()
