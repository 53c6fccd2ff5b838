"""Reads of ranges and keys of a state that consists of a tree and later changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from stratalog.cache import ByteCache
from stratalog.documents import Rules
from stratalog.documents.snapshots import roots_of
from stratalog.documents.state import State
from stratalog.log.snapshots import list_snapshots
from stratalog.protocol import BUILT_IN_MUTATORS, Draft
from stratalog.tree.chunks import Chunks
from stratalog.tree.nodes import Slot
from stratalog.tree.reach import addresses
from tests.documents.helpers import World

COLLECTIONS = ("a", "b", "bb")


def churn(draft: Draft, args: Any) -> None:
    """Put and delete many keys. Check that `in` and `delete` return whether a key to delete exists."""
    for key, value in args:
        if value is None:
            was_there = draft.get(key) is not None
            assert (key in draft) == was_there == draft.delete(key)
        else:
            draft.put(key, value)


@pytest.mark.parametrize("seed", range(5))
def test_scans_and_lookups_match_a_dictionary(seed: int) -> None:
    chance = random.Random(seed)
    world = World(snapshot_entries_interval=3)
    document = world.create(rules=Rules(mutators={**BUILT_IN_MUTATORS, "churn": churn}))
    truth: dict[str, int] = {}
    keys = [f"{collection}/{number:04}" for collection in COLLECTIONS for number in range(300)]
    for turn in range(12):
        chosen = sorted(chance.sample(keys, chance.choice([3, 90, 400])))
        changes = [[key, chance.choice([None, turn])] for key in chosen]
        document.mutate("churn", changes)
        for key, value in changes:
            truth.pop(key, None)
            if value is not None:
                truth[key] = value
        view = chance.choice([document, world.open()]).at()
        assert dict(view.scan()) == truth
        for _ in range(5):
            prefix, after = chance.choice(["", "a/", "b", "b/", "bb/01"]), chance.choice([None, *keys])
            wanted = [pair for pair in sorted(truth.items()) if pair[0].startswith(prefix) and pair[0] > (after or "")]
            assert [*view.scan(prefix, after=after)] == wanted
        assert {key: view.get(key) for key in keys if key in view} == truth


def test_a_draft_checks_the_existence_of_a_key_without_reading_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(snapshot_entries_interval=2)
    results: list[bool] = []
    scanned: list[str] = []
    scan = State.scan

    def noted(self: State, prefix: str = "", after: str | None = None) -> Iterator[tuple[str, Slot]]:
        scanned.append(prefix)
        return scan(self, prefix, after)

    def ask(draft: Draft, args: Any) -> None:
        results.extend(["c/large" in draft, "c/none" in draft, draft.delete("c/none"), draft.delete("c/large")])
        results.append("c/large" in draft)

    document = world.create(rules=Rules(mutators={**BUILT_IN_MUTATORS, "ask": ask}))
    document.mutate("put", {"key": "c/large", "value": "x" * 3000})
    fresh = world.open(rules=document.rules)
    recorder = world.watched()
    monkeypatch.setattr(State, "scan", noted)
    fresh.mutate("ask")
    assert scanned == []
    assert results == [True, False, False, True, False]
    assert [target for target in recorder.named("blob get") if "chunks" not in target] == []


def test_alternating_lookups_in_collections_do_not_read_their_leaves_repeatedly() -> None:
    world = World()
    document = world.create(rules=Rules(mutators={**BUILT_IN_MUTATORS, "churn": churn}))
    document.mutate("churn", [[f"{collection}/{row:04}", "v" * 50] for collection in COLLECTIONS for row in range(300)])
    document.snapshot()
    chunks = Chunks(world.environment.blobs, document.log.record.owner, ByteCache(0))
    [snapshot] = list_snapshots(world.environment.index, document.log.record.prefix)
    roots = roots_of(snapshot)
    state = State.at_snapshot(chunks, snapshot.version, snapshot.hash, roots)
    for row in range(300):
        for collection in COLLECTIONS:
            assert state.slot(f"{collection}/{row:04}") is not None
    leaves_and_paths = sum(1 for _ in addresses(chunks, roots.content)) * 3
    assert chunks.reads < leaves_and_paths < 3 * 300
