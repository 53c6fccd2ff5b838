"""A read of a body checks that the body has the size that its reference gives."""

from __future__ import annotations

import msgspec
import pytest

from stratalog.backends.memory import MemoryBlobs
from stratalog.errors import Corrupt
from stratalog.log import bodies
from stratalog.log.bodies import read_body, read_body_back, write_body
from stratalog.testing.clock import ManualClock


@pytest.mark.parametrize("size", [50, 250], ids=["one blob", "three parts"])
def test_a_body_whose_size_differs_from_its_reference_is_corrupt(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(bodies, "BODY_PART_BYTES", 100)
    blobs = MemoryBlobs(ManualClock())
    reference = write_body(blobs, "acme/plan", bytes(range(size)))
    assert read_body(blobs, "acme/plan", reference) == bytes(range(size))
    assert [reading.damage for reading in read_body_back(blobs, "acme/plan", reference)] == [None] * len(
        [*blobs.list("")]
    )
    other = msgspec.structs.replace(reference, size=size + 1)
    with pytest.raises(Corrupt):
        read_body(blobs, "acme/plan", other)
    *_, last = read_body_back(blobs, "acme/plan", other)
    assert last.damage is not None
