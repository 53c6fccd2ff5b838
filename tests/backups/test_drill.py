"""The drill has no findings, and would notice a lost version. A client of a restored store continues."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

import stratalog
from stratalog.client import Client
from stratalog.client.http import HttpTransport, document_of
from stratalog.testing.clock import ManualClock
from tests.backups import drill
from tests.backups.writers import ORGANISATION, SETTINGS, Acknowledged
from tests.branches.servers import BranchServer
from tests.processes import COMMAND_LINE, run, start

LARGE = 5000
"""The number of repetitions in a large event or body. A backup copies large bodies as blobs."""

STEPPED_BACKUP = """
import sys
from stratalog.backups.backup import back_up
from stratalog.backups.repository import BackupRepository
from stratalog.clock import SystemClock
from stratalog.homes import open_blobs
import stratalog

def step(count):
    print(flush=True)
    input()

clock = SystemClock()
with stratalog.open(sys.argv[1]) as store:
    repository = BackupRepository(open_blobs(sys.argv[2]), clock)
    print(back_up(store, repository, step, workers=0).manifest.id, flush=True)
"""
"""A program that backs up a store. After each row or blob it prints an empty line and waits for a line of input."""


@pytest.mark.slow
def test_a_round_of_the_drill_finds_nothing_wrong() -> None:
    drilled = drill.run_drill(1, seed=7, seconds=3)
    assert drilled.wrong == []
    assert drilled.counts["versions compared"] > 0
    assert drilled.counts["records compared"] > 0


def test_the_drill_counts_a_killed_backup_only_if_the_signal_ended_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drilled = drill.DrillResult(Counter(), [])
    homes = drill.Homes(lambda name: str(tmp_path / name), str(tmp_path / "backups"))
    monkeypatch.setattr(drill, "time", SimpleNamespace(sleep=lambda seconds: None))
    part = drill._Round(tmp_path, homes, 1, 1, drilled)
    for program, killed in (("pass", 0), ("input()", 1)):
        child = start([sys.executable, "-c", program])
        if not killed:
            child.end()
        monkeypatch.setattr(drill, "start", lambda _, child=child: child)
        part._back_up(killed=True)
        assert drilled.counts["backups killed"] == killed


def test_the_drill_detects_a_lost_version(tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "store") as store:
        log = store.create_log(ORGANISATION, "events")
        entry = log.append(stratalog.Event("seen", 1))
        there = Acknowledged("log", "events", 1, entry.created_ms, entry.created_ms, entry.hash.hex())
        lost = Acknowledged("log", "events", 2, entry.created_ms, entry.created_ms, "00")
        assert drill.content_of(store, there) == there.fact
        assert drill.content_of(store, lost) != lost.fact


def test_the_drill_detects_a_record_with_a_wrong_last_version() -> None:
    clock = ManualClock()
    with stratalog.open("memory:", clock=clock) as source, stratalog.open("memory:", clock=clock) as other:
        clock.sleep(1)
        first = source.records(ORGANISATION).put("r", b"first")
        clock.sleep(1)
        second = source.records(ORGANISATION).put("r", b"second")
        assert drill.record_fault(source, source, "r", None) == ""
        assert drill.record_fault(source, source, "r", second.created_ms) == ""
        assert drill.record_fault(source, source, "r", first.created_ms) == "ends at 2"
        assert drill.record_fault(source, source, "r", first.created_ms - 1) == "ends at 2"
        other.records(ORGANISATION).put("r", b"another")
        assert drill.record_fault(source, other, "r", None) == "is no beginning of its source"


@pytest.mark.slow
def test_a_client_of_a_restored_store_pushes_its_pending_mutation_once(tmp_path: Path) -> None:
    """The client saw a write that the backup lacks.

    After the restore the server applies the client's pending mutation once.
    """
    with closing(BranchServer(tmp_path / "store")) as server:
        server.create()
        server.start()
        backups, restored = tmp_path / "backups", tmp_path / "restored"
        transport = HttpTransport(server.url)
        with Client(transport, str(tmp_path / "client"), document=document_of(server.url)) as client:
            client.mutate("append", {"key": "list", "item": "in the backup"})
            client.sync()
            run([*COMMAND_LINE, "backup", str(backups), "--store", str(server.folder)])
            client.mutate("append", {"key": "list", "item": "lost"})
            client.sync()
            client.mutate("append", {"key": "list", "item": "pending"})
            run([*COMMAND_LINE, "restore", str(backups), "--store", str(restored)])
            server.stop()
            shutil.rmtree(server.folder)
            restored.rename(server.folder)
            server.start()
            for _ in range(3):
                client.sync()
            assert client.get("list") == ["in the backup", "pending"]
            assert client.pending() == []
        with server.document() as document:
            assert document.at(None).get("list") == ["in the backup", "pending"]


@pytest.mark.slow
def test_two_backups_that_run_during_writes_verify_and_restore(tmp_path: Path) -> None:
    """Two processes back up one store at the same time. After each row or blob they wait for a write.

    The test verifies and restores both backups.
    """
    command = [sys.executable, "-c", STEPPED_BACKUP, str(tmp_path / "store"), str(tmp_path / "backups")]
    with stratalog.open(tmp_path / "store", settings=SETTINGS) as store:
        log, records = store.create_log(ORGANISATION, "events"), store.records(ORGANISATION)
        acknowledged: list[stratalog.RecordVersion] = []

        def write() -> None:
            number = len(acknowledged)
            log.append(stratalog.Event("seen", f"{number}" * LARGE))
            acknowledged.append(records.put(f"r{number % 4}", number.to_bytes(2) * LARGE))

        for _ in range(20):
            write()
        before, ids = list(acknowledged), []
        with start(command) as first, start(command) as second:
            running = [(process, process.read_line()) for process in (first, second)]
            assert [line for _, line in running] == ["\n", "\n"]
            while running:
                for process, _ in running:
                    write()
                    process.write_line("")
                running = [(process, process.read_line()) for process, _ in running]
                ids += [line.strip() for _, line in running if line.strip()]
                running = [(process, line) for process, line in running if not line.strip()]
            for process in (first, second):
                process.end()
        assert len(set(ids)) == 2
        for id in ids:
            run([*COMMAND_LINE, "backup", "verify", str(tmp_path / "backups"), "--backup", id])
            target = str(tmp_path / id)
            run([*COMMAND_LINE, "restore", str(tmp_path / "backups"), "--store", target, "--backup", id])
            with stratalog.open(target) as restored:
                for version in before:
                    assert restored.records(ORGANISATION).stat(version.id, version.version) == version
                head = restored.log(ORGANISATION, "events").head()
                assert log.hash_at(head.version) == head.hash
                assert len(before) <= head.version <= len(acknowledged)
                assert not any(
                    drill.record_fault(store, restored, line.id, None) for line in restored.records(ORGANISATION).list()
                )
