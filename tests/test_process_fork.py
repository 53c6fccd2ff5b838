"""A forked child that uses a handle of its parent gets the error Closed, even if threads held locks at the fork."""

from __future__ import annotations

import ast
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog.backends import sqlite_file
from stratalog.backends.memory import MemoryBlobs
from stratalog.backends.sqlite_file import SqliteFile
from stratalog.backups.repository import BackupRepository
from stratalog.client import Client
from stratalog.client import file as client_file
from stratalog.client.file import ClientFile
from stratalog.clock import SystemClock
from stratalog.codec import sha256
from stratalog.errors import Closed, Unavailable
from stratalog.group_commit import LEADER
from stratalog.log import Event
from stratalog.log.pending_entry import prepare_entry
from stratalog.process_fork import _Forks, _forks, delay_forks, leave_in_child
from stratalog.protocol.sync import Pull, Pulled, Push, Pushed
from tests.interrupts import Interrupter
from tests.processes import ROOT, run
from tests.sources import LIBRARY, PACKAGES, files, short_name

SECONDS_MAX = 60
RAISED_CLOSED, RETURNED, RAISED_OTHER = 3, 4, 5
FILES = [path for path in files(*PACKAGES) if LIBRARY / "testing" not in path.parents]
LOCKS = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
NO_HANDLES = {
    "apps/sheet/src/stratalog_sheet/engine.py": "the engine has its own child process",
    "apps/sheet/src/stratalog_sheet/http.py": "part of a server, which does not fork",
    "apps/sheet/src/stratalog_sheet/pool.py": "the pool starts empty in a child",
    "apps/sheet/src/stratalog_sheet/failed_versions.py": "part of a pool, which starts empty in a child",
    "apps/sheet/src/stratalog_sheet/warm_sheets.py": "part of a server, which does not fork",
    "src/stratalog/struct_types.py": "the types of a process; a child begins with a new lock",
    "src/stratalog/group_commit.py": "a queue in which only threads of the parent wait",
    "src/stratalog/process_fork.py": "the locks of the threads, for which a fork waits; a child begins with new ones",
}


def in_child(call: Callable[[], object]) -> int:
    """Run ``call`` in a forked child, and return the child's exit code. If the call hangs, a signal ends the child."""
    return end_of(fork(call))


