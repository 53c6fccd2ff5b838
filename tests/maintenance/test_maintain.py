"""A pass of maintenance does only the work that is due. A pass resumes an interrupted earlier pass."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

import stratalog
from stratalog.clock import Clock
from stratalog.codec import sha256
from stratalog.errors import Closed, Corrupt, Invalid, NotFound, Unavailable, VersionForgotten
from stratalog.keys import (
    MARK_SORT,
    deleted_partition,
    directory_partition,
    entries_partition,
    forks_partition,
    record_key,
    record_partition,
    uploads_partition,
    waiting_partition,
)
from stratalog.keys import number as fixed
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX, RECORD_UPLOAD_SECONDS_MAX
from stratalog.log import Environment, Event, Log, delete_log
from stratalog.log.bodies import decode_body_ref
from stratalog.log.directory import directory_put, organisation_put
from stratalog.log.head import Head
from stratalog.log.retention import archive_segments, free_segments, raise_floor
from stratalog.log.segments import list_segments
from stratalog.log.snapshots import list_snapshots
from stratalog.log.tasks import InlineTasks
from stratalog.maintenance import log_pass
from stratalog.maintenance.collection import collect
from stratalog.maintenance.damage import item_key
from stratalog.maintenance.inspection import inspect_history
from stratalog.maintenance.policy import MaintenancePolicy, RetentionPolicy, read_policy
from stratalog.maintenance.store_pass import MaintenanceReport, maintain
from stratalog.maintenance.verification import HistoryName
from stratalog.ports.blobs import Blobs
from stratalog.ports.index import Index, Item, Put
from stratalog.records.content import body_prefix
from stratalog.records.retention import remove_waiting_mark
from stratalog.records.uploads import pin_put, pins_of
from stratalog.records.versions import Name
from stratalog.testing.clock import ManualClock
from tests.damage import DAMAGES, damaged_blob
from tests.stored import stored_items

OLD_SECONDS = OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1
DAY_SECONDS = 86_400
LONG = "long " * 500
NOTHING = {"documents": RetentionPolicy(), "logs": RetentionPolicy()}


@pytest.fixture
def store() -> stratalog.Store:
    return a_store()


def a_store(clock: Clock | None = None, url: str | Path = "memory:", **settings: int) -> stratalog.Store:
    tuned = {"segment_entries_target": 4, "snapshot_entries_interval": 3, "body_inline_bytes_max": 100, **settings}
    opened = stratalog.open(url, clock=clock or ManualClock(), settings=stratalog.LogSettings(**tuned))
    # Write snapshots immediately, since a background thread may finish a snapshot during a test's checks.
    opened.environment.background = InlineTasks()
    return opened


def fill(document: stratalog.Document, count: int, value: str = "") -> None:
    for number in range(count):
        args = {"key": "notes/a", "value": f"{number} {value}"}
        assert document.mutate("put", args).status == "applied"


def a_log(store: stratalog.Store, name: str, count: int = 10) -> stratalog.Log:
    log = store.create_log("acme", name)
    for number in range(count):
        log.append(Event("noted", number))
    return log


def with_snapshots(log: stratalog.Log, store: stratalog.Store) -> tuple[int, str]:
    """Append entries with a snapshot each. Return the newest version that retention may forget, and its blob's key."""
    for version in range(3, 15):
        log.append(Event("noted", version))
        log.save_snapshot(version, [f"the state of version {version}".encode() * 20])
    bound = firsts(log)[-1] - 1
    blobs = store.environment.blobs
    (key,) = (s.key for s in blobs.list("") if blobs.get(s.key).startswith(f"the state of version {bound}".encode()))
    return bound, key


def pass_days(store: stratalog.Store, days: float) -> None:
    store.environment.clock.sleep(days * DAY_SECONDS)


def pass_grace(store: stratalog.Store) -> None:
    store.environment.clock.sleep(OLD_SECONDS)


def firsts(log: stratalog.Log) -> list[int]:
    return [segment.first for segment in list_segments(log.environment.index, log.record.prefix)]


def snapshots(document: stratalog.Document) -> list[int]:
    return [snapshot.version for snapshot in list_snapshots(document.log.environment.index, document.log.record.prefix)]


def damage(log: stratalog.Log) -> None:
    """Damage a log so that maintenance cannot read it."""
    log.environment.index.commit([Put(Item(f"{log.record.prefix}/segments", "0000000000000001", {"c": 1}))])


