"""No test depends on the speed of the machine: a process may stop for some seconds, and a thread may run late.

A test moves a `ManualClock`, or waits for a condition with `tests.threads.until`. The limit of a wait only ends a test
that hangs, so it is long.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.sources import TESTS, files
from tests.test_style import machine_calls, refused, tree_of

SECONDS_MIN = 20
CLOCKS = re.compile(r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|clock_gettime)")
HTTPX = re.compile(r"httpx\.(get|put|post|patch|delete|head|options|request|stream|Client|AsyncClient)")
PROMISES = re.compile(r"(?:waitForFunction\(|until\([\w.]+,)\s*async")
WAITS = {"acquire", "exception", "join", "result", "settimeout", "timeout", "wait"}
"""Functions whose only argument is a time limit."""

SHORT_WAITS = {
    "asyncio.timeout(1)": "an attack that waits no longer for its answer, and needs none",
    "closing.join(0.1)": "shows that a thread still waits, which a slow machine cannot refute",
}


def test_no_test_reads_the_clock_of_the_machine() -> None:
    def used(path: Path) -> set[str]:
        return {name for name in machine_calls(tree_of(path)) if CLOCKS.fullmatch(name)}

    assert refused([path for path in files(*TESTS) if path.name.startswith("test_")], used) == {}


def test_the_time_limit_of_a_wait_is_long() -> None:
    short = refused(files(*TESTS), lambda path: set(short_waits(tree_of(path))) - SHORT_WAITS.keys())
    assert short == {}, f"wait for {SECONDS_MIN} seconds or longer: the wait ends when its condition comes true"


def test_httpx_has_a_long_time_limit() -> None:
    """Use `tests.http_calls`. A client without a socket needs no limit."""
    assert refused(files(*TESTS), lambda path: set(hasty_calls(tree_of(path)))) == {}


def test_no_wait_of_a_story_takes_a_promise_for_a_true_value() -> None:
    """Playwright's `waitForFunction` does: use `untilResolved`. A module may define an own `until` that awaits."""

    def used(path: Path) -> set[str]:
        text = path.read_text()
        return set() if "function until(" in text else set(PROMISES.findall(text))

    assert refused([path for folder in TESTS for path in sorted(folder.rglob("*.mjs"))], used) == {}


@pytest.mark.parametrize(
    "line",
    [
        "SECONDS = 5\nassert done.wait(SECONDS)",
        "thread.join(10)",
        "heard.get(timeout=1)",
        "asyncio.timeout(2.5)",
        "call.result(5)",
    ],
)
def test_a_short_wait_is_noticed(line: str) -> None:
    assert list(short_waits(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    ["done.wait(20)", "done.wait()", "handle.wait(0)", "await caller.wait(9)", "', '.join(names)", "run('x', 5)"],
)
def test_another_call_is_not_taken_for_a_short_wait(line: str) -> None:
    assert not list(short_waits(ast.parse(line)))


def test_a_call_of_httpx_without_a_time_limit_is_noticed() -> None:
    lines = ["httpx.get(url)", "httpx.Client()", "httpx.get(url, timeout=60)", "httpx.Client(transport=mock)"]
    assert [bool(list(hasty_calls(ast.parse(line)))) for line in lines] == [True, True, False, False]


def test_a_test_that_hangs_ends_within_the_budget_of_all_tests() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    [minutes] = re.findall(r"`make test` has a budget of (\d+) minutes", (ROOT / "docs/runs.md").read_text())
    assert settings["timeout"] < 60 * int(minutes)


def short_waits(tree: ast.Module) -> Iterator[str]:
    """Yield the calls with a time limit of more than 0 and less than `SECONDS_MIN` seconds, but no call in an `await`.

    The time of an event loop often jumps.
    """
    awaited = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Await)}
    numbers = {name: value for node in tree.body if isinstance(node, ast.Assign) for name, value in constants(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in awaited:
            limits = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
            if isinstance(node.func, ast.Attribute) and node.func.attr in WAITS:
                limits += node.args[:1]
            for limit in limits:
                value = numbers.get(limit.id) if isinstance(limit, ast.Name) else getattr(limit, "value", None)
                if isinstance(value, int | float) and 0 < value < SECONDS_MIN:
                    yield ast.unparse(node)


def constants(node: ast.Assign) -> Iterator[tuple[str, object]]:
    if isinstance(node.value, ast.Constant):
        yield from ((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))


def hasty_calls(tree: ast.Module) -> Iterator[str]:
    """Yield the calls of httpx that use a socket and its default limit of five seconds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and HTTPX.fullmatch(ast.unparse(node.func)):
            named = {keyword.arg for keyword in node.keywords}
            if not named & {"timeout", "transport"}:
                yield ast.unparse(node)
