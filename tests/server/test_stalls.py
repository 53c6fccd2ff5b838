"""Pools are independent: if a pool has no free thread, the server refuses only the calls that need this pool."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from litestar import get

from stratalog.errors import Corrupt, StratalogError, Unavailable, Unsupported
from stratalog.limits import HEALTH_AGE_SECONDS_MAX, HEALTH_REPEATED_SECONDS_MAX
from stratalog.server import reading
from stratalog.server.application import Application, ServerLimits
from stratalog.server.health_check import HealthCheck
from stratalog.server.security import Principal
from stratalog.server.service import Service
from stratalog.server.thread_pool import Pool, PoolSettings
from stratalog.store import open_store
from stratalog.testing.clock import ManualClock
from tests.server.api import BUDGET, Client, mutation, problem, run_in_time, serving

SECONDS_MAX = 120
TOKEN = {"Authorization": "Bearer ada"}
PUSH = {"group": "g", "mutations": [mutation("ada", 1, key="k", value=1)]}
LOG = "/v1/organisations/acme/logs/events"
RECORD = "/v1/organisations/acme/records/letter"


@get("/own", sync_to_thread=True)
def own() -> str:
    return "own"


@reading("/looked-up")
def looked_up() -> str:
    return "looked up"


def known(token: str) -> Principal:
    return Principal(id=token)


CALLS: dict[str, tuple[tuple[str, str, object], set[str]]] = {
    "health": (("GET", "/health", None), set()),
    "page": (("GET", "/web/client/stratalog.js", None), {"pages"}),
    "metrics": (("GET", "/metrics", None), {"identity", "pages"}),
    "document": (("GET", BUDGET, None), {"identity", "reads"}),
    "state": (("GET", f"{BUDGET}/state", None), {"identity", "reads"}),
    "pull": (("POST", f"{BUDGET}/pull", {"group": "g"}), {"identity", "reads"}),
    "names": (("GET", "/v1/names/budget", None), {"identity", "reads"}),
    "push": (("POST", f"{BUDGET}/push", PUSH), {"identity", "writes"}),
    "create": (("PUT", BUDGET, None), {"identity", "writes"}),
    "append": (("POST", f"{LOG}/append", {"events": [{"type": "a"}]}), {"identity", "writes"}),
    "entries": (("GET", f"{LOG}/entries", None), {"identity", "reads"}),
    "put": (("PUT", RECORD, {"a": 1}), {"identity", "writes"}),
    "record": (("GET", RECORD, None), {"identity", "bodies"}),
    "own": (("GET", "/own", None), {"identity", "applications"}),
    "looked-up": (("GET", "/looked-up", None), {"identity", "reads"}),
}
ASKED_WITHOUT_TOKEN = ("health", "page")


@pytest.fixture
def guarded() -> Iterator[Client]:
    """A client of a server that checks tokens on a thread, with two routes of an application."""
    limits = ServerLimits(threads=2, call_wait_seconds_max=0.02)
    with serving(Application(authenticate=known, routes=[own, looked_up], limits=limits)) as client:
        for path in (BUDGET, LOG):
            assert client.put(path, headers=TOKEN).status_code == 201
        assert client.put(RECORD, content=b"{}", headers=TOKEN).status_code == 200
        yield client


@contextmanager
def held(client: Client, name: str) -> Iterator[None]:
    """Occupy all threads of a pool until the end of the block."""
    service: Service = client.app.state.service
    pool: Pool = getattr(service.pools, name)
    gate = threading.Event()
    tasks: list[asyncio.Task[bool]] = []

    async def hold() -> None:
        tasks.extend(
            asyncio.create_task(pool.run(lambda: gate.wait(SECONDS_MAX))) for _ in range(pool.settings.threads)
        )
        while pool.counts().busy < pool.settings.threads:
            await asyncio.sleep(0)

    async def release() -> None:
        gate.set()
        await asyncio.gather(*tasks)

    with client.portal() as portal:
        portal.call(hold)
        try:
            yield
        finally:
            portal.call(release)


@pytest.mark.parametrize("pool", ["reads", "writes", "bodies", "applications", "identity", "pages", "polling"])
def test_a_pool_without_a_free_thread_stalls_only_its_own_calls(guarded: Client, pool: str) -> None:
    assert guarded.get("/health").status_code == 200
    with held(guarded, pool):
        for name, ((method, path, body), needed) in CALLS.items():
            headers = {} if name in ASKED_WITHOUT_TOKEN else TOKEN
            answer = guarded.request(method, path, json=body, headers=headers)
            assert (answer.status_code == 503) == (pool in needed), (name, answer.text)
            if pool in needed:
                assert problem(answer, scope=True) == (503, "unavailable")
                assert "retry-after" in answer.headers
            else:
                assert answer.status_code in (200, 201), (name, answer.text)


def test_the_threads_of_each_pool_are_in_the_metrics(guarded: Client) -> None:
    with held(guarded, "reads"):
        assert guarded.get(BUDGET, headers=TOKEN).status_code == 503
        text = guarded.get("/metrics", headers=TOKEN).text
    assert 'stratalog_pool_threads_busy{pool="reads"} 2.0' in text
    assert 'stratalog_pool_calls_waiting{pool="writes"} 0.0' in text
    assert 'stratalog_pool_calls_refused_total{pool="reads"} 1.0' in text


# Health


class SlowStore:
    """A store that lists its organisations only while `gate` is open. The listing fails if `error` is set."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = open_store("memory:", clock=self.clock)
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        organisations = self.store.organisations

        def list_slowly() -> Iterator[str]:
            assert self.gate.wait(SECONDS_MAX)
            if self.error is not None:
                raise self.error
            return organisations()

        self.store.organisations = list_slowly  # type: ignore[method-assign]


