"""A tamperer's alterations of the versions of a history. The alterations change only facts that the chain covers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import zstandard

from stratalog.backends.memory import MemoryBlobs
from tests.tampering.rows import LogRows, RecordRows, Rows

__all__ = ["ALTERATIONS", "SHIFTS", "Alteration", "alter_blob", "rehash"]

Alteration = Callable[[Random, Rows, int, "LogRows | RecordRows"], None]
"""A function that alters ``rows`` at a version."""


def _content(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    row = rows[version]
    if isinstance(history, RecordRows):
        body = draw.randbytes(9)
        changed = {"b": body, "h": hashlib.sha256(body).digest(), "n": len(body), "s": row.get("s", draw.randbytes(16))}
    else:
        changed = {"b": _other_events(row, history.blobs, history.folder), "s": row.get("s", draw.randbytes(16))}
    _replace(row, ("b", "z", "x", "k", "d"), changed)


def _other_events(row: dict[str, Any], blobs: MemoryBlobs, folder: str) -> bytes:
    """Return the events of an entry with one value changed. For a redacted entry, return invented events."""
    if "d" in row:
        return msgspec.msgpack.encode([["commit", [[], [], [], None], 1]])
    if "x" in row:
        address, _, _ = msgspec.msgpack.decode(row["x"])
        body = blobs.get(f"{folder}/{address.hex()}")
    else:
        body = row["b"] if "b" in row else zstandard.decompress(row["z"])
    events = msgspec.msgpack.decode(body)
    data = events[0][1]
    if isinstance(data, dict):
        data["cell"] += 1
    elif isinstance(data, int):
        events[0][1] += 1
    elif events[0][0] == "base":
        data[0] += 1
    elif events[0][0] == "commit":
        data[0][0][2] += " altered"
    else:
        data[0].append(["nobody", ""])
    return msgspec.msgpack.encode(events, order="deterministic")


def _author(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    name = "p" if isinstance(history, RecordRows) else draw.choice(("a", "p"))
    if name in rows[version] and draw.random() < 0.5:
        del rows[version][name]
    else:
        rows[version][name] = "eve"


def _time(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    rows[version]["c"] += draw.choice((-1, 1, 3_600_000))


def _write_id(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    rows[version]["w"] = "forged"


def _digest(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    name = "d" if "d" in rows[version] else "s"
    rows[version][name] = draw.randbytes(len(rows[version][name]))


def _extras(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    row = rows[version]
    if isinstance(history, LogRows):
        _author(draw, rows, version, history)
    elif draw.random() < 0.5:
        row["t"] = row.get("t", 0) + 1
    else:
        row["u"] = msgspec.msgpack.encode({"forged": True})


def _order(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    other = draw.choice([other for other in rows if other != version])
    _swap(rows, version, other)


def _swap(rows: Rows, version: int, other: int) -> None:
    origins = {n: rows[n].pop("og") for n in (version, other) if "og" in rows[n]}  # the origin stays in version 1
    rows[version], rows[other] = rows[other], rows[version]
    for n, origin in origins.items():
        rows[n]["og"] = origin


def _hash(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    rows[version][history.hash_name] = draw.randbytes(32)


def _removal(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    """Remove one version, but not the newest. Removal of the newest version is a truncation."""
    del rows[min(version, max(rows) - 1)]


def _closed_gap(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    """Remove one version, and move the later versions down."""
    for n in range(version, max(rows)):
        _swap(rows, n, n + 1)
    del rows[max(rows)]


def _insertion(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    """Insert one version, and move the later versions up."""
    last = max(rows)
    rows[last + 1] = {**rows[version], "w": "forged", "s": draw.randbytes(16)}
    rows[last + 1].pop("og", None)
    if "d" in rows[last + 1]:
        rows[last + 1].pop("s")
    for n in range(last + 1, version, -1):
        _swap(rows, n, n - 1)


def _truncation(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> None:
    for n in [n for n in rows if n >= max(version, min(rows) + 1)]:
        del rows[n]


ALTERATIONS: dict[str, Alteration] = {
    "content": _content,
    "author": _author,
    "time": _time,
    "write id": _write_id,
    "digest": _digest,
    "extras": _extras,
    "order": _order,
    "hash": _hash,
    "removal": _removal,
    "truncation": _truncation,
}
SHIFTS: dict[str, Alteration] = {"closed gap": _closed_gap, "insertion": _insertion}
"""Alterations that move versions. Only a careful tamperer moves versions, because a moved version needs a new hash."""


def rehash(rows: Rows, history: LogRows | RecordRows) -> None:
    """Recompute every hash, so that the chain verifies, and update the other items that contain one of these hashes."""
    before = history.before
    for version in sorted(rows):
        before = rows[version][history.hash_name] = history.hash(before, version, rows[version])
    history.cover(rows)


def alter_blob(draw: Random, rows: Rows, version: int, history: LogRows | RecordRows) -> bool:
    """Damage or remove the blob with the version's body. Return False if the body is not in a blob."""
    if "x" not in rows[version]:
        return False
    address, _, _ = msgspec.msgpack.decode(rows[version]["x"])
    key = f"{history.folder}/{address.hex()}"
    if draw.random() < 0.5:
        history.blobs._bodies[key] = draw.randbytes(20)
    else:
        history.blobs._bodies.pop(key)
        history.blobs._stats.pop(key)
    return True


def _replace(row: dict[str, Any], gone: tuple[str, ...], changed: dict[str, Any]) -> None:
    for name in gone:
        row.pop(name, None)
    row |= changed
