"""A client's thread starts sync cycles after changes, after pokes and now and then, and pauses after failures."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from stratalog.client import Client, background
from stratalog.client.background import RETRY_POLICY, Background
from stratalog.client.transport import Stop, Unreached
from stratalog.errors import Closed, OutcomeUnknown, StratalogError, Unavailable
from stratalog.protocol.sync import Push, Pushed
from stratalog.retry import RetryPolicy
from stratalog.testing.clock import ManualClock
from tests.client.helpers import Answer, InProcess, new_document

SECONDS_MAX = 60.0


class Poked(InProcess):
    """A transport whose pokes the test sends."""

    on_poke: Callable[[], None]
    stopped = False

    def listen(self, on_poke: Callable[[], None]) -> Stop:
        self.on_poke = on_poke
        return lambda: setattr(self, "stopped", True)


def test_the_thread_pushes_a_change_and_pulls_after_a_poke(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PULL_SECONDS", 3600)
    document = new_document()
    transport = Poked(document)
    seen = threading.Event()
    with Client(transport).start() as client:
        assert client.mutate("put", {"key": "mine", "value": 1}).wait(SECONDS_MAX) == "applied"
        client.subscribe(lambda keys: seen.set(), "theirs")
        for value in range(2):  # the cycles after the client's own change may find the first of these changes
            seen.clear()
            document.mutate("put", {"key": "theirs", "value": value})
            transport.on_poke()
            assert seen.wait(SECONDS_MAX)
    assert transport.stopped


def test_the_thread_pulls_at_intervals_without_a_poke(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PULL_SECONDS", 0.01)
    document = new_document()
    seen = threading.Event()
    with Client(InProcess(document)).start() as client:
        client.mutate("put", {"key": "mine", "value": 1}).wait(SECONDS_MAX)
        client.subscribe(lambda keys: seen.set(), "theirs")
        document.mutate("put", {"key": "theirs", "value": 1})
        assert seen.wait(SECONDS_MAX)


def test_the_thread_continues_after_failures_and_reports_the_last_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "RETRY_POLICY", RetryPolicy(wait_seconds_first=0.001))
    errors: list[StratalogError | None] = []

    class Asking(InProcess):
        def _deliver(self, serve: Callable[[], Answer]) -> Answer:
            errors.append(client.last_error)
            return super()._deliver(serve)

    transport = Asking(new_document())
    transport.faults = ["unreached", "lost-request", "lost-answer"]
    client = Client(transport)
    with client.start():
        assert client.mutate("put", {"key": "k", "value": 1}).wait(SECONDS_MAX) == "applied"
    # Each fault ended a cycle. The next cycle began with the error of the previous cycle.
    assert [type(error) for error in errors[:4]] == [type(None), Unreached, OutcomeUnknown, OutcomeUnknown]
    assert client.last_error is None  # `close` has waited for the end of the last cycle


def test_a_second_start_and_a_second_close_have_no_effect() -> None:
    client = Client(InProcess(new_document()))
    client.start().start()
    client.close()
    client.close()
    with pytest.raises(Closed):
        client.start()


def test_a_stopped_client_sends_nothing_until_it_is_started_again() -> None:
    document, before = new_document(), set(threading.enumerate())
    transport = Poked(document)
    with Client(transport).start() as client:
        client.mutate("put", {"key": "k", "value": 1}).wait(SECONDS_MAX)
        for _ in range(2):
            client.stop()
        assert transport.stopped
        assert set(threading.enumerate()) <= before
        offline = client.mutate("put", {"key": "k", "value": 2})
        assert (client["k"], document["k"], offline.status) == (2, 1, "pending")
        client.sync()
        assert (document["k"], offline.status) == (2, "applied")
        client.start()
        assert client.mutate("put", {"key": "k", "value": 3}).wait(SECONDS_MAX) == "applied"


def test_a_client_that_is_stopped_while_it_starts_can_be_started_again() -> None:
    class StoppedMeanwhile(Poked):
        def listen(self, on_poke: Callable[[], None]) -> Stop:
            if not self.stopped:
                client.stop()
            return super().listen(on_poke)

    transport = StoppedMeanwhile(new_document())
    client = Client(transport)
    with client.start():
        assert transport.stopped
        assert client.start().mutate("put", {"key": "k", "value": 1}).wait(SECONDS_MAX) == "applied"


def test_a_stop_just_before_a_sync_cycle_ends_the_thread_without_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PULL_SECONDS", 3600)

    class StoppedBeforeClear(threading.Event):
        def clear(self) -> None:
            stopping.set()
            self.set()
            super().clear()

    stopping = threading.Event()
    running = Background(Failing(), InProcess(), ManualClock())
    thread = threading.Thread(target=running._run, args=(StoppedBeforeClear(), stopping), daemon=True)
    thread.start()
    thread.join(SECONDS_MAX)
    assert not thread.is_alive()


def test_a_client_whose_thread_could_not_be_started_can_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    client = Client(InProcess(new_document()))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                client.start()
    client.start()
    client.close()


def test_several_threads_that_start_a_client_at_once_make_one_thread() -> None:
    class Counted(Poked):
        listeners = 0

        def listen(self, on_poke: Callable[[], None]) -> Stop:
            self.listeners += 1
            return super().listen(on_poke)

    def start(client: Client) -> None:
        ready.wait(SECONDS_MAX)
        client.start()

    ready = threading.Barrier(8)
    for _ in range(20):
        transport, before = Counted(new_document()), set(threading.enumerate())
        with Client(transport) as client:
            starting = [threading.Thread(target=start, args=(client,)) for _ in range(ready.parties)]
            for thread in starting:
                thread.start()
            for thread in starting:
                thread.join(SECONDS_MAX)
        assert transport.listeners == 1
        assert set(threading.enumerate()) <= before


def test_a_client_that_is_closed_just_before_its_thread_is_made_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closing(threading.Event):
        def __init__(self) -> None:
            super().__init__()
            monkeypatch.undo()
            client.close()

    before = set(threading.enumerate())
    client = Client(InProcess(new_document()))
    monkeypatch.setattr(threading, "Event", Closing)
    with pytest.raises(Closed, match="the client is closed"):
        client.start()
    assert set(threading.enumerate()) <= before


def test_a_client_that_is_closed_while_it_starts_stops_listening() -> None:
    class ClosedMeanwhile(Poked):
        def listen(self, on_poke: Callable[[], None]) -> Stop:
            closing = threading.Thread(target=client.close)
            closing.start()
            closing.join(SECONDS_MAX)
            return super().listen(on_poke)

    transport = ClosedMeanwhile(new_document())
    client = Client(transport)
    client.start()
    assert transport.stopped


class Failing:
    """A sync cycle that raises the next of ``errors``, or succeeds if the next one is None or no error is left."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)

    def __call__(self) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


