"""Redaction of a version: erase its body and salt, and keep the digest that represents both in the chain.

The commit also writes the record's floor. So the next copy of the store into the same target compares the record's
versions again. If an undeletion has read the body before the redaction, the commit of the undeletion fails.
"""

from __future__ import annotations

from typing import Any

from stratalog.clock import new_id
from stratalog.errors import ConditionFailed, Unavailable
from stratalog.log.chain import body_digest
from stratalog.log.commit import commit_once
from stratalog.log.environment import Environment
from stratalog.ports.index import Equals, Item, Put
from stratalog.records.floor import floor_put, read_floor
from stratalog.records.history import item_of
from stratalog.records.versions import TOMBSTONE, Name

__all__ = ["redact_item"]


def redact_item(environment: Environment, name: Name, version: int) -> Item:
    """Erase the body of a version, on condition that its item and the floor are unchanged; return the resulting item.

    The function removes only the reference to a body in blobs: the collector deletes the blobs later. A deleted or
    redacted version is left as it is. Raises NotFound, VersionForgotten, Corrupt, Unavailable. Raises OutcomeUnknown:
    the body may be erased.
    """
    retry = environment.retry()
    while True:
        floor = read_floor(environment.index, name)
        item = item_of(environment, name, version)
        if "d" in item.attributes or item.attributes.get("k") == TOMBSTONE:
            return item
        erased = _erased(item)
        try:
            commit_once(
                environment,
                [Put(erased, Equals("s", item.attributes["s"])), floor_put(name, floor, new_id(environment.clock))],
                lambda: "d" in item_of(environment, name, version).attributes,
            )
        except ConditionFailed as exc:  # another process redacted a version or changed the floor
            if not retry.wait(exc):
                raise Unavailable(
                    "another process kept changing the record during the redaction", record=name.id, version=version
                ) from exc
            continue
        environment.count("record redaction")
        return erased


def _erased(item: Item) -> Item:
    """Return the item without body, size, body hash and salt.

    With the hash or the salt, a reader could confirm a guessed body.
    """
    attributes: Any = item.attributes
    digest = body_digest(attributes["s"], attributes["h"])
    left = {name: value for name, value in attributes.items() if name not in ("s", "b", "z", "x")}
    return Item(item.partition, item.sort, {**left, "n": 0, "h": b"", "d": digest})
