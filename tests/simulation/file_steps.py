"""Steps at single file operations: stand-ins for `os`, `open` and `flock` in the blob folder of several processes.

Before each operation, other processes may run, or the simulation may kill the process. After a kill, no operation of
the process has an effect, not even in its `finally` blocks. The simulation closes the files of a killed process, which
releases its locks. A kernel does the same.
"""

from __future__ import annotations

import builtins
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from stratalog import folders
from stratalog.backends import files
from stratalog.testing.scheduler import Actor, Scheduler
from tests.simulation.mutants import replaced

__all__ = ["FileSteps"]

STEPS = ("link", "mkdir", "rename", "rmdir", "unlink", "utime")
"""The operations that change a folder or the age of a file."""


class FileSteps:
    """The file operations of all processes. Each operation first calls ``operation``, which may raise Crash."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.operation: Callable[[str], None] = lambda label: None
        self.holders: set[Actor] = set()
        """The actors that hold a lock."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Route the file operations of the blob folder through this object inside the block."""
        stepping = _SteppingOs(self)
        with ExitStack() as stack:
            for module in (files, folders):
                stack.enter_context(replaced(module, "os", stepping)())
            stack.enter_context(replaced(files, "fcntl", _SteppingLocks(self))())
            files.open = self._open  # type: ignore[attr-defined]
            stack.callback(delattr, files, "open")
            yield

    def step(self, label: str) -> None:
        """Call ``operation`` before an operation of an actor. Set-up and checks take no steps."""
        if self._scheduler.current is not None:
            self.operation(label)

    def lock(self, file: Any, how: int) -> None:
        """Call `flock`. The code under test must pass LOCK_NB, because a blocked call would stop all actors."""
        self.step("flock")
        try:
            fcntl.flock(file, how)
        except BlockingIOError:
            self._scheduler.counts.bump("lock was taken")
            raise
        if self._scheduler.current is not None:
            (self.holders.discard if how == fcntl.LOCK_UN else self.holders.add)(self._scheduler.parking())

    def _open(self, path: str, mode: str, **options: Any) -> Any:
        self.step("open")
        return builtins.open(path, mode, **options)


class _SteppingOs:
    """A stand-in for the module `os`. Each change and each listing is a step. The listings are sorted."""

    def __init__(self, steps: FileSteps) -> None:
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        operation = getattr(os, name)
        return self._stepping(name, operation) if name in STEPS else operation

    def scandir(self, folder: str) -> Any:
        self._steps.step("scandir")
        return _Scanned(sorted(os.scandir(folder), key=lambda entry: entry.name))

    def walk(self, folder: str, *, topdown: bool = True) -> list[tuple[str, list[str], list[str]]]:
        self._steps.step("walk")
        levels = [(path, sorted(below), sorted(names)) for path, below, names in os.walk(folder)]
        return sorted(levels, reverse=not topdown)

    def _stepping(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **options: Any) -> Any:
            self._steps.step(name)
            return operation(*arguments, **options)

        return stepped


class _Scanned(list[Any]):
    """A listing that is also a context manager, like the listing of `os.scandir`."""

    def __enter__(self) -> _Scanned:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, because the listing has no open descriptor."""


class _SteppingLocks:
    """A stand-in for the part of the module `fcntl` that `FileBlobs` uses."""

    LOCK_EX, LOCK_NB, LOCK_UN = fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN

    def __init__(self, steps: FileSteps) -> None:
        self.flock = steps.lock
