"""A store in PostgreSQL: its creation, its errors, and its behaviour when connections or the server end."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from os import dup
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from psycopg import sql

import stratalog
from stratalog.backends import postgres_connections
from stratalog.backends.postgres import PostgresStore
from stratalog.backends.postgres_address import parse_address
from stratalog.backends.postgres_connections import PostgresConnections
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.errors import Closed, ConditionFailed, Invalid, OutcomeUnknown, Unavailable, Unsupported
from stratalog.homes import make_store
from stratalog.limits import POSTGRES_CONNECTIONS_MAX
from stratalog.log import LogSettings
from stratalog.log.listed_items import list_items
from stratalog.ports.index import Absent, Check, Delete, Equals, Item, Put, Write
from stratalog.protocol import Mutation
from stratalog.testing.emulators import reserved_ports
from stratalog.testing.postgres_server import PostgresServer, postgres_server
from tests.cli.conftest import Run, run
from tests.threads import SECONDS_MAX, until

__all__ = ["run"]

KEEPALIVE = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
SHOW_DURABILITY = "SHOW synchronous_commit"
LOCK_WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"

HASH, OTHER = b"h" * 32, b"o" * 32


@pytest.fixture
def store(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """A store whose commits wait longer than usual for a lock that a test holds until all its threads wait."""
    monkeypatch.setitem(postgres_connections.SETTINGS, "lock_timeout", "50s")
    store = PostgresStore(parse_address(postgres), SystemClock())
    store.create()
    yield store
    store.close()


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection[Any]]:
    """Another session, in the schema of the store."""
    address = parse_address(postgres)
    with closing(psycopg.connect(address.conninfo, autocommit=True)) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(address.schema)))
        yield connection


@pytest.fixture
def restarted() -> Iterator[PostgresServer]:
    """A separate server, which the test may stop."""
    with postgres_server(["-c fsync=off"]) as server:
        yield server


def test_opening_a_url_creates_a_store_that_can_be_reopened(postgres: str) -> None:
    with stratalog.open(postgres) as store:
        store.create("acme", "plan").mutate("put", {"key": "notes/large", "value": "x" * 200_000})
        store.queue.send("acme/plan", [b"hint"])
    with stratalog.open(postgres, create=False) as store:
        assert len(store.document("acme", "plan").get("notes/large")) == 200_000
        assert [message.body for message in store.queue.receive()] == [b"hint"]


def test_commits_succeed_after_a_rollback(store: PostgresStore) -> None:
    """After a ROLLBACK, psycopg deallocates all prepared statements of the session, also those of the store."""
    index = store.index
    index.commit([Put(Item("p", "counter", {"n": 0}), Absent())])
    for number in range(10):  # from the sixth time on, psycopg prepares the statements of such a commit
        index.commit([Put(Item("p", "counter", {"n": number + 1}), Equals("n", number))])
    with pytest.raises(ConditionFailed):
        index.commit([Put(Item("p", "counter", {"n": 0}), Equals("n", 0))])
    index.commit([Put(Item("p", "counter", {"n": 11}), Equals("n", 10))])
    index.commit([Put(Item("p", "other", {}), Absent())])
    assert [item.sort for item in index.query("p")] == ["counter", "other"]


def test_large_blobs_may_be_in_a_folder(postgres: str, tmp_path: Path) -> None:
    url = f"{postgres}&blobs={tmp_path}"
    with stratalog.open(url) as store:
        store.records("acme").put("small", b"s" * 30_000)
        store.records("acme").put("large", bytes(range(256)) * 4096)
    with stratalog.open(url) as store:
        assert store.records("acme").get("large").body == bytes(range(256)) * 4096
        assert store.records("acme").get("small").body == b"s" * 30_000
    assert len([path for path in tmp_path.rglob("*") if path.is_file() and path.name[0] != "."]) == 1


@pytest.mark.parametrize(("blobs", "is_cached"), [("", False), ("&blobs={}", False), ("&blobs=s3://large-blobs", True)])
def test_chunks_are_cached_on_the_machine_if_large_blobs_are_in_a_bucket(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: str, is_cached: bool
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")
    with stratalog.open(f"{postgres}{blobs.format(tmp_path)}", chunk_cache=tmp_path / "cache") as store:
        document = store.document("acme", "plan", create=True)
        document.apply([Mutation(client="ada", name="put", args={"key": f"k/{n}", "value": n}) for n in range(300)])
        document.snapshot()
    with stratalog.open(f"{postgres}{blobs.format(tmp_path)}", chunk_cache=tmp_path / "cache") as store:
        assert len(list(store.document("acme", "plan").scan())) == 300
        assert store.environment.chunk_source.gets_max == 1
    assert (tmp_path / "cache").exists() == is_cached


def test_init_prints_what_it_created(postgres: str, run: Run) -> None:
    schema = parse_address(postgres).schema
    printed = run("--store", f"{postgres}&password=secret", "init", "--json").stdout
    assert json.loads(printed)["made"] == [f"schema {schema}", f"tables in schema {schema}"]
    assert "secret" not in printed
    assert make_store(postgres) == []


def test_without_create_a_missing_store_is_refused(postgres: str) -> None:
    with pytest.raises(Invalid, match="stratalog init"):
        stratalog.open(postgres, create=False)


def test_a_schema_may_have_any_name(postgres: str) -> None:
    with stratalog.open(postgres.partition("&schema=")[0] + "&schema=My%20%22Plans%22%3B") as store:
        assert store.create("acme", "plan").mutate("inc", {"key": "n"}).version == 1


def test_concurrent_opens_of_a_missing_store_all_succeed(postgres: str) -> None:
    def create(number: int) -> int | None:
        with stratalog.open(postgres) as store:
            return store.create("acme", f"plan-{number}").mutate("inc", {"key": "n"}).version

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(create, range(8))) == [1] * 8


def test_tables_of_a_newer_version_are_refused(store: PostgresStore, connection: Any, postgres: str) -> None:
    connection.execute("UPDATE store_format SET version = 2")
    for create in (True, False):
        with pytest.raises(Unsupported):
            stratalog.open(postgres, create=create)


def test_a_role_that_may_only_read_and_write_opens_the_store(
    store: PostgresStore, connection: Any, postgres: str
) -> None:
    schema = parse_address(postgres).schema
    connection.execute(f"CREATE ROLE clerk_{schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO clerk_{schema}")
    connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO clerk_{schema}")
    with stratalog.open(postgres.replace("stratalog@", f"clerk_{schema}@")) as opened:
        assert opened.create("acme", "plan").mutate("inc", {"key": "n"}).version == 1


def test_a_store_shows_no_password(postgres: str) -> None:
    with stratalog.open(f"{postgres}&password=secret") as store:
        assert "secret" not in repr(store)
        assert parse_address(postgres).schema in repr(store)


def test_a_url_that_libpq_does_not_accept_is_refused(postgres: str) -> None:
    with pytest.raises(Invalid, match="libpq"):
        stratalog.open(f"{postgres}&no_such_part=1")


def test_a_missing_server_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        stratalog.open(f"postgresql://ada:secret@/plans?host={tmp_path}")


@pytest.mark.parametrize("level", ["on", "local"])
def test_an_open_session_keeps_its_durability_if_the_server_loads_another_configuration(
    store: PostgresStore, connection: psycopg.Connection[Any], level: str
) -> None:
    def load(change: str, value: str) -> None:
        connection.execute(f"ALTER SYSTEM {change}")
        connection.execute("SELECT pg_reload_conf()")
        until(lambda: connection.execute(SHOW_DURABILITY).fetchall() == [(value,)])

    load(f"SET synchronous_commit TO {level}", level)
    try:
        with closing(store._connections.connect()) as session:
            load("SET synchronous_commit TO off", "off")
            assert session.execute(SHOW_DURABILITY).fetchall() == [(level,)]
    finally:
        load("RESET synchronous_commit", "on")


def test_sessions_replace_only_the_setting_off_of_synchronous_commit(
    store: PostgresStore, connection: Any, postgres: str
) -> None:
    connection.execute("ALTER ROLE stratalog SET synchronous_commit TO off")
    try:
        with closing(store._connections.connect()) as session:
            assert session.execute(SHOW_DURABILITY).fetchall() == [("on",)]
        connection.execute("ALTER ROLE stratalog SET synchronous_commit TO remote_apply")
        with closing(store._connections.connect()) as session:
            assert session.execute(SHOW_DURABILITY).fetchall() == [("remote_apply",)]
    finally:
        connection.execute("ALTER ROLE stratalog RESET synchronous_commit")


def test_a_read_waits_for_a_free_connection_for_a_bounded_time(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [store._connections._take() for _ in range(POSTGRES_CONNECTIONS_MAX)]
    monkeypatch.setattr(postgres_connections, "POSTGRES_WAIT_SECONDS_MAX", 0.2)
    with pytest.raises(Unavailable, match="no connection to the database was free in time"):
        store.index.get("p", "s")
    for connection in taken:
        store._connections._give_back(connection)
    monkeypatch.undo()
    assert store.index.get("p", "s") is None


@pytest.mark.slow
def test_a_store_outlives_a_restart_of_the_server(restarted: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_connections, "POSTGRES_WAIT_SECONDS_MAX", 0.2)
    settings = LogSettings(append_seconds_max=0.2)
    with stratalog.open(restarted.url, settings=settings) as store:
        document = store.create("acme", "plan")
        document.mutate("inc", {"key": "n"})
        for mode in ("fast", "immediate"):
            restarted.stop(mode)
            with pytest.raises(Unavailable, match="cannot be reached"):
                next(iter(document.log.read()))
            with pytest.raises(Unavailable, match="cannot be reached"):
                store.records("acme").put("r", b"body")
            restarted.start()
            document.mutate("inc", {"key": "n"})
        assert document.get("n") == 3


@pytest.mark.slow
def test_tcp_keepalive_is_set_to_detect_a_vanished_host_within_30_seconds() -> None:
    """Without a keepalive, a commit to a vanished host would block its process for `POSTGRES_ANSWER_SECONDS_MAX`."""
    with reserved_ports(1) as (port,), postgres_server(["-c listen_addresses=127.0.0.1", f"-p {port}"]):
        address = parse_address(f"postgresql://stratalog@127.0.0.1:{port}/postgres")
        with closing(PostgresStore(address, SystemClock())) as opened:
            opened.create()
            with closing(opened._connections.connect()) as session, socket.socket(fileno=dup(session.fileno())) as tcp:
                assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                idle, interval, count = (tcp.getsockopt(socket.IPPROTO_TCP, name) for name in KEEPALIVE)
        assert idle + interval * count <= 30


@pytest.mark.slow
def test_a_server_starts_if_the_temporary_folder_has_a_long_path_with_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory() as folder:
        long = Path(folder, "a folder" * 20)
        long.mkdir()
        for reached in (folder, long):
            Path(reached).chmod(0o755)
        monkeypatch.setattr("tempfile.tempdir", str(long))
        with postgres_server(["-c fsync=off"]) as server, stratalog.open(server.url) as store:
            assert store.create("acme", "plan").version == 0
            assert [path.name.startswith("stratalog-") for path in long.iterdir()] == [True]


def test_an_idle_connection_that_the_server_ended_is_replaced(store: PostgresStore, connection: Any) -> None:
    for number in range(3):
        store.index.commit([Put(Item("p", f"{number}", {}), Absent())])
        assert store.index.get("p", f"{number}")
        _end_sessions(connection)
    store.queue.send("g", [b"m"])
    assert len(list(store.index.query("p"))) == 3


def test_a_connection_that_breaks_during_an_insert_leaves_its_outcome_unknown(
    store: PostgresStore, connection: Any
) -> None:
    """The commit waits for the lock of another session's uncommitted item. Meanwhile the commit's session ends."""
    error = _broken(connection, lambda: store.index.commit([Put(Item("p", "s", {}), Absent())]))
    assert isinstance(error, OutcomeUnknown)
    assert store.index.get("p", "s") is None


def test_a_connection_that_breaks_before_the_commit_is_sent_has_written_nothing(
    store: PostgresStore, connection: Any
) -> None:
    error = _broken(connection, lambda: store.index.commit([Put(Item("p", "s", {}))]))
    assert isinstance(error, Unavailable)
    assert store.index.get("p", "s") is None


def test_a_commit_fails_its_condition_if_another_session_deletes_the_item_meanwhile(
    store: PostgresStore, connection: Any
) -> None:
    store.index.commit([Put(Item("p", "s", {"n": 1}))])
    connection.execute("BEGIN")
    connection.execute("SELECT 1 FROM items FOR UPDATE")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: store.index.commit([Put(Item("p", "s", {"n": 2}), Equals("n", 1))]))
        _wait_for_lock(connection, running)
        connection.execute("DELETE FROM items")
        connection.execute("COMMIT")
        error = running.exception(timeout=60)
    assert isinstance(error, ConditionFailed)
    assert error.items == {0: None}
    assert list(store.index.query("p")) == []


def test_two_commits_that_each_require_the_absence_of_the_other_never_both_succeed(postgres: str) -> None:
    """Each of two commits puts the item that the other commit requires to be absent. At most one commit may succeed."""
    address = parse_address(postgres)
    stores = [PostgresStore(address, SystemClock()) for _ in range(2)]
    stores[0].create()
    barrier = threading.Barrier(2)

    def work(number: int) -> list[bool]:
        succeeded = []
        for turn in range(100):
            own, is_second = f"{turn}-{number}", f"{turn}-{1 - number}"
            barrier.wait(SECONDS_MAX)
            try:
                stores[number].index.commit([Put(Item("p", own, {})), Check("p", is_second, Absent())])
                succeeded.append(True)
            except ConditionFailed:
                succeeded.append(False)
        return succeeded

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(work, range(2))
    for opened in stores:
        opened.close()
    assert all(is_first != is_second for is_first, is_second in zip(first, second, strict=True))


def test_commits_that_lock_the_same_items_in_another_order_all_succeed(postgres: str) -> None:
    address = parse_address(postgres)
    stores = [PostgresStore(address, SystemClock()) for _ in range(2)]
    stores[0].create()
    names = [f"{number}" for number in range(8)]
    stores[0].index.commit([Put(Item("p", name, {"n": 0})) for name in names])

    def work(number: int) -> None:
        for turn in range(50):
            order = names if number else [*reversed(names)]
            writes: list[Write] = [Put(Item("p", name, {"n": turn})) for name in order]
            stores[number].index.commit([*writes, Delete("q", "x")])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    for opened in stores:
        opened.close()


def test_an_append_whose_check_fails_reports_the_items_of_all_conditions(store: PostgresStore) -> None:
    store.index.commit([Put(Item("p", "1", {"h": HASH}), Absent())])
    put = Put(Item("p", "2", {"h": OTHER}), Absent())
    store.index.commit([put, Check("p", "1", Equals("h", HASH))])
    with pytest.raises(ConditionFailed) as failed:
        store.index.commit([put, Check("p", "1", Equals("h", OTHER))])
    assert failed.value.items == {0: Item("p", "2", {"h": OTHER}), 1: Item("p", "1", {"h": HASH})}


def test_threads_that_commit_together_share_transactions(store: PostgresStore, connection: Any) -> None:
    """The commit of the first thread waits for a lock until the 31 others wait for its end."""

    def commit(number: int) -> None:
        store.index.commit([Put(Item(f"p{number}", "3", {}), Absent()), Check("p", "2", Equals("h", HASH))])

    store.index.commit([Put(Item("p", "2", {"h": HASH}))])
    before = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0]
    connection.execute("BEGIN")
    connection.execute("SELECT FROM items WHERE partition = 'p' FOR UPDATE")
    with ThreadPoolExecutor(32) as pool:
        first = pool.submit(commit, 0)
        _wait_for_lock(connection, first)
        others = [pool.submit(commit, number) for number in range(1, 32)]
        until(lambda: len(store.index._index._writer._group_commit.waiting) == 31)
        connection.execute("ROLLBACK")
        for running in (first, *others):
            running.result(SECONDS_MAX)
    after = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0]
    assert after - before < 31 / 2


def test_a_group_may_contain_the_same_item_with_and_without_a_check(store: PostgresStore) -> None:
    """All commits put the same item. Half of them also check another item."""
    put = Put(Item("p", "2", {"h": OTHER}), Absent())
    store.index.commit([Put(Item("p", "1", {"h": HASH}))])
    outcomes: list[bool] = []

    def commit(number: int) -> None:
        writes: list[Write] = [put, Check("p", "1", Equals("h", HASH))] if number % 2 else [put]
        try:
            store.index.commit(writes)
            outcomes.append(True)
        except ConditionFailed:
            outcomes.append(False)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(commit, range(32)))
    assert sorted(outcomes) == [False] * 31 + [True]


def test_a_failed_commit_of_a_group_does_not_fail_the_other_commits(store: PostgresStore) -> None:
    store.index.commit([Put(Item("p", "taken", {}))])
    outcomes: list[str] = []

    def commit(number: int) -> None:
        sort = "taken" if number % 4 == 0 else f"{number}"
        try:
            store.index.commit([Put(Item("p", sort, {}), Absent())])
            outcomes.append("done")
        except ConditionFailed as exc:
            outcomes.append(f"{sorted(exc.items)}")

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(commit, range(64)))
    assert sorted(outcomes) == ["[0]"] * 16 + ["done"] * 48
    assert len(list(store.index.query("p"))) == 49


def test_a_commit_that_waits_for_a_lock_has_inserted_no_row(store: PostgresStore, connection: Any) -> None:
    """The other session locks entry 1, then inserts entry 2. If the commit began with entry 2, both would deadlock."""
    store.index.commit([Put(Item("p", "1", {"h": HASH})), Put(Item("q", "1", {}))])
    append = [Put(Item("p", "2", {}), Absent()), Check("p", "1", Equals("h", HASH)), Delete("q", "1")]
    connection.execute("BEGIN")
    connection.execute("SELECT FROM items WHERE partition = 'p' AND sort = '1' FOR SHARE")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(store.index.commit, append)
        _wait_for_lock(connection, running)
        connection.execute("SET LOCAL lock_timeout = '200ms'")
        connection.execute("INSERT INTO items SELECT partition, '2', body FROM items WHERE partition = 'p'")
        connection.execute("COMMIT")
        with pytest.raises(ConditionFailed):
            running.result(SECONDS_MAX)


@pytest.mark.parametrize("expected", [HASH, OTHER])
def test_an_insert_of_several_rows_checks_the_entry_that_the_transaction_before_it_has_written(
    store: PostgresStore, connection: Any, expected: bytes
) -> None:
    """The other session changes the hash of entry p/1 from `HASH` to `OTHER`."""
    store.index.commit([Put(Item("p", "1", {"h": HASH})), Put(Item("q", "1", {"h": OTHER}))])
    puts = [Put(Item("p", sort, {}), Absent()) for sort in ("2", "3")]
    with ThreadPoolExecutor(1) as pool:
        connection.execute("BEGIN")
        connection.execute(
            "UPDATE items SET body = (SELECT body FROM items WHERE partition = 'q') WHERE partition = 'p'"
        )
        running = pool.submit(store.index.commit, [*puts, Check("p", "1", Equals("h", expected))])
        _wait_for_lock(connection, running)
        connection.execute("COMMIT")
        error = running.exception(SECONDS_MAX)
    assert isinstance(error, ConditionFailed) if expected == HASH else error is None
    assert len(list(store.index.query("p"))) == (1 if expected == HASH else 3)


def test_a_group_of_appends_that_waits_for_a_lock_has_inserted_no_row(store: PostgresStore, connection: Any) -> None:
    """The other session locks an entry of log q, and then inserts the next entry of log p."""
    for log in ("p", "q", "r"):
        store.index.commit([Put(Item(log, "2", {"h": HASH}))])

    def append(log: str) -> None:
        store.index.commit([Put(Item(log, "3", {}), Absent()), Check(log, "2", Equals("h", HASH))])

    connection.execute("BEGIN")
    connection.execute("SELECT FROM items WHERE partition = 'q' FOR UPDATE")
    connection.execute("SAVEPOINT first")
    connection.execute("SELECT FROM items WHERE partition = 'r' FOR UPDATE")
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(append, "r")
        _wait_for_lock(connection, first)
        group = [pool.submit(append, log) for log in ("p", "q")]
        until(lambda: len(store.index._index._writer._group_commit.waiting) == 2)
        connection.execute("ROLLBACK TO first")
        first.result(SECONDS_MAX)
        _wait_for_lock(connection, group[1])
        connection.execute("SET LOCAL lock_timeout = '200ms'")
        connection.execute("INSERT INTO items SELECT partition, '3', body FROM items WHERE partition = 'p'")
        connection.execute("ROLLBACK")
        for running in group:
            running.result(SECONDS_MAX)
    assert [item.sort for log in ("p", "q") for item in store.index.query(log)] == ["2", "3", "2", "3"]


def _broken(connection: Any, commit: Callable[[], None]) -> BaseException | None:
    """Run a commit of item p/s that waits for a lock.

    End the commit's session meanwhile, and return the commit's error.
    """
    connection.execute("BEGIN")
    connection.execute("INSERT INTO items VALUES ('p', 's', 'x')")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(commit)
        _wait_for_lock(connection, running)
        _end_sessions(connection)
        error = running.exception(timeout=60)
    connection.execute("ROLLBACK")
    return error


def _wait_for_lock(connection: Any, running: Future[None]) -> None:
    """Wait until the commit ``running`` waits for a lock."""
    until(lambda: running.done() or connection.execute(LOCK_WAITS).fetchone()[0] > 0)
    assert not running.done()


def _end_sessions(connection: Any) -> None:
    """End all other sessions of stores, and wait for their end."""
    others = "FROM pg_stat_activity WHERE application_name = 'stratalog'"
    connection.execute(f"SELECT pg_terminate_backend(pid, 10000) {others}")


def test_a_listing_of_dead_letters_accepts_a_start_that_is_not_a_number(store: PostgresStore) -> None:
    assert list(store.queue.dead_letters(after="order/17")) == []


class Gate:
    """A lock whose first holder waits until ``meanwhile`` has run."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._left = [meanwhile]

    def __enter__(self) -> None:
        while self._left:
            self._left.pop()()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_first_read_concurrent_with_close_opens_no_pool() -> None:
    connections = PostgresConnections("postgresql://127.0.0.1:1/x", "public")
    connections._opening = Gate(connections.close)  # type: ignore[assignment]
    with pytest.raises(Closed):
        connections.read("SELECT 1", ())
    assert connections._pool is None


