"""After a pull at any time and with any cookie, a client has the document's content at the pulled version."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stratalog.documents import changes as changes_module
from stratalog.errors import Collected
from stratalog.log import delete_log
from stratalog.protocol import Mutation
from stratalog.protocol.sync import Cookie
from tests.documents.helpers import World, inc, large, put
from tests.server.helpers import Follower

KEYS = ["count", "name", "c/a", "c/b", "d/a"]
GROUPS = {"tab-1": "browser", "tab-2": "browser", "phone": "phone"}


class Pushed(msgspec.Struct, frozen=True):
    """One client pushes mutations. `Model` numbers the mutations, continuing the client's numbers."""

    client: str
    mutations: tuple[Mutation, ...]


class Pulls(msgspec.Struct, frozen=True):
    """A follower pulls. Before its first pull it may copy the state and cookie of the follower ``source``."""

    follower: int
    source: int | None


class Maintenance(msgspec.Struct, frozen=True):
    """Work on the document that no client requests."""

    work: str


clients = st.sampled_from(sorted(GROUPS))
values = st.integers(0, 3) | st.builds(large, st.sampled_from("xy"))
mutations = st.one_of(
    st.builds(put, st.sampled_from(KEYS[1:]), values),
    st.builds(lambda key: Mutation(client="", name="del", args={"key": key}), st.sampled_from(KEYS)),
    st.builds(inc, st.just("count"), st.integers(1, 3)),
    st.just(Mutation(client="", name="inc", args={"key": "count", "by": "x"})),
)
pushes = st.builds(Pushed, clients, st.lists(mutations, min_size=1, max_size=3).map(tuple))
pulls = st.builds(Pulls, st.integers(0, 3), st.none() | st.none() | st.integers(0, 3))
maintenance = st.builds(Maintenance, st.sampled_from(["reopen", "snapshot", "forget", "recreate", "collect"]))
steps = st.lists(st.one_of(pushes, pushes, pulls, pulls, maintenance), max_size=40)


class Model:
    """A document, its followers, the numbers that they must receive, and the rejections that they may receive."""

    def __init__(self, interval: int) -> None:
        self.world = World(snapshot_entries_interval=interval, segment_entries_target=interval)
        self.document = self.world.create()
        self.numbers: dict[str, int] = {}
        self.collected: set[str] = set()
        self.followers = [Follower(group) for group in ("browser", "phone", "browser", "viewer")]
        self.rejected: dict[tuple[str, int], str] = {}

    def run(self, step: Pushed | Pulls | Maintenance) -> None:
        if isinstance(step, Pushed):
            self._push(step)
        elif isinstance(step, Pulls):
            self._pull(self.followers[step.follower], step.source)
        else:
            getattr(self, f"_{step.work}")()

    def _push(self, step: Pushed) -> None:
        group = GROUPS[step.client]
        if group in self.collected:
            return
        for mutation in step.mutations:
            number = self.numbers[step.client] = self.numbers.get(step.client, 0) + 1
            numbered = msgspec.structs.replace(mutation, client=step.client, id=number)
            (outcome,) = Follower(group).push(self.document, numbered).outcomes
            assert outcome.status in ("applied", "rejected")
            if outcome.reason is not None:
                self.rejected[step.client, number] = outcome.reason

    def _pull(self, follower: Follower, source: int | None) -> None:
        if source is not None:
            self._inherit(follower, self.followers[source])
        before = follower.cookie
        if follower.group in self.collected:
            self._pull_collected(follower)
            return
        pulled = follower.pull(self.document)
        check_order(before, pulled.cookie)
        self.check(follower)
        for rejection in pulled.rejected:
            assert self.rejected[rejection.client, rejection.id] == rejection.reason
            assert GROUPS[rejection.client] == follower.group

    def _inherit(self, follower: Follower, source: Follower) -> None:
        """Let a follower that has not pulled start with the state of ``source``, unless its group has pushed."""
        if follower.cookie is None and not any(self.numbers.get(client) for client in self.members(follower)):
            follower.cookie, follower.content = source.cookie, dict(source.content)

    def _pull_collected(self, follower: Follower) -> None:
        try:
            follower.pull(self.document)
        except Collected:
            return
        raise AssertionError("the server answered a collected group")

    def check(self, follower: Follower) -> None:
        """Assert that the follower has the document's content and the last pushed numbers of its group's clients."""
        assert follower.content == self.document.at().to_dict()
        expected = {client: self.numbers[client] for client in self.members(follower) if client in self.numbers}
        assert {client: id for client, id in follower.last.items() if client in self.numbers} == expected

    def members(self, follower: Follower) -> list[str]:
        return [client for client, group in GROUPS.items() if group == follower.group]

    def _reopen(self) -> None:
        self.document = self.world.open()

    def _snapshot(self) -> None:
        self.document.snapshot()

    def _forget(self) -> None:
        if self.document.version > 1:
            self.document.forget_below(self.document.version - 1)

    def _recreate(self) -> None:
        delete_log(self.document.log)
        self.document = self.world.create()
        self.numbers.clear()
        self.rejected.clear()
        self.collected.clear()

    def _collect(self) -> None:
        if "phone" not in self.collected:
            self.document.collect_clients(["phone"], ["phone"])
            self.collected.add("phone")


def check_order(before: Cookie | None, after: Cookie) -> None:
    if before is not None:
        assert after.order > before.order or after == before


@settings(max_examples=200, deadline=None)
@given(steps, st.sampled_from([1, 2, 5, 50]), st.sampled_from([0, 3, 200]))
def test_after_any_steps_a_pull_gives_the_content_of_the_document(
    taken: list[Any], interval: int, read_max: int
) -> None:
    usual = changes_module.ENTRIES_READ_MAX
    changes_module.ENTRIES_READ_MAX = read_max
    try:
        model = Model(interval)
        for step in taken:
            model.run(step)
        for follower in model.followers:
            if follower.group not in model.collected:
                follower.pull(model.document)
                model.check(follower)
    finally:
        changes_module.ENTRIES_READ_MAX = usual


OLDER_COOKIE = [
    (Pushed("tab-1", (put("c/a", 1),)), [Pulls(0, None)]),
    (Pushed("tab-1", (put("c/b", 2),)), [Pulls(1, 0), Pulls(3, 0)]),
]
"""A phone and a viewer start from the state and cookie of a browser. The cookie is one version behind."""


@settings(max_examples=60, deadline=None)
@example(OLDER_COOKIE, 50)
@given(st.lists(st.tuples(pushes, st.lists(pulls, max_size=4)), min_size=1, max_size=15), st.sampled_from([1, 3, 50]))
def test_any_chain_of_cookies_leads_to_the_same_state(rounds: list[tuple[Pushed, list[Pulls]]], interval: int) -> None:
    """Followers that pull at different versions end with the same state as a follower that pulls only at the end.

    A follower may start from the state and cookie of another follower.
    """
    model = Model(interval)
    for pushed, pulled in rounds:
        for step in (pushed, *pulled):
            model.run(step)
    complete = Follower("browser")
    complete.pull(model.document)
    for follower in model.followers:
        follower.pull(model.document)
        assert follower.content == complete.content
        assert follower.cookie is not None
        assert complete.cookie is not None
        # The cookies differ in the group and in the numbers of the group's clients.
        assert (follower.cookie.order, follower.cookie.hash) == (complete.cookie.order, complete.cookie.hash)
