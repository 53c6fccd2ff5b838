"""Processes of the engine: their limits, the errors of callers when a process dies, and the end of each process."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import msgspec
import pytest

from apps.sheet.tests.helpers import ENGINES, rows
from stratalog.errors import Closed, Invalid, LimitExceeded, StratalogError, Unavailable
from stratalog.store import open_store
from stratalog_sheet import Engine, EnginePool, EngineSettings, Sheets, engine_files
from stratalog_sheet.engine import install_engine
from stratalog_sheet.pool import EngineNeeded
from stratalog_sheet.state import BLANK
from tests.deep_folders import below_missing_folders
from tests.processes import start
from tests.threads import CallThread, join_all, start_all, until

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 120
LONG = 10**7
BUSY_SECONDS = 0.05


@pytest.fixture(autouse=True)
def installed() -> None:
    install_engine()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(settings=ENGINES)
    yield engine
    engine.close()


@pytest.fixture
def made() -> Iterator[Callable[..., EnginePool]]:
    """Return a function that makes pools. The fixture closes the pools after the test."""
    pools: list[EnginePool] = []

    def make(**settings: Any) -> EnginePool:
        pools.append(EnginePool(msgspec.structs.replace(ENGINES, **settings)))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def message(quantity: int) -> dict[str, Any]:
    return {
        "type": "REMOTE_REVISION",
        "version": 1,
        "serverRevisionId": "first",
        "nextRevisionId": "second",
        "clientId": "somebody",
        "commands": [rows(1, quantity)],
    }


def opened(engine: Engine, quantity: int = 1) -> Any:
    """Open a model with a message that adds this number of rows."""
    data = {**BLANK, "revisionId": "first"}
    return engine.call("open", key="k", data=data, messages=[message(quantity)], client="k")


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_limit(engine: Engine) -> int:
    """Return the CPU seconds that the operating system allows the engine's process in all."""
    limits = Path(f"/proc/{engine.pid}/limits").read_text()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max cpu time"))
    return int(line.split()[3])


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def await_end(pid: int) -> None:
    """Wait until a process has ended. The process is not a child of this process."""
    until(lambda: not is_running(pid))


def once_busy(engine: Engine, act: Callable[[], object]) -> CallThread:
    """Start a thread that acts once the next call of the engine has computed for a while."""
    assert engine.pid is not None
    pid, begun = engine.pid, cpu_seconds(engine.pid)

    def wait_and_act() -> None:
        until(lambda: cpu_seconds(pid) >= begun + BUSY_SECONDS)
        act()

    (thread,) = start_all([wait_and_act])
    return thread


def kill(engine: Engine) -> None:
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGKILL)


# Limits


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"call_cpu_seconds_max": 1, "call_seconds_max": 300}, "too long"),
        ({"heap_bytes_max": 60_000_000, "call_seconds_max": 300}, "out of memory"),
        ({"process_bytes_max": 50_000_000, "call_seconds_max": 300}, "out of memory"),
    ],
    ids=["CPU", "heap", "process"],
)
def test_a_call_beyond_a_time_or_memory_limit_ends_the_engine(settings: dict[str, Any], what: str) -> None:
    with closing(Engine(settings=EngineSettings(**settings))) as engine:
        with pytest.raises(LimitExceeded, match=what) as caught:
            opened(engine, LONG)
        assert caught.value.details["call"] == "open"
        assert engine.has_ended
        with pytest.raises(Unavailable):
            opened(engine)


def test_a_call_beyond_its_time_on_a_loaded_machine_may_be_tried_again() -> None:
    with closing(Engine(settings=EngineSettings(call_seconds_max=0.3))) as engine:
        with pytest.raises(Unavailable, match="too long; try again"):
            opened(engine, LONG)
        assert engine.has_ended


def test_a_process_that_does_not_answer_is_killed() -> None:
    """V8 does not check its own timeout everywhere, so the caller has a timeout too."""
    with closing(Engine(settings=EngineSettings(call_seconds_max=0.1))) as engine:
        engine.start()
        engine._await_ready()
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGSTOP)
        with pytest.raises(Unavailable, match="too long"):
            opened(engine)
        assert engine.has_ended
        assert not is_running(engine.pid)


