"""Pins: a pin is an item that marks the upload of a body of several blobs. While a pin is valid, the collector keeps
the record's blobs.

Pins are stored apart from versions, so permission to delete pins does not imply permission to delete versions. All pins
of an organisation are in one partition, so a sweep finds the pins of crashed uploads without reading each record.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stratalog.clock import is_interval_over
from stratalog.errors import Corrupt
from stratalog.keys import uploads_partition
from stratalog.limits import RECORD_UPLOAD_SECONDS_MAX
from stratalog.log.environment import Environment
from stratalog.log.listed_items import list_items
from stratalog.ports.index import Delete, Equals, Item, Put
from stratalog.ports.stored_attributes import Time, read_attributes
from stratalog.records.versions import Name

__all__ = ["StoredUpload", "is_uploading", "pin_put", "pins_of", "sweep_pins", "unpin"]

SWEEP_SECONDS = 2 * RECORD_UPLOAD_SECONDS_MAX
"""The age at which a sweep deletes a pin.

This age is twice the time that a pin is valid, so that the collector normally finds an expired pin before the sweep
deletes it. The pin shows the collector that a record has blobs but no version, and the collector deletes these blobs
without a delay.
"""


class StoredUpload(msgspec.Struct, frozen=True):
    """The attributes of a pin: its random id, and the time at which the upload began."""

    w: str
    c: Time


def pin_put(name: Name, pin: str, now_ms: int) -> Put:
    """Return the write that sets ``pin``, a random id."""
    return Put(Item(uploads_partition(name.organisation), _sort(name, pin), {"w": pin, "c": now_ms}))


def unpin(name: Name, pin: str) -> Delete:
    """Return the write that deletes ``pin``, on condition that it still exists."""
    return Delete(uploads_partition(name.organisation), _sort(name, pin), Equals("w", pin))


def pins_of(environment: Environment, name: Name) -> Iterator[Item]:
    """Return the pins of one record."""
    # No key of a record contains `/`, and `0` is the next character after `/`.
    return environment.index.query(uploads_partition(name.organisation), after=f"{name.key}/", before=f"{name.key}0")


def is_uploading(environment: Environment, name: Name, *, dry_run: bool = False) -> bool:
    """Return whether a body of several blobs is being uploaded to the record.

    An expired pin is deleted first, so that its upload can no longer succeed. A dry run deletes no pin.
    """
    for item in pins_of(environment, name):
        if not _is_older(environment, item, RECORD_UPLOAD_SECONDS_MAX):
            return True
        if not dry_run:
            environment.index.commit([Delete(item.partition, item.sort)])
    return False


def sweep_pins(environment: Environment, organisation: str) -> None:
    """Delete expired pins that the collector did not find because their uploads left no blob.

    Raises Corrupt if a pin is damaged, after the sweep of all others.
    """
    damage = None
    partition = uploads_partition(organisation)
    for listed in list_items(environment.index, partition):
        try:
            if listed.item is None:
                raise Corrupt(listed.fault, partition=partition, sort=listed.sort)
            if _is_older(environment, listed.item, SWEEP_SECONDS):
                environment.index.commit([Delete(partition, listed.sort)])
        except Corrupt as exc:
            damage = damage or exc
    if damage is not None:
        raise damage


def _is_older(environment: Environment, pin: Item, seconds: float) -> bool:
    """Return whether a pin is at least ``seconds`` old, or was set by a clock that is at least as far ahead.

    An upload of a host whose clock is so far ahead loses its pin at a collection, and fails.
    """
    return is_interval_over(environment.clock, read_attributes(pin, StoredUpload, "an upload").c, seconds * 1000)


def _sort(name: Name, pin: str) -> str:
    return f"{name.key}/{pin}"
