"""Short runs of `make hostile` (without its sheets) and `make endurance`, and tests that each check can fail."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import stratalog
from tests.hostile import endurance, http_calls
from tests.hostile.__main__ import measure
from tests.hostile.attacks import ATTACKS, prepare
from tests.hostile.checks import Limits, Run, failures_of, percentile
from tests.hostile.honest import DOCUMENTS, KEYS, Honest, lost_writes
from tests.hostile.http_calls import HttpCaller
from tests.hostile.server import served

GOOD = Run(
    requests=10,
    p50_ms=1,
    p99_ms=10,
    health_p99_ms=5,
    health_longest_ms=6,
    errors=(),
    resident_bytes_peak=1,
    log_bytes=1,
    pokes=1,
    attacks={"floods": 1},
)


def test_the_server_survives_every_attack_and_honest_writes_survive_a_kill(tmp_path: Path) -> None:
    async def story() -> tuple[Run, Honest]:
        honest = Honest()
        await honest.prepare(server.port)
        await prepare(server.port)
        return await measure(server, honest, 4, 3, 20, ATTACKS), honest

    with served(tmp_path, None, sheets=False) as server:
        run, honest = asyncio.run(story())
    assert run.requests > 0
    assert [name for name, count in run.attacks.items() if not count] == []
    assert run.attacks.keys() == {attack.__name__ for attack in ATTACKS}
    assert run.is_running
    assert run.resident_bytes_peak > 1 << 20
    assert sum(map(len, honest.acknowledged.values())) > KEYS * len(DOCUMENTS)
    assert lost_writes(server.store, honest.acknowledged) == []


def test_an_ended_server_reports_no_memory_and_no_descriptors(tmp_path: Path) -> None:
    with served(tmp_path, None, sheets=False) as server:
        assert min(server.resident_bytes, server.descriptors) > 0
        server.process.signal(signal.SIGKILL)
        server.process.end(expected=-signal.SIGKILL)
        assert (server.is_running, server.resident_bytes, server.descriptors) == (False, 0, 0)


def test_a_run_with_good_measurements_passes() -> None:
    assert failures_of(GOOD, GOOD, [], Limits()) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"p99_ms": 251}, "p99 251 ms, limit 250"),
        ({"p99_ms": 51}, "p99 51 ms, 5 times 10"),
        ({"health_p99_ms": 101}, "/health 101 ms, limit 100"),
        ({"errors": ("GET: 503",)}, "1 errors of honest callers"),
        ({"resident_bytes_peak": 401 << 20}, "401 MiB resident, limit 400"),
        ({"log_bytes": 11 << 20}, "bytes of log"),
        ({"requests": 0}, "honest callers asked nothing"),
        ({"is_running": False}, "the server ended"),
        ({"attacks": {"floods": 0}}, "attack floods was not made"),
    ],
)
def test_each_check_can_fail(change: dict[str, object], words: str) -> None:
    failures = failures_of(GOOD, msgspec.structs.replace(GOOD, **change), [], Limits())
    assert [failure for failure in failures if words in failure]


def test_errors_without_an_attack_and_lost_writes_fail() -> None:
    undisturbed = msgspec.structs.replace(GOOD, errors=("GET: 503",))
    assert failures_of(undisturbed, GOOD, ["plan a"], Limits()) == [
        "1 errors without an attack",
        "1 acknowledged writes lost",
    ]


def test_a_write_that_is_not_there_or_has_another_value_is_lost() -> None:
    with stratalog.open("memory:") as store:
        document = store.create("acme", "plan")
        for value in ("1", "2"):
            document.put("n/a", value)
        assert lost_writes(store, {"plan": {("n/a", "1"), ("n/a", "2")}}) == []
        assert lost_writes(store, {"plan": {("n/a", "3"), ("n/b", "1")}}) == ["plan n/a 3", "plan n/b 1"]


DROP, HANG = b"drop", b"hang"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[tuple[int, list[str]]]:
    """Serve one answer to each request, in this order. Yield the port, and a list that gets the path of each request.

    For an empty answer, the server answers `OK` and closes the connection. `DROP` closes the connection without an
    answer. `HANG` waits until the caller closes the connection.
    """
    waiting, paths = list(answers), list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while waiting:
                paths.append((await reader.readuntil(b"\r\n\r\n")).split()[1].decode())
                answer = waiting.pop(0)
                if answer == HANG:
                    await reader.read()
                if answer in (DROP, HANG):
                    break
                writer.write(answer or OK)
                if not answer:
                    break
        except EOFError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], paths


@pytest.mark.parametrize("answer", [DROP, HANG])
def test_a_request_without_an_answer_fails_and_is_not_sent_again(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with scripted(OK, answer, OK, OK) as (port, paths), HttpCaller(port) as caller:
            await caller.call("GET", "/1")
            monkeypatch.setattr(http_calls, "SECONDS_MAX", 0.05 if answer == HANG else 60)
            with pytest.raises((OSError, EOFError)):
                await caller.call("GET", "/2")
            monkeypatch.setattr(http_calls, "SECONDS_MAX", 60)
            await caller.call("GET", "/3")
            assert paths == ["/1", "/2", "/3"]

    asyncio.run(story())


def test_a_caller_replaces_a_connection_that_the_server_closed_or_may_close(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with scripted(b"", OK, OK) as (port, paths), HttpCaller(port) as caller:
            await caller.call("GET", "/1")
            assert caller._streams is not None
            await caller._streams[0].read()
            await caller.call("GET", "/2")
            used = caller._streams
            monkeypatch.setattr(http_calls, "IDLE_SECONDS_MAX", 0)
            await caller.call("GET", "/3")
            assert caller._streams is not used
            assert paths == ["/1", "/2", "/3"]

    asyncio.run(story())


@pytest.mark.parametrize(
    "answer", [DROP, b"HTTP/1.1 garbage\r\n\r\n", OK.replace(b"200", b"503"), b"HTTP/1.1 200 OK\r\n\r\n"]
)
def test_each_failure_of_a_request_is_an_error_of_the_honest_callers(answer: bytes) -> None:
    honest = Honest(acknowledged={DOCUMENTS[0]: set()})

    async def story() -> None:
        async with scripted(answer) as (port, _), HttpCaller(port) as caller:
            await honest._ask(caller, 0, 0)

    asyncio.run(story())
    assert honest.errors


def test_a_live_connection_that_is_refused_is_an_error_of_the_honest_callers() -> None:
    honest, ready = Honest(), asyncio.Semaphore(0)

    async def story() -> None:
        async with scripted(OK.replace(b"200", b"403")) as (port, _):
            await honest.listen(port, 0, ready)

    asyncio.run(story())
    assert (len(honest.errors), ready.locked()) == (1, False)


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([], 0.99) == 0
    assert percentile([3, 1, 2], 0.5) == 2
    assert percentile(list(range(1000)), 0.99) == 990


def test_a_short_endurance_run_measures_each_window_without_errors(tmp_path: Path) -> None:
    with served(tmp_path, None, sheets=False) as server:
        windows, errors = asyncio.run(endurance.measure(server, 960, 20))
    assert errors == []
    assert [window.requests for window in windows] == [48] * 20
    assert min(window.descriptors for window in windows) >= 20


@pytest.mark.parametrize(
    ("status", "errors"), [("applied", 0), ("seen", 0), ("rejected", 1), ("gap", 1), ("unknown-client", 1)]
)
def test_a_push_without_effect_is_an_error_of_the_endurance(status: str, errors: int) -> None:
    class Answers:
        async def call(self, method: str, *given: object, **headers: str) -> tuple[int, bytes]:
            return 200, msgspec.json.encode({"outcomes": [{"client": "c", "id": 1, "status": status}]})

    reported: list[str] = []
    caller = endurance._Caller(0, 0, reported)
    caller._http = Answers()  # type: ignore[assignment]
    asyncio.run(caller.ask(6))
    assert len(reported) == errors


FLAT = [endurance.Window(requests=1, p99_ms=10, resident_bytes=100 << 20, descriptors=50)] * 20


def test_an_endurance_run_without_growth_passes() -> None:
    warming = endurance.Window(requests=1, p99_ms=90, resident_bytes=50 << 20, descriptors=10)
    assert endurance.growth_of([warming, *FLAT[1:]]) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"p99_ms": 16}, "p99 grew from 10.0 to 16.0 ms"),
        ({"resident_bytes": 112 << 20}, "memory grew from 100 to 112 MiB"),
        ({"descriptors": 51}, "descriptors grew from 50 to 51"),
    ],
)
def test_growth_of_latency_memory_or_descriptors_is_reported(change: dict[str, int], sentence: str) -> None:
    grown = [msgspec.structs.replace(window, **change) for window in FLAT[-4:]]
    assert endurance.growth_of([*FLAT[:-4], *grown]) == [sentence]
