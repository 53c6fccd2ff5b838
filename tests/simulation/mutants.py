"""Mutants: bugs planted on purpose, to show that the checkers find them.

One of the checkers that a mutant names must catch the mutant's bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import msgspec

from tests.simulation.worlds import World, run_seed

__all__ = ["Catch", "Mutant", "Planting", "hunt", "replaced", "together"]

Planting = Callable[[], AbstractContextManager[None]]


class Mutant(msgspec.Struct, frozen=True):
    """A planted bug. ``apply`` returns a context with the bug. ``caught_by`` names the checkers that may catch it."""

    name: str
    world: type[World]
    apply: Callable[[], AbstractContextManager[None]]
    caught_by: tuple[str, ...]


class Catch(msgspec.Struct, frozen=True):
    """The result of `hunt`: the number of ``seeds`` run, and the ``checker`` that saw the bug.

    ``checker`` is "" if no checker saw the bug, and "crash" after an unexpected exception.
    """

    mutant: str
    good: bool
    checker: str
    seeds: int
    details: str = ""


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Run the mutant's world with the bug until a seed fails. A catch is good if its checker is in ``caught_by``."""
    count = 0
    with mutant.apply():
        for count, seed in enumerate(seeds, 1):
            outcome = run_seed(mutant.world, seed)
            if outcome.checker:
                good = outcome.checker in mutant.caught_by
                return Catch(mutant.name, good, outcome.checker, count, f"seed={seed} {outcome.details}")
    return Catch(mutant.name, False, "", count)


def replaced(owner: Any, name: str, replacement: object) -> Callable[[], AbstractContextManager[None]]:
    """Return an ``apply`` for a mutant that replaces the attribute ``name`` of a module or class by ``replacement``.

    The code with the planted bug must look ``name`` up in ``owner``. If a module imports a function by its name and
    calls it, ``owner`` is that module, not the module that defines the function.
    """

    @contextmanager
    def planted() -> Iterator[None]:
        original = vars(owner)[name]
        setattr(owner, name, replacement)
        try:
            yield
        finally:
            setattr(owner, name, original)

    return planted


def together(*plantings: Planting) -> Planting:
    """Return one planting that applies several plantings."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for planting in plantings:
                stack.enter_context(planting())
            yield

    return planted
