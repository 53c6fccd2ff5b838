"""The seed with which the hunt for a planted bug begins, since a rare bug is caught by one seed of hundreds.

A change of a world, or of code that calls its stores, changes what each seed does. Then a hunt is long again.
``python -m tests.simulation.first_seeds`` prints the lines of `FIRST_SEEDS` that make all hunts short.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import time

from tests.simulation.mutants import Mutant, hunt
from tests.simulation.simulate import MUTANTS

__all__ = ["FIRST_SEEDS", "SEEDS_MAX", "seeds_of"]

SEEDS_MAX = 4000
LONG_SECONDS = 3.0
FIRST_SEEDS = {
    "backup: blobs freed during the read": 272,
    "backup: record's blobs first": 32,
    "collect: forks made meanwhile not read": 192,
    "collect: new stamps with old marks": 116,
    "collect: snapshots read before entries": 617,
    "commit leaves the age of its blobs": 165,
    "conflict reported although COMMIT failed": 115,
    "decay: base proven through the cache": 3650,
    "decay: freed without reading back": 518,
    "decay: pins read only before the proof": 1768,
    "decay: scrub that found damage trusted": 609,
    "decay: scrub trusted for later values": 245,
    "decay: scrubbed values not looked up": 242,
    "failed COMMIT reported as unavailable": 102,
    "folder: renamed aside to delete": 1729,
    "late commit does not put its blobs again": 206,
    "log: commit without its second look": 453,
    "log: marks set back by a process that is behind": 42,
    "log: observation rule ignored by writers": 185,
    "log: version in doubt dropped while it is free": 172,
    "log: write in doubt called refused after a minute": 1160,
    "observation rule ignored (blobs)": 108,
    "records: blobs collected while young": 371,
    "restores: old parts not put again": 1114,
    "restores: segment of the entry not checked": 330,
    "restores: shared snapshot not checked": 257,
    "threads: decisions from a head that goes back": 791,
    "threads: floor goes back": 631,
    "threads: interrupted leader leaves the others unanswered": 76,
    "threads: next leader forgets the version in doubt": 312,
    "threads: one error object for all": 421,
    "threads: state moves to an older snapshot": 477,
    "usage: an answer in doubt is released": 85,
    "usage: reservations are not released": 124,
}


def seeds_of(mutant: Mutant) -> range:
    """Return the seeds of the hunt for a planted bug."""
    first = FIRST_SEEDS.get(mutant.name, 0)
    return range(first, first + SEEDS_MAX)


def main() -> int:
    """Hunt every planted bug. Print its first seed if it has one or if its hunt is long. Report uncaught bugs."""
    logging.getLogger("stratalog").addHandler(logging.NullHandler())
    context = multiprocessing.get_context("fork")
    with context.Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        for number, first in pool.imap_unordered(_first_seed, range(len(MUTANTS)), chunksize=1):
            if first is None:
                print(f"not caught: {MUTANTS[number].name}", file=sys.stderr)
            elif first:
                print(f'    "{MUTANTS[number].name}": {first},', flush=True)
    return 0


def _first_seed(number: int) -> tuple[int, int | None]:
    """Return a seed from which the hunt for the planted bug of this number is short, or None if no hunt catches it."""
    mutant = MUTANTS[number]
    seeds = seeds_of(mutant)
    began = time.process_time()
    catch = hunt(mutant, seeds)
    if not catch.good:
        return number, None
    is_long = time.process_time() - began > LONG_SECONDS
    return number, seeds[catch.seeds - 1] if is_long else seeds.start


if __name__ == "__main__":
    sys.exit(main())
