"""A model of a document. The model applies the commits in the index's journal to plain dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stratalog.codec import decode
from stratalog.documents import Document
from stratalog.documents.commit_builder import load_arguments
from stratalog.documents.commits import COLLECT, RESUME, Commit, Recorded, read_commit
from stratalog.documents.values import Values
from stratalog.errors import Corrupt
from stratalog.keys import parse_number
from stratalog.log.entries import Entry, entry_from_item
from stratalog.ports.index import Item, Put
from stratalog.protocol import Draft, Mutators, Outcome
from stratalog.testing.checkers import Violation, check_gapless
from tests.simulation.clusters import Cluster

__all__ = ["Reported", "Truth", "check_answer", "check_merged", "check_projected", "check_reports"]

State = dict[str, bytes]


class Reported(msgspec.Struct, frozen=True, gc=False):
    """A final answer that a client received."""

    client: str
    id: int
    status: str
    version: int | None
    reason: str | None


class Truth:
    """All entries that a log ever had, even the forgotten entries. The mutators compute the state after each entry."""

    def __init__(
        self, cluster: Cluster, prefix: str, mutators: Mutators, parent: Truth | None = None, first: int = 0
    ) -> None:
        self.owner: str = parent.owner if parent else prefix
        self.first = first
        self._values = Values(cluster.blobs, self.owner)
        self._mutators = mutators
        self.entries = dict(sorted(_entries(cluster, prefix, self.owner).items()))
        check_gapless(list(self.entries), first)
        self.states: dict[int, State] = {first: parent.states[first] if parent else {}}
        self.committed: dict[tuple[str, int], tuple[int, Recorded]] = {}
        for version, entry in self.entries.items():
            self.states[version] = self._fold(self.states[version - 1], entry)

    def check_order(self, group_of: Callable[[str], str]) -> None:
        """Check that each client committed its mutations in order, and none after its group was collected."""
        newest: dict[str, int] = {}
        collected: set[str] = set()
        for version, entry in self.entries.items():
            if entry.events[0].type == COLLECT:
                collected |= set(entry.events[0].data[1])
            if entry.events[0].type == RESUME:
                check_resumed(entry, newest)
            for mutation in read_commit(entry).mutations:
                if group_of(mutation.client) in collected:
                    raise Violation(
                        "collected", "a collected client still commits", client=mutation.client, version=version
                    )
                if mutation.id <= newest.get(mutation.client, 0):
                    raise Violation(
                        "once",
                        "a mutation was committed twice",
                        client=mutation.client,
                        id=mutation.id,
                        version=version,
                    )
                if mutation.id != newest.get(mutation.client, 0) + 1:
                    raise Violation(
                        "client-order", "a client's number was skipped", client=mutation.client, id=mutation.id
                    )
                newest[mutation.client] = mutation.id

    def check_state(self, version: int, values: dict[str, Any]) -> None:
        """Check that the state read at ``version`` is the state that the mutations produce."""
        truth = {key: decode(value) for key, value in self.states[version].items()}
        if values != truth:
            differing = sorted(key for key in values.keys() | truth.keys() if values.get(key) != truth.get(key))
            raise Violation(
                "state", "a state differs from the result of its mutations", version=version, keys=differing
            )

    def check_history(self, document: Document, key: str, oldest: int) -> None:
        """Check that the history of ``key`` lists exactly its changes after version ``oldest``, newest first."""
        listed = [change.version for change in document.history(key) if change.version > oldest]
        expected = [
            version
            for version in reversed(self.entries)
            if version > oldest and self.states[version].get(key) != self.states[version - 1].get(key)
        ]
        if listed != expected:
            raise Violation(
                "history", "a key's history does not list its changes", key=key, listed=listed, expected=expected
            )

    def check_applied(self, document: Document, client: str, id: int, oldest: int) -> None:
        """Check that the document finds the version of a mutation after ``oldest``, unless its client was collected."""
        version = self.committed[client, id][0]
        if version > oldest and document.state().client(client) and document.applied_in(client, id) != version:
            raise Violation(
                "history", "the document does not find the version of a mutation", client=client, id=id, version=version
            )

    def _fold(self, state: State, entry: Entry) -> State:
        draft = Draft(state.get, _keys_of(state))
        commit = read_commit(entry)
        for mutation in commit.mutations:
            self.committed.setdefault((mutation.client, mutation.id), (entry.version, mutation))
            rejected = self._run(draft, mutation, commit)
            if rejected != (mutation.reason is not None):
                raise Violation(
                    "outcome",
                    "the committed outcome of a mutation differs from the mutator's result",
                    mutation=mutation,
                    version=entry.version,
                )
        after = {**state, **{key: value for key, value in draft.changes.items() if value is not None}}
        return {key: value for key, value in after.items() if draft.changes.get(key, b"") is not None}

    def _run(self, draft: Draft, mutation: Recorded, commit: Commit) -> bool:
        child = draft.child()
        try:
            args = load_arguments(mutation, commit.patch, self._values)
        except Corrupt as exc:
            raise Violation("dangling", str(exc), client=mutation.client, id=mutation.id) from exc
        try:
            self._mutators[mutation.name](child, args)
        except Exception:  # noqa: BLE001 - any exception of a mutator is a rejection, as in a commit
            return True
        draft.merge(child)
        return False


def check_resumed(entry: Entry, newest: dict[str, int]) -> None:
    """Check that each client resumes from its newest number, and advance ``newest`` to the numbers in the entry."""
    for client, here, reported, _ in entry.events[0].data[2]:
        if newest.get(client, 0) != here or here >= reported:
            raise Violation("resumed", "a client resumes from a wrong number", client=client, version=entry.version)
        newest[client] = reported


def _keys_of(state: State) -> Callable[[str], Iterator[str]]:
    """Return a function that yields the state's keys with a given prefix, in order."""
    return lambda prefix: iter(sorted(key for key in state if key.startswith(prefix)))


