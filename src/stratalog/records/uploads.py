"""Pins: while a body of several blobs is on its way, an item says so, and nobody collects the record's blobs.

Pins stand apart from what they guard, so that one who may take them away need not be allowed to take away a version.
Those of an organisation are one partition: what crashed uploads left is found without looking at each record.
"""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.keys import uploads_partition
from stratalog.limits import RECORD_UPLOAD_SECONDS_MAX
from stratalog.log.environment import Environment
from stratalog.ports.index import Delete, Equals, Item, Put
from stratalog.records.versions import Name

__all__ = ["is_uploading", "pin_put", "pins_of", "sweep_pins", "unpin"]

SWEEP_SECONDS = 2 * RECORD_UPLOAD_SECONDS_MAX
"""Later than pins are disbelieved: the collector is to meet those of a record that has blobs and nothing else."""


def pin_put(name: Name, pin: str, now_ms: int) -> Put:
    """The write that sets ``pin``, a random id."""
    return Put(Item(uploads_partition(name.organisation), _sort(name, pin), {"w": pin, "c": now_ms}))


def unpin(name: Name, pin: str) -> Delete:
    """The write that takes ``pin`` away, on condition that it still stands."""
    return Delete(uploads_partition(name.organisation), _sort(name, pin), Equals("w", pin))


def pins_of(environment: Environment, name: Name) -> Iterator[Item]:
    """The pins of one record."""
    # `0` comes right after `/`, which is in no key of a record.
    return environment.index.query(uploads_partition(name.organisation), after=f"{name.key}/", before=f"{name.key}0")


def is_uploading(environment: Environment, name: Name, *, dry_run: bool = False) -> bool:
    """Whether a body of several blobs is on its way to the record.

    A pin that nobody believes in any more is taken away first, so that its upload cannot end well; not in a dry run.
    """
    for item in pins_of(environment, name):
        if _age_seconds(environment, item) <= RECORD_UPLOAD_SECONDS_MAX:
            return True
        if not dry_run:
            environment.index.commit([Delete(item.partition, item.sort)])
    return False


def sweep_pins(environment: Environment, organisation: str) -> None:
    """Take away pins that no collector met, since they have no blob."""
    for item in environment.index.query(uploads_partition(organisation)):
        if _age_seconds(environment, item) > SWEEP_SECONDS:
            environment.index.commit([Delete(item.partition, item.sort)])


def _age_seconds(environment: Environment, pin: Item) -> float:
    return (environment.clock.wall_ms() - int(pin.attributes["c"])) / 1000


def _sort(name: Name, pin: str) -> str:
    return f"{name.key}/{pin}"