def test_the_default_policy_deletes_only_garbage(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    fill(document, 12, LONG)
    body = b"an orphan"
    orphan = f"{document.log.record.owner}/bodies/{sha256(body).hex()}"
    store.environment.blobs.put(orphan, body)
    pass_days(store, 400)
    report = maintain(store)
    assert report.garbage == (orphan,)
    assert (report.floors, report.archived_segments, report.freed_segments, report.failures) == (0, 0, 0, ())
    assert [document.get("notes/a", at=version) for version in range(1, 13)] == [f"{n} {LONG}" for n in range(12)]


def test_a_pass_makes_a_due_snapshot_that_no_writer_made(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    lazy = store.environment.settings
    store.environment.settings = stratalog.LogSettings(snapshot_entries_interval=1000)
    fill(document, 5)
    store.environment.settings = lazy
    assert snapshots(document) == []
    assert maintain(store).snapshots == 1
    assert snapshots(document) == [5]
    assert maintain(store).snapshots == 0


def test_a_policy_can_disable_snapshots() -> None:
    store = a_store()
    document = store.create("acme", "budget")
    store.environment.settings = stratalog.LogSettings(snapshot_entries_interval=1000)
    fill(document, 5)
    store.environment.settings = stratalog.LogSettings(snapshot_entries_interval=3)
    assert maintain(store, MaintenancePolicy(snapshots=False)).snapshots == 0
    assert snapshots(document) == []


def test_retain_segments_forgets_and_later_frees_all_but_the_newest_segments(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    fill(document, 14)
    before = firsts(document.log)
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=2))
    assert maintain(store, policy).floors == 1
    floor = document.log.floor()
    assert floor == before[-2] - 1
    assert document.get("notes/a", at=floor) == f"{floor - 1} "
    with pytest.raises(VersionForgotten):
        document.get("notes/a", at=floor - 1)
    pass_grace(store)
    assert maintain(store, policy).freed_segments == len(before) - 2
    assert firsts(document.log)[0] == before[-2]


def test_retain_days_retains_the_versions_of_the_last_days(store: stratalog.Store) -> None:
    log = store.create_log("acme", "events")
    for day in range(10):
        for number in range(3):
            log.append(Event("noted", [day, number]))
        pass_days(store, 1)
    maintain(store, MaintenancePolicy(logs=RetentionPolicy(retain_days=4)))
    retained = [entry.events[0].data[0] for entry in log.read(log.floor())]
    assert retained[0] <= 6
    assert retained[-1] == 9
    assert log.floor() > 9


def test_of_two_retention_rules_the_rule_that_retains_more_applies(store: stratalog.Store) -> None:
    log = a_log(store, "events", 20)
    pass_days(store, 100)
    maintain(store, MaintenancePolicy(logs=RetentionPolicy(retain_segments=1, retain_days=365)))
    assert log.floor() == 0
    maintain(store, MaintenancePolicy(logs=RetentionPolicy(retain_segments=4, retain_days=1)))
    assert log.floor() == firsts(log)[-4] - 1


def test_a_document_without_a_state_of_the_new_floor_forgets_up_to_its_newest_snapshot_below() -> None:
    store = a_store(snapshot_entries_interval=100, segment_entries_target=3)
    document = store.create("acme", "budget")
    fill(document, 6)
    document.snapshot()
    document.mutate("put", {"key": "secret", "value": "s"})
    document.mutate("del", {"key": "secret"})
    fill(document, 8)
    stratalog.redact(document, 7)
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=1))
    assert firsts(document.log)[-1] > 7
    assert maintain(store, policy, dry_run=True).floors == 1
    report = maintain(store, policy)
    assert (report.failures, report.floors, document.log.floor()) == ((), 1, 6)
    assert maintain(store, policy).floors == 1, "the floor rises above the redacted version once the policy permits it"
    assert document.log.floor() > 7


def test_the_floor_does_not_rise_above_a_fork_point(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    fill(document, 14)
    fork = document.fork("copy", at=2)
    maintain(store, MaintenancePolicy(documents=RetentionPolicy(retain_segments=1)))
    assert document.log.floor() == 2
    assert fork.get("notes/a") == "1 "


def test_the_floor_does_not_rise_above_the_oldest_version_that_the_application_needs(store: stratalog.Store) -> None:
    needed = {"budget": 5}
    store.rules = stratalog.Rules(oldest_needed=lambda document: needed.get(document.name, document.version))
    document, other = store.create("acme", "budget"), store.create("acme", "other")
    fill(document, 14)
    fill(other, 14)
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=1))
    assert maintain(store, policy, dry_run=True).floors == 2
    assert maintain(store, policy).floors == 2
    assert document.log.floor() == 5
    assert other.log.floor() > 5
    assert document.forget_below(9) == 5
    with pytest.raises(NotFound):
        document.forget_below(100)
    with pytest.raises(Invalid):
        document.forget_below("9")  # type: ignore[arg-type]
    needed["budget"] = 2
    assert maintain(store, policy, dry_run=True).floors == 0
    assert document.forget_below(9) == 5


def test_a_version_committed_while_the_floor_rises_is_not_forgotten(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.rules = stratalog.Rules(oldest_needed=lambda document: 5)
    document, writer = store.create("acme", "budget"), store.document("acme", "budget")
    fill(document, 14)
    after = document.version
    read = Log.head

    def head_before_a_commit(log: Log) -> Head:
        monkeypatch.setattr(Log, "head", read)
        head = read(log)
        fill(writer, 2)
        return head

    monkeypatch.setattr(Log, "head", head_before_a_commit)
    with pytest.raises(NotFound):
        document.forget_below(after + 1)
    assert document.forget_below(after + 1) == 5


def test_the_application_is_not_asked_for_a_version_if_the_floor_cannot_rise(store: stratalog.Store) -> None:
    asked: list[str] = []

    def oldest_needed(document: stratalog.Document) -> int:
        asked.append(document.name)
        return document.version

    store.rules = stratalog.Rules(oldest_needed=oldest_needed)
    fill(store.create("acme", "budget"), 14)
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=1))
    maintain(store, policy)
    asked.clear()
    maintain(store, policy)
    assert asked == []


def test_an_application_that_needs_a_number_of_versions_may_return_a_negative_version(store: stratalog.Store) -> None:
    store.rules = stratalog.Rules(oldest_needed=lambda document: document.version - 10)
    document = store.create("acme", "budget")
    fill(document, 2)
    assert document.forget_below(2) == 0
    fill(document, 12)
    assert document.forget_below(14) == 4