def check_answer(outcome: Outcome, done: int, *, collecting: bool) -> None:
    """Check that an answer is consistent with the ``done`` mutations that were acknowledged before its request."""
    status = outcome.status
    wrong = (
        status in ("mismatch", "wrong-group")
        or (status == "gap" and not collecting and done >= (outcome.expected or 0))
        or (status == "unknown-client" and not collecting and done > 0)
        or (status == "collected" and not collecting)
    )
    if wrong:
        raise Violation("answers", "an outcome contradicts an earlier outcome", outcome=outcome, acknowledged=done)


def check_reports(reported: Iterable[Reported], truth: Truth) -> None:
    """Check that the log confirms each answer to a client: the version, the outcome and its reason."""
    for outcome in reported:
        version, recorded = truth.committed.get((outcome.client, outcome.id), (0, None))
        fits = recorded is not None and (
            outcome.status == "seen" or (outcome.version, outcome.reason) == (version, recorded.reason)
        )
        if not fits:
            raise Violation(
                "acknowledged", "the log contradicts a reported outcome", reported=outcome, committed=version
            )


def check_merged(fork: Truth, target: Truth, *, refused: bool) -> None:
    """Check that a merged fork's mutations are in the target once each, in order, with no new rejection.

    If the merge was refused, the target must contain none of the fork's mutations.
    """
    own = {(recorded.client, recorded.id): recorded for _, recorded in fork.committed.values()}
    merged = [mutation for _, mutation in target.committed.values() if mutation.origin in own]
    if [mutation.origin for mutation in merged] != ([] if refused else list(own)):
        raise Violation(
            "merged", "the target does not contain the expected mutations of a fork", fork=own, target=merged
        )
    if any(
        mutation.reason is not None and own[mutation.origin].reason is None for mutation in merged if mutation.origin
    ):
        raise Violation("merged", "a merge rejected a mutation that the fork had applied", fork=own, target=merged)


def check_projected(rows: Iterable[Item], truth: Truth) -> None:
    """Check that a finished projection has one row for each entry, with the entry's version and number of mutations."""
    projected = [(row.attributes["v"], row.attributes["n"]) for row in rows]
    expected = [(version, len(read_commit(entry).mutations)) for version, entry in truth.entries.items()]
    if projected != expected:
        raise Violation("projected", "a projection differs from the log", projected=projected, expected=expected)


def _entries(cluster: Cluster, prefix: str, owner: str) -> dict[int, Entry]:
    """Return the first put of each version of a log.

    A later put at a freed position is an orphaned write, not an entry.
    """
    entries: dict[int, Entry] = {}
    for item in _items(writes for _, writes in cluster.index._journal):
        head, _, segment = item.partition.rpartition("/")
        if head == prefix and segment.isdigit() and "k" not in item.attributes:
            version = parse_number(item.sort)
            if version not in entries:
                entries[version] = entry_from_item(item, cluster.blobs, owner)
    return entries


def _items(journal: Iterable[Sequence[Any]]) -> Iterator[Item]:
    for writes in journal:
        yield from (write.item for write in writes if isinstance(write, Put))
