"""Mutants: bugs planted on purpose, to show that the checkers find them. Each must be caught by its checker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import msgspec

from tests.simulation.worlds import World, run_seed

__all__ = ["Catch", "Mutant", "Planting", "hunt", "replaced", "together"]

Planting = Callable[[], AbstractContextManager[None]]


class Mutant(msgspec.Struct, frozen=True):
    """A planted bug: ``apply`` returns a context with the bug, ``caught_by`` names the checkers that may find it."""

    name: str
    world: type[World]
    apply: Callable[[], AbstractContextManager[None]]
    caught_by: tuple[str, ...]


class Catch(msgspec.Struct, frozen=True):
    """The result of a hunt: the number of ``seeds``, and the ``checker`` ("" if none saw it; "crash" is no checker)."""

    mutant: str
    good: bool
    checker: str
    seeds: int
    details: str = ""


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Run seeds of the mutant's world with the bug until one fails. A good catch is by a checker in ``caught_by``."""
    count = 0
    with mutant.apply():
        for count, seed in enumerate(seeds, 1):
            outcome = run_seed(mutant.world, seed)
            if outcome.checker:
                good = outcome.checker in mutant.caught_by
                return Catch(mutant.name, good, outcome.checker, count, f"seed={seed} {outcome.details}")
    return Catch(mutant.name, False, "", count)


def replaced(owner: Any, name: str, replacement: object) -> Callable[[], AbstractContextManager[None]]:
    """Return an ``apply`` for a mutant: it replaces the attribute ``name`` of a module or class by ``replacement``.

    Replace it where it is looked up: in the calling module, if that module imported it by name.
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
    """Return several replacements as one bug."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for planting in plantings:
                stack.enter_context(planting())
            yield

    return planted