def fork(call: Callable[[], object]) -> int:
    """Fork a child that runs ``call``, and return its process id."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_MAX)
        end = RAISED_OTHER
        try:
            call()
            end = RETURNED
        except Closed:
            end = RAISED_CLOSED
        finally:
            os._exit(end)
    return child


def end_of(child: int) -> int:
    """Wait for a child, and return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture(params=["memory:", "folder", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = request.getfixturevalue("postgres") if request.param == "postgres" else request.param
    with stratalog.open(tmp_path if url == "folder" else url) as opened:
        yield opened


CALLS: dict[str, Callable[[stratalog.Store, stratalog.Document], object]] = {
    "apply": lambda store, document: document.mutate("put", {"key": "a", "value": 1}),
    "get": lambda store, document: document.get("a"),
    "snapshot": lambda store, document: document.snapshot(),
    "history": lambda store, document: [*document.history("a")],
    "head": lambda store, document: document.log.head(),
    "append": lambda store, document: document.log.append(Event("e", 1)),
    "read": lambda store, document: [*document.log.read()],
    "entry": lambda store, document: document.log.entry(1),
    "open": lambda store, document: store.document("acme", "plan"),
    "create": lambda store, document: store.create("acme", "other"),
    "list": lambda store, document: [*store.list("acme")],
    "record": lambda store, document: store.records("acme").put("r", b"body"),
    "queue": lambda store, document: store.queue.send("g", [b"m"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_a_forked_child_raises_closed_though_another_thread_held_every_lock(
    store: stratalog.Store, name: str
) -> None:
    document = store.create("acme", "plan")
    document.mutate("put", {"key": "a", "value": 1})
    queue = store.queue
    queue.send("g", [b"m"])
    held = [
        document._writer._lock,
        document._snapshots._lock,
        document.log._appender.heads._lock,
        document._states._shared._lock,
        document.chunks._lock,
        store._lock,
        store._queue_lock,
    ]
    leadership = document.log._appender._group_commit._leadership
    leadership[LEADER] = prepare_entry(store.environment, "owner", [Event("e", 1)])
    for lock in held:
        lock.acquire()
    try:
        assert in_child(lambda: CALLS[name](store, document)) == RAISED_CLOSED
    finally:
        leadership.clear()
        for lock in held:
            lock.release()
    CALLS[name](store, document)


def test_a_forked_child_can_close_the_store_without_effect_on_its_parent(store: stratalog.Store) -> None:
    document = store.create("acme", "plan")
    assert in_child(store.close) == RETURNED
    assert document.mutate("put", {"key": "a", "value": 1}).status == "applied"


def test_a_forked_child_opens_a_store_for_itself(tmp_path: Path) -> None:
    with stratalog.open(tmp_path) as store:
        document = store.create("acme", "plan")

        def write() -> None:
            with stratalog.open(tmp_path) as own:
                own.document("acme", "plan").mutate("put", {"key": "a", "value": 1})

        assert in_child(write) == RETURNED
        assert document.get("a") == 1


def test_commits_of_a_forked_child_stay_after_its_parent_has_closed_the_store(tmp_path: Path) -> None:
    store = stratalog.open(tmp_path)
    store.create("acme", "plan")
    (opened, child_opened), (closed_now, parent_closed) = os.pipe(), os.pipe()

    def write() -> None:
        own = stratalog.open(tmp_path)
        document = own.document("acme", "plan")
        document.put("a", 1)
        os.write(child_opened, b"x")
        os.read(closed_now, 1)
        document.put("b", 2)

    child = fork(write)
    os.close(child_opened)
    os.read(opened, 1)
    store.close()
    os.write(parent_closed, b"x")
    assert end_of(child) == RETURNED
    with stratalog.open(tmp_path) as again:
        assert dict(again.document("acme", "plan").at()) == {"a": 1, "b": 2}


def test_a_fork_waits_for_a_commit_of_another_thread_so_the_child_can_write(tmp_path: Path) -> None:
    began, forking, ended = threading.Event(), threading.Event(), threading.Event()
    os.register_at_fork(before=forking.set)  # runs before the wait of the library, which registered earlier

    def commit(_: object) -> None:
        began.set()
        forking.wait(SECONDS_MAX)
        ended.set()

    with stratalog.open(tmp_path) as store:
        file = store.environment.index._file  # type: ignore[attr-defined]
        thread = threading.Thread(target=file.write, args=(commit,))
        thread.start()
        assert began.wait(SECONDS_MAX)

        def create() -> None:
            assert ended.is_set()
            with stratalog.open(tmp_path) as own:
                own.create("acme", "plan").put("a", 1)

        assert in_child(create) == RETURNED
        thread.join()
        assert store.document("acme", "plan").get("a") == 1


def test_a_fork_waits_for_a_transaction_of_a_client_so_the_child_can_open_its_file(tmp_path: Path) -> None:
    began, forking, ended = threading.Event(), threading.Event(), threading.Event()
    os.register_at_fork(before=forking.set)
    path = str(tmp_path / "client.sqlite")
    file = ClientFile(path)

    def write() -> None:
        with file.transaction():
            began.set()
            forking.wait(SECONDS_MAX)
            ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert began.wait(SECONDS_MAX)
    closed_now, parent_closed = os.pipe()

    def write_too() -> None:
        os.read(closed_now, 1)
        assert ended.is_set()
        with ClientFile(path).transaction():
            pass

    child = fork(write_too)
    thread.join()
    file.close()
    os.write(parent_closed, b"x")
    assert end_of(child) == RETURNED


def open_databases(folder: Path) -> list[str]:
    """Return the SQLite files below ``folder`` that this process has open. Other tests may have left files open."""
    paths = (os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.islink(entry.path))
    own = (path for path in paths if Path(path).is_relative_to(folder))
    return [path for path in own if ".sqlite" in path and not path.endswith(".lock")]


def no_database_is_open(folder: Path) -> None:
    assert open_databases(folder) == []


OPENERS = pytest.mark.parametrize(
    ("module", "open_file"),
    [(sqlite_file, lambda path: SqliteFile(path, SystemClock(), "full", None)), (client_file, ClientFile)],
    ids=["store", "client"],
)


@OPENERS
def test_a_child_that_is_forked_during_a_close_inherits_no_database(
    module: Any, open_file: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = open_file(str(tmp_path / "index.sqlite"))
    ends = list[int]()

    def fork_first() -> AbstractContextManager[object]:
        if not ends:
            ends.append(in_child(lambda: no_database_is_open(tmp_path)))
        return delay_forks()

    monkeypatch.setattr(module, "delay_forks", fork_first)
    file.close()
    assert ends == [RETURNED]


@OPENERS
def test_a_child_that_is_forked_during_an_open_inherits_no_database(
    module: Any, open_file: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, forking = threading.Event(), threading.Event()
    os.register_at_fork(before=forking.set)

    def wait_first(owner: Any) -> None:
        began.set()
        forking.wait(SECONDS_MAX)
        leave_in_child(owner)

    monkeypatch.setattr(module, "leave_in_child", wait_first)
    opened = list[Any]()
    thread = threading.Thread(target=lambda: opened.append(open_file(str(tmp_path / "index.sqlite"))))
    thread.start()
    assert began.wait(SECONDS_MAX)
    assert in_child(lambda: no_database_is_open(tmp_path)) == RETURNED
    thread.join()
    opened[0].close()


def test_a_fork_that_waits_for_another_fork_gives_its_locks_back() -> None:
    forks = _Forks()
    forks.take()
    lock, waits = forks._adding, threading.Event()

    class Waited:
        def acquire(self, timeout: float) -> bool:
            waits.set()
            return lock.acquire(timeout=timeout)

        def release(self) -> None:
            lock.release()

    def take_and_give_back() -> None:
        forks.take()
        forks.give_back()

    forks._adding = Waited()  # type: ignore[assignment]
    other = threading.Thread(target=take_and_give_back)
    other.start()
    assert waits.wait(SECONDS_MAX)
    forks.give_back()
    other.join()
    with ThreadPoolExecutor(1) as third:
        assert third.submit(lock.acquire, False).result()


@pytest.mark.parametrize("forker", ["the thread of the block", "another thread"])
def test_no_store_opens_in_a_child_whose_fork_interrupted_a_call_of_sqlite(
    tmp_path: Path, forker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stratalog.process_fork.FORK_WAIT_MS_MAX", 1)
    ends: list[int] = []

    def fail_to_open() -> None:
        with pytest.raises(Unavailable):
            stratalog.open(tmp_path)
        with pytest.raises(Unavailable):
            ClientFile(str(tmp_path / "client.sqlite"))

    def open_in_child() -> None:
        ends.append(in_child(fail_to_open))

    with delay_forks():
        if forker == "another thread":
            thread = threading.Thread(target=open_in_child)
            thread.start()
            thread.join()
        else:
            open_in_child()
    assert ends == [RETURNED]
    stratalog.open(tmp_path).close()
    assert in_child(lambda: stratalog.open(tmp_path).close()) == RETURNED


def test_an_interrupt_anywhere_in_a_fork_blocks_no_other_thread() -> None:
    """The test forks some hundred times. A fork of a small process takes a tenth of the time of a fork of pytest."""
    run([sys.executable, "-c", f"from {__name__} import interrupt_forks; interrupt_forks()"], cwd=ROOT)


def interrupt_forks() -> None:
    """Interrupt the functions that run at a fork, before each of their bytecodes in turn."""
    sys.unraisablehook = lambda _: None  # Python only reports an exception of such a function
    functions = [vars(_Forks)[name] for name in ("take", "_take", "give_back")]

    def enter() -> None:
        with delay_forks():
            pass

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        assert getattr(_forks.own, "taken", []) == []
        ended.append(child)

    ended = list[int]()
    with ThreadPoolExecutor(1) as other:
        other.submit(enter).result(SECONDS_MAX)
        for step in count():
            interrupter = Interrupter(step, functions)
            with interrupter.active():
                thread = threading.Thread(target=fork)
                thread.start()
                thread.join()
            assert len(ended) == step + 1
            other.submit(enter).result(SECONDS_MAX)
            if interrupter.victim is None:
                break


def test_a_backup_repository_in_a_forked_child_raises_closed() -> None:
    repository, key = BackupRepository(MemoryBlobs(SystemClock()), SystemClock()), sha256(b"copy").hex()
    with repository._lock:
        assert in_child(lambda: repository.put_copy(key, b"copy")) == RAISED_CLOSED
    assert in_child(repository.manifests) == RAISED_CLOSED
    repository.put_copy(key, b"copy")


class NoServer:
    """A transport without a server: a push or pull fails the test."""

    def push(self, push: Push) -> Pushed:
        raise AssertionError

    def pull(self, pull: Pull) -> Pulled:
        raise AssertionError

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def close(self) -> None:
        pass


@pytest.mark.parametrize("call", [lambda client: client.get("a"), Client.sync, lambda client: client.mutate("inc")])
def test_a_client_in_a_forked_child_raises_closed(call: Callable[[Client], object]) -> None:
    with Client(NoServer()) as client, client._changed, client._sync_cycle._turn:
        assert in_child(lambda: call(client)) == RAISED_CLOSED


@pytest.mark.parametrize("path", [path for path in FILES if short_name(path) not in NO_HANDLES], ids=short_name)
def test_every_lock_of_an_object_is_closed_in_a_child(path: Path) -> None:
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    for function in functions:
        assert locks_made(function, lock_names(tree)) <= closed(function), f"{path}:{function.lineno}"
    inside = {id(node) for function in functions for node in ast.walk(function)}
    outside = [node for node in ast.walk(tree) if id(node) not in inside]
    assert not list(locks_of(outside, lock_names(tree))), f"{path} has a lock outside of functions"


@pytest.mark.parametrize(
    ("statement", "made"),
    [
        ("self._a = threading.Lock()", {"_a"}),
        ("self._a = Lock()", {"_a"}),
        ("self._a = Guard()", {"_a"}),
        ("self._a = t.Lock()", {"_a"}),
        ("self._a: threading.Lock = threading.Lock()", {"_a"}),
        ("self._a = self._b = threading.Condition()", {"_a", "_b"}),
        ("self._a, self._b = threading.Lock(), 1", {"_a", "_b"}),
        ("self._a = given or threading.Lock()", {"_a"}),
        ("self._a = [threading.BoundedSemaphore(2)]", {"_a"}),
        ("self._a = defaultdict(threading.Lock)", {"_a"}),
        ("keep(self, threading.Lock())", {"keep(self, threading.Lock())"}),
        ("return threading.Lock()", {"return threading.Lock()"}),
        ("self._a = 1", set()),
        ("self._a: threading.Lock = given", set()),
        ("self._a = asyncio.Lock()", set()),
        ("self._a = Condition()", set()),
    ],
)
@pytest.mark.parametrize("head", ["def f(self):", "async def f(self):"])
def test_each_way_to_make_a_lock_is_found(head: str, statement: str, made: set[str]) -> None:
    imports = "import threading as t\nfrom threading import Lock, RLock as Guard\nfrom ports import Condition"
    tree = ast.parse(f"{imports}\n{head}\n    {statement}")
    (function,) = [node for node in ast.walk(tree) if isinstance(node, Function)]
    assert locks_made(function, lock_names(tree)) == made


def test_every_file_listed_without_handles_exists() -> None:
    assert set(NO_HANDLES) <= {short_name(path) for path in FILES}


def lock_names(tree: ast.Module) -> set[str]:
    """Return the source of each expression that names a class of locks in the module."""
    modules, named = {"threading"}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.asname or name.name for name in node.names if name.name == "threading"}
        elif isinstance(node, ast.ImportFrom) and node.module == "threading":
            named |= {name.asname or name.name for name in node.names if name.name in LOCKS}
    return named | {f"{module}.{name}" for module in modules for name in LOCKS}


def locks_of(nodes: Iterable[ast.AST], names: set[str]) -> Iterator[ast.expr]:
    """Yield each call of a class of locks, and each class of locks that is passed to a call."""
    for node in nodes:
        if isinstance(node, ast.Call):
            passed = [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
            yield from (part for part in passed if ast.unparse(part) in names)


def locks_made(function: Function, names: set[str]) -> set[str]:
    """Return the attributes to which the function assigns a lock, or the source of other statements with a lock."""
    made = set()
    for statement in ast.walk(function):
        if not isinstance(statement, ast.stmt) or not list(locks_of(own_expressions(statement), names)):
            continue
        targets = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        leaves = [leaf for target in targets for leaf in (target.elts if isinstance(target, ast.Tuple) else [target])]
        made |= {leaf.attr if isinstance(leaf, ast.Attribute) else ast.unparse(leaf) for leaf in leaves}
        made |= set() if leaves else {ast.unparse(statement)}
    return made


def own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without the statements inside it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def closed(function: Function) -> set[str]:
    """Return the attributes that the function passes to `close_in_child`."""
    return {
        str(argument.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "close_in_child"
        for argument in node.args[1:]
        if isinstance(argument, ast.Constant)
    }
