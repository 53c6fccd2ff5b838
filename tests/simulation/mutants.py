"""Mutants: bugs planted on purpose, to show that the checkers would find them. Each must be caught by its checker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import msgspec

from tests.simulation.worlds import World, run_seed

__all__ = ["Catch", "Mutant", "Planting", "hunt", "replaced", "together"]

Planting = Callable[[], AbstractContextManager[None]]


class Mutant(msgspec.Struct, frozen=True):
    """A planted bug: ``apply`` makes a context in which it lives, ``caught_by`` names the checkers that may find it."""

    name: str
    world: type[World]
    apply: Callable[[], AbstractContextManager[None]]
    caught_by: tuple[str, ...]


class Catch(msgspec.Struct, frozen=True):
    """How a hunt ended: after ``seeds`` seeds, by ``checker`` ("" when nothing was seen, "crash" is no checker)."""

    mutant: str
    good: bool
    checker: str
    seeds: int
    details: str = ""


def hunt(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Run seeds of the mutant's world with the bug alive until one fails. Good: a checker that was named saw it."""
    count = 0
    with mutant.apply():
        for count, seed in enumerate(seeds, 1):
            outcome = run_seed(mutant.world, seed)
            if outcome.checker:
                good = outcome.checker in mutant.caught_by
                return Catch(mutant.name, good, outcome.checker, count, f"seed={seed} {outcome.details}")
    return Catch(mutant.name, False, "", count)


def replaced(owner: Any, name: str, replacement: object) -> Callable[[], AbstractContextManager[None]]:
    """A mutant's ``apply`` that puts ``replacement`` in the place of the attribute ``name`` of a module or class.

    It must be replaced where it is looked up: in the module that calls it, when that imported it by name.
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
    """Several replacements that make one bug."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for planting in plantings:
                stack.enter_context(planting())
            yield

    return planted
