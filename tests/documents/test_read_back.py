"""`read_state_back` reads every chunk, value and part of a state from storage, even if they are in a cache."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import msgspec
import pytest

from stratalog.documents import Document
from stratalog.documents.read_back import read_state_back, require_state
from stratalog.documents.snapshots import roots_of
from stratalog.documents.state import Roots
from stratalog.errors import Corrupt, Unavailable
from stratalog.limits import BODY_PART_BYTES
from stratalog.log.snapshots import newest_snapshot
from stratalog.ports.read_back import BlobReading
from tests.damage import DAMAGES, FLIP, LOSE, damaged_blob
from tests.documents.helpers import World, large, put


def filled() -> tuple[World, Document]:
    world = World()
    document = world.create()
    for first in range(0, 600, 50):
        document.apply([put(f"k/{key:04}", "v" * 60) for key in range(first, first + 50)])
    document.apply([put("books/dune", large("dune")), put("shelf/dune", large("dune")), put("books/one", large("one"))])
    document.delete("k/0000")
    document.snapshot()
    return world, document


def roots_at_head(document: Document) -> Roots:
    log = document.log
    snapshot = newest_snapshot(log.environment.index, log.record.prefix, document.version)
    assert snapshot is not None
    return roots_of(snapshot)


def readings(document: Document) -> Iterator[BlobReading]:
    return read_state_back(document.chunks, document.stored_values, roots_at_head(document))


def damaged(document: Document) -> dict[str, bool]:
    """Map the key of each damaged blob to whether the blob is missing."""
    return {damage.key: damage.is_missing for reading in readings(document) if (damage := reading.damage) is not None}


def test_reading_a_state_back_reads_each_of_its_blobs_once() -> None:
    world, document = filled()
    read = [reading.key for reading in readings(document) if reading.key]
    assert damaged(document) == {}
    assert len(read) == len(set(read))
    assert set(read) == set(world.blob_keys("/chunks/") + world.blob_keys("/items/"))


@pytest.mark.parametrize("how", DAMAGES)
def test_each_damaged_blob_is_named_even_if_a_cache_contains_the_blob(how: str) -> None:
    world, document = filled()
    list(document.scan())
    for key in world.blob_keys():
        with damaged_blob(world.blobs.backend, key, how):
            assert damaged(document)[key] == (how == LOSE)
            with pytest.raises(Corrupt) as caught:
                require_state(document.chunks, document.stored_values, roots_at_head(document))
            assert caught.value.details["key"] == key


def test_only_damaged_blobs_are_named() -> None:
    world, document = filled()
    top = document.chunks.key(roots_at_head(document).content.address)
    leaves = [key for key in world.blob_keys("/chunks/") if key != top]
    with damaged_blob(world.blobs.backend, leaves[0], FLIP), damaged_blob(world.blobs.backend, leaves[-1], LOSE):
        assert damaged(document) == {leaves[0]: False, leaves[-1]: True}


def test_each_damaged_part_of_a_large_value_is_named() -> None:
    world = World()
    document = world.create()
    document.apply([put("films/long", {"reel": "".join(chr(97 + part) * BODY_PART_BYTES for part in range(3))})])
    document.snapshot()
    *parts, listing = [reading.key for reading in readings(document) if "/items/" in reading.key]
    assert len(parts) == 4
    for first, second in combinations(parts, 2):
        with damaged_blob(world.blobs.backend, first, FLIP), damaged_blob(world.blobs.backend, second, LOSE):
            assert damaged(document) == {first: False, second: True}
    # Without the list of parts, the reader finds no part.
    with damaged_blob(world.blobs.backend, listing, FLIP), damaged_blob(world.blobs.backend, parts[0], LOSE):
        assert damaged(document) == {listing: False}


def test_a_state_that_fits_its_snapshot_record_has_no_blob_to_read() -> None:
    world = World()
    document = world.create()
    document.mutate("put", {"key": "a", "value": 1})
    document.snapshot()
    assert [reading.key for reading in readings(document)] == ["", "", ""]
    assert damaged(document) == {}


def test_an_inline_chunk_that_does_not_match_its_root_raises_corrupt() -> None:
    world = World()
    document = world.create()
    document.mutate("put", {"key": "a", "value": 1})
    document.snapshot()
    roots = roots_at_head(document)
    content = msgspec.structs.replace(roots.content, inline=bytes(len(roots.content.inline or b"")))
    with pytest.raises(Corrupt):
        require_state(document.chunks, document.stored_values, msgspec.structs.replace(roots, content=content))


def test_an_outage_is_no_damage() -> None:
    world, document = filled()

    def away(name: str, target: str) -> None:
        if name == "blob get":
            raise Unavailable("the blobs are away")

    roots = roots_at_head(document)
    world.recorder.before = away
    with pytest.raises(Unavailable):
        require_state(document.chunks, document.stored_values, roots)
