"""The reads of a backup that is opened as a store follow the contract of `Blobs`.

`BlobsContract` cannot run over these blobs: it puts and deletes, and a backup is read-only.
"""

from __future__ import annotations

from random import Random

import pytest

from stratalog.codec import sha256
from stratalog.errors import NotFound
from stratalog.ports.blobs import Blobs
from stratalog.testing.clock import ManualClock
from tests.backups.stores import Backups
from tests.inline_store import open_inline


@pytest.mark.parametrize("prefix", ["", "acme/", "acme/records/r", "acme/records/r/"])
def test_the_blobs_of_a_backup_are_in_order_of_their_keys(prefix: str) -> None:
    source, blobs = _source_and_backup()
    expected = [stat.key for stat in source.list(prefix)]
    assert [stat.key for stat in blobs.list(prefix)] == expected
    assert [stat.key for stat in blobs.list(prefix, after=expected[1])] == expected[2:]


def test_each_blob_of_a_backup_has_its_own_key_and_the_bytes_of_its_source() -> None:
    source, blobs = _source_and_backup()
    keys = [stat.key for stat in source.list("")]
    assert keys
    for key in keys:
        stat, expected = blobs.stat(key), source.stat(key)
        assert stat is not None
        assert expected is not None
        assert (stat.key, stat.stored_bytes) == (key, expected.stored_bytes)
        assert [listed.key for listed in blobs.list(key)] == [key]
        assert blobs.get(key) == source.get(key)


@pytest.mark.parametrize("owner", ["acme/records/r/bodies", "acme/records/none/bodies", "zeta/plan@abc/chunks"])
def test_a_blob_that_a_backup_does_not_hold_is_not_found(owner: str) -> None:
    _, blobs = _source_and_backup()
    key = f"{owner}/{sha256(b'none').hex()}"
    assert (blobs.stat(key), list(blobs.list(key))) == (None, [])
    with pytest.raises(NotFound):
        blobs.get(key)


def _source_and_backup() -> tuple[Blobs, Blobs]:
    """Return the blobs of a store and of its backup.

    The ids of some records begin with the ids of others, and `-` and `.` precede the slash after an id.
    """
    store = open_inline(clock=ManualClock())
    for count, id in enumerate(("r", "r-1", "r-1.a", "r.", "r0", "q", "s")):
        for version in range(2):
            store.records("acme").put(id, Random(2 * count + version).randbytes(20_000))
    backups = Backups(store.environment.clock)
    backups.make(store)
    return store.environment.blobs, backups.view().environment.blobs
