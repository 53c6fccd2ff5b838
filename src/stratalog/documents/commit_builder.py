"""Build the entry of a run: store large values and arguments as blobs, and encode all other data as one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stratalog.codec import decode, encode
from stratalog.documents.commits import Commit, Merged, PatchRow, Recorded
from stratalog.documents.run import Ran, Run, net_changes
from stratalog.documents.state import State
from stratalog.documents.values import Values, patch_argument, value_of, value_size
from stratalog.limits import VALUE_INLINE_BYTES_MAX
from stratalog.log.blob_batch import BlobBatch

__all__ = ["commit_of"]

END_BYTES = 32


def commit_of(state: State, run: Run, values: Values, blob_batch: BlobBatch, merged: Merged | None = None) -> Commit:
    """Return the commit that follows ``state``. Adds its large values and arguments to ``blob_batch``."""
    touched = _touched(run.ran)
    placed = _Placed()
    patch: list[PatchRow] = []
    for key, encoded, slot in net_changes(state, run):
        stored = None if encoded is None else values.store(key, encoded, blob_batch)
        if encoded is not None and stored is not encoded:
            # The value is stored as a reference. An argument with the same bytes names this row and is not stored
            # again.
            placed.add(encoded, len(patch))
        patch.append(PatchRow(key, stored, slot.version if slot else state.changed_in(key, None), touched[key]))
    mutations = [_recorded(ran, values, blob_batch, placed) for ran in run.ran]
    fields_bytes = run.fields_bytes if run.fields_bytes != state.fields_bytes else None
    return Commit(tuple(mutations), tuple(patch), tuple(run.bindings), fields_bytes, merged)


def load_arguments(recorded: Recorded, patch: Sequence[PatchRow], values: Values) -> Any:
    """Return the complete arguments of a committed mutation. ``patch`` is the patch of its entry."""
    args = decode(recorded.args)
    if recorded.payload is None:
        return args
    if isinstance(args, dict):
        return {name: _loaded(value, patch, values) for name, value in args.items()}
    return _loaded(args, patch, values)


def arguments_size(recorded: Recorded, patch: Sequence[PatchRow]) -> int:
    """Return the number of bytes that `load_arguments` reads. Reads no body."""
    if recorded.payload is None:
        return len(recorded.args)
    args = decode(recorded.args)
    parts = args.values() if isinstance(args, dict) else (args,)
    large = (part for part in parts if isinstance(part, msgspec.msgpack.Ext))
    return len(recorded.args) + sum(value_size(value_of(part, patch)) for part in large)


class _Placed:
    """The positions of a patch's large values. A look-up by size and last bytes is faster than a look-up by hash."""

    def __init__(self) -> None:
        self._positions: dict[tuple[int, bytes], list[tuple[bytes, int]]] = {}

    def add(self, encoded: bytes, position: int) -> None:
        """Record that the patch holds ``encoded`` at ``position``."""
        self._positions.setdefault((len(encoded), encoded[-END_BYTES:]), []).append((encoded, position))

    def position(self, encoded: bytes) -> int | None:
        """Return the position of ``encoded`` in the patch; None if the patch does not hold it."""
        alike = self._positions.get((len(encoded), encoded[-END_BYTES:]), ())
        return next((position for value, position in alike if value == encoded), None)


def _recorded(ran: Ran, values: Values, blob_batch: BlobBatch, placed: _Placed) -> Recorded:
    mutation = ran.mutation
    args, payload = ran.args, None
    if len(args) > VALUE_INLINE_BYTES_MAX:
        args, payload = encode(_externalised(mutation.args, values, blob_batch, placed)), ran.payload
    return Recorded(mutation.client, mutation.id, mutation.name, args, ran.reason, payload, mutation.origin)


def _externalised(args: Any, values: Values, blob_batch: BlobBatch, placed: _Placed) -> Any:
    """Return the arguments with each large argument replaced by a reference, or by its position in the patch."""
    if isinstance(args, dict):
        return {name: _argument(value, values, blob_batch, placed) for name, value in args.items()}
    return _argument(args, values, blob_batch, placed)


def _argument(value: Any, values: Values, blob_batch: BlobBatch, placed: _Placed) -> Any:
    encoded = encode(value)
    if len(encoded) <= VALUE_INLINE_BYTES_MAX:
        return value
    position = placed.position(encoded)
    return decode(values.store_argument(encoded, blob_batch)) if position is None else patch_argument(position)


def _loaded(value: Any, patch: Sequence[PatchRow], values: Values) -> Any:
    return decode(values.load(value_of(value, patch))) if isinstance(value, msgspec.msgpack.Ext) else value


def _touched(ran: list[Ran]) -> dict[str, tuple[int, ...]]:
    """Map each changed key to the positions in ``ran`` of the mutations that touched it."""
    if len(ran) == 1:
        return dict.fromkeys(ran[0].changes, (0,))
    touched: dict[str, tuple[int, ...]] = {}
    for position, mutation in enumerate(ran):
        alone = (position,)
        for key in mutation.changes:
            touched[key] = touched[key] + alone if key in touched else alone
    return touched
