"""A backup that is opened as a store lists its blobs as the contract of `Blobs` says."""

from __future__ import annotations

from random import Random

import pytest

from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline


@pytest.mark.parametrize("prefix", ["", "acme/", "acme/records/r", "acme/records/r/"])
def test_the_blobs_of_a_backup_are_in_order_of_their_keys(prefix: str) -> None:
    """The ids of some records begin with the ids of others, and `-` and `.` precede the slash after an id."""
    store = open_inline(clock=ManualClock())
    for count, id in enumerate(("r", "r-1", "r-1.a", "r.", "r0", "q", "s")):
        for version in range(2):
            store.records("acme").put(id, Random(2 * count + version).randbytes(20_000))
    backups = Backups(store.environment.clock)
    backups.make(store)
    source, blobs = store.environment.blobs, backups.view().environment.blobs
    expected = [stat.key for stat in source.list(prefix)]
    assert [stat.key for stat in blobs.list(prefix)] == expected
    assert [stat.key for stat in blobs.list(prefix, after=expected[1])] == expected[2:]
