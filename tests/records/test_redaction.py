"""Redaction of a record's versions: the body is erased, the chain still verifies, other versions stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stratalog.clock import Observation
from stratalog.codec import sha256
from stratalog.errors import ConditionFailed, NotFound, OutcomeUnknown, Redacted, Unavailable, VersionForgotten
from stratalog.log import LogSettings
from stratalog.log.chain import body_digest
from stratalog.records import NewBody, Records
from stratalog.records.content import stream_item
from stratalog.records.history import item_of as version_item
from stratalog.records.verification import verify_record
from stratalog.records.versions import Name
from tests.records.helpers import World
from tests.records.test_chain import item_of
from tests.records.test_golden import empty

SECRET = b"a person's name"
LARGE = sha256(SECRET) * 1000
PARTS = [bytes(5_000_000), SECRET, bytes(5_000_000)]


@pytest.fixture
def records(tmp_path: Path) -> Records:
    """Records with one record, b1, of three versions. Most tests redact the second version."""
    made = empty(tmp_path)
    made.put("b1", b"first")
    made.put("b1", SECRET, principal="u-1", metadata={"title": "x"}, source_time_ms=5, write_id="w-2")
    made.put("b1", b"third")
    return made


def check(records: Records, *redacted: int) -> None:
    report = verify_record(records.environment, Name("acme", "b1"))
    assert (report.findings, report.redacted) == ((), redacted)


def test_redaction_erases_only_the_body(records: Records) -> None:
    before, item = records.stat("b1", 2), dict(item_of(records, 2))
    after = records.redact("b1", 2)
    assert (after.redacted, after.size, after.digest) == (True, 0, b"")
    for name in ("version", "created_ms", "write_id", "metadata", "source_time_ms", "principal", "hash", "deleted"):
        assert getattr(after, name) == getattr(before, name)
    assert item_of(records, 2)["d"] == body_digest(item["s"], sha256(SECRET))
    assert not item_of(records, 2).keys() & {"s", "b", "z", "x"}
    check(records, 2)
    for read in (records.get, records.open):
        with pytest.raises(Redacted):
            read("b1", 2)
    assert records.stat("b1", 2) == after == list(records.versions("b1"))[1]
    assert records.get("b1").body == b"third"


def test_redacting_again_changes_nothing_and_a_deletion_has_nothing_to_redact(records: Records) -> None:
    first = records.redact("b1", 2)
    item = item_of(records, 2)
    assert records.redact("b1", 2) == first
    assert item_of(records, 2) == item
    deleted = records.delete("b1")
    assert records.redact("b1", 4) == deleted
    check(records, 2)


@pytest.mark.parametrize("body", [LARGE, PARTS], ids=["one blob", "parts"])
def test_the_blob_of_a_redacted_version_is_deleted_unless_another_version_shares_the_blob(
    records: Records, body: Any
) -> None:
    blobs = records.environment.blobs

    def held() -> int:
        records.environment.clock.sleep(100_000)
        records.free("b1")
        return len(list(blobs.list("acme/records/b1")))

    records.put("b1", body if isinstance(body, bytes) else iter(body))
    records.put("b1", b"between")
    records.put("b1", body if isinstance(body, bytes) else iter(body))
    before = held()
    records.redact("b1", 4)
    assert held() == before
    records.redact("b1", 6)
    assert held() == 0
    check(records, 4, 6)


def test_a_read_of_a_version_redacted_meanwhile_raises_redacted_and_not_corrupt(records: Records) -> None:
    """A reader may read the item long before the blob. The simulation of records found this case (seed 110049365)."""
    records.put("b1", Random(1).randbytes(40_000))
    name = Name("acme", "b1")
    item = version_item(records.environment, name, 4)
    records.redact("b1", 4)
    blobs = records.environment.blobs
    for stat in list(blobs.list("acme/records/b1")):
        blobs.delete(stat.key, stat.stamp)
    with pytest.raises(Redacted):
        list(stream_item(records.environment, name, item))


def test_a_record_accepts_puts_after_the_redaction_of_its_latest_version(records: Records) -> None:
    records.redact("b1", 3)
    with pytest.raises(Redacted):
        records.get("b1")
    with pytest.raises(Redacted):
        records.update("b1", bytes.upper)
    assert records.put("b1", b"third").version == 4
    assert records.update("b1", bytes.upper).version == 5
    check(records, 3)


def test_undelete_of_a_redacted_version_raises_redacted(records: Records) -> None:
    records.delete("b1")
    records.redact("b1", 3)
    with pytest.raises(Redacted):
        records.undelete("b1")
    assert records.put("b1", b"new").version == 5
    check(records, 3)


def test_an_undeletion_that_races_with_a_redaction_raises_redacted() -> None:
    world = World()
    records = world.records
    records.put("b1", SECRET)
    records.delete("b1")

    def redact_first(commit: Callable[[], None]) -> None:
        world.elsewhere().redact("b1", 1)
        commit()

    world.index.script.append(redact_first)
    with pytest.raises(Redacted):
        records.undelete("b1")
    assert records.stat("b1").version == 2


def test_a_retry_of_a_redacted_put_raises_redacted(records: Records) -> None:
    records.redact("b1", 2)
    for body in (SECRET, b"another"):
        with pytest.raises(Redacted):
            records.put("b1", body, principal="u-1", write_id="w-2", expected=1)
    records.put("b2", SECRET, write_id="w-9")
    records.redact("b2", 1)
    [stored] = records.put_many([NewBody(id="b2", body=SECRET, write_id="w-9")])
    assert isinstance(stored.error, Redacted)


def test_a_redacted_version_can_be_pruned(records: Records) -> None:
    records.redact("b1", 2)
    assert records.prune("b1", retain=1) == 3
    check(records)
    with pytest.raises(VersionForgotten):
        records.redact("b1", 2)
    with pytest.raises(NotFound):
        records.redact("b1", 9)


def test_a_redaction_whose_answer_is_lost_succeeds(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    index = records.environment.index
    commit = index.commit

    def lost(*arguments: Any) -> None:
        commit(*arguments)
        monkeypatch.setattr(index, "commit", commit)
        raise OutcomeUnknown("the answer was lost")

    monkeypatch.setattr(index, "commit", lost)
    assert records.redact("b1", 2).redacted
    check(records, 2)


def test_a_redaction_that_loses_every_race_backs_off_until_its_deadline() -> None:
    world = World()
    records = world.records
    records.put("b1", SECRET)

    def lose(commit: Callable[[], None]) -> None:
        world.index.script.append(lose)
        raise ConditionFailed({0: None})

    begun = Observation(world.clock)
    world.index.script.append(lose)
    with pytest.raises(Unavailable, match="kept changing"):
        records.redact("b1", 1)
    assert begun.age_seconds() >= LogSettings().append_seconds_max
    world.index.script.clear()
    assert records.redact("b1", 1).redacted
