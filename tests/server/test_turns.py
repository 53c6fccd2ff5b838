"""The selector shares each turn of the event loop among callers. The tests use socket pairs, without a server."""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.limits import ADDRESS_SOCKETS_PER_TURN_MAX, PRINCIPAL_SOCKETS_PER_TURN_MAX
from stratalog.server import turns
from stratalog.server.shares import Allocation, Budget, Holder
from stratalog.server.turns import READY_PER_SERVED_MAX, SERVED_HALF_LIFE_SECONDS, RecentlyServed, TurnSelector
from stratalog.testing.clock import ManualClock
from tests.server.api import STORY_SECONDS_MAX

ADA: Holder = ("principal", "ada")
BEN: Holder = ("principal", "ben")


class Sockets:
    """A selector, and sockets that are ready to read once their caller has sent a byte."""

    def __init__(self) -> None:
        self.selector = TurnSelector(ManualClock())
        self.budget = Budget("connections", 1000, {"address": 1000, "principal": 1000})
        self.open: list[tuple[socket.socket, socket.socket]] = []

    def pair(self, *holders: Holder) -> tuple[socket.socket, Allocation]:
        """Open a socket that is ready to read and counts for the holders. Return the socket and its allocation."""
        ours, theirs = socket.socketpair()
        self.open.append((ours, theirs))
        allocation = self.budget.take(*holders)
        self.selector.watch(ours.fileno(), allocation)
        theirs.send(b"x")
        return ours, allocation

    def add(self, *holders: Holder) -> tuple[int, Allocation]:
        """Open a socket like `pair`, and register it with the selector. Return its descriptor and allocation."""
        ours, allocation = self.pair(*holders)
        self.selector.register(ours, selectors.EVENT_READ)
        return ours.fileno(), allocation

    def add_many(self, count: int, *holders: Holder) -> list[int]:
        return [self.add(*holders)[0] for _ in range(count)]

    def turn(self) -> set[int]:
        """Return the descriptors of one turn, and read from their sockets."""
        descriptors = {key.fd for key, _ in self.selector.select(0)}
        for ours, _ in self.open:
            if ours.fileno() in descriptors:
                ours.recv(10)
        return descriptors

    def close(self) -> None:
        self.selector.close()
        for pair in self.open:
            for side in pair:
                side.close()


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    made = Sockets()
    yield made
    made.close()


def test_many_sockets_of_a_principal_leave_room_in_each_turn_for_another_principal(sockets: Sockets) -> None:
    of_ada = set(sockets.add_many(20, ADA))
    assert len(sockets.turn()) == PRINCIPAL_SOCKETS_PER_TURN_MAX
    of_ben, _ = sockets.add(BEN)
    turn = sockets.turn()
    assert of_ben in turn
    assert len(turn & of_ada) == PRINCIPAL_SOCKETS_PER_TURN_MAX


def test_all_addresses_share_a_limited_number_of_sockets_per_turn_and_take_turns(sockets: Sockets) -> None:
    many = set(sockets.add_many(20, ("address", "10.0.0.1")))
    others = {sockets.add(("address", f"10.0.0.{number}"))[0] for number in range(2, 2 + ADDRESS_SOCKETS_PER_TURN_MAX)}
    three = [sockets.turn() for _ in range(3)]
    assert all(len(turn) == ADDRESS_SOCKETS_PER_TURN_MAX for turn in three)
    served = set().union(*three)
    assert others <= served, "an address with many sockets delayed an address with one socket"
    assert len(served & many) == 2 * ADDRESS_SOCKETS_PER_TURN_MAX


def test_a_new_address_is_served_before_addresses_that_were_served_recently(sockets: Sockets) -> None:
    for number in range(20):
        sockets.selector.served.add(("address", f"10.0.0.{number}"))
        sockets.add_many(5, ("address", f"10.0.0.{number}"))
    newcomer, _ = sockets.add(("address", "10.0.1.1"))
    assert newcomer in sockets.turn()


