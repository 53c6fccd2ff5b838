"""The server refuses a message that no engine can open. Such a message in a log ends engines, but never the server."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from apps.sheet.tests.helpers import ENGINES, restore_without_snapshot, revision, rows
from stratalog.errors import LimitExceeded, StratalogError, Unavailable
from stratalog.server.errors import Refused
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock
from stratalog_sheet import EnginePool, EngineSettings, Sheet, Sheets, SheetSettings
from stratalog_sheet.engine_files import install_engine
from stratalog_sheet.events import Revision, event_of
from stratalog_sheet.failed_versions import Unopenable
from stratalog_sheet.http import application
from stratalog_sheet.limits import SHEET_KILLS_MAX
from stratalog_sheet.warm_sheets import EngineTurns
from tests.server.api import STORY_SECONDS_MAX, Client, problem, serving

SHEETS = "/v1/organisations/acme/sheets"
SMALL = msgspec.structs.replace(ENGINES, engines_max=2, heap_bytes_max=64_000_000, process_bytes_max=128_000_000)
HUGE = 2**31 - 1


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("memory:") as store:
        yield store


@pytest.fixture
def pool() -> Iterator[EnginePool]:
    install_engine()
    pool = EnginePool(SMALL)
    yield pool
    pool.close()


@pytest.fixture
def client(store: Store) -> Iterator[Client]:
    install_engine()
    with serving(application(engines=SMALL), store) as running:
        yield running


def poison(sheet: Sheet) -> int:
    """Append a message that no engine can open, as an earlier program may have done, and return its version."""
    message = revision(sheet, rows(1, HUGE))
    return sheet.log.append(event_of(Revision(message)), expected=sheet.version).version


def poisoned(client: Client, store: Store, name: str = "bad") -> str:
    assert client.put(f"{SHEETS}/{name}/", json={"title": "Bad"}).status_code == 201
    assert client.put(f"{SHEETS}/{name}/cells/A1", json={"content": "good"}).status_code == 200
    assert poison(Sheets(store).open("acme", name)) == 3
    return f"{SHEETS}/{name}"


def test_the_server_refuses_a_message_that_would_make_its_sheet_unopenable(client: Client) -> None:
    assert client.put(f"{SHEETS}/plan/", json={"title": ""}).status_code == 201
    data = client.get(f"{SHEETS}/plan/load").json()["data"]
    message: dict[str, Any] = {
        "type": "REMOTE_REVISION",
        "version": 1,
        "serverRevisionId": data["revisionId"],
        "nextRevisionId": "next",
        "clientId": "somebody",
        "commands": [rows(1, HUGE)],
    }
    answer = client.post(f"{SHEETS}/plan/append", json={"message": message})
    assert problem(answer) == (422, "limit-exceeded")
    assert client.get(f"{SHEETS}/plan/").json()["version"] == 1


def test_reads_of_an_unopenable_sheet_are_refused_and_a_restore_repairs_the_sheet(client: Client, store: Store) -> None:
    path = poisoned(client, store)
    assert problem(client.get(f"{path}/cells/A1")) == (422, "limit-exceeded")
    for what in ("cells/A1", "state", "blame?cell=A1", "export.xlsx"):
        answer = client.get(f"{path}/{what}")
        assert problem(answer) == (422, "limit-exceeded")
        assert "version 3" in answer.json()["message"]
        assert "restore" in answer.json()["message"]
    assert client.get(f"{path}/cells/A1", params={"at": 2}).json()["value"] == "good"
    assert client.post(f"{path}/restore", json={"version": 2}).status_code == 200
    assert client.get(f"{path}/cells/A1").json()["value"] == "good"
    assert client.put(f"{path}/cells/A1", json={"content": "better"}).status_code == 200
    assert client.get(f"{path}/cells/A1").json()["value"] == "better"
    assert not any(name.startswith("py_mini_racer") for name in sys.modules)


def test_readers_of_an_unopenable_sheet_do_not_block_requests_for_another_sheet(client: Client, store: Store) -> None:
    path = poisoned(client, store)
    assert client.put(f"{SHEETS}/fine/", json={"title": ""}).status_code == 201
    with ThreadPoolExecutor(20) as threads:
        victims = [threads.submit(client.get, f"{path}/cells/A1") for _ in range(20)]
        assert client.get(f"{SHEETS}/fine/cells/A1").status_code == 200
        assert client.get("/health").status_code == 200
        assert {answer.result().status_code for answer in victims} <= {422, 503}


def test_an_unopenable_version_is_tried_in_an_engine_only_once(store: Store, pool: EnginePool) -> None:
    sheet = Sheets(store, pool).create("acme", "plan")
    poison(sheet)
    with pytest.raises(LimitExceeded):
        sheet.state()
    deaths = pool.counts().deaths
    for _ in range(5):
        with pytest.raises(LimitExceeded, match="version 2 of the sheet makes the engine fail"):
            sheet.get("A1")
    assert pool.counts().deaths == deaths == 1


def test_maintenance_continues_after_an_unopenable_sheet(store: Store, pool: EnginePool) -> None:
    sheets = Sheets(store, pool, SheetSettings(undo_entries=2, snapshot_entries=2))
    bad, fine = sheets.create("acme", "a-bad"), sheets.create("acme", "fine")
    poison(bad)
    for number in range(3):
        bad.name_version(1, str(number))
        fine.set("A1", str(number))
    assert sheets.snapshots_due("acme") == 1
    assert fine.log.app_snapshot(2) is not None


def test_a_restored_sheet_gets_snapshots_again(store: Store, pool: EnginePool) -> None:
    sheets = Sheets(store, pool, SheetSettings(undo_entries=2, snapshot_entries=2))
    sheet = sheets.create("acme", "plan")
    poison(sheet)
    sheet.name_version(1, "good")
    sheet.name_version(1, "")
    assert sheet.version == 4
    with pytest.raises(LimitExceeded):
        sheet.snapshot_due()
    sheet.restore(1)
    for number in range(4):
        sheet.set("A1", str(number))
    assert sheet.snapshot_due() == 7


def test_a_version_that_cannot_be_opened_is_not_restored(store: Store, pool: EnginePool) -> None:
    sheet = Sheets(store, pool).create("acme", "plan")
    version = poison(sheet)
    with pytest.raises(LimitExceeded):
        sheet.state()
    with pytest.raises(LimitExceeded):
        sheet.restore(version)
    assert sheet.version == version


def test_a_load_computes_the_state_of_a_restored_version_without_a_snapshot(client: Client, store: Store) -> None:
    path = f"{SHEETS}/plan"
    assert client.put(f"{path}/", json={"title": ""}).status_code == 201
    assert client.put(f"{path}/cells/A1", json={"content": "good"}).status_code == 200
    restore_without_snapshot(Sheets(store).open("acme", "plan"), 2)
    loaded = client.get(f"{path}/load").json()
    assert loaded["data"]["sheets"][0]["cells"] == {"A1": "good"}


# Recorded failures


def died(by: str) -> StratalogError:
    return Unavailable("the spreadsheet's engine died; try again", call="open", ended_by=by)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def unopenable(clock: ManualClock) -> Unopenable:
    return Unopenable(clock, 60)


@pytest.mark.parametrize("error", [LimitExceeded("took too long"), died("SIGSEGV")], ids=["limit", "crash"])
def test_a_failure_is_remembered_for_its_version_and_call(unopenable: Unopenable, error: StratalogError) -> None:
    unopenable.note("plan", 7, "open", error)
    with pytest.raises(LimitExceeded, match="version 7"):
        unopenable.check("plan", 7)
    unopenable.check("plan", 8)
    unopenable.check("plan", 7, "export")
    unopenable.check("other", 7)


def test_a_failure_is_forgotten_after_a_while(unopenable: Unopenable, clock: ManualClock) -> None:
    unopenable.note("plan", 7, "open", LimitExceeded("took too long"))
    clock.sleep(61)
    unopenable.check("plan", 7)


def test_a_version_is_blamed_for_killed_engines_only_after_repeated_kills(unopenable: Unopenable) -> None:
    for _ in range(SHEET_KILLS_MAX - 1):
        unopenable.note("plan", 7, "open", died("SIGKILL"))
    unopenable.check("plan", 7)
    unopenable.forget("plan", 7, "open")
    for _ in range(SHEET_KILLS_MAX):
        unopenable.check("plan", 7)
        unopenable.note("plan", 7, "open", died("SIGKILL"))
    with pytest.raises(LimitExceeded):
        unopenable.check("plan", 7)


def test_a_slow_engine_start_is_not_remembered_as_a_failure_of_the_version(
    store: Store, unopenable: Unopenable
) -> None:
    install_engine()
    pool = EnginePool(msgspec.structs.replace(SMALL, start_seconds_max=0.001))
    try:
        with pytest.raises(Unavailable, match="cannot be started") as failed:
            Sheets(store, pool).create("acme", "plan").set("A1", "1")
    finally:
        pool.close()
    unopenable.note("plan", 7, "open", failed.value)
    unopenable.check("plan", 7)


def test_an_error_of_busy_engines_is_not_remembered_as_a_failure(unopenable: Unopenable) -> None:
    unopenable.note("plan", 7, "open", Unavailable("the spreadsheet's engines are busy; try again"))
    unopenable.check("plan", 7)


def test_a_bounded_number_of_failures_is_remembered(unopenable: Unopenable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog_sheet.failed_versions.SHEET_UNOPENABLE_MAX", 2)
    for version in range(3):
        unopenable.note("plan", version, "open", LimitExceeded("took too long"))
    unopenable.check("plan", 0)
    with pytest.raises(LimitExceeded):
        unopenable.check("plan", 2)


# Waiting


def test_callers_waiting_for_an_engine_are_bounded_and_occupy_no_thread() -> None:
    asyncio.run(_wait_in_turn())


async def _wait_in_turn() -> None:
    turns, gate = EngineTurns(EngineSettings(engines_max=1, waiting_max=4)), threading.Event()
    before = set(threading.enumerate())  # a thread of an earlier test may end during this test
    waiting = [asyncio.ensure_future(turns.run(("acme", "plan"), gate.wait)) for _ in range(2)]
    waiting += [asyncio.ensure_future(turns.run(("acme", name), gate.wait)) for name in ("second", "third")]
    await asyncio.sleep(0)
    try:
        for name in ("plan", "fourth"):
            with pytest.raises(Refused, match=r"too many calls|has used its share"):
                await turns.run(("acme", name), gate.wait)
        while not set(threading.enumerate()) - before:
            await asyncio.sleep(0)
        assert len(set(threading.enumerate()) - before) == 1
    finally:
        gate.set()
    assert all(await asyncio.gather(*waiting))
    assert await turns.run(("acme", "plan"), gate.wait)


def test_a_sheet_with_a_busy_engine_does_not_block_another_sheet() -> None:
    asyncio.run(_ask_during_a_slow_call())


async def _ask_during_a_slow_call() -> None:
    turns, gate = EngineTurns(EngineSettings(engines_max=2, waiting_max=20)), threading.Event()
    slow = [asyncio.ensure_future(turns.run(("acme", "slow"), gate.wait)) for _ in range(3)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(STORY_SECONDS_MAX):
            assert await turns.run(("acme", "fine"), lambda: "answer") == "answer"
    finally:
        gate.set()
        await asyncio.gather(*slow)


def test_running_and_waiting_calls_of_a_sheet_are_limited_to_half_of_all_calls() -> None:
    asyncio.run(_wait_for_engine())


async def _wait_for_engine() -> None:
    turns, gate = EngineTurns(EngineSettings(engines_max=1, waiting_max=4)), threading.Event()
    waiting = [asyncio.ensure_future(turns.run(("acme", "plan"), gate.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Refused, match="the document has used its share"):
        await turns.run(("acme", "plan"), gate.wait)
    waiting.append(asyncio.ensure_future(turns.run(("acme", "other"), gate.wait)))
    gate.set()
    assert all(await asyncio.gather(*waiting))
