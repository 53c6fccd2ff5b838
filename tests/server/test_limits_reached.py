"""Limits of the server that no other test reaches. `docs/limits.md` names a test for each limit."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from stratalog.limits import (
    AUDITED_PATH_BYTES_MAX,
    PAGE_BYTES_MAX,
    PAGE_STATES_MAX,
    RATE_HOLDERS_MAX,
    REQUEST_RECORD_BYTES_MAX,
    SNAPSHOT_BODY_BYTES_MAX,
    TOKEN_BYTES_MAX,
)
from stratalog.server import authentication, hub, line_log
from stratalog.server.application import Application, ServerLimits
from stratalog.server.audit import Audit
from stratalog.server.errors import Refused
from stratalog.server.line_log import LineLog
from stratalog.server.metrics import Metrics
from stratalog.server.pools import Pools
from stratalog.server.rates import Rates
from stratalog.server.security import Principal, StaticTokens
from stratalog.store import open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, Client, mutation, problem, push, serving
from tests.server.test_audit import EVE, audited, read
from tests.server.test_row_pages import service_of

LOG = "/v1/organisations/acme/logs/orders"


def test_a_record_that_announces_too_large_a_body_is_refused_unread(client: Client) -> None:
    headers = {"Content-Length": str(REQUEST_RECORD_BYTES_MAX + 1)}
    answer = client.put("/v1/organisations/acme/records/report", content=b"x", headers=headers)
    assert problem(answer) == (413, "limit-exceeded")
    assert answer.json()["limit"] == REQUEST_RECORD_BYTES_MAX


def test_a_snapshot_of_a_log_above_the_size_limit_is_refused(client: Client) -> None:
    client.put(LOG)
    client.post(f"{LOG}/append", json={"events": [{"type": "t"}]})
    answer = client.put(f"{LOG}/snapshot?version=1", json={"body": "x" * SNAPSHOT_BODY_BYTES_MAX})
    assert problem(answer) == (422, "limit-exceeded")
    assert answer.json()["limit"] == SNAPSHOT_BODY_BYTES_MAX


@pytest.mark.parametrize(("limit", "status"), [(1000, 200), (1001, 400)])
def test_a_page_has_a_bounded_number_of_items(client: Client, limit: int, status: int) -> None:
    client.put(BUDGET)
    assert client.get(f"{BUDGET}/items?limit={limit}").status_code == status


def test_a_token_above_the_size_limit_is_not_passed_to_the_application() -> None:
    asked: list[str] = []

    def authenticate(token: str) -> Principal | None:
        asked.append(token)
        return None

    with serving(Application(authenticate=authenticate)) as client:
        for size in (TOKEN_BYTES_MAX, TOKEN_BYTES_MAX + 1):
            assert client.get(BUDGET, headers={"Authorization": "Bearer " + "t" * size}).status_code == 401
    assert [len(token) for token in asked] == [TOKEN_BYTES_MAX]


def test_above_the_limit_of_rate_buckets_the_oldest_bucket_is_dropped() -> None:
    rates = Rates(ManualClock(), 0.001, 1)
    rates.take(("principal", "first"))
    with pytest.raises(Refused):
        rates.check(("principal", "first"))
    for number in range(RATE_HOLDERS_MAX):
        rates.take(("principal", f"{number}"))
    rates.check(("principal", "first"))


def test_a_limited_number_of_valid_tokens_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "TOKENS_REMEMBERED_MAX", 2)
    tokens = StaticTokens({f"token {number}": Principal(id=f"{number}") for number in range(4)})
    signed_in: list[str] = []

    def note(self: Audit, principal: Principal, address: str) -> None:
        signed_in.append(principal.id)

    monkeypatch.setattr(Audit, "note_sign_in", note)
    with serving(Application(authenticate=tokens)) as client:
        for number in (0, 1, 2, 2, 1, 0):
            client.get(BUDGET, headers={"Authorization": f"Bearer token {number}"})
    assert signed_in == ["0", "1", "2", "0"]


def test_a_long_path_is_cut_in_the_logs(tmp_path: Path) -> None:
    with audited(tmp_path) as client:
        client.get("/" + "x" * 2000)
    (line,) = read(tmp_path / "access")
    assert len(line["path"]) == AUDITED_PATH_BYTES_MAX


def test_log_lines_above_the_limit_of_waiting_lines_are_counted_as_omitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_log, "LOG_LINES_WAITING_MAX", 3)
    monkeypatch.setattr(LineLog, "_run", lambda self: None)
    log = LineLog(str(tmp_path / "log"), ManualClock(), 1000)
    for _ in range(5):
        log.write(EVE, Principal(id="any"))
    assert log.omitted == 2
    log._file.close()


def test_a_page_of_versions_has_a_bounded_number_of_states(client: Client) -> None:
    client.put(BUDGET)
    for number in range(1, PAGE_STATES_MAX + 2):
        push(client, mutation("c", number, key="k", value=number))
    first = client.get(f"{BUDGET}/versions?states=true&limit=1000").json()
    rest = client.get(f"{BUDGET}/versions?states=true&limit=1000&after={first['next']}").json()
    assert [len(page["versions"]) for page in (first, rest)] == [PAGE_STATES_MAX, 1]


def test_a_page_of_a_state_ends_at_the_byte_limit(client: Client) -> None:
    client.put(BUDGET)
    value = "x" * (PAGE_BYTES_MAX // 2)
    for number in range(1, 4):
        push(client, mutation("c", number, key=f"k/{number}", value=value))
    first = client.get(f"{BUDGET}/state").json()
    assert 0 < len(first["content"]) < 3
    rest = client.get(f"{BUDGET}/state?after={first['next']}").json()
    assert [*first["content"], *rest["content"]][:2] == ["k/1", "k/2"]


def test_a_small_answer_does_not_count_against_the_answer_budget() -> None:
    limits = ServerLimits(answer_bytes_of_principal_max=100_000)
    headers = {"Authorization": "Bearer t"}
    tokens = StaticTokens({"t": Principal(id="ada")})
    with serving(Application(authenticate=tokens, limits=limits)) as client:
        client.put(BUDGET, headers=headers)
        service_of(client).byte_budgets.answers.take(("principal", "ada"), amount=100_000)
        assert client.get(BUDGET, headers=headers).status_code == 200
        assert client.get(f"{BUDGET}/state", headers=headers).status_code == 429


@pytest.mark.parametrize("is_full", [False, True])
def test_the_answer_to_a_push_is_not_refused_when_the_answer_budget_is_full(is_full: bool) -> None:
    limits = ServerLimits(answer_bytes_of_principal_max=100_000, answer_bytes_in_flight_max=150_000)
    application = Application(authenticate=StaticTokens({"t": Principal(id="ada")}), limits=limits)
    with serving(application) as client:
        client.headers["Authorization"] = "Bearer t"
        client.put(BUDGET)
        answers = service_of(client).byte_budgets.answers
        answers.take(("principal", "bob" if is_full else "ada"), amount=100_000)
        outcomes = push(client, *[mutation("c" * 100, id, key="k", value=1) for id in range(1, 1001)])
        assert [outcome["status"] for outcome in outcomes] == ["applied"] * 1000


def test_the_answer_to_a_replay_is_refused_since_a_replay_writes_nothing() -> None:
    limits = ServerLimits(answer_bytes_of_principal_max=1_000_000)
    with serving(Application(authenticate=StaticTokens({"t": Principal(id="ada")}), limits=limits)) as client:
        client.headers["Authorization"] = "Bearer t"
        client.put(BUDGET)
        client.post(f"{BUDGET}/fork", json={"name": "copy"})
        copy = "/v1/organisations/acme/documents/copy"
        push(client, *[mutation("c", id, key=f"k{id}", value=1) for id in range(1, 1001)], path=copy)
        service_of(client).byte_budgets.answers.take(("principal", "ada"), amount=1_000_000)
        assert client.post(f"{copy}/replay", json={"document": "budget"}).status_code == 429


def test_the_presence_of_all_documents_of_a_process_shares_a_byte_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "PRESENCE_BYTES_PER_SECOND", 10)

    async def story() -> list[float | None]:
        store = open_store("memory:", clock=ManualClock())
        limits = ServerLimits()
        made = hub.Hub(store, limits, Metrics(store.environment), Pools(limits))
        for name in ("plan", "budget"):
            store.create("acme", name)
            listener = await made.join("acme", name)
            listener.show({"cell": "A1"})
        return [made.broadcast_presence()]

    (seconds,) = asyncio.run(story())
    assert seconds is not None
    # The hub sent the change of one document. The change of the other document waits until the rate allows its bytes.
    assert seconds > 1