def pauses(*errors: Exception | None) -> list[float]:
    """Return the seconds of back-off after each sync cycle, 0 after a success. The jitter is at its maximum."""
    clock = ManualClock()
    clock.random = lambda: 1.0  # type: ignore[method-assign]
    running = Background(Failing(*errors), InProcess(), clock)
    return [running._attempt() for _ in range(len(errors) + 1)]


def test_each_failure_doubles_the_wait_up_to_a_cap() -> None:
    waits = pauses(*[Unavailable("down")] * 12)
    assert waits[:3] == [0.1, 0.2, 0.4]
    assert waits[-2:] == [RETRY_POLICY.wait_seconds_max, 0.0]


def test_after_a_success_the_wait_begins_anew() -> None:
    down = Unavailable("down")
    assert pauses(down, down, None, down)[:4] == [0.1, 0.2, 0.0, 0.1]


def test_the_thread_waits_for_the_retry_after_time_of_the_server() -> None:
    assert pauses(Unavailable("busy", retry_after_seconds=45.0))[0] == 45.0


def test_an_unexpected_exception_is_reported_and_does_not_end_the_thread() -> None:
    running = Background(Failing(ZeroDivisionError("oops")), InProcess(), ManualClock())
    assert running._attempt() > 0
    assert isinstance(running.last_error, StratalogError)
    assert "oops" in str(running.last_error)
    assert running._attempt() == 0


def test_closing_a_client_ends_a_wait_for_a_pending_mutation() -> None:
    transport = InProcess(new_document())
    transport.faults = ["unreached"] * 1000
    client = Client(transport).start()
    handle = client.mutate("put", {"key": "k", "value": 1})
    waiting = threading.Thread(target=handle.wait)
    waiting.start()
    client.close()
    waiting.join(SECONDS_MAX)
    assert not waiting.is_alive()
    assert handle.status == "pending"


def test_a_client_can_be_closed_while_a_sync_cycle_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "CLOSE_SECONDS_MAX", 0.01)
    transport, hanging, release = InProcess(new_document()), threading.Event(), threading.Event()

    ended: list[bool] = []

    def hang(request: Push) -> Pushed:
        hanging.set()
        ended.append(release.wait(SECONDS_MAX))
        return InProcess.push(transport, request)

    monkeypatch.setattr(transport, "push", hang)
    client = Client(transport).start()
    client.mutate("put", {"key": "k", "value": 1})
    assert hanging.wait(SECONDS_MAX)
    client.close()
    assert ended == []
    release.set()
    with pytest.raises(Closed):
        client.get("k")
