"""After any sequence of operations, each version of a document equals a plain dictionary after the same operations."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.documents import Document, verify
from stratalog.protocol import Mutation
from tests.documents.helpers import World, inc, large, put

KEYS = ["count", "name", "c/a", "c/b", "d/a"]
Content = dict[str, Any]


class Push(msgspec.Struct, frozen=True):
    target: int
    mutations: tuple[Mutation, ...]


class Fork(msgspec.Struct, frozen=True):
    target: int
    at: float


class Maintenance(msgspec.Struct, frozen=True):
    target: int
    work: str
    at: float


clients = st.sampled_from(["ada", "bob"])
mutations = st.one_of(
    st.builds(
        put, st.sampled_from(KEYS[1:]), st.integers(0, 3) | st.builds(large, st.sampled_from("xy")), client=clients
    ),
    st.builds(inc, st.just("count"), st.integers(1, 3), client=clients),
    st.builds(
        lambda key, client: Mutation(client=client, name="del", args={"key": key}), st.sampled_from(KEYS), clients
    ),
    st.builds(lambda client: Mutation(client=client, name="inc", args={"key": "count", "by": "x"}), clients),
)
shares = st.floats(0, 1)
targets = st.integers(0, 3)
pushes = st.builds(Push, targets, st.lists(mutations, min_size=1, max_size=3).map(tuple))
maintenance = st.builds(Maintenance, targets, st.sampled_from(["snapshot", "archive", "free", "reopen"]), shares)
operations = st.lists(st.one_of(pushes, pushes, pushes, maintenance, st.builds(Fork, targets, shares)), max_size=25)


class Model:
    """Documents, with the expected content of each of their versions as a dictionary."""

    def __init__(self, interval: int, segment: int) -> None:
        self.world = World(snapshot_entries_interval=interval, segment_entries_target=segment)
        self.documents = [self.world.create()]
        self.contents: list[list[Content]] = [[{}]]

    def run(self, operation: Push | Fork | Maintenance) -> None:
        position = operation.target % len(self.documents)
        document, contents = self.documents[position], self.contents[position]
        if isinstance(operation, Push):
            document.apply(operation.mutations)
            contents.append(applied(contents[-1], operation.mutations))
        elif isinstance(operation, Fork):
            at = round(operation.at * (len(contents) - 1))
            self.documents.append(document.fork(f"fork{len(self.documents)}", at=at))
            self.contents.append(contents[: at + 1])
        else:
            self._maintain(position, operation.work, round(operation.at * (len(contents) - 1)))

    def _maintain(self, position: int, work: str, version: int) -> None:
        document = self.documents[position]
        if work == "snapshot":
            document.snapshot(version)
        elif work == "archive":
            document.archive(version)
        elif work == "free":
            self.world.clock.sleep(1000)
            document.free_segments()
        else:
            self.documents[position] = self.world.open(document.name)


def applied(content: Content, batch: tuple[Mutation, ...]) -> Content:
    after = dict(content)
    for mutation in batch:
        args = mutation.args
        if mutation.name == "put":
            after[args["key"]] = args["value"]
        elif mutation.name == "del":
            after.pop(args["key"], None)
        elif args["by"] != "x":
            after["count"] = after.get("count", 0) + args["by"]
    return after


def changes(contents: list[Content], key: str) -> list[tuple[int, Any, bool]]:
    """The changes of a key, newest first: the version, the value, and whether the key was deleted."""
    listed = [
        (version, after.get(key), key not in after)
        for version, (before, after) in enumerate(pairwise(contents), 1)
        if (key in before, before.get(key)) != (key in after, after.get(key))
    ]
    return listed[::-1]


def check(document: Document, contents: list[Content], source: int, target: int) -> None:
    assert [document.at(version).to_dict() for version in range(len(contents))] == contents
    for key in KEYS:
        history = [(change.version, change.value, change.deleted) for change in document.history(key)]
        assert history == changes(contents, key)
    before, after = contents[source], contents[target]
    differing = [(change.key, change.before, change.after) for change in document.diff(source, target)]
    assert differing == [
        (key, before.get(key), after.get(key))
        for key in sorted(before.keys() | after.keys())
        if (key in before, before.get(key)) != (key in after, after.get(key))
    ]
    verify(document)


@settings(max_examples=150)
@given(operations, st.sampled_from([1, 2, 4, 50]), st.sampled_from([1, 2, 5]), shares, shares)
def test_every_version_history_and_difference_equals_that_of_a_dictionary(
    steps: list[Push | Fork | Maintenance], interval: int, segment: int, source: float, target: float
) -> None:
    model = Model(interval, segment)
    for step in steps:
        model.run(step)
    for document, contents in zip(model.documents, model.contents, strict=True):
        last = len(contents) - 1
        for handle in (document, model.world.open(document.name)):
            check(handle, contents, round(source * last), round(target * last))
