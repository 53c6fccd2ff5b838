"""Interrupts a thread of a group commit: raises KeyboardInterrupt before a chosen bytecode of chosen functions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from types import CodeType, FrameType, FunctionType
from typing import Any

from stratalog.group_commit import GroupCommit, Pending
from tests.threads import SECONDS_MAX, until

__all__ = ["Interrupter", "ends_of"]


class Interrupter:
    """Raises KeyboardInterrupt once, before bytecode ``step`` of ``functions``, counted from 0 over all threads."""

    def __init__(self, step: int, functions: Iterable[FunctionType]) -> None:
        self._step = step
        self._steps = count()
        self._codes: set[CodeType] = {function.__code__ for function in functions}
        self.victim: str | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Interrupt one of the threads that start inside the block."""
        before = threading.gettrace()
        threading.settrace(self._trace)
        try:
            yield
        finally:
            threading.settrace(before)  # type: ignore[arg-type]

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code not in self._codes:
            return None
        frame.f_trace_opcodes = True
        # One call into C counts, so two threads never have the same number and only one of them is interrupted.
        if event == "opcode" and next(self._steps) == self._step:
            self.victim = threading.current_thread().name
            raise KeyboardInterrupt
        return self._trace


def ends_of(
    group: GroupCommit[Any],
    held: Pending,
    calls: Mapping[str, Callable[[], Any]],
    prepare: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Run each of ``calls`` in a thread named by its key, and return the results by name.

    ``held`` keeps the leadership until all calls wait or are interrupted, and runs ``prepare`` then. The first call
    that still waits is the next leader. The result of a call is its return value, or the exception that it raises.
    """
    ends: dict[str, Any] = {}

    def run(name: str) -> None:
        try:
            ends[name] = calls[name]()
        except BaseException as exc:  # noqa: BLE001 - the test checks any error
            ends[name] = exc

    def gather(_: object) -> None:
        for waiting, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=waiting: len(group.waiting) >= count - len(ends))  # type: ignore[misc]
        assert all(isinstance(end, KeyboardInterrupt) for end in ends.values()), "a call did not wait"
        prepare()

    threads = [threading.Thread(target=run, args=(name,), name=name, daemon=True) for name in calls]
    group.commit(held, gather)
    for thread in threads:
        thread.join(SECONDS_MAX)
        assert not thread.is_alive()
    return ends
