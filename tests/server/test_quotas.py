"""Quotas at the server: the server answers a write above a quota with 507. Reads and deletes always work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stratalog.errors import QuotaExceeded
from stratalog.limits import USAGE_CLOCKS_SECONDS_MAX, USAGE_READ_SECONDS, USAGE_SLICE_SECONDS
from stratalog.log.admission import Admission
from stratalog.log.usage import Amounts
from stratalog.maintenance.usage import measure_usage
from stratalog.protocol import Mutation
from stratalog.records.batch import NewBody
from stratalog.server import Application, Principal, Quotas, ServerLimits, StaticTokens
from stratalog.server.app import create_app
from stratalog.server.errors import Refused
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, Client, mutation, problem, push, serving
from tests.server.queue_path import QueuePath, put

ACME = "/v1/organisations/acme"
TOKENS = StaticTokens({"ada": Principal(id="u-ada"), "bob": Principal(id="u-bob")})
ADA = {"Authorization": "Bearer ada"}


class Served:
    """A client of a server, its store in memory, and a manual clock."""

    def __init__(self, client: Client, store: Store, clock: ManualClock) -> None:
        self.client = client
        self.store = store
        self.clock = clock

    def measure(self) -> None:
        """Measure the usage, and let time pass until the server reads the measurement again."""
        self.clock.sleep(USAGE_CLOCKS_SECONDS_MAX + USAGE_SLICE_SECONDS)
        measure_usage(self.store.environment, "acme")
        self.clock.sleep(USAGE_READ_SECONDS)

    def put(self, record: str, body: bytes = b"body") -> Any:
        return self.client.put(f"{ACME}/records/{record}", content=body)

    def create(self, name: str, kind: str = "documents") -> Any:
        return self.client.put(f"{ACME}/{kind}/{name}")

    def push(self, client: str, id: int = 1, value: Any = 1) -> Any:
        mutations = [mutation(client, id, key="k", value=value)]
        return self.client.post(f"{BUDGET}/push", json={"group": client, "mutations": mutations})


@contextmanager
def held(quotas: Quotas, **others: Any) -> Iterator[Served]:
    clock = ManualClock()
    store = open_store("memory:", clock=clock)
    with serving(Application(quotas=quotas, **others), store) as client:
        yield Served(client, store, clock)


def refused(answer: Any, quota: str, limit: int, value: int, scope: str = "organisation") -> bool:
    assert problem(answer, scope=True) == (507, "quota-exceeded")
    body = answer.json()
    assert (body["limit"], body["value"], body["scope"], f"quota='{quota}'" in body["message"]) == (
        limit,
        value,
        scope,
        True,
    )
    return True


def test_documents_logs_and_forks_have_one_quota() -> None:
    with held(Quotas(documents_max=3)) as served:
        assert served.create("budget").status_code == 201
        assert served.create("events", "logs").status_code == 201
        assert served.client.post(f"{BUDGET}/fork", json={"name": "copy"}).status_code == 201
        assert refused(served.create("plan"), "documents_max", 3, 4)
        assert refused(served.create("more", "logs"), "documents_max", 3, 4)
        assert refused(served.client.post(f"{BUDGET}/fork", json={"name": "other"}), "documents_max", 3, 4)
        assert served.create("budget").status_code == 200
        assert served.client.put("/v1/organisations/zeta/documents/plan").status_code == 201


def test_a_deletion_frees_quota_after_the_next_measurement() -> None:
    with held(Quotas(documents_max=2)) as served:
        for name in ("budget", "plan"):
            served.create(name)
        assert served.client.delete(f"{ACME}/documents/plan").status_code == 204
        assert served.create("new").status_code == 507
        served.measure()
        assert served.create("new").status_code == 201
        assert served.create("newer").status_code == 507


def test_the_quota_of_records_limits_new_records_and_not_new_versions() -> None:
    with held(Quotas(records_max=2)) as served:
        assert [served.put("a").status_code, served.put("b").status_code] == [200, 200]
        assert refused(served.put("c"), "records_max", 2, 3)
        assert served.put("a", b"other").json()["version"] == 2
        assert served.client.delete(f"{ACME}/records/a").status_code == 204
        assert served.client.post(f"{ACME}/records/a/undelete").status_code == 200
        stored = list(served.store.records("acme").put_many([NewBody(id=id, body=b"x") for id in "abc"]))
        assert [isinstance(result.error, QuotaExceeded) for result in stored] == [False, False, True]


def test_a_put_to_a_record_created_by_another_process_needs_no_quota() -> None:
    with held(Quotas(records_max=1)) as served:
        assert served.put("a").status_code == 200
        with pytest.raises(QuotaExceeded):
            (records := served.store.records("acme")).put("b", b"1")
        served.store.environment.admission = None
        served.store.records("acme").put("b", b"1")
        served.store.environment.admission = served.client.app.state.service.admission
        assert records.put("b", b"2").version == 2


def test_clients_of_the_organisation_have_a_quota() -> None:
    with held(Quotas(clients_max=2)) as served:
        served.create("budget")
        assert [served.push("ada").status_code, served.push("bob").status_code] == [200, 200]
        assert refused(served.push("eve"), "clients_max", 2, 3)
        assert served.push("ada", 2).json()["outcomes"][0]["status"] == "applied"
        assert served.client.post(f"{BUDGET}/pull", json={"group": "new", "cookie": None}).status_code == 200


def test_clients_of_one_document_have_a_quota() -> None:
    with held(Quotas(document_clients_max=2)) as served:
        for name in ("budget", "plan"):
            served.create(name)
        assert [served.push("ada").status_code, served.push("bob").status_code] == [200, 200]
        assert refused(served.push("eve"), "document_clients_max", 2, 3, "document")
        push(served.client, mutation("eve", 1, key="k", value=1), path=f"{ACME}/documents/plan")
        served.store.document("acme", "budget").collect_clients(["ada"])
        assert served.push("eve").status_code == 200


def test_stored_bytes_have_a_quota_that_bodies_count_against() -> None:
    with held(Quotas(stored_bytes_max=20_000)) as served:
        served.create("budget")
        served.create("events", "logs")
        assert served.push("ada", value="x" * 8000).status_code == 200
        assert served.put("a", b"y" * 5000).status_code == 200
        assert problem(served.put("b", b"y" * 5000), scope=True) == (507, "quota-exceeded")
        assert problem(served.push("ada", 2, "x" * 8000), scope=True) == (507, "quota-exceeded")
        facts = {"events": [{"type": "said", "data": "z" * 8000}]}
        assert served.client.post(f"{ACME}/logs/events/append", json=facts).status_code == 507
        assert served.push("ada", 2).status_code == 200
        assert served.client.get(f"{ACME}/records/a").status_code == 200
        assert served.client.delete(f"{ACME}/records/a").status_code == 204


def test_a_body_of_unknown_length_above_the_quota_is_refused_and_uses_no_quota() -> None:
    with held(Quotas(stored_bytes_max=20_000)) as served:
        pieces = (b"y" * 1000 for _ in range(100))
        answer = served.client.put(f"{ACME}/records/a", content=pieces)
        assert problem(answer, scope=True) == (507, "quota-exceeded")
        assert served.store.environment.admission is not None
        assert served.store.environment.admission.usage("acme").amounts == Amounts()
        assert served.put("a", b"y" * 10_000).status_code == 200


def test_a_put_refused_for_another_reason_does_not_count_against_the_quota() -> None:
    with held(Quotas(stored_bytes_max=10_000)) as served:
        for _ in range(5):
            assert served.client.put(f"{ACME}/records/a?expected=7", content=b"y" * 5000).status_code == 409
        assert served.put("a", b"y" * 5000).status_code == 200


def test_an_organisation_above_its_quota_can_read_delete_and_repeat_a_create() -> None:
    with held(Quotas(stored_bytes_max=3000)) as served:
        served.create("budget")
        served.create("plan")
        assert served.create("third").status_code == 507
        assert served.create("budget").status_code == 200
        assert served.client.get(BUDGET).status_code == 200
        merged = served.client.post(f"{BUDGET}/merge", json={"document": "plan"})
        assert (merged.status_code, merged.json()) == (200, {"mutations": []})
        assert served.client.delete(BUDGET).status_code == 204


def test_a_quota_refuses_a_push_before_it_is_queued_and_never_a_queued_push() -> None:
    path = QueuePath()
    quotas = Quotas(clients_max=2)
    environment = path.store.environment
    environment.admission = Admission(environment.index, path.clock, lambda organisation: quotas)
    assert path.push(put("ada", 1)).queued
    assert path.push(put("bob", 1)).queued
    with pytest.raises(QuotaExceeded):
        path.push(put("eve", 1))
    quotas = Quotas(clients_max=1, stored_bytes_max=1)
    path.work()
    assert path.document.last_mutation("ada") == path.document.last_mutation("bob") == 1
    assert (path.document.last_mutation("eve"), path.waiting(), path.failures) == (0, [], [])


def test_an_organisation_may_have_quotas_of_its_own() -> None:
    application = {"organisation_quotas": {"large": Quotas(), "none": Quotas(documents_max=0)}.get}
    with held(Quotas(documents_max=1), **application) as served:
        made = [
            [served.client.put(f"/v1/organisations/{name}/documents/d{number}").status_code for number in range(2)]
            for name in ("acme", "large", "none")
        ]
        assert made == [[201, 507], [201, 201], [507, 507]]


def test_usage_is_the_measured_amount_plus_the_amount_admitted_since() -> None:
    with held(Quotas(documents_max=5)) as served:
        served.create("budget")
        served.push("ada")
        fresh = served.client.get(f"{ACME}/usage").json()
        assert (fresh["measured_ms"], fresh["amounts"]["documents"], fresh["admitted"]["documents"]) == (None, 1, 1)
        served.measure()
        served.create("plan")
        usage = served.client.get(f"{ACME}/usage").json()
        assert usage["measured_ms"] is not None
        assert (usage["amounts"]["documents"], usage["admitted"]["documents"], usage["document_clients"]) == (2, 1, 1)
        assert usage["quotas"]["documents_max"] == 5
        assert usage["quotas"]["records_max"] is None


def test_the_application_s_rules_may_refuse_the_action_usage() -> None:
    asked: list[str] = []

    def authorize(principal: Principal, action: str, organisation: str, name: str) -> bool:
        asked.append(action)
        return False

    with held(Quotas(), authenticate=TOKENS, authorize=authorize) as served:
        assert problem(served.client.get(f"{ACME}/usage", headers=ADA)) == (403, "forbidden")
    assert asked == ["usage"]


def test_metrics_have_the_organisations_that_are_nearest_to_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.server.metrics.USAGE_LABELS_MAX", 3)
    with held(Quotas(documents_max=4)) as served:
        served.create("budget")
        for number in range(5):
            served.client.put(f"/v1/organisations/o{number}/documents/d")
        for number in range(5):
            served.create(f"d{number}")
        lines = served.client.get("/metrics").text.splitlines()
        assert 'stratalog_usage_ratio{organisation="acme"} 1.0' in lines
        assert 'stratalog_usage_documents{organisation="acme"} 4.0' in lines
        assert 'stratalog_quota_refusals_total{quota="documents_max"} 2.0' in lines
        assert sum(line.startswith("stratalog_usage_ratio{") for line in lines) == 3


def test_without_quotas_no_organisation_is_named_in_the_metrics() -> None:
    with held(Quotas()) as served:
        served.create("budget")
        assert "organisation=" not in served.client.get("/metrics").text


def test_the_rate_of_record_creations_of_a_principal_is_limited() -> None:
    limits = ServerLimits(record_creations_per_second=0.001, record_creations_burst=2)
    with held(Quotas(), authenticate=TOKENS, limits=limits) as served:
        made = [
            served.client.put(f"{ACME}/records/r{number}", content=b"body", headers=ADA).status_code
            for number in (0, 0, 1, 0, 2)
        ]
        assert made == [200, 200, 200, 200, 429]
        again = served.client.put(f"{ACME}/records/r2", content=b"body", headers=ADA)
        assert problem(again, scope=True) == (429, "too-many-requests")
        bob = {"Authorization": "Bearer bob"}
        assert served.client.put(f"{ACME}/records/r2", content=b"body", headers=bob).status_code == 200
        assert served.client.put(f"{ACME}/records/r2", content=b"other", headers=ADA).status_code == 200


def test_a_put_of_many_records_counts_each_new_one() -> None:
    store = open_store("memory:")
    limits = ServerLimits(record_creations_per_second=0.001, record_creations_burst=3)
    create_app(store, Application(limits=limits))
    bodies = [NewBody(id=f"r{number}", body=b"x", principal="u-ada") for number in range(5)]
    stored = list(store.records("acme").put_many(bodies))
    assert [isinstance(result.error, Refused) for result in stored] == [False, False, False, True, True]


def test_the_rate_of_client_creations_of_a_principal_is_limited() -> None:
    limits = ServerLimits(client_creations_per_second=0.001, client_creations_burst=2)
    with held(Quotas(), authenticate=TOKENS, limits=limits) as served:
        bob = {"Authorization": "Bearer bob"}
        served.client.put(BUDGET, headers=ADA)

        def pushed(client: str, id: int = 1, headers: dict[str, str] = ADA) -> Any:
            mutations = [mutation(client, id, key="k", value=1)]
            body = {"group": f"{client}-{headers['Authorization']}", "mutations": mutations}
            return served.client.post(f"{BUDGET}/push", json=body, headers=headers)

        assert [pushed("a").status_code, pushed("a", 2).status_code, pushed("b").status_code] == [200] * 3
        refused = pushed("c")
        assert problem(refused, scope=True) == (429, "too-many-requests")
        assert int(refused.headers["retry-after"]) > 1
        assert pushed("a", 3).status_code == 200
        assert pushed("d", headers=bob).status_code == 200
        served.clock.sleep(1000)
        assert pushed("c").status_code == 200
        text = served.client.get("/metrics", headers=bob).text
    assert 'stratalog_rate_refusals_total{rate="client_creations",scope="principal"} 1.0' in text


def test_the_new_clients_of_a_push_count_together_and_once_against_the_rate() -> None:
    limits = ServerLimits(client_creations_per_second=1, client_creations_burst=10)
    clock = ManualClock()
    store = open_store("memory:", clock=clock)
    create_app(store, Application(limits=limits))
    document = store.create("acme", "budget")

    def pushed(first: int, count: int) -> None:
        numbers = range(first, first + count)
        clients = [Mutation(client=f"c{n}", id=1, name="put", args={"key": "k", "value": n}) for n in numbers]
        document.apply(clients, owner="u-ada")

    pushed(0, 4)
    pushed(0, 4)  # the same clients again: the store creates none
    pushed(4, 6)
    with pytest.raises(Refused) as refused:
        pushed(10, 3)
    assert (refused.value.details["seconds"], document.version) == (3, 2)
    clock.sleep(3)
    pushed(10, 3)
    clock.sleep(1000)
    pushed(20, 15)  # above the burst, but the server admits the push because the bucket is full
    clock.sleep(5)
    with pytest.raises(Refused):
        pushed(40, 1)
    clock.sleep(1)
    pushed(40, 1)


def test_the_new_clients_of_a_queued_push_count_once_when_it_is_queued() -> None:
    path = QueuePath()
    counted: list[tuple[str, int]] = []
    environment = path.store.environment
    environment.admission = Admission(
        environment.index, path.clock, creating=lambda principal, amounts: counted.append((principal, amounts.clients))
    )
    assert path.push(put("ada", 1), put("bob", 1), owner="u-ada").queued
    path.work()
    assert path.document.last_mutation("bob") == 1
    assert counted == [("u-ada", 2)]
