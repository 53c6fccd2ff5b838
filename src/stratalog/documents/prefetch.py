"""Prefetch: the chunks that a batch of mutations will read, loaded together; see `stratalog.tree.prefetch`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from stratalog.documents.fold import BINDING, GROUP, members_prefix
from stratalog.documents.state import Layer, State
from stratalog.protocol.messages import Mutation
from stratalog.protocol.mutators import Mutators
from stratalog.tree.prefetch import prefetch

__all__ = ["prefetch_batch", "prefetch_keys"]


def prefetch_batch(state: State, mutators: Mutators, batch: Sequence[Mutation], group: str) -> None:
    """Load the chunks with the rows of the batch's clients and group, and with the keys that the arguments name.

    The argument ``key`` of a built-in mutator is the key that it reads or changes, and mutators of applications may
    follow this convention. Other keys that a mutator reads are unknown before it runs.
    """
    if state.chunks.loads_together:
        content = state.content.unread(_named_keys(mutators, batch))
        prefetch(state.chunks, [content, state.clients.unread(_client_rows(batch, group))])


def prefetch_keys(state: State, layer: Layer, keys: Iterable[str]) -> None:
    """Load the chunks of one of the state's layers with ``keys``."""
    if state.chunks.loads_together:
        prefetch(state.chunks, [layer.unread(keys)])


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
