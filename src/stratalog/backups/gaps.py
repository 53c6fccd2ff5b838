"""The gaps that the attempts to read one history find. A gap that two attempts find is damage."""

from __future__ import annotations

from stratalog.errors import Corrupt

__all__ = ["Gaps"]


class Gaps:
    """The missing versions that earlier attempts found. Each version has the key of its log or record.

    Before a version is freed, a segment's mark or a higher floor records that it will be. An attempt that begins after
    the version is freed reads this item and does not need the version. If it still needs the version, the version is
    lost.
    """

    def __init__(self) -> None:
        self._earlier = set[tuple[str, int]]()

    def add(self, key: str, version: int) -> None:
        """Note a gap. Raises Corrupt if an earlier attempt found the same gap."""
        if (key, version) in self._earlier:
            raise Corrupt("a version is missing", key=key, version=version)
        self._earlier.add((key, version))
