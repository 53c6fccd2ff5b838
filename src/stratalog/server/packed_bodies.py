"""Packed bodies: gzip members and zstd frames, one after the other, unpacked piece by piece."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import zstandard

from stratalog.errors import Invalid, LimitExceeded
from stratalog.limits import PACKED_PARTS_MAX, PACKED_WINDOW_BYTES_MAX

__all__ = ["ENCODINGS", "PackedBody"]

PIECE_BYTES = 64 * 1024
ZSTD_SLICE_BYTES = 128
"""zstd has no bound on what one call answers. So many bytes hold at most 33 blocks, and a block unpacks to 128 KiB."""

ZSTD_WRITE_BYTES = 32 * 1024


class PackedBody:
    """One body on its way in. ``unpack`` takes what arrives, ``finish`` checks that nothing is missing.

    A body is one or more gzip members, or zstd frames; each is checked by its own checksum, where it has one.
    """

    def __init__(self, encoding: str) -> None:
        self._begin, self._step = _CODECS[encoding]
        self._part: Any = None
        self._parts = 0

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        """The pieces that follow from what arrived. Raises Invalid, LimitExceeded for too many members or frames."""
        try:
            while packed:
                if self._part is None:
                    self._part = self._next_part()
                piece, packed, pending = self._step(self._part, packed)
                if piece:
                    yield piece
                while pending and not self._part.eof:
                    piece, _, pending = self._step(self._part, b"")
                    if piece:
                        yield piece
                if self._part.eof:
                    packed = self._part.unused_data + packed
                    self._part = None
        except (zlib.error, zstandard.ZstdError) as exc:
            raise Invalid("the body does not unpack", reason=str(exc)) from exc

    def finish(self) -> None:
        """Raise Invalid where the last member or frame is cut short, or where there is none."""
        if self._part is not None or not self._parts:
            raise Invalid("the body does not unpack", reason="it is cut short")

    def _next_part(self) -> Any:
        self._parts += 1
        # Each part costs an unpacker: many empty ones would take long and unpack to nothing.
        if self._parts > PACKED_PARTS_MAX:
            raise LimitExceeded("a packed body has too many members or frames", limit=PACKED_PARTS_MAX)
        return self._begin()


def _begin_gzip() -> Any:
    return zlib.decompressobj(wbits=31)


def _begin_zstd() -> Any:
    unpacker = zstandard.ZstdDecompressor(max_window_size=PACKED_WINDOW_BYTES_MAX)
    return unpacker.decompressobj(write_size=ZSTD_WRITE_BYTES)


def _step_gzip(member: Any, packed: bytes) -> tuple[bytes, bytes, bool]:
    """One piece, the input that is left, and whether more output may wait inside."""
    piece = member.decompress(packed, PIECE_BYTES)
    return piece, member.unconsumed_tail, not member.unconsumed_tail and len(piece) == PIECE_BYTES


def _step_zstd(frame: Any, packed: bytes) -> tuple[bytes, bytes, bool]:
    return frame.decompress(packed[:ZSTD_SLICE_BYTES]), packed[ZSTD_SLICE_BYTES:], False


_CODECS: Mapping[str, tuple[Callable[[], Any], Callable[[Any, bytes], tuple[bytes, bytes, bool]]]] = {
    "gzip": (_begin_gzip, _step_gzip),
    "zstd": (_begin_zstd, _step_zstd),
}
ENCODINGS = frozenset(_CODECS)