def test_a_wrong_result_of_oldest_needed_is_named(store: stratalog.Store) -> None:
    def oldest_needed(document: stratalog.Document) -> Any:
        """Returns nothing, as a function without a `return` on one of its paths."""

    store.rules = stratalog.Rules(oldest_needed=oldest_needed)
    document = store.create("acme", "budget")
    fill(document, 14)
    with pytest.raises(TypeError, match="the result of oldest_needed must be of type int, not NoneType"):
        document.forget_below(9)
    with pytest.raises(Invalid):
        document.forget_below("9")  # type: ignore[arg-type]
    report = maintain(store, MaintenancePolicy(documents=RetentionPolicy(retain_segments=1)))
    assert [failure.what for failure in report.failures] == ["acme/budget"]
    assert document.log.floor() == 0


def test_segments_that_ended_long_ago_are_archived_and_stay_readable(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    fill(document, 10)
    pass_days(store, 8)
    fill(document, 3)
    policy = MaintenancePolicy(documents=RetentionPolicy(archive_days=7))
    assert maintain(store, policy).archived_segments == 2
    pass_grace(store)
    assert maintain(store, policy).freed_segments == 2
    assert [document.get("notes/a", at=version) for version in range(1, 11)] == [f"{n} " for n in range(10)]


def test_the_floor_of_a_log_rises_only_to_an_application_snapshot_that_retention_allows(
    store: stratalog.Store,
) -> None:
    log = a_log(store, "sheet", 10)
    policy = MaintenancePolicy(logs=RetentionPolicy(retain_segments=1))
    log.save_snapshot(3, [b"the state of version 3"])
    maintain(store, policy)
    assert log.floor() == 3
    log.save_snapshot(10, [b"the state of version 10"])
    maintain(store, policy)
    assert log.floor() == 3
    snapshot = log.app_snapshot(log.floor())
    assert snapshot is not None
    assert list(log.read_snapshot(snapshot)) == [b"the state of version 3"]


def test_a_retention_exception_applies_only_to_its_document_or_organisation(store: stratalog.Store) -> None:
    logs = [a_log(store, name) for name in ("kept", "cut")]
    policy = MaintenancePolicy(logs=RetentionPolicy(retain_segments=1), exceptions={"acme/kept": RetentionPolicy()})
    maintain(store, policy)
    assert [log.floor() > 0 for log in logs] == [False, True]
    assert policy.retention("other", "any", "log").retain_segments == 1
    assert (
        MaintenancePolicy(exceptions={"acme": RetentionPolicy(retain_days=3)})
        .retention("acme", "x", "document")
        .retain_days
        == 3
    )


def test_an_exception_of_a_document_does_not_apply_to_an_organisation_of_the_same_name() -> None:
    ours, theirs = RetentionPolicy(retain_days=3), RetentionPolicy(retain_days=9)
    policy = MaintenancePolicy(exceptions={"acme/plan": ours, "acme%2Fplan": theirs})
    assert policy.retention("acme", "plan", "log") == ours
    assert [policy.retention("acme/plan", id, "log") for id in ("x", "plan")] == [theirs, theirs]
    assert policy.retention("acme", "other", "log") == RetentionPolicy()


def test_an_exception_belongs_to_one_organisation_whatever_its_id_contains() -> None:
    slash, percent = RetentionPolicy(retain_days=3), RetentionPolicy(retain_days=9)
    policy = MaintenancePolicy(exceptions={"a%2Fb": slash, "a%252Fb/plan": percent})
    assert policy.retention("a/b", "plan", "log") == slash
    assert policy.retention("a%2Fb", "plan", "log") == percent
    assert policy.retention("a%2Fb", "other", "log") == RetentionPolicy()


def test_an_exception_with_an_unescaped_percent_sign_in_its_organisation_is_refused() -> None:
    """If the policy were accepted, the exception would apply to no organisation, and the data would be forgotten."""
    with pytest.raises(Invalid, match="%25"):
        read_policy('{"exceptions": {"50%/plan": {}}}')
    policy = read_policy('{"exceptions": {"acme/50%": {"retain_days": 3}}}')
    assert policy.retention("acme", "50%", "log") == RetentionPolicy(retain_days=3)


def test_records_are_pruned_and_freed_by_policy(store: stratalog.Store) -> None:
    records = store.records("acme")
    for number in range(5):
        records.put("invoice", f"{number} {LONG * 20}".encode())
    policy = MaintenancePolicy(retain_record_versions=2)
    assert maintain(store, policy).pruned_records == 1
    assert [version.version for version in records.versions("invoice")] == [4, 5]
    pass_days(store, 1)
    assert maintain(store, policy).freed_record_versions == 3
    pass_days(store, 1)
    assert maintain(store, policy).blobs_deleted == 3
    assert records.get("invoice", 4).body == f"3 {LONG * 20}".encode()


def test_records_superseded_long_ago_are_pruned(store: stratalog.Store) -> None:
    records = store.records("acme")
    for number in range(3):
        records.put("invoice", f"{number}".encode())
        pass_days(store, 10)
    maintain(store, MaintenancePolicy(retain_record_days=15))
    assert [version.version for version in records.versions("invoice")] == [2, 3]


@pytest.mark.parametrize(("has_part", "days"), [(True, 1.1), (False, 2.1)])
def test_remains_of_a_crashed_upload_are_deleted_even_if_the_record_has_no_version(
    has_part: bool, days: float, store: stratalog.Store
) -> None:
    """The organisation has nothing except the remains of the upload."""
    name, environment = Name("zeta", "scan"), store.environment
    part = f"{body_prefix(name)}/{sha256(b'a part').hex()}"
    environment.index.commit([pin_put(name, "aaaaaaaaaaaaaaaa", environment.clock.wall_ms()), organisation_put("zeta")])
    if has_part:
        environment.blobs.put(part, b"a part")
    pass_days(store, days - 0.2)
    maintain(store, MaintenancePolicy(collect_hours=0))
    pass_days(store, 0.2)
    maintain(store, MaintenancePolicy(collect_hours=0), dry_run=True)
    assert list(pins_of(environment, name))
    maintain(store, MaintenancePolicy(collect_hours=0))
    assert not list(pins_of(environment, name))
    assert environment.blobs.stat(part) is None


def test_the_body_of_a_push_that_was_never_sent_is_deleted_and_the_body_of_a_waiting_push_stays(
    store: stratalog.Store,
) -> None:
    incarnation = store.create("acme", "budget").log.record.incarnation
    body = f"acme/queue/budget@{incarnation}/token/{sha256(b'a push').hex()}"
    store.environment.blobs.put(body, b"a push")
    store.queue.send("acme/budget", [b"the message"])
    pass_days(store, 40)
    maintain(store, MaintenancePolicy(collect_hours=0))
    assert store.environment.blobs.stat(body) is not None
    (message,) = store.queue.receive()
    assert store.queue.acknowledge(message)
    maintain(store, MaintenancePolicy(collect_hours=0))
    assert store.environment.blobs.stat(body) is None


def test_a_deleted_log_is_swept_after_the_grace_period(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    fill(document, 5, LONG)
    delete_log(document.log)
    assert maintain(store).deleted_logs == 0
    pass_grace(store)
    assert maintain(store).deleted_logs == 1
    assert list(store.environment.blobs.list("acme/")) == []


def test_a_dry_run_reports_the_work_of_the_next_run_and_writes_nothing() -> None:
    policy = MaintenancePolicy(
        documents=RetentionPolicy(retain_segments=3),
        logs=RetentionPolicy(archive_days=1),
        retain_record_versions=1,
        collect_hours=0,
    )
    planned, did = [], []
    for dry in (True, False):
        store = a_store(ManualClock())
        document, log = store.create("acme", "budget"), a_log(store, "events")
        fill(document, 14, LONG)
        for number in range(3):
            store.records("acme").put("invoice", f"{number} {LONG * 20}".encode())
        orphan = b"an orphan"
        store.environment.blobs.put(f"{document.log.record.owner}/bodies/{sha256(orphan).hex()}", orphan)
        pass_days(store, 3)
        for _ in range(3):
            if dry:
                before = (everything(store), sorted(stat.key for stat in store.environment.blobs.list("")))
                planned.append(fields_of(store, maintain(store, policy, dry_run=True)))
                assert before == (everything(store), sorted(stat.key for stat in store.environment.blobs.list("")))
            did.append(fields_of(store, maintain(store, policy)))
            pass_grace(store)
        assert log.floor() == 0
    assert planned == did[:3] == did[3:]
    assert {name for work in planned for name, count in work.items() if count} >= {
        "floors", "archived_segments", "freed_segments", "pruned_records", "freed_record_versions", "blobs_deleted"
    }  # fmt: skip


def fields_of(store: stratalog.Store, report: MaintenanceReport) -> dict[str, object]:
    """Return the report's fields, with the number of garbage keys instead of the keys.

    The keys contain incarnations, which differ between stores.
    """
    names = [name for name in MaintenanceReport.__struct_fields__ if name != "garbage"]
    return {name: getattr(report, name) for name in names} | {"garbage": len(report.garbage)}


def everything(store: stratalog.Store) -> list[Item]:
    return stored_items(store.environment.index)


def test_a_damaged_document_does_not_stop_the_maintenance_of_other_documents(store: stratalog.Store) -> None:
    damage(store.create("acme", "broken").log)
    fine = store.create("acme", "fine")
    fill(fine, 14)
    report = maintain(store, MaintenancePolicy(documents=RetentionPolicy(retain_segments=1)))
    assert [(failure.what, failure.code) for failure in report.failures] == [("acme/broken", Corrupt.code)]
    assert fine.log.floor() > 0
    assert report.is_finished


def large_values(store: stratalog.Store, document: stratalog.Document) -> list[str]:
    return [stat.key for stat in store.environment.blobs.list(f"{document.log.record.owner}/items/")]


@pytest.mark.parametrize("how", DAMAGES)
def test_a_pass_does_not_raise_the_floor_to_a_damaged_base_and_reports_the_damage(
    store: stratalog.Store, how: str
) -> None:
    document, policy = (
        store.create("acme", "budget"),
        MaintenancePolicy(documents=RetentionPolicy(retain_segments=1), scrub_days=None),
    )
    document.mutate("put", {"key": "books/old", "value": LONG})
    fill(document, 14)
    (key,) = large_values(store, document)
    with damaged_blob(blobs_of(store), key, how):
        report = maintain(store, policy)
        assert [(failure.what, failure.code) for failure in report.failures] == [("acme/budget", Corrupt.code)]
        assert report.failures[0].key == key
        assert document.log.floor() == 0
    assert maintain(store, policy).failures == ()
    assert document.log.floor() > 0


@pytest.mark.parametrize("how", DAMAGES)
def test_segments_are_not_freed_while_the_base_that_replaces_them_is_damaged(store: stratalog.Store, how: str) -> None:
    document, policy = (
        store.create("acme", "budget"),
        MaintenancePolicy(documents=RetentionPolicy(retain_segments=1), scrub_days=None),
    )
    document.mutate("put", {"key": "books/old", "value": LONG})
    fill(document, 14)
    maintain(store, policy)
    standing = firsts(document.log)
    pass_grace(store)
    with damaged_blob(blobs_of(store), large_values(store, document)[0], how):
        report = maintain(store, policy)
        assert [(failure.what, failure.code) for failure in report.failures] == [("acme/budget", Corrupt.code)]
        assert firsts(document.log) == standing
    assert maintain(store, policy).freed_segments == len(standing) - len(firsts(document.log)) > 0


def test_the_floor_of_a_log_rises_to_an_older_snapshot_if_the_newest_is_damaged(store: stratalog.Store) -> None:
    log, policy = a_log(store, "sheet", 2), MaintenancePolicy(logs=RetentionPolicy(retain_segments=1), scrub_days=None)
    bound, key = with_snapshots(log, store)
    with damaged_blob(blobs_of(store), key, "flip"):
        report = maintain(store, policy)
    assert [(failure.what, failure.code) for failure in report.failures] == [("acme/sheet", Corrupt.code)]
    assert report.failures[0].key == key
    assert log.floor() == bound - 1


def test_a_damaged_snapshot_of_a_log_neither_hides_a_raised_floor_nor_stops_the_freeing_of_segments(
    store: stratalog.Store,
) -> None:
    log, policy = a_log(store, "sheet", 2), MaintenancePolicy(logs=RetentionPolicy(retain_segments=1), scrub_days=None)
    _, key = with_snapshots(log, store)
    with damaged_blob(blobs_of(store), key, "lose"):
        assert maintain(store, policy).floors == 1
        pass_grace(store)
        report = maintain(store, policy)
    assert [(failure.what, failure.code) for failure in report.failures] == [("acme/sheet", Corrupt.code)]
    assert (report.floors, report.freed_segments) == (0, 2)


def test_damage_of_the_latest_body_of_a_record_does_not_stop_the_freeing_of_forgotten_versions(
    store: stratalog.Store,
) -> None:
    records, policy = store.records("acme"), MaintenancePolicy(retain_record_versions=1, scrub_days=None)
    for number in range(4):
        records.put("invoice", f"{number} {LONG * 20}".encode())
    maintain(store, policy)
    records.put("invoice", f"4 {LONG * 20}".encode())
    pass_grace(store)
    blobs = blobs_of(store)
    (key,) = (stat.key for stat in blobs.list("") if blobs.get(stat.key).startswith(b"4 "))
    with damaged_blob(blobs, key, "lose"):
        report = maintain(store, policy)
    assert [failure.what for failure in report.failures] == ["acme/records/invoice"]
    assert (report.pruned_records, report.freed_record_versions) == (0, 3)


def test_damaged_items_below_a_floor_are_freed_with_the_others(tmp_path: Path) -> None:
    with a_store(url=tmp_path) as store:
        log, records = store.create_log("acme", "events"), store.records("acme")
        for count in range(20):
            log.append(Event("noted", count))
            records.put("invoice", f"{count}".encode())
        policy = MaintenancePolicy(
            logs=RetentionPolicy(retain_segments=1), retain_record_versions=1, collect_hours=0, scrub_days=None
        )
        assert maintain(store, policy).failures == ()
        database = apsw.Connection(str(tmp_path / "index.sqlite"))
        rows = [(entries_partition(log.record.prefix, 1), fixed(2))]
        rows += [(record_partition("acme", record_key("invoice")), fixed(2))]
        for row in rows:
            database.execute("UPDATE items SET body = x'c1' WHERE partition = ? AND sort = ?", row)
            assert database.changes() == 1
        pass_grace(store)
        report = maintain(store, policy)
        assert report.failures == ()
        assert (report.freed_segments, report.freed_record_versions) == (4, 19)
        for row in rows:
            assert store.environment.index.get(*row) is None


EVENTS = HistoryName("log", "acme", "events")


@contextmanager
def partly_forgotten_segment(path: Path, damaged: int) -> Iterator[tuple[stratalog.Store, stratalog.Log, str]]:
    """Yield a log with a segment of the versions 5 to 8 and the floor 6, and the key of its entry ``damaged``."""
    with a_store(url=path) as store:
        log = store.create_log("acme", "events")
        for count in range(10):
            log.append(Event("noted", Random(count).randbytes(300)))
        assert raise_floor(log, 6) == 6
        assert inspect_history(store, EVENTS).damages == ()
        pass_grace(store)
        row = entries_partition(log.record.prefix, 5), fixed(damaged)
        database = apsw.Connection(str(path / "index.sqlite"))
        database.execute("UPDATE items SET body = x'c1' WHERE partition = ? AND sort = ?", row)
        assert database.changes() == 1
        yield store, log, item_key(*row)


def test_a_forgotten_entry_that_cannot_be_decoded_is_named_and_does_not_stop_a_collection(tmp_path: Path) -> None:
    with partly_forgotten_segment(tmp_path, damaged=6) as (store, log, key):
        report = collect(store.environment, "acme")
        assert (len(report.garbage), report.failures) == (5, ())
        assert len([*log.read(6)]) == 4
        assert [damage.key for damage in inspect_history(store, EVENTS).damages] == [key]


def test_a_forgotten_entry_whose_body_is_lost_does_not_stop_a_collection(store: stratalog.Store) -> None:
    log = store.create_log("acme", "events")
    for count in range(10):
        log.append(Event("noted", Random(count).randbytes(300)))
    body = log.environment.index.get(entries_partition(log.record.prefix, 5), fixed(5))
    assert body is not None
    raise_floor(log, 6)
    pass_grace(store)
    key = f"{log.record.owner}/bodies/{decode_body_ref(body.attributes['x']).address.hex()}"
    with damaged_blob(blobs_of(store), key, "lose"):
        report = collect(store.environment, "acme")
    assert (len(report.garbage), report.failures) == (4, ())


def test_a_kept_entry_that_cannot_be_decoded_stops_the_collection_of_its_log(tmp_path: Path) -> None:
    with partly_forgotten_segment(tmp_path, damaged=8) as (store, _, key):
        report = collect(store.environment, "acme")
        assert (report.garbage, [failure.code for failure in report.failures]) == ((), [Corrupt.code])
        assert [damage.key for damage in inspect_history(store, EVENTS).damages] == [key]


@pytest.mark.parametrize("sort", ["CAST(x'b0' || substr(sort, 2) AS TEXT)", "CAST(sort AS BLOB)"])
def test_a_floor_does_not_rise_while_the_key_of_a_fork_s_pin_is_damaged(tmp_path: Path, sort: str) -> None:
    """The damaged key sorts after that of a later pin."""
    with a_store(url=tmp_path) as store:
        document = store.create("acme", "plan")
        fill(document, 20)
        early = document.fork("early", at=3)
        document.fork("late", at=18)
        apsw.Connection(str(tmp_path / "index.sqlite")).execute(
            f"UPDATE items SET sort = {sort} WHERE partition = ? AND sort LIKE '%early%'",
            (forks_partition(document.log.record.prefix),),
        )
        policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=1, archive_days=0))
        report = maintain(store, policy)
        assert [failure.what for failure in report.failures] == ["acme/plan"]
        assert document.log.floor() == 0
        assert report.archived_segments > 0, "the damage stops no later step"
        assert early.at(3).get("notes/a")


