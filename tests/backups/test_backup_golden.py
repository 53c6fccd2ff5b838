"""The format is fixed: a stored backup stays restorable, and the same store makes the same catalogue."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import stratalog
from stratalog.backups.verification import verify_backup
from stratalog.log import delete_log
from stratalog.log.retention import archive_segments, free_segments
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline
from tests.maintenance.growing import SETTINGS, contents_of

FILE = Path(__file__).parents[2] / "formats/golden/backup-v1.json"
WALL_MS = 1_800_000_000_000
LINES = 60


def written() -> stratalog.Store:
    """A store with items in rows and packs, an archive, a fork, a deleted log, records, a blob and a failure."""
    clock = ManualClock()
    store = open_inline(settings=SETTINGS, clock=clock)
    plan = store.create("acme", "plan é")
    for count in range(9):
        plan.mutate("put", {"key": "items/a", "value": f"{count}" * (2000 if count == 4 else 1)}, client="ada")
    plan.fork("copy", at=7).mutate("put", {"key": "items/b", "value": 1})
    log = store.create_log("acme", "events")
    for count in range(11):
        log.append(stratalog.Event("seen", Random(count).randbytes(450)))
    archive_segments(log, 8)
    clock.sleep(1000)
    free_segments(log)
    delete_log(store.create("acme", "gone").log)
    for count in range(LINES):
        store.records("zeta").put(f"r{count}", b"%d" % count)
    store.records("acme").put("large", Random(1).randbytes(9000))
    store.records("acme").fail("broken", "no such column", body=b"x" * 20)
    return store


def test_the_golden_backup_verifies_and_restores_its_original_content() -> None:
    backups, golden = restored()
    [manifest] = backups.repository().manifests()
    assert verify_backup(backups.repository(), manifest).findings == ()
    store = backups.restored(backups.view())
    assert store.document("acme", "plan é").at(5).to_dict() == {"items/a": "4" * 2000}
    assert store.document("acme", "copy").at(8).to_dict() == {"items/a": "6", "items/b": 1}
    assert [entry.events[0].data for entry in store.log("acme", "events").read()] == [
        Random(count).randbytes(450) for count in range(11)
    ]
    assert store.records("acme").get("large").body == Random(1).randbytes(9000)
    assert len(list(store.records("zeta").list())) == LINES
    assert manifest.root.address.hex() == golden["root"]


def test_the_same_store_makes_the_same_catalogue() -> None:
    backups, golden = restored()
    again = Backups(backups.clock)
    manifest = again.make(backups.restored(backups.view())).manifest
    assert manifest.root.address.hex() == golden["root"]


def test_a_new_backup_has_as_many_objects_of_each_kind_as_the_golden_backup() -> None:
    """Ids and hashes are random. So the test compares only the number of objects of each kind.

    The golden backup has the topmost chunk of its catalogue as an object of its own, and a new backup has not.
    """
    _, golden = restored()
    backups = Backups(ManualClock(wall_ms=WALL_MS))
    backups.make(written())
    kinds = sorted(stat.key.split("/")[1] for stat in backups.blobs.list("!backup/"))
    assert sorted([*kinds, "chunks"]) == sorted(key.split("/")[1] for key in golden["blobs"])


@pytest.mark.slow
def test_a_backup_of_a_restored_store_has_the_catalogue_of_the_original_backup() -> None:
    backups = Backups(ManualClock(wall_ms=WALL_MS))
    store = written()
    root = backups.make(store).manifest.root
    restored_store = backups.restored(backups.view())
    assert contents_of(restored_store) == contents_of(store)
    assert Backups(backups.clock).make(restored_store).manifest.root == root


def restored() -> tuple[Backups, dict[str, Any]]:
    golden: dict[str, Any] = json.loads(FILE.read_text())
    backups = Backups(ManualClock(wall_ms=WALL_MS))
    for key, body in golden["blobs"].items():
        backups.blobs.put(key, base64.b64decode(body))
    return backups, golden


def write_golden() -> None:
    """Write the golden file again: ``python -m tests.backups.test_backup_golden``."""
    backups = Backups(ManualClock(wall_ms=WALL_MS))
    root = backups.make(written()).manifest.root
    blobs = {stat.key: backups.blobs.get(stat.key) for stat in backups.blobs.list("!backup/")}
    encoded = {key: base64.b64encode(body).decode() for key, body in blobs.items()}
    FILE.write_text(json.dumps({"root": root.address.hex(), "blobs": encoded}, indent=1) + "\n")


if __name__ == "__main__":
    write_golden()
