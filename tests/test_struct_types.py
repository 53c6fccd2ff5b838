"""Threads of one process may be the first that decode a struct, all at once: msgspec alone would crash the process."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import pytest

from tests.processes import run
from tests.sources import PACKAGES, files
from tests.test_style import refused, tree_of

WITHOUT_STRUCTS = {"Any", "dict", "list", "tuple", "str", "msgspec.Raw"}

FIRST_USE = """
import threading
import msgspec
from stratalog import struct_types
from tests.threads import join_all, start_all, until

class Lock:
    def __init__(self):
        self.lock, self.asked = threading.RLock(), []

    def __enter__(self):
        self.asked.append(threading.current_thread())
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()

def annotation():
    if not others:
        others.extend(start_all([decode]))
        until(lambda: len(lock.asked) == 2 or not others[0].is_alive())
    return int

def decode():
    decoded.append(msgspec.convert([1, 2], struct_types.resolved(Pair)))

class Pair(msgspec.Struct, array_like=True):
    first: "annotation()"
    second: "annotation()"

struct_types._types.lock = lock = Lock()
others, decoded = [], []
decode()
join_all(others)
print(decoded)
"""

FORK = """
import os
import threading
import msgspec
from stratalog.struct_types import resolved
from tests.threads import join_all, start_all

def annotation():
    if not forking:
        forking.extend(start_all([fork]))
        assert begun.wait(60)
    return int

def fork():
    begun.set()
    child = os.fork()
    if not child:
        os._exit(int(msgspec.convert([1], resolved(One)) != One(1)))
    statuses.append(os.waitpid(child, 0)[1])

class One(msgspec.Struct, array_like=True):
    first: "annotation()"

begun, forking, statuses = threading.Event(), [], []
resolved(One)
join_all(forking)
print(statuses)
"""

HANGING = """
import os
import msgspec
from stratalog import process_fork
from stratalog.errors import Unavailable
from stratalog.struct_types import resolved
from tests.threads import join_all, start_all

process_fork.FORK_WAIT_MS_MAX = 1

def annotation():
    if not statuses:
        statuses.append("forking")
        join_all(start_all([fork]))
    return int

def fork():
    child = os.fork()
    if not child:
        try:
            resolved(One)
        except Unavailable:
            os._exit(0)
        finally:
            os._exit(1)
    statuses.append(os.waitpid(child, 0)[1])

class One(msgspec.Struct, array_like=True):
    first: "annotation()"

statuses = []
resolved(One)
print(statuses)
"""


def test_a_thread_that_decodes_a_struct_waits_until_another_thread_has_resolved_the_struct() -> None:
    assert run([sys.executable, "-c", FIRST_USE]).stdout == "[Pair(first=1, second=2), Pair(first=1, second=2)]\n"


def test_a_child_of_a_fork_inherits_no_unfinished_struct() -> None:
    assert run([sys.executable, "-c", FORK]).stdout == "[0]\n"


def test_a_fork_waits_for_an_evaluation_only_for_a_time_and_its_child_decodes_no_struct() -> None:
    assert run([sys.executable, "-c", HANGING]).stdout == "['forking', 0]\n"


def test_each_function_that_decodes_a_struct_resolves_the_struct_first() -> None:
    paths = [path for path in files(*PACKAGES) if path.name != "struct_types.py"]
    assert refused(paths, lambda path: set(unresolved(tree_of(path)))) == {}, "write `resolved(type)`"


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ("msgspec.convert(row, Job)", True),
        ("msgspec.convert(row, list[Job])", True),
        ("msgspec.convert(row, resolved(Job))", False),
        ("msgspec.convert(row, list[dict[str, Any]])", False),
        ("decode(body, type=shape)", True),
        ("msgspec.json.decode(body, type=msgspec.Raw)", False),
        ("msgspec.json.decode(body)", False),
        ("msgspec.msgpack.Decoder(Job)", True),
    ],
)
def test_an_unresolved_type_is_noticed(line: str, is_refused: bool) -> None:
    assert bool(list(unresolved(ast.parse(f"def f():\n    {line}\n")))) == is_refused


def test_a_decoder_that_a_module_makes_at_its_import_is_allowed() -> None:
    assert not list(unresolved(ast.parse("_decode = msgspec.json.Decoder(Job).decode")))


def unresolved(tree: ast.Module) -> Iterator[str]:
    """Yield the calls inside functions that decode a type that may have a struct, and that do not resolve the type."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            types = [keyword.value for keyword in node.keywords if keyword.arg == "type" and name == "decode"]
            if ast.unparse(node.func) == "msgspec.convert":
                types += node.args[1:2]
            elif name == "Decoder":
                types += node.args[:1]
            if any(not is_safe(kind) for kind in types):
                yield ast.unparse(node)


def is_safe(kind: ast.expr) -> bool:
    if isinstance(kind, ast.Call):
        return ast.unparse(kind.func) == "resolved"
    if isinstance(kind, ast.Subscript):
        return is_safe(kind.value) and is_safe(kind.slice)
    if isinstance(kind, ast.Tuple):
        return all(is_safe(part) for part in kind.elts)
    return ast.unparse(kind) in WITHOUT_STRUCTS
