"""A document handle that threads share never returns to an older version, whatever happens during a slow call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stratalog.documents import Document
from tests.documents.helpers import World, inc, statuses

STEPS_MAX = 40


def before_answer(world: World, step: int, meanwhile: Callable[[], object]) -> list[int]:
    """Run ``meanwhile`` after query number ``step`` has read its items and before it returns them.

    Return a list with the number of queries so far.
    """
    calls, index = [0], world.backend
    query = index.query

    def slow(partition: str, **options: object) -> object:
        items = list(query(partition, **options))  # type: ignore[arg-type]
        calls[0] += 1
        if calls[0] == step:
            meanwhile()
        return iter(items)

    index.query = slow  # type: ignore[method-assign, assignment]
    return calls


def get(document: Document) -> int:
    value: int = document.get("n")
    return value


def apply(document: Document) -> int:
    assert statuses(document.apply([inc(client="cat")])) == ["applied"]
    return get(document)


@pytest.mark.parametrize("call", [get, apply])
@pytest.mark.parametrize("interval", [2, 1000])
def test_a_slow_call_does_not_discard_a_newer_state_that_another_thread_loaded(
    call: Callable[[Document], int], interval: int
) -> None:
    for step in range(1, STEPS_MAX):
        world = World(snapshot_entries_interval=interval)
        rival = world.create()
        rival.apply([inc()])
        document = world.open()
        assert get(document) == 1
        for _ in range(2):
            rival.apply([inc()])

        learnt: list[int] = []

        def meanwhile(rival: Document = rival, document: Document = document, learnt: list[int] = learnt) -> None:
            for _ in range(3):
                rival.apply([inc()])
            assert get(document) == get(rival)
            learnt.append(document.version)

        calls = before_answer(world, step, meanwhile)
        result = call(document)
        if calls[0] < step:
            break
        known, held = document.log.known_head(), document._states.cached
        assert known is not None
        assert held is not None
        assert min(known.version, held.version) >= learnt[0]
        assert 3 <= result <= get(document) == get(rival)
    assert calls[0] < step, "the call makes more queries than the test has steps"
    assert step > 1