@pytest.mark.parametrize("dry_run", [True, False])
def test_damage_of_a_pin_stops_neither_archiving_nor_freeing(tmp_path: Path, dry_run: bool) -> None:
    with a_store(url=tmp_path) as store:
        document = store.create("acme", "plan")
        fill(document, 12)
        pass_days(store, 8)
        document.fork("other", at=3)
        document.archive(4)
        pass_grace(store)
        apsw.Connection(str(tmp_path / "index.sqlite")).execute(
            "UPDATE items SET sort = CAST(sort AS BLOB) WHERE partition = ?",
            (forks_partition(document.log.record.prefix),),
        )
        policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=1, archive_days=7))
        report = maintain(store, policy, dry_run=dry_run)
        assert [failure.what for failure in report.failures] == ["acme/plan"]
        assert report.archived_segments > 0
        assert report.freed_segments == 1


def test_a_floor_of_a_fork_that_rose_only_with_its_ancestor_is_not_counted(store: stratalog.Store) -> None:
    log, policy = a_log(store, "sheet", 2), MaintenancePolicy(logs=RetentionPolicy(retain_segments=1), scrub_days=None)
    log.save_snapshot(2, [b"the state of version 2"])
    fork = store.fork_log(log, "what if", at=2)
    assert raise_floor(log, 2) == 2
    for version in range(3, 15):
        fork.append(Event("noted", version))
    bound = firsts(fork)[-1] - 1
    fork.save_snapshot(bound, [b"the state of the fork" * 20])
    blobs = store.environment.blobs
    (key,) = (stat.key for stat in blobs.list("") if blobs.get(stat.key).startswith(b"the state of the fork"))
    with damaged_blob(blobs_of(store), key, "lose"):
        report = maintain(store, policy)
    assert [(failure.what, failure.code) for failure in report.failures] == [("acme/what if", Corrupt.code)]
    assert (fork.floor(), report.floors) == (2, 0)


