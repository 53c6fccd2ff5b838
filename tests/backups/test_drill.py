"""The drill has no findings, and would notice a lost version. A client of a restored store continues."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import stratalog
from stratalog.client import Client
from stratalog.client.http import HttpTransport, document_of
from tests.backups import drill
from tests.backups.writers import ORGANISATION, Acknowledged
from tests.branches.servers import BranchServer
from tests.processes import COMMAND_LINE, run


@pytest.mark.slow
def test_a_round_of_the_drill_finds_nothing_wrong() -> None:
    drilled = drill.run_drill(1, seed=7, seconds=3)
    assert drilled.wrong == []
    assert drilled.counts["versions compared"] > 0


def test_a_version_that_was_lost_would_be_seen(tmp_path: Path) -> None:
    with stratalog.open(tmp_path / "store") as store:
        log = store.create_log(ORGANISATION, "events")
        entry = log.append(stratalog.Event("seen", 1))
        there = Acknowledged("log", "events", 1, entry.created_ms, entry.created_ms, entry.hash.hex())
        lost = Acknowledged("log", "events", 2, entry.created_ms, entry.created_ms, "00")
        assert drill.told(store, there) == there.fact
        assert drill.told(store, lost) != lost.fact


@pytest.mark.slow
def test_a_client_of_a_restored_store_goes_on(tmp_path: Path) -> None:
    """The client saw more than the backup holds. It gets the restored state, and its pending mutation arrives once."""
    server = BranchServer(tmp_path / "store")
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
    server.close()


@pytest.mark.slow
def test_what_is_acknowledged_while_a_backup_runs_does_not_spoil_it(tmp_path: Path) -> None:
    """Two backups of one store run at the same time, and both verify."""
    with stratalog.open(tmp_path / "store") as store:
        for number in range(20):
            store.records(ORGANISATION).put(f"r{number}", bytes([number]) * 9000)
    from tests.processes import start

    command = [*COMMAND_LINE, "backup", str(tmp_path / "backups"), "--store", str(tmp_path / "store"), "--json"]
    with start(command) as one, start(command) as other:
        ids = {json.loads(process.end())["id"] for process in (one, other)}
    assert len(ids) == 2
    for id in ids:
        run([*COMMAND_LINE, "backup", "verify", str(tmp_path / "backups"), "--backup", id])
