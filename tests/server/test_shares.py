"""Shares: no principal or organisation can use up a budget of the process."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.server.errors import Refused
from stratalog.server.shares import Allocation, Budget, Holder

ADA: Holder = ("principal", "ada")
BOB: Holder = ("principal", "bob")
ACME: Holder = ("organisation", "acme")


def budget() -> Budget:
    return Budget("live connections", 10, {"principal": 4, "organisation": 6})


def test_a_principal_at_its_share_is_refused_and_another_principal_is_not() -> None:
    connections = budget()
    allocations = [connections.take(ADA, ACME) for _ in range(4)]
    with pytest.raises(Refused, match="the principal has used its share of live connections") as caught:
        connections.take(ADA, ACME)
    assert (caught.value.status, caught.value.details) == (429, {"limit": 4, "value": 5, "scope": "principal"})
    connections.take(BOB, ACME, amount=2)
    with pytest.raises(Refused, match="the organisation has used its share"):
        connections.take(BOB, ACME)
    allocations[0].release()
    connections.take(ADA)


def test_a_full_budget_of_the_process_refuses_every_principal() -> None:
    connections = budget()
    for name in ("ada", "bob", "cyd"):
        connections.take(("principal", name), amount=3)
    with pytest.raises(Refused, match="the server has too many live connections") as caught:
        connections.take(("principal", "dan"), amount=2)
    assert (caught.value.status, caught.value.details) == (503, {"limit": 10, "value": 11, "scope": "process"})
    assert connections.used_by(("principal", "dan")) == 0


def test_a_refused_growth_of_an_allocation_does_not_change_the_allocation() -> None:
    connections = budget()
    allocation = connections.take(ADA)
    with pytest.raises(Refused):
        allocation.add(4)
    assert connections.used_by(ADA) == allocation.amount == connections.used == 1
    allocation.release()
    allocation.release()
    assert connections.used_by(ADA) == connections.used == 0


def test_a_budget_without_shares_is_bounded_only_by_its_limit() -> None:
    assert Budget("requests", 3, {}).take(ADA, amount=3).amount == 3


@given(st.lists(st.tuples(st.sampled_from(["ada", "bob", "cyd"]), st.integers(0, 5), st.booleans()), max_size=40))
def test_the_used_amount_is_the_sum_of_the_allocations(steps: list[tuple[str, int, bool]]) -> None:
    connections = budget()
    held: list[tuple[str, Allocation]] = []
    for name, amount, releases in steps:
        if releases and held:
            held.pop()[1].release()
        else:
            with suppress(Refused):
                held.append((name, connections.take(("principal", name), ACME, amount=amount)))
        sums = {name: sum(h.amount for n, h in held if n == name) for name in ("ada", "bob", "cyd")}
        assert {name: connections.used_by(("principal", name)) for name in sums} == sums
        assert connections.used == connections.used_by(ACME) == sum(sums.values()) <= 6
        assert all(amount <= 4 for amount in sums.values())
    for _, allocation in held:
        allocation.release()
    assert not connections._used_by