def test_a_call_on_a_workbook_that_does_not_answer_is_killed_at_the_limit_of_workbooks() -> None:
    with closing(Engine(settings=EngineSettings(workbook_seconds_max=0.1))) as engine:
        opened(engine)
        assert engine.pid is not None
        os.kill(engine.pid, signal.SIGSTOP)
        with pytest.raises(Unavailable, match="too long") as caught:
            engine.call("brokenFormulas", key="k", limit=1)
        assert caught.value.details == {"call": "brokenFormulas", "limit_seconds": 0.1, "ended_by": "SIGKILL"}
        assert engine.has_ended
        assert not is_running(engine.pid)


def test_a_call_on_a_workbook_has_a_cpu_limit_of_its_own() -> None:
    with closing(Engine(settings=EngineSettings(call_cpu_seconds_max=100, workbook_cpu_seconds_max=1000))) as engine:
        opened(engine)
        limits = [cpu_limit(engine)]
        engine.call("brokenFormulas", key="k", limit=1)
        limits.append(cpu_limit(engine))
    # Each limit is the CPU time so far, a few seconds, and the limit of the call.
    assert [round(limit, -2) for limit in limits] == [100, 1000]


def test_the_cpu_limit_applies_to_each_call_separately() -> None:
    with closing(Engine(settings=msgspec.structs.replace(ENGINES, call_cpu_seconds_max=2))) as engine:
        opened(engine)
        assert engine.pid is not None
        # The engine rounds the limit up to whole seconds. One limit for all calls would end the engine before 3
        # seconds. Each call takes a small part of the limit on any machine, so the number of calls varies.
        while cpu_seconds(engine.pid) < 3:
            opened(engine, 10_000)


def test_an_answer_beyond_the_size_limit_ends_the_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(engine)
    monkeypatch.setattr("stratalog_sheet.engine.SHEET_ANSWER_BYTES_MAX", 100)
    with pytest.raises(LimitExceeded, match="is too large"):
        engine.call("export", key="k")
    assert engine.has_ended


def test_an_engine_has_a_lower_scheduling_priority_than_the_server(engine: Engine) -> None:
    with pytest.raises(Invalid):
        engine.call("export", key="none")
    assert engine.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, engine.pid) >= os.getpriority(os.PRIO_PROCESS, 0) + 10


def test_a_refused_call_leaves_the_engine_running(engine: Engine) -> None:
    with pytest.raises(Invalid, match="no model is open"):
        engine.call("export", key="none")
    assert opened(engine) == {"revision": "second"}