def test_a_segment_that_cannot_be_archived_does_not_stop_the_freeing_of_forgotten_segments(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> int:
        raise Corrupt("planted")

    document = store.create("acme", "plan")
    fill(document, 14)
    assert maintain(store, MaintenancePolicy(documents=RetentionPolicy(retain_segments=1))).floors == 1
    pass_grace(store)
    monkeypatch.setattr(log_pass, "archive_segments", damaged)
    policy = MaintenancePolicy(documents=RetentionPolicy(archive_days=0))
    report = maintain(store, policy)
    assert [failure.reason for failure in report.failures] == ["planted"]
    assert report.freed_segments > 0


def blobs_of(store: stratalog.Store) -> Blobs:
    """Return the blobs below a fault that a test added."""
    blobs = store.environment.blobs
    while hasattr(blobs, "_backend"):
        blobs = blobs._backend
    return blobs


def test_each_application_step_runs_once_in_a_pass_even_if_an_earlier_step_fails(store: stratalog.Store) -> None:
    called: list[str] = []

    def fails(opened: stratalog.Store) -> None:
        called.append("fails")
        raise ZeroDivisionError("a bug")

    report = maintain(store, steps=[fails, lambda opened: called.append("goes on")])
    assert called == ["fails", "goes on"]
    assert report.steps == 1
    assert [(failure.code, failure.reason) for failure in report.failures] == [("error", "a bug")]
    assert [failure.what for failure in report.failures] == ["step 1 of the application"]
    maintain(store, steps=[fails], dry_run=True)
    assert called == ["fails", "goes on"]


class Ticking(ManualClock):
    """A clock that advances by a second at each read of `boot_ms`."""

    def boot_ms(self) -> int:
        self.sleep(1)
        return super().boot_ms()


def test_a_pass_with_little_time_continues_after_the_last_log_of_the_previous_pass() -> None:
    store = a_store(Ticking())
    for number in range(6):
        a_log(store, f"log-{number}", 1)
    seen: list[list[str]] = []
    for _ in range(30):
        progress: list[str] = []
        maintain(store, MaintenancePolicy(collect_hours=10**6), seconds=12, report=progress.append)
        seen.append([what for what in progress if what.startswith("acme/log")])
        if any("log-5" in what for what in progress):
            break
    order = [what for names in seen for what in names]
    assert order == [f"acme/log-{number}" for number in range(6)]
    assert len([names for names in seen if names]) > 1


def test_maintenance_of_logs_and_collection_share_the_time_of_a_pass() -> None:
    store = a_store(Ticking())
    for number in range(40):
        a_log(store, f"log-{number:02}", 1)
    progress: list[str] = []
    report = maintain(store, MaintenancePolicy(collect_hours=0), seconds=60, report=progress.append)
    assert not report.is_finished
    assert "acme/log-00" in progress
    assert "acme, blobs" in progress


def test_a_collection_runs_again_only_after_its_interval(store: stratalog.Store) -> None:
    a_log(store, "events", 1)
    progress: list[str] = []
    for hours in (0, 23, 2):
        store.environment.clock.sleep(hours * 3600)
        maintain(store, report=progress.append)
    assert progress.count("acme, blobs") == 2


def test_a_killed_pass_is_resumed(store: stratalog.Store) -> None:
    for number in range(4):
        a_log(store, f"log-{number}", 1)

    def die(what: str) -> None:
        store.environment.clock.sleep(61)  # longer than SAVE_SECONDS, so the pass saves its position
        if what == "acme/log-2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        maintain(store, report=die)
    progress: list[str] = []
    maintain(store, report=progress.append)
    assert progress[0] == "acme/log-2"


def test_concurrent_passes_lose_no_retained_version(store: stratalog.Store) -> None:
    document = store.create("acme", "budget")
    fill(document, 14, LONG)
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=2, archive_days=0), collect_hours=0)
    nested: list[MaintenanceReport] = []

    def another(what: str) -> None:
        if len(nested) < 4:
            nested.append(MaintenanceReport())
            nested[-1] = maintain(store, policy)
            pass_grace(store)

    for _ in range(3):
        assert maintain(store, policy, report=another).failures == ()
        pass_grace(store)
    assert [report.failures for report in nested] == [()] * 4
    floor = document.log.floor()
    assert 0 < floor < 14
    retained = range(floor, 15)
    assert [document.get("notes/a", at=version) for version in retained] == [f"{n - 1} {LONG}" for n in retained]
    assert stratalog.verify(document).version == document.version


