"""A damaged key of a blob hides only its own blob. Copies and the scrub name the key. A backup names the lost blob."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

import stratalog
from stratalog.codec import sha256
from stratalog.errors import Corrupt
from stratalog.maintenance.collection import collect
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.scrub import scrub
from stratalog.maintenance.store_copy import copy_store
from stratalog.maintenance.verification import HistoryName
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline

PLAN = HistoryName("log", "acme", "plan")
LOST, OTHER = (ManualClock(seed=seed).random_bytes(20_000).hex() for seed in (1, 2))


def not_hexadecimal(key: str) -> tuple[str, bytes]:
    return "TEXT", f"{key[:-1]}s".encode()


def not_utf8(key: str) -> tuple[str, bytes]:
    return "TEXT", key.encode()[:-1] + bytes([ord(key[-1]) ^ 0x80])


def not_text(key: str) -> tuple[str, bytes]:
    return "BLOB", key.encode()


@pytest.fixture(params=[not_hexadecimal, not_utf8, not_text])
def damaged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[stratalog.Store]:
    """A store with a document and a record. The keys of a value and of a body are damaged."""
    change: Callable[[str], tuple[str, bytes]] = request.param
    with open_inline(tmp_path, clock=ManualClock()) as store:
        document, records = store.create("acme", "plan"), store.records("acme")
        for name, text in (("lost", LOST), ("other", OTHER)):
            document.mutate("put", {"key": f"cells/{name}", "value": text})
            records.put("report", text.encode())
        rows = apsw.Connection(str(tmp_path / "index.sqlite"))
        blobs = store.environment.blobs
        lost = [stat.key for stat in blobs.list("") if LOST.encode() in blobs.get(stat.key)]
        assert len(lost) == 2
        for key in lost:
            kind, name = change(key)
            rows.execute(f"UPDATE blobs SET key = CAST(? AS {kind}) WHERE key = ?", (name, key))
        yield store


def expect_others(store: stratalog.Store) -> None:
    assert store.document("acme", "plan").get("cells/other") == OTHER
    assert store.records("acme").get("report").body == OTHER.encode()


def test_a_copy_names_each_damaged_key_of_a_blob_and_has_everything_else(damaged: stratalog.Store) -> None:
    target = open_inline(clock=ManualClock())
    failures = copy_store(damaged, target).failures
    # A failure for each damaged key, and for each item that refers to its blob.
    assert [failure.code for failure in failures] == [Corrupt.code] * 4
    assert {failure.what.split("/")[1].partition("@")[0] for failure in failures} == {"plan", "records", "!record"}
    expect_others(target)


def test_a_backup_names_each_blob_that_a_damaged_key_hides_and_has_everything_else(damaged: stratalog.Store) -> None:
    backups = Backups(ManualClock())
    assert len(backups.make(damaged).manifest.failures) == 2
    expect_others(backups.view())


def test_a_verification_names_a_blob_that_a_damaged_key_hides_as_missing(damaged: stratalog.Store) -> None:
    assert [damage.fault for damage in inspect_history(damaged, PLAN).damages] == ["missing"]


def test_the_scrub_names_each_damaged_key_and_reads_all_other_blobs(damaged: stratalog.Store) -> None:
    report = scrub(damaged.environment, 30)
    assert len(report.failures) == 2
    assert (report.blobs, report.is_round_finished) == (len([*damaged.environment.blobs.list("")]), True)


def test_a_collection_frees_the_garbage_beside_a_damaged_key(damaged: stratalog.Store) -> None:
    owner = damaged.document("acme", "plan").log.record.owner
    garbage = f"{owner}/items/cells/{sha256(b'garbage').hex()}"
    damaged.environment.blobs.put(garbage, b"garbage")
    damaged.environment.clock.sleep(30 * 86_400)
    report = collect(damaged.environment, "acme")
    assert (report.garbage, report.failures) == ((garbage,), ())
    expect_others(damaged)


def test_the_statements_of_the_guide_delete_each_row_with_a_damaged_key(
    damaged: stratalog.Store, tmp_path: Path
) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "verify.md").read_text()
    (statements,) = re.findall("```sql\n(.*?)```", guide, re.DOTALL)
    before = len([*damaged.environment.blobs.list("")])
    rows = apsw.Connection(str(tmp_path / "index.sqlite"))
    rows.execute(statements)
    assert [rows.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("blobs", "blob_bodies")] == [
        (before,),
        (before,),
    ]
    assert scrub(damaged.environment, 30).failures == ()
    expect_others(damaged)
