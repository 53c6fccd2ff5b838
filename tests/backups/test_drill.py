"""The drill has no findings, and would notice a lost version. A client of a restored store continues."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path

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
"""The number of repetitions in a large event or body. A backup copies large bodies as blobs, and so takes longer."""


@pytest.mark.slow
def test_a_round_of_the_drill_finds_nothing_wrong() -> None:
    drilled = drill.run_drill(1, seed=7, seconds=3)
    assert drilled.wrong == []
    assert drilled.counts["versions compared"] > 0
    assert drilled.counts["records compared"] > 0


def test_the_drill_detects_a_lost_version(tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "store") as store:
        log = store.create_log(ORGANISATION, "events")
        entry = log.append(stratalog.Event("seen", 1))
        there = Acknowledged("log", "events", 1, entry.created_ms, entry.created_ms, entry.hash.hex())
        lost = Acknowledged("log", "events", 2, entry.created_ms, entry.created_ms, "00")
        assert drill.told(store, there) == there.fact
        assert drill.told(store, lost) != lost.fact


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
    """Two backups of one store run at the same time while the store acknowledges writes.

    The test verifies and restores both backups.
    """
    command = [*COMMAND_LINE, "backup", str(tmp_path / "backups"), "--store", str(tmp_path / "store"), "--json"]
    with stratalog.open(tmp_path / "store", settings=SETTINGS) as store:
        log, records = store.create_log(ORGANISATION, "events"), store.records(ORGANISATION)
        entries: list[stratalog.Entry] = []
        acknowledged: list[tuple[int, stratalog.RecordVersion]] = []

        def write() -> None:
            entries.append(log.append(stratalog.Event("seen", f"{len(entries)}" * LARGE)))
            number = len(acknowledged)
            version = records.put(f"r{number % 4}", number.to_bytes(2) * LARGE)
            # A commit sets the time of its item before it waits for the store. A backup that begins meanwhile need not
            # contain the item.
            acknowledged.append((store.environment.clock.wall_ms(), version))

        for _ in range(20):
            write()
        with start(command) as one, start(command) as other:
            while one.status is None or other.status is None:
                write()
            manifests = [json.loads(process.end()) for process in (one, other)]
        for manifest in manifests:
            assert any(manifest["started_ms"] < one.created_ms < manifest["finished_ms"] for one in entries)
            run([*COMMAND_LINE, "backup", "verify", str(tmp_path / "backups"), "--backup", manifest["id"]])
            target = str(tmp_path / manifest["id"])
            run([*COMMAND_LINE, "restore", str(tmp_path / "backups"), "--store", target, "--backup", manifest["id"]])
            before = [version for time_ms, version in acknowledged if time_ms < manifest["started_ms"]]
            with stratalog.open(target) as restored:
                for version in before:
                    assert restored.records(ORGANISATION).stat(version.id, version.version) == version
                head = restored.log(ORGANISATION, "events").head()
                assert log.hash_at(head.version) == head.hash
                assert head.version >= len(before)
                assert not any(
                    drill.record_fault(store, restored, line.id, None) for line in restored.records(ORGANISATION).list()
                )
    assert manifests[0]["id"] != manifests[1]["id"]
