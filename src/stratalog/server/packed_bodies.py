"""Packed bodies: a sequence of gzip members or zstd frames, unpacked piece by piece in bounded memory."""

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
"""The number of input bytes of one zstd call. Only this number bounds the output: 128 bytes contain at most 33 blocks,
and each block unpacks to at most 128 KiB."""

ZSTD_WRITE_BYTES = 32 * 1024


class PackedBody:
    """The unpacker of one body. Call `unpack` for each chunk, then `finish`, which checks that the body is complete.

    A body is one or more gzip members, or one or more zstd frames. The unpacker verifies the checksum of each member,
    and of each frame that has a checksum.
    """

    def __init__(self, encoding: str) -> None:
        self._begin, self._step = _CODECS[encoding]
        self._part: Any = None
        self._parts = 0

    def unpack(self, packed: bytes) -> Iterator[bytes]:
        """Yield the unpacked pieces of a chunk. Raises Invalid, and LimitExceeded for too many members or frames."""
        try:
            while packed:
                if self._part is None:
                    self._part = self._next_part()
                piece, packed, pending = self._step(self._part, packed)
                if piece:
                    yield piece
                # Output that exceeded `PIECE_BYTES` waits inside the unpacker, although the input is used up.
                while pending and not self._part.eof:
                    piece, _, pending = self._step(self._part, b"")
                    if piece:
                        yield piece
                # The bytes after the end of a member or frame begin the next member or frame.
                if self._part.eof:
                    packed = self._part.unused_data + packed
                    self._part = None
        except (zlib.error, zstandard.ZstdError) as exc:
            raise Invalid("the body cannot be decompressed", reason=str(exc)) from exc

    def finish(self) -> None:
        """Raise Invalid when the last member or frame is incomplete, or when the body has none."""
        if self._part is not None or not self._parts:
            raise Invalid("the body cannot be decompressed", reason="it is cut short")

    def _next_part(self) -> Any:
        self._parts += 1
        # Each part needs a new unpacker. So many empty parts would take long, although they contain no data.
        if self._parts > PACKED_PARTS_MAX:
            raise LimitExceeded("a compressed body has too many members or frames", limit=PACKED_PARTS_MAX)
        return self._begin()


def _begin_gzip() -> Any:
    return zlib.decompressobj(wbits=31)


def _begin_zstd() -> Any:
    unpacker = zstandard.ZstdDecompressor(max_window_size=PACKED_WINDOW_BYTES_MAX)
    return unpacker.decompressobj(write_size=ZSTD_WRITE_BYTES)


def _step_gzip(member: Any, packed: bytes) -> tuple[bytes, bytes, bool]:
    """Return one piece, the remaining input, and whether more output may wait inside the unpacker."""
    piece = member.decompress(packed, PIECE_BYTES)
    return piece, member.unconsumed_tail, not member.unconsumed_tail and len(piece) == PIECE_BYTES


def _step_zstd(frame: Any, packed: bytes) -> tuple[bytes, bytes, bool]:
    return frame.decompress(packed[:ZSTD_SLICE_BYTES]), packed[ZSTD_SLICE_BYTES:], False


_CODECS: Mapping[str, tuple[Callable[[], Any], Callable[[Any, bytes], tuple[bytes, bytes, bool]]]] = {
    "gzip": (_begin_gzip, _step_gzip),
    "zstd": (_begin_zstd, _step_zstd),
}
ENCODINGS = frozenset(_CODECS)
