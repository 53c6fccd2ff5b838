"""Prefetch: the chunks that a batch of mutations will read, loaded together; see `stratalog.tree.prefetch`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stratalog.documents.fold import BINDING, GROUP, members_prefix
from stratalog.documents.state import State
from stratalog.protocol.messages import Mutation
from stratalog.protocol.mutators import Mutators
from stratalog.tree.nodes import Slot
from stratalog.tree.prefetch import prefetch

__all__ = ["prefetch_batch", "prefetch_patch"]


def prefetch_batch(state: State, mutators: Mutators, batch: Sequence[Mutation], group: str) -> None:
    """Load the chunks with the rows of the batch's clients and group, and with the keys that the arguments name.

    The argument ``key`` of a built-in mutator is the key that it reads or changes, and mutators of applications may
    follow this convention. Other keys that a mutator reads are unknown before it runs.
    """
    if state.chunks.loads_together:
        content = state.content.unread(_named_keys(mutators, batch))
        prefetch(state.chunks, [content, state.clients.unread(_client_rows(batch, group))])


def prefetch_patch(state: State, known: Mapping[str, Slot | None], changes: Sequence[tuple[str, bytes | None]]) -> None:
    """Load the chunks with the slots of changed keys, and then with the tombstones of keys that the state lacks.

    ``known`` are the slots that the run has read. Raises the errors of `State.slot`: the patch needs every slot.
    """
    if state.chunks.loads_together:
        prefetch(state.chunks, [state.content.unread(key for key, _ in changes if key not in known)])
        absent = [key for key, _ in changes if (known[key] if key in known else state.slot(key)) is None]
        prefetch(state.chunks, [state.tombstones.unread(absent)])


def _named_keys(mutators: Mutators, batch: Sequence[Mutation]) -> Iterator[str]:
    for mutation in batch:
        key = mutation.args.get("key") if isinstance(mutation.args, dict) else None
        if isinstance(key, str) and mutation.name in mutators:
            yield key


def _client_rows(batch: Sequence[Mutation], group: str) -> Iterator[str]:
    """Yield the keys of the rows that decide whether a mutation is refused."""
    for client in {mutation.client for mutation in batch}:
        yield client
        yield BINDING + client
    if group:
        yield GROUP + group
        if any(mutation.id == 1 for mutation in batch):
            yield members_prefix(group)  # the group of a new client must not have another owner
