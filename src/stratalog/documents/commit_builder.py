"""From a run to an entry: values and large arguments into blobs, then the one event that says it all."""

from __future__ import annotations

from typing import Any

import msgspec

from stratalog.codec import decode, encode, sha256
from stratalog.documents.commits import Commit, Merged, PatchRow, Recorded
from stratalog.documents.run import Ran, Run, net_changes
from stratalog.documents.state import State
from stratalog.documents.values import Values, as_reference
from stratalog.limits import VALUE_INLINE_BYTES_MAX
from stratalog.log.blob_batch import BlobBatch

__all__ = ["commit_of"]


def commit_of(state: State, run: Run, values: Values, blob_batch: BlobBatch, merged: Merged | None = None) -> Commit:
    """The commit that follows ``state``. Large values stand as blobs on return: blob first, index second."""
    touched = _touched(run.ran)
    items: dict[bytes, bytes] = {}
    patch = []
    for key, encoded, slot in net_changes(state, run):
        stored = None if encoded is None else values.store(key, encoded, blob_batch)
        if stored is not encoded and stored and (reference := as_reference(stored)):
            items[reference.content_hash] = stored
        patch.append(PatchRow(key, stored, slot.version if slot else state.changed_in(key, None), touched[key]))
    return Commit(
        mutations=tuple(_recorded(ran, values, blob_batch, items) for ran in run.ran),
        patch=tuple(patch),
        bindings=tuple(run.bindings),
        fields_bytes=run.fields_bytes if run.fields_bytes != state.fields_bytes else None,
        merged=merged,
    )


def load_arguments(recorded: Recorded, values: Values) -> Any:
    """A committed mutation's arguments, whole."""
    args = decode(recorded.args)
    if recorded.payload is None:
        return args
    if isinstance(args, dict):
        return {name: _loaded(value, values) for name, value in args.items()}
    return _loaded(args, values)


def _recorded(ran: Ran, values: Values, blob_batch: BlobBatch, items: dict[bytes, bytes]) -> Recorded:
    mutation = ran.mutation
    args, payload = ran.args, None
    if len(args) > VALUE_INLINE_BYTES_MAX:
        args, payload = encode(_externalised(mutation.args, values, blob_batch, items)), ran.payload
    return Recorded(mutation.client, mutation.id, mutation.name, args, ran.reason, payload, mutation.origin)


def _externalised(args: Any, values: Values, blob_batch: BlobBatch, items: dict[bytes, bytes]) -> Any:
    """Arguments with each large one replaced by a reference; an item with the same bytes shares its blob."""
    if isinstance(args, dict):
        return {name: _argument(value, values, blob_batch, items) for name, value in args.items()}
    return _argument(args, values, blob_batch, items)


def _argument(value: Any, values: Values, blob_batch: BlobBatch, items: dict[bytes, bytes]) -> Any:
    encoded = encode(value)
    if len(encoded) <= VALUE_INLINE_BYTES_MAX:
        return value
    return decode(items.get(sha256(encoded)) or values.store_argument(encoded, blob_batch))


def _loaded(value: Any, values: Values) -> Any:
    return decode(values.load(encode(value))) if isinstance(value, msgspec.msgpack.Ext) else value


def _touched(ran: list[Ran]) -> dict[str, tuple[int, ...]]:
    """Which mutations touched each key."""
    touched: dict[str, tuple[int, ...]] = {}
    for position, mutation in enumerate(ran):
        alone = (position,)
        for key in mutation.changes:
            touched[key] = touched[key] + alone if key in touched else alone
    return touched