def test_an_engine_does_not_inherit_secrets_of_the_environment(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    engine.start()
    engine._await_ready()
    assert b"secret" not in Path(f"/proc/{engine.pid}/environ").read_bytes()


# Deaths


def test_a_killed_engine_raises_a_typed_error_and_the_next_call_works(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=1)
    with pool.lend("a") as models:
        opened(models.engine)
        killing = once_busy(models.engine, lambda: kill(models.engine))
        with pytest.raises(Unavailable, match=r"died; try again.*SIGKILL"):
            opened(models.engine, LONG)
        join_all([killing])
    with pool.lend("a") as models:
        assert opened(models.engine) == {"revision": "second"}
    assert pool.counts().deaths == 1


def test_an_idle_engine_that_was_killed_is_not_lent(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=1)
    with pool.lend("a") as models:
        opened(models.engine)
        process = models.engine._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pool.lend("a") as models:
        assert opened(models.engine) == {"revision": "second"}


def test_an_interrupt_during_the_loan_of_an_engine_leaves_the_engine_idle(
    made: Callable[..., EnginePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = made(engines_max=1, wait_seconds_max=0)
    interrupts = [KeyboardInterrupt()]
    monkeypatch.setattr(pool, "_start_ahead", lambda: interrupts and raise_(interrupts.pop()))
    with pytest.raises(KeyboardInterrupt), pool.lend("a"):
        pass
    with pool.lend("a") as models:
        assert opened(models.engine) == {"revision": "second"}
    assert pool.counts().lent == 0


def raise_(error: BaseException) -> None:
    raise error


def test_a_started_pool_has_a_spare_engine_after_an_engine_dies(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=2)
    pool.start()
    with pool.lend("a") as models:
        assert pool.counts().engines == 2
        kill(models.engine)
        with pytest.raises(Unavailable):
            opened(models.engine, LONG)
    assert (pool.counts().engines, pool.counts().lent) == (1, 0)
    with pool.lend("a"):
        assert pool.counts().starts == 3


@pytest.mark.parametrize("failing", ["socketpair", "own_file"])
def test_a_sheet_stays_usable_after_an_engine_start_fails_for_lack_of_file_descriptors(
    failing: str, made: Callable[..., EnginePool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> NoReturn:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    pool = made(engines_max=2)
    pool.start()
    owner = {"socketpair": socket, "own_file": engine_files}[failing]
    with monkeypatch.context() as patched:
        patched.setattr(owner, failing, none_left)
        # The pool can start no engine ahead for "a", and no engine for "b".
        with pool.lend("a"), pytest.raises(Unavailable, match="cannot be started"), pool.lend("b"):
            pass
    assert pool.counts().lent == 0
    with pool.lend("a") as models:
        assert opened(models.engine) == {"revision": "second"}


def test_a_pool_ends_its_engines_when_it_is_closed(made: Callable[..., EnginePool]) -> None:
    pool = made()
    with pool.lend("a") as models:
        opened(models.engine)
    pids = pool.pids()
    pool.close()
    assert pids
    assert not any(map(is_running, pids))
    with pytest.raises(Closed), pool.lend("a"):
        pass


def test_a_closed_pool_starts_no_engine(made: Callable[..., EnginePool]) -> None:
    pool = made()
    pool.close()
    with pytest.raises(Closed):
        pool.start()
    assert (pool.counts().engines, pool.counts().starts) == (0, 0)


def test_a_call_that_runs_fails_when_its_pool_is_closed(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=1)
    with pool.lend("a") as models:
        opened(models.engine)
        closing = once_busy(models.engine, pool.close)
        with pytest.raises(Unavailable):
            opened(models.engine, LONG)
        join_all([closing])


def test_a_garbage_collected_pool_leaves_no_process() -> None:
    pool = EnginePool(msgspec.structs.replace(ENGINES, engines_max=1))
    with pool.lend("a") as models:
        opened(models.engine)
    (pid,) = pool.pids()
    del pool, models
    gc.collect()
    assert not is_running(pid)


PARENT = """
import sys, time
from apps.sheet.tests.helpers import ENGINES
from stratalog_sheet import EnginePool, Sheets
from stratalog.store import open_store
sheets = Sheets(open_store("memory:"), EnginePool(ENGINES))
sheets.engines.start()
sheet = sheets.create("acme", "plan")
sheet.set("A1", "=1+1")
assert sheet.get("A1").value == 2
assert not any(name.startswith("py_mini_racer") for name in sys.modules)
print(*sheets.engines.pids(), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda end: end.name)
def test_engines_end_with_their_parent_process_which_never_loads_v8(end: signal.Signals) -> None:
    with start([sys.executable, "-c", PARENT]) as parent:
        pids = [int(word) for word in parent.read_line().split()]
        assert pids
        parent.signal(end)
        parent.end(expected=None)
    for pid in pids:
        await_end(pid)


def test_a_busy_engine_ends_when_its_connection_is_closed() -> None:
    engine = Engine(settings=ENGINES)
    engine.start()
    engine._await_ready()
    assert engine.pid is not None
    assert engine._line is not None
    pid, line = engine.pid, engine._line
    closing = once_busy(engine, lambda: line.shutdown(socket.SHUT_RDWR))
    with pytest.raises(StratalogError):
        opened(engine, LONG)
    join_all([closing])
    await_end(pid)


# Callers


def test_a_pool_lends_no_engine_until_the_outermost_refusing_block_ends(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=1)
    with pool.without():
        with pool.without(), pytest.raises(EngineNeeded), pool.lend("a"):
            pass
        with pytest.raises(EngineNeeded), pool.lend("a"):
            pass
    with pool.lend("a"):
        assert pool.counts().lent == 1


def test_sheets_run_in_parallel_and_calls_of_one_sheet_do_not(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=2, wait_seconds_max=0.05)
    with ThreadPoolExecutor(1) as other, pool.lend("a") as ours:
        assert other.submit(lent_pid, pool, "b").result() != ours.engine.pid
        with pytest.raises(Unavailable, match="busy"):
            other.submit(lent_pid, pool, "a").result()


def test_a_call_beyond_the_limit_of_engines_is_refused_as_busy(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=1, wait_seconds_max=0.05)
    with ThreadPoolExecutor(1) as other, pool.lend("a"):
        with pytest.raises(Unavailable, match="busy"):
            other.submit(lent_pid, pool, "b").result()
        assert pool.counts().engines == 1


def test_a_caller_beyond_the_limit_of_waiting_callers_is_refused(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=1, waiting_max=0)
    with ThreadPoolExecutor(1) as other, pool.lend("a"), pytest.raises(Unavailable, match="too many"):
        other.submit(lent_pid, pool, "a").result()


def test_a_later_caller_does_not_overtake_a_waiting_caller(made: Callable[..., EnginePool]) -> None:
    pool, order, taken = made(engines_max=2, wait_seconds_max=SECONDS_MAX), [], Event()

    def wait_first() -> None:
        with pool.lend("first"):
            order.append("first")
            assert taken.wait(SECONDS_MAX)

    with ExitStack() as lent:
        for owner in ("a", "b"):
            lent.enter_context(pool.lend(owner))
        waiting = start_all([wait_first])
        until(lambda: len(pool._waiting) == 1)
        with pool._freed:  # so that the waiting caller sees the idle engines only after the later caller has seen them
            lent.close()
            with pool.lend("later"):
                order.append("later")
                taken.set()
    join_all(waiting)
    assert order == ["first", "later"]


def test_a_caller_that_waits_for_a_lent_sheet_holds_back_no_caller_of_another_sheet(
    made: Callable[..., EnginePool],
) -> None:
    pool = made(engines_max=2, wait_seconds_max=SECONDS_MAX)
    with pool.lend("a"):
        waiting = start_all([lambda: lent_pid(pool, "a")])
        until(lambda: len(pool._waiting) == 1)
        with pool.lend("b"):
            assert len(pool._waiting) == 1
    join_all(waiting)


def test_a_sheet_gets_the_engine_that_has_its_model_open(made: Callable[..., EnginePool]) -> None:
    pool = made(engines_max=2)
    with open_store("memory:") as store:
        first, second = (Sheets(store, pool).create("acme", name) for name in ("first", "second"))
        with ThreadPoolExecutor(1) as other, pool.lend(first.log.record.prefix):
            first.sheets()
            other.submit(second.sheets).result()
        for sheet in (first, second, second, first, first, second):
            sheet.sheets()
            with pool.lend(sheet.log.record.prefix) as models:
                assert models.holds(sheet.log.record.prefix)


def lent_pid(pool: EnginePool, owner: str) -> int | None:
    with pool.lend(owner) as models:
        opened(models.engine)
        return models.engine.pid


def test_many_threads_make_and_use_engines_at_once(made: Callable[..., EnginePool]) -> None:
    """If six threads of one process each made a V8 isolate, the process would crash."""
    pool = made(engines_max=3)
    with ThreadPoolExecutor(6) as threads:
        pids = set(threads.map(lambda number: lent_pid(pool, f"sheet-{number}"), range(60)))
    assert len(pids) <= 3
    assert not any(name.startswith("py_mini_racer") for name in sys.modules)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_starts_its_own_engines_and_leaves_the_engines_of_its_parent(
    made: Callable[..., EnginePool],
) -> None:
    pool = made(engines_max=1)
    with pool.lend("a") as models:
        opened(models.engine)
        mine = models.engine.pid
        pool._freed.acquire()  # as if another thread held the lock
        try:
            fork = os.fork()
            if not fork:
                _end_as_fork(pool, mine)
        finally:
            pool._freed.release()
        assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
        assert opened(models.engine) == {"revision": "second"}


def _end_as_fork(pool: EnginePool, of_parent: int | None) -> NoReturn:
    code = 2
    try:
        signal.alarm(SECONDS_MAX)
        pid = lent_pid(pool, "b")
        gc.collect()
        pool.close()
        code = int(pid == of_parent)
    finally:
        os._exit(code)


def test_an_installation_makes_many_missing_folders_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(folder: Path) -> NoReturn:
        raise Unavailable("the folder is made", made=folder.is_dir())

    monkeypatch.setattr(engine_files, "_npm", lambda: "npm")
    monkeypatch.setattr(engine_files, "_installing", stop)
    with below_missing_folders(tmp_path) as deep, pytest.raises(Unavailable, match="made=True"):
        engine_files.install_engine(folder=deep / "engine")
