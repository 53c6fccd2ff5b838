"""The pool: a few engines, each in its own process, each lent to one caller at a time."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from stratalog.clock import Clock, Observation, SystemClock
from stratalog.errors import Closed, Unavailable
from stratalog_sheet.engine import Engine
from stratalog_sheet.failed_versions import Unopenable
from stratalog_sheet.models import Models
from stratalog_sheet.settings import EngineSettings

__all__ = ["EngineNeeded", "EnginePool", "PoolCounts"]


class EngineNeeded(Exception):
    """Work in a block of `EnginePool.without` needs an engine. The caller repeats the work without the block."""


class PoolCounts(msgspec.Struct, frozen=True):
    """Counts of a pool: present engines, lent engines, and the engines that started and that died so far."""

    engines: int
    lent: int
    starts: int
    deaths: int


class EnginePool:
    """The engines of one process. Safe to share between threads, and usable in a fork of the process.

    Calls for different sheets run in parallel, in up to ``settings.engines_max`` child processes. Calls for one sheet
    run one at a time, preferably in the child process that has the sheet's models open. The child processes end at
    `close` or with this process.
    """

    def __init__(
        self, settings: EngineSettings | None = None, *, folder: Path | None = None, clock: Clock | None = None
    ) -> None:
        self.settings = settings or EngineSettings()
        self.clock = clock or SystemClock()
        self._folder = folder
        self._is_ahead = False
        self._starts = self._deaths = 0
        self._reset()
        # A fork hook is never unregistered, so a strong reference would keep the pool alive.
        os.register_at_fork(after_in_child=partial(_reset, weakref.ref(self)))

    def start(self) -> None:
        """Start an engine if the pool has none. From now on keep an engine idle if possible.

        Raises Closed after `close`, and Unavailable if the engine cannot start.
        """
        with self._freed:
            self._check_open()
            self._is_ahead = True
            if not self._all:
                self._start_engine()

    @contextmanager
    def lend(self, owner: str = "") -> Iterator[Models]:
        """Lend an engine for the block, preferably one with ``owner``'s models. An owner has one engine at a time.

        Nested calls of one thread for the same owner share one engine. Waiting callers get engines in their order of
        arrival, except that a caller whose owner has an engine holds back only callers of this owner. Raises
        Unavailable if too many callers wait, this caller waited too long or an engine cannot start. Raises Closed after
        `close`, and EngineNeeded in a block of `without`.
        """
        held = self._mine.held
        if self._mine.is_refused:
            raise EngineNeeded
        if owner in held:
            yield held[owner]
            return
        try:
            self._take(owner, held)
            yield held[owner]
        finally:
            if (models := held.pop(owner, None)) is not None:
                self._give_back(owner, models)

    @contextmanager
    def without(self) -> Iterator[None]:
        """Return a context in which `lend` raises EngineNeeded in this thread, instead of waiting for an engine."""
        was_refused = self._mine.is_refused
        self._mine.is_refused = True
        try:
            yield
        finally:
            self._mine.is_refused = was_refused  # still true if this context is inside another one

    def call(self, name: str, **arguments: Any) -> Any:
        """Return the result of a call that needs no model, from any engine."""
        with self.lend(f"call-{threading.get_ident()}") as models:
            return models.engine.call(name, **arguments)

    def counts(self) -> PoolCounts:
        """Return the present counts."""
        with self._freed:
            return PoolCounts(len(self._all), len(self._lent), self._starts, self._deaths)

    def pids(self) -> list[int]:
        """Return the ids of the engines' processes."""
        with self._freed:
            return [models.engine.pid for models in self._all if models.engine.pid is not None]

    def close(self) -> None:
        """End every engine. Calls in flight fail, and later calls raise Closed."""
        with self._freed:
            self._is_closed = True
            engines = [models.engine for models in self._all]
            self._all.clear()
            self._freed.notify_all()
        for engine in engines:
            engine.close()

    def _reset(self) -> None:
        """Make the locks and the empty lists of engines. A child of a fork calls this method again.

        The child forgets the parent's engines. It needs new locks, because threads that exist only in the parent may
        hold the old locks.
        """
        self._freed = threading.Condition()
        self._mine = _Held()
        self._all: list[Models] = []
        """The engines. The first idle engine among them has been idle for longest."""

        self._lent: dict[str, Models] = {}
        self._numbers = count()
        self._waiting: dict[int, str] = {}
        """The owners of the waiting callers, by the caller's number in the order of arrival."""

        self._is_closed = False
        self.unopenable = Unopenable(self.clock, self.settings.unopenable_seconds)

    @property
    def _idle(self) -> list[Models]:
        """The idle engines. They are computed, so that no interrupt leaves an engine neither idle nor lent."""
        lent = {id(models) for models in self._lent.values()}
        return [models for models in self._all if id(models) not in lent]

    def _take(self, owner: str, held: dict[str, Models]) -> None:
        """Lend models to the owner, and add them to ``held``. After an interrupt, `lend` returns what ``held`` has."""
        with self._freed:
            number = next(self._numbers)
            held[owner] = self._lent[owner] = self._in_turn(number, owner) or self._wait(number, owner)
            self._start_ahead()

    def _wait(self, number: int, owner: str) -> Models:
        if len(self._waiting) >= self.settings.waiting_max:
            text = "too many callers wait for the spreadsheet's engines"
            raise Unavailable(text, limit=self.settings.waiting_max)
        since = Observation(self.clock)
        self._waiting[number] = owner
        try:
            while True:
                left = self.settings.wait_seconds_max - since.age_seconds()
                if left <= 0:
                    text = "the spreadsheet's engines are busy; try again"
                    raise Unavailable(text, limit_seconds=self.settings.wait_seconds_max)
                self._freed.wait(left)
                if (models := self._in_turn(number, owner)) is not None:
                    return models
        finally:
            del self._waiting[number]
            self._freed.notify_all()  # a caller behind this one may have found an idle engine, and waits again

    def _in_turn(self, number: int, owner: str) -> Models | None:
        """Do the same as `_available`, but return None if an earlier caller waits for an engine that it may have.

        Otherwise the caller that returns an engine would often take it again, and the waiting callers would starve.
        """
        self._check_open()
        if any(earlier < number and other not in self._lent for earlier, other in self._waiting.items()):
            return None
        return self._available(owner)

    def _available(self, owner: str) -> Models | None:
        """Return an idle engine for the owner or start an engine. Return None if the caller must wait.

        Raises Unavailable if an engine cannot start.
        """
        if owner in self._lent:
            return None
        self._drop_ended()
        if idle := self._idle:
            return next((models for models in idle if models.holds(owner)), idle[0])
        return self._start_engine() if len(self._all) < self.settings.engines_max else None

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the spreadsheet's engines were closed")

    def _give_back(self, owner: str, models: Models) -> None:
        with self._freed:
            self._lent.pop(owner, None)
            if models in self._all:
                # `_available` takes the first idle engine. Append, so that the first engine has been idle for longest.
                self._all.remove(models)
                self._all.append(models)
                self._drop_ended()
                self._start_ahead()
            self._freed.notify_all()

    def _drop_ended(self) -> None:
        for models in [models for models in self._idle if not models.engine.is_alive]:
            self._all.remove(models)
            models.engine.close()
            self._deaths += 1

    def _start_ahead(self) -> None:
        """Start an engine if none is idle, so that the next caller need not wait for a start."""
        if self._is_ahead and not self._is_closed and not self._idle and len(self._all) < self.settings.engines_max:
            with suppress(Unavailable):  # the present caller has its engine; the next caller gets the error
                self._start_engine()

    def _start_engine(self) -> Models:
        engine = Engine(self._folder, self.settings, self.clock)
        engine.start()
        models = Models(engine, self.unopenable, self.clock, self.settings.workbook_seconds_max)
        self._all.append(models)
        self._starts += 1
        return models


class _Held(threading.local):
    """The models lent to the present thread, by owner."""

    def __init__(self) -> None:
        self.held: dict[str, Models] = {}
        self.is_refused = False


def _reset(pool: weakref.ref[EnginePool]) -> None:
    if (known := pool()) is not None:
        known._reset()