def test_new_addresses_do_not_starve_a_waiting_address_that_was_served_often(sockets: Sockets) -> None:
    old = ("address", "10.0.0.1")
    for _ in range(1000):
        sockets.selector.served.add(old)
    waiting = set(sockets.add_many(10, old))
    for number in range(10):
        sockets.add_many(2, ("address", f"10.0.1.{number}"))
        waiting -= sockets.turn()
    assert len(waiting) <= 5, "sockets of new addresses took all the turns"


def test_the_count_of_an_address_halves_with_time() -> None:
    clock = ManualClock()
    served = RecentlyServed(clock)
    address = ("address", "10.0.0.1")
    assert served.count(address) == 0
    served.add(address)
    served.add(address)
    clock.sleep(SERVED_HALF_LIFE_SECONDS)
    assert served.count(address) == 1
    served.add(address)
    assert served.count(address) == 2


def test_only_the_addresses_served_last_have_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "RATE_HOLDERS_MAX", 2)
    served = RecentlyServed(ManualClock())
    addresses = [("address", f"10.0.0.{number}") for number in range(3)]
    for address in (addresses[0], addresses[1], addresses[0], addresses[2]):
        served.add(address)
    assert [served.count(address) for address in addresses] == [2, 0, 1]


def test_the_socket_that_waits_longest_comes_first(sockets: Sockets) -> None:
    waiting = set(sockets.add_many(10, ADA))
    while waiting:
        turn = sockets.turn()
        assert turn <= waiting, "a socket that became ready later came first"
        waiting -= turn
        sockets.add(ADA)


def test_sockets_without_a_holder_and_other_files_are_never_delayed(sockets: Sockets) -> None:
    sockets.add_many(10, ADA)
    of_nobody = set(sockets.add_many(10))
    forgotten = sockets.add_many(2, ADA)
    for descriptor in forgotten:
        sockets.selector.forget(descriptor)
    assert of_nobody | set(forgotten) <= sockets.turn()


def test_an_authenticated_socket_counts_for_its_principal_and_not_for_its_address(sockets: Sockets) -> None:
    sockets.add_many(20, ("address", "10.0.0.1"))
    descriptor, allocation = sockets.add(("address", "10.0.0.1"))
    allocation.assign(ADA)
    assert descriptor in sockets.turn()


def test_a_forgotten_descriptor_leaves_no_waiting_mark(sockets: Sockets) -> None:
    sockets.add_many(10, ADA)
    sockets.turn()
    (held_back, *_) = sockets.selector._held_back
    sockets.selector.forget(held_back)
    assert held_back not in sockets.selector._held_back


@given(st.lists(st.sampled_from([ADA, BEN, ("address", "a"), ("address", "b"), None]), max_size=100))
def test_each_turn_serves_a_share_of_a_principal_s_sockets_until_none_waits(holders: list[Holder | None]) -> None:
    sockets = Sockets()
    try:
        ready = {sockets.add(*([holder] if holder else []))[0]: holder for holder in holders}
        turns = 0
        while ready:
            waiting = sum(holder == ADA for holder in ready.values())
            turn = sockets.turn()
            assert turn, "a turn is empty while sockets wait"
            served = sum(ready.pop(descriptor) == ADA for descriptor in turn)
            assert served >= min(waiting, PRINCIPAL_SOCKETS_PER_TURN_MAX)
            assert served * READY_PER_SERVED_MAX >= waiting
            turns += 1
        assert turns <= len(holders)
    finally:
        sockets.close()


def test_the_event_loop_serves_another_caller_between_the_sockets_of_a_principal(sockets: Sockets) -> None:
    served: list[str] = []

    async def story() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def listen(name: str, holder: Holder) -> None:
            ours, _ = sockets.pair(holder)
            loop.add_reader(ours, read, name, ours)

        def read(name: str, ours: socket.socket) -> None:
            ours.recv(10)
            served.append(name)
            if len(served) == 1:
                listen("ben", BEN)
            if len(served) == 11:
                done.set()

        for _ in range(10):
            listen("ada", ADA)
        async with asyncio.timeout(STORY_SECONDS_MAX):
            await done.wait()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(sockets.selector)) as runner:
        runner.run(story())
    assert served.index("ben") <= 1 + PRINCIPAL_SOCKETS_PER_TURN_MAX