def test_an_unavailable_store_ends_the_pass_after_ten_logs(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        a_log(store, f"log-{number:02}", 1)

    def unavailable(*arguments: object, **options: object) -> None:
        raise Unavailable("out of reach")

    monkeypatch.setattr(log_pass, "list_segments", unavailable)
    progress: list[str] = []
    with pytest.raises(Unavailable):
        maintain(store, report=progress.append)
    assert len([what for what in progress if what.startswith("acme/log")]) == 10


def test_a_closed_store_ends_the_pass(store: stratalog.Store) -> None:
    store.close()
    with pytest.raises(Closed):
        maintain(store)


def test_a_policy_is_read_from_json_and_an_invalid_policy_is_refused() -> None:
    text = '{"documents": {"retain_days": 90, "archive_days": 7}, "retain_record_versions": 10}'
    assert read_policy(text) == MaintenancePolicy(
        documents=RetentionPolicy(retain_days=90, archive_days=7), retain_record_versions=10
    )
    assert read_policy("{}") == MaintenancePolicy()
    for wrong in (
        '{"documents": {"retain_segments": 0}}',
        '{"keep_all": true}',
        '{"retain_record_versions": 2, "retain_record_days": 3}',
        "[]",
        "{",
    ):
        with pytest.raises(Invalid):
            read_policy(wrong)


def test_a_stale_waiting_mark_of_a_record_is_removed_and_a_newer_mark_stays() -> None:
    with stratalog.open("memory:") as store:
        store.records("acme").put("report", b"one")
        index = store.environment.index
        name = Name("acme", "report")
        partition = waiting_partition(name.partition)
        index.commit([Put(Item(partition, MARK_SORT, {"i": "of a writer that is gone"}))])
        maintain(store, dry_run=True)
        assert index.get(partition, MARK_SORT) is not None
        assert maintain(store).failures == ()
        assert index.get(partition, MARK_SORT) is None
        newer = Item(partition, MARK_SORT, {"i": "of a writer that waits"})
        index.commit([Put(newer)])
        older = StaleMark(index, Item(partition, MARK_SORT, {"i": "of another"}))
        environment = Environment(older, store.environment.blobs, store.environment.clock)  # type: ignore[arg-type]
        assert remove_waiting_mark(environment, name)
        assert index.get(partition, MARK_SORT) == newer


class StaleMark:
    """An index whose reads return an older mark. An eventually consistent read may return such a mark."""

    def __init__(self, index: Index, older: Item) -> None:
        self.commit = index.commit
        self._older = older

    def get(self, partition: str, sort: str, *, consistent: bool = True) -> Item:
        return self._older


def test_a_log_deleted_during_a_pass_is_not_a_failure(store: stratalog.Store) -> None:
    log = a_log(store, "events")
    a_log(store, "other")

    def delete(what: str) -> None:
        if what == "acme/events":
            store.delete_log(log)

    report = maintain(store, report=delete)
    assert (report.logs, report.failures, report.is_finished) == (2, (), True)


def test_the_report_counts_the_steps_that_a_log_completed_before_a_failure(
    store: stratalog.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> int:
        raise Corrupt("planted")

    fill(store.create("acme", "plan"), 14)
    monkeypatch.setattr(log_pass, "archive_segments", damaged)
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=1, archive_days=0))
    report = maintain(store, policy)
    assert [failure.reason for failure in report.failures] == ["planted"]
    assert (report.logs, report.floors, report.archived_segments) == (1, 1, 0)


