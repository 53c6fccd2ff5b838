"""A store whose URL names a primary and its synchronous standby, which the tests promote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

import stratalog
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.clock import SystemClock
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.ports.index import Absent, Item, Put
from tests.postgres.failover import Pair, replicating_pair
from tests.threads import until

pytestmark = pytest.mark.slow

PUT = Put(Item("p", "s", {}), Absent())
WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with replicating_pair() as pair:
        yield pair


@contextmanager
def opened(pair: Pair, schema: str, options: str = "") -> Iterator[PostgresStore]:
    with closing(PostgresStore(parse_address(f"{pair.url}&schema={schema}{options}"), SystemClock())) as store:
        store.create()
        store.index.commit([Put(Item("p", "first", {}))])  # open the session for commits while the standby runs
        yield store


def waiting(pair: Pair, pool: ThreadPoolExecutor, commit: Callable[[], None]) -> Future[None]:
    """Begin the commit, and wait until the primary has the commit and waits for the standby."""
    running = pool.submit(commit)
    with closing(pair.connect()) as connection:
        until(lambda: running.done() or connection.execute(WAITS).fetchall() == [(1,)])
    assert not running.done()
    return running


def test_an_open_store_writes_to_the_promoted_standby(pair: Pair) -> None:
    """The second failover goes back to the server that the URL names first."""
    with stratalog.open(f"{pair.url}&schema=promoted") as store:
        document = store.create("acme", "plan")
        for number, mode in enumerate(("immediate", "fast")):
            document.mutate("put", {"key": f"notes/{number}", "value": "x" * 20_000})
            pair.fail_over(mode)
            assert document.mutate("inc", {"key": "n"}).version == 2 * number + 2
        assert [document.get(f"notes/{number}") for number in range(2)] == ["x" * 20_000] * 2
    with stratalog.open(f"{pair.url}&schema=promoted", create=False) as store:
        assert store.document("acme", "plan").get("n") == 2


def test_a_commit_that_only_the_lost_primary_has_is_unknown(pair: Pair) -> None:
    """The primary shuts down. It reports that it may have made the commit, and then ends the session."""
    with opened(pair, "lost") as store, ThreadPoolExecutor(1) as pool:
        pair.standby.stop()
        running = waiting(pair, pool, lambda: store.index.commit([PUT]))
        pair.primary.stop("fast")
        assert isinstance(running.exception(timeout=60), OutcomeUnknown)
        pair.standby.start()
        pair.promote()
        assert store.index.get("p", "s") is None
        store.index.commit([PUT])


def test_a_commit_that_the_standby_has_is_unknown_until_it_is_read(pair: Pair) -> None:
    """The standby has the commit but does not replay it yet, so the primary waits."""
    with (
        opened(pair, "kept", "&options=-c%20synchronous_commit%3Dremote_apply") as store,
        ThreadPoolExecutor(1) as pool,
    ):
        pair.pause_replay()
        running = waiting(pair, pool, lambda: store.index.commit([PUT]))
        pair.await_flush()
        pair.primary.stop()
        assert isinstance(running.exception(timeout=60), OutcomeUnknown)
        pair.resume_replay()
        pair.promote()
        assert store.index.get("p", "s") == PUT.item


def test_a_url_of_the_standby_alone_is_unavailable(pair: Pair) -> None:
    with pytest.raises(Unavailable) as refused:
        stratalog.open(f"{pair.standby.url}&schema=none")
    assert "read-only" in str(refused.value.__cause__)


@pytest.mark.parametrize(
    "write",
    [lambda store: store.index.commit([PUT]), lambda store: store.queue.send("g", [b"after"])],
    ids=["commit", "send"],
)
def test_sessions_of_a_primary_that_turned_read_only_are_replaced(
    pair: Pair, write: Callable[[PostgresStore], None], request: pytest.FixtureRequest
) -> None:
    """The operator switches over: the old primary keeps its sessions but refuses writes."""
    schema = f"switched_{request.node.callspec.id}"
    # The new primary has no standby yet.
    with opened(pair, schema, "&options=-c%20synchronous_commit%3Dlocal") as store:
        store.index.commit([Put(Item("p", "before", {}))])
        store.queue.send("g", [b"before"])
        pair.make_read_only()
        pair.standby.promote()
        try:
            with pytest.raises(Unavailable):
                write(store)
            write(store)
            assert store.index.get("p", "before") is not None
            assert [message.body for message in store.queue.receive()][:1] == [b"before"]
        finally:
            pair.primary.stop()
            pair.rejoin()
