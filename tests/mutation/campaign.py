"""Run a random sample of mutants in parallel, in copies of the checkout.

Results are lines of JSON in a file. A later run with the same file tries only the mutants that have no result in the
file.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from random import Random

import msgspec

from tests.mutation.copies import SECONDS_MAX, copies_of, status_of
from tests.mutation.plan import commands_for, modules_of
from tests.mutation.sites import Mutant, count_mutants, mutant_of

__all__ = ["Trial", "check_unchanged", "draw_sample", "read_trials", "run_campaign"]


class Trial(msgspec.Struct, frozen=True):
    """The result of one mutant. ``noticed_by`` is the command that failed, or None if all commands passed."""

    name: str
    function: str
    operator: str
    before: str
    after: str
    noticed_by: str | None
    how: str
    seconds: float


def draw_sample(root: Path, size: int, seed: int) -> list[Mutant]:
    """Draw ``size`` mutants of the sampled packages with equal probability, and return them in the order of drawing."""
    changes = [(path, number) for path in modules_of(root) for number in range(count_mutants(path))]
    drawn: list[Mutant] = []
    for path, number in Random(seed).sample(changes, len(changes)):
        if len(drawn) == size:
            break
        if (mutant := mutant_of(path, root, number)) is not None:
            drawn.append(mutant)
    return drawn


def check_unchanged(root: Path, mutants: Sequence[Mutant], seed: int) -> None:
    """Parse and unparse one module of each package without a change, and test it.

    Raises RuntimeError if a test fails.
    """
    with copies_of(root, 1) as copies:
        copy = copies.get()
        for path in {Path(mutant.path).parts[2]: mutant.path for mutant in mutants}.values():
            source = ast.unparse(ast.parse((copy / path).read_text()))
            trial = try_mutant(copy, Mutant(path, 0, 0, "", "", "", "", source), seed)
            if trial.noticed_by is not None:
                raise RuntimeError(f"{trial.noticed_by} fails without a change of {path}: {trial.how}")


def run_campaign(root: Path, mutants: Sequence[Mutant], results: Path, processes: int, seed: int) -> Iterator[Trial]:
    """Try the mutants that are not in ``results`` yet. Write each trial to the file, then yield it."""
    _drop_cut_line(results)
    done = {trial.name for trial in read_trials(results)}
    waiting = [mutant for mutant in mutants if mutant.name not in done]
    with copies_of(root, processes) as copies, ThreadPoolExecutor(processes) as pool:

        def attempt(mutant: Mutant) -> Trial:
            copy = copies.get()
            try:
                return try_mutant(copy, mutant, seed)
            finally:
                copies.put(copy)

        for future in as_completed([pool.submit(attempt, mutant) for mutant in waiting]):
            trial = future.result()
            with results.open("ab") as file:
                file.write(msgspec.json.encode(trial) + b"\n")
            yield trial


def read_trials(results: Path) -> list[Trial]:
    """Return the trials in a file, without an incomplete last line."""
    lines = results.read_bytes().split(b"\n")[:-1] if results.exists() else []
    return [msgspec.json.decode(line, type=Trial) for line in lines]


def _drop_cut_line(results: Path) -> None:
    """Cut an incomplete last line off the file, or create the file. A kill at any moment loses no complete line."""
    with results.open("ab") as file:
        file.truncate(results.read_bytes().rfind(b"\n") + 1)


def try_mutant(copy: Path, mutant: Mutant, seed: int) -> Trial:
    """Change the module in the copy, run its commands until one fails, and restore the module."""
    module = copy / mutant.path
    original, began = module.read_text(), time.monotonic()
    module.write_text(mutant.source)
    try:
        noticed, how = None, "survived"
        for command in commands_for(mutant.path, copy, seed):
            if how := _fails(copy, command):
                noticed = " ".join(part for part in command[1:] if part not in ("-m", "-q", "-x"))
                break
    finally:
        module.write_text(original)
    facts = mutant.name, mutant.function, mutant.operator, mutant.before, mutant.after
    return Trial(*facts, noticed, how or "survived", round(time.monotonic() - began, 1))


def _fails(copy: Path, command: Sequence[str]) -> str:
    """Return how the command fails in the copy, or "" if the command succeeds."""
    status = status_of(copy, command)
    if status is None:
        return f"still runs after {SECONDS_MAX} s"
    return f"exit code {status}" if status else ""