@pytest.mark.parametrize("call", [PostgresConnections.renew, lambda connections: connections._give_back(Ended())])
def test_a_call_concurrent_with_close_raises_no_error(call: Callable[[PostgresConnections], object]) -> None:
    """The pool disappears just after the call has looked at it."""

    class Closing(PostgresConnections):
        @property
        def _pool(self) -> Any:  # type: ignore[override]
            pool, self.pool = self.pool, None
            return pool

        @_pool.setter
        def _pool(self, pool: Any) -> None:
            self.pool = pool

    connections = Closing("postgresql://127.0.0.1:1/x", "public")
    connections.pool = Ended()
    call(connections)


class Ended:
    """A pool or connection that takes any call."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def test_a_listing_names_an_item_or_blob_whose_key_is_not_utf8_and_has_all_others(store: PostgresStore) -> None:
    """Two neighbours have damaged keys. Each limit ends the listing at another item."""
    store.index.commit([Put(Item("p", sort, {})) for sort in "1234"])
    keys = sorted(f"acme/{sha256(body).hex()}" for body in (b"1", b"2"))
    for body in (b"1", b"2"):
        store.blobs.put(f"acme/{sha256(body).hex()}", body)
    with closing(store._connections.connect()) as connection:
        connection.execute("UPDATE items SET sort = sort || '\\xff'::bytea WHERE sort IN ('2', '3')")
        connection.execute("UPDATE blobs SET key = key || '\\xff'::bytea WHERE key = %s", (keys[0].encode(),))
    for reverse in (False, True):
        listed = list(list_items(store.index, "p", reverse=reverse))
        assert sorted((line.sort, line.item is None) for line in listed) == [
            ("1", False),
            ("2\\xff", True),
            ("3\\xff", True),
            ("4", False),
        ]
        for limit in range(5):
            assert list(list_items(store.index, "p", reverse=reverse, limit=limit)) == listed[:limit]
    named = list[str]()
    assert [stat.key for stat in store.blobs.list("acme/", damaged=named.append)] == keys[1:]
    assert named == [f"{keys[0]}\\xff"]