def test_a_mark_far_ahead_makes_no_pass_read_a_freed_segment_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    store = a_store(clock)
    log = a_log(store, "sheet")
    now_ms = clock.wall_ms()
    clock.set_wall(now_ms + 365 * DAY_SECONDS * 1000)
    archived = archive_segments(log)
    pass_grace(store)
    assert free_segments(log) == archived > 0
    clock.set_wall(now_ms)
    monkeypatch.setattr(log_pass, "free_segments", unexpected)
    assert maintain(store, MaintenancePolicy(**NOTHING)).failures == ()


def unexpected(*_: object) -> int:
    raise Corrupt("no segment is to be freed")


def test_a_damaged_directory_line_stops_no_maintenance(store: stratalog.Store) -> None:
    """The pass also maintains the log and the record whose own lines are damaged."""
    names = ("a", "b")
    for name in names:
        fill(store.create("acme", name), 14)
        store.records("acme").put(name, b"1")
        store.records("acme").put(name, b"2")
    index = store.environment.index
    index.commit([Put(Item(directory_partition("acme", "logs", 0), "a", {"k": "document"}))])
    line = directory_put("acme", "records", "a", "record", 0).item
    index.commit([Put(Item(line.partition, "a", {}))])
    policy = MaintenancePolicy(documents=RetentionPolicy(retain_segments=1), retain_record_versions=1)
    report = maintain(store, policy)
    assert (report.logs, report.records, report.failures, report.is_finished) == (2, 2, (), True)
    assert all(store.document("acme", name).log.floor() > 0 for name in names)
    assert report.pruned_records == 2
    with pytest.raises(Corrupt):
        list(store.list("acme"))


