"""Modules of the lowest layer, the ground floor (docs/design.md#layers): clocks, numbers in keys, compressed frames."""

from __future__ import annotations

import pytest

from stratalog.clock import Observation
from stratalog.codec import compress, decompress
from stratalog.errors import Corrupt
from stratalog.keys import number, parse_number
from stratalog.limits import VERSION_MAX
from stratalog.testing.clock import ManualClock


@pytest.mark.parametrize(("wall", "boot"), [(7_000, 1_000), (1_000, 7_000), (-60_000, 7_000), (7_000, 0)])
def test_an_observation_ages_by_the_larger_of_wall_and_boot_time(wall: int, boot: int) -> None:
    clock = ManualClock()
    began_ms, seen = clock.wall_ms(), Observation(clock)
    clock.sleep(boot / 1000)
    clock.set_wall(began_ms + wall)
    assert seen.age_seconds() == 7


def test_versions_sort_as_numbers_up_to_the_bound() -> None:
    versions = [0, 1, 9, 10, 99, 100, 2**31, 2**32, VERSION_MAX - 1, VERSION_MAX]
    texts = [number(version) for version in versions]
    assert texts == sorted(texts)
    assert [parse_number(text) for text in texts[:-1]] == versions[:-1]  # the largest number is only a bound


def test_a_frame_whose_declared_size_exceeds_the_limit_is_not_decompressed() -> None:
    bomb = compress(bytes(10_000_000))
    assert len(bomb) < 10_000
    with pytest.raises(Corrupt, match="value=10000000 limit=9999999"):
        decompress(bomb, 9_999_999)


@pytest.mark.parametrize("damaged", [b"", b"no frame", compress(b"text" * 100)[:-3]])
def test_a_truncated_or_invalid_frame_raises_corrupt(damaged: bytes) -> None:
    with pytest.raises(Corrupt):
        decompress(damaged, 1000)