@contextmanager
def checked(slow: SlowStore) -> Iterator[HealthCheck]:
    pool = Pool("health", PoolSettings(threads=1))
    try:
        yield HealthCheck(slow.store, pool)
    finally:
        slow.gate.set()
        pool.close()


async def is_well(check: HealthCheck) -> None:
    """Wait until the check reports a healthy store."""
    while True:
        try:
            return await check.ask()
        except Unavailable:
            await asyncio.sleep(0)


def test_a_slow_store_is_healthy_while_its_last_result_is_recent() -> None:
    slow = SlowStore()

    async def story(check: HealthCheck) -> None:
        await check.ask()
        slow.gate.clear()
        slow.clock.sleep(HEALTH_REPEATED_SECONDS_MAX)
        await check.ask()
        slow.clock.sleep(HEALTH_AGE_SECONDS_MAX + 1)
        with pytest.raises(Unavailable, match="does not respond"):
            await check.ask()
        slow.gate.set()
        await is_well(check)

    with checked(slow) as check:
        run_in_time(story(check))


def test_an_unavailable_store_is_reported_as_unavailable_until_a_check_succeeds() -> None:
    slow = SlowStore()

    async def story(check: HealthCheck) -> None:
        await check.ask()
        slow.error = Unavailable("away")
        slow.clock.sleep(HEALTH_REPEATED_SECONDS_MAX)
        with pytest.raises(Unavailable, match="away"):
            await check.ask()
        slow.gate.clear()
        with pytest.raises(Unavailable, match="away"):
            await check.ask()
        slow.error = None
        slow.gate.set()
        slow.clock.sleep(HEALTH_REPEATED_SECONDS_MAX)
        await is_well(check)

    with checked(slow) as check:
        run_in_time(story(check))


def test_a_health_check_repeats_its_last_result_for_a_short_time() -> None:
    slow = SlowStore()

    async def story(check: HealthCheck) -> None:
        await check.ask()
        slow.error = Unavailable("away")
        await check.ask()
        slow.clock.sleep(HEALTH_REPEATED_SECONDS_MAX)
        with pytest.raises(Unavailable, match="away"):
            await check.ask()
        slow.error = None
        with pytest.raises(Unavailable, match="away"):
            await check.ask()
        slow.clock.sleep(HEALTH_REPEATED_SECONDS_MAX)
        await check.ask()

    with checked(slow) as check:
        run_in_time(story(check))


def test_concurrent_health_checks_read_the_store_once() -> None:
    slow = SlowStore()
    looks = 0
    listed = slow.store.organisations

    def count() -> Iterator[str]:
        nonlocal looks
        looks += 1
        return listed()

    slow.store.organisations = count  # type: ignore[method-assign]

    async def story(check: HealthCheck) -> None:
        slow.gate.clear()
        asked = [asyncio.create_task(check.ask()) for _ in range(50)]
        await asyncio.sleep(0)
        slow.gate.set()
        await asyncio.gather(*asked)
        assert looks == 1

    with checked(slow) as check:
        run_in_time(story(check))


@pytest.mark.parametrize(
    "error",
    [Corrupt("the database is damaged"), Unsupported("a newer store"), Unavailable("away")],
    ids=["damaged", "newer", "away"],
)
def test_the_health_of_an_unreadable_store_is_answered_503(error: StratalogError) -> None:
    slow = SlowStore()
    slow.error = error
    with serving(store=slow.store) as client:
        answer = client.get("/health")
    assert problem(answer) == (503, "unavailable")
    assert error.message in answer.json()["message"]