@pytest.mark.parametrize(
    ("deletion", "upload"),
    [({"o": None}, {"c": None}), ({"m": "text"}, {"c": "text"}), ({"m": b""}, {"c": -(2**60)}), ({"o": 7}, {"c": b""})],
)
def test_a_damaged_deletion_or_upload_item_does_not_stop_other_sweeps(
    store: stratalog.Store, deletion: dict[str, Any], upload: dict[str, Any]
) -> None:
    index = store.environment.index
    prefixes = []
    for name in ("a", "b"):
        log = store.create_log("acme", name)
        prefixes.append(log.record.prefix)
        store.delete_log(log)
        index.commit([pin_put(Name("acme", name), "upload", store.environment.clock.wall_ms())])
    gone = index.get(deleted_partition("acme"), prefixes[0])
    pin = index.get(uploads_partition("acme"), "a/upload")
    assert gone is not None
    assert pin is not None
    for item, damage in ((gone, deletion), (pin, upload)):
        attributes = {key: value for key, value in {**item.attributes, **damage}.items() if value is not None}
        index.commit([Put(Item(item.partition, item.sort, attributes))])
    store.environment.clock.sleep(3 * RECORD_UPLOAD_SECONDS_MAX)
    report = maintain(store, MaintenancePolicy())
    [failure] = report.failures
    assert (failure.what, failure.code) == ("acme, deleted logs and abandoned uploads", "corrupt")
    assert report.deleted_logs == 1
    assert [item.sort for item in index.query(deleted_partition("acme"))] == prefixes[:1]
    assert [item.sort for item in index.query(uploads_partition("acme"))] == ["a/upload"]


def test_a_pass_whose_clock_was_ahead_delays_no_later_pass() -> None:
    clock = ManualClock()
    store = a_store(clock)
    store.records("acme").put("r", os.urandom(1000))
    now_ms = clock.wall_ms()
    clock.set_wall(now_ms + 365 * DAY_SECONDS * 1000)
    maintain(store, measures=True)
    clock.set_wall(now_ms)
    report = maintain(store, measures=True)
    assert (report.blobs_young, report.blobs_scrubbed, report.measured_organisations) == (1, 1, 1)
    report = maintain(store, measures=True)
    assert (report.blobs_young, report.blobs_scrubbed, report.measured_organisations) == (0, 0, 0)
