"""Admission compares an organisation's quotas with the measured usage plus the amounts admitted since then."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stratalog.backends.memory import MemoryIndex
from stratalog.errors import Conflict, OutcomeUnknown, QuotaExceeded, Unavailable
from stratalog.keys import usage_partition
from stratalog.limits import USAGE_CLOCKS_SECONDS_MAX, USAGE_READ_SECONDS, USAGE_SLICE_SECONDS, USAGE_SLICES_MAX
from stratalog.log.admission import Admission
from stratalog.log.usage import (
    MEASURED_SORT,
    UNLIMITED,
    Amounts,
    Measurement,
    Quotas,
    load_measurement,
    save_measurement,
)
from stratalog.ports.index import Item, Put
from stratalog.testing.clock import ManualClock

TEN = Quotas(documents_max=10)
A_DOCUMENT = Amounts(documents=1)
YEAR_MS = 365 * 86_400_000


class CountedIndex(MemoryIndex):
    """An index that counts its reads and can be unavailable."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.is_away = False

    def get(self, *key: Any, **options: Any) -> Item | None:
        self.reads += 1
        if self.is_away:
            raise Unavailable("the index is away")
        return super().get(*key, **options)


class Held:
    """An admission with the same quotas for every organisation, and measurements of the organisation acme."""

    def __init__(self, quotas: Quotas = TEN) -> None:
        self.clock = ManualClock()
        self.index = CountedIndex()
        self.admission = Admission(self.index, self.clock, lambda organisation: quotas)

    def measure(self, began_ms: int | None = None, **amounts: int) -> None:
        now_ms = self.clock.wall_ms()
        began_ms = now_ms if began_ms is None else began_ms
        measurement = Measurement(began_ms=began_ms, ended_ms=now_ms, amounts=Amounts(**amounts))
        save_measurement(self.index, "acme", measurement)

    def create(self, count: int = 1) -> None:
        for _ in range(count):
            with self.admission.reserve("acme", A_DOCUMENT):
                pass

    @property
    def documents(self) -> int:
        return self.admission.usage("acme").amounts.documents


def test_a_quota_limits_measured_usage_plus_later_admissions() -> None:
    held = Held()
    held.measure(documents=8)
    held.create(2)
    with pytest.raises(QuotaExceeded) as refused:
        held.create()
    details = refused.value.details
    assert (details["quota"], details["limit"], details["value"]) == ("documents_max", 10, 11)
    assert (details["scope"], details["organisation"]) == ("organisation", "acme")
    assert held.admission.refusals == {"documents_max": 1}


def test_a_measurement_replaces_earlier_admissions() -> None:
    held = Held()
    held.create(4)
    held.clock.sleep(USAGE_SLICE_SECONDS + USAGE_CLOCKS_SECONDS_MAX)
    held.measure(documents=4)
    held.create(3)
    held.clock.sleep(USAGE_READ_SECONDS)
    held.create(3)
    assert held.documents == 10
    with pytest.raises(QuotaExceeded):
        held.create()


def test_a_measurement_by_a_clock_that_was_ahead_is_replaced() -> None:
    held = Held()
    now_ms = held.clock.wall_ms()
    held.clock.set_wall(now_ms + YEAR_MS)
    held.measure(documents=10)
    held.clock.set_wall(now_ms)
    assert held.documents == 10
    held.measure(documents=3)
    held.clock.sleep(USAGE_READ_SECONDS)
    assert held.documents == 3
    held.create(7)


def test_a_measurement_by_a_clock_that_is_ahead_covers_only_earlier_admissions() -> None:
    """A measurement that covers later admissions would switch off the quota until its time."""
    held = Held()
    held.create(2)
    now_ms = held.clock.wall_ms()
    held.clock.set_wall(now_ms + YEAR_MS)
    held.measure(documents=3)
    held.clock.set_wall(now_ms)
    assert held.documents == 5
    for _ in range(5):
        held.clock.sleep(USAGE_READ_SECONDS + 1)
        held.create()
    held.clock.sleep(YEAR_MS / 2000)
    with pytest.raises(QuotaExceeded):
        held.create()


def test_admissions_by_a_clock_that_was_ahead_count_until_the_next_measurement() -> None:
    held = Held()
    now_ms = held.clock.wall_ms()
    held.clock.set_wall(now_ms + YEAR_MS)
    for _ in range(2):
        held.create()
        held.clock.sleep(USAGE_SLICE_SECONDS)
    held.clock.set_wall(now_ms)
    held.create()
    held.clock.sleep(USAGE_SLICE_SECONDS + USAGE_CLOCKS_SECONDS_MAX)
    held.measure(documents=3)
    assert held.documents == 3


def test_admissions_during_a_measurement_count_until_the_next_measurement() -> None:
    held = Held()
    began_ms = held.clock.wall_ms()
    held.clock.sleep(60)
    held.create(3)
    held.measure(began_ms, documents=3)
    assert held.documents == 6
    held.clock.sleep(USAGE_SLICE_SECONDS + USAGE_CLOCKS_SECONDS_MAX)
    held.measure(documents=3)
    assert held.documents == 3


def test_a_reservation_open_during_a_measurement_still_counts() -> None:
    held = Held()
    held.create(1)
    reservation = held.admission.reserve("acme", A_DOCUMENT)
    held.clock.sleep(USAGE_CLOCKS_SECONDS_MAX + 1)
    held.measure(documents=1)
    assert held.documents == 2
    reservation.confirm()
    assert held.documents == 2


@pytest.mark.parametrize(("error", "counted"), [(Conflict("first"), 0), (OutcomeUnknown("lost"), 1)])
def test_a_failed_write_frees_its_reservation_unless_its_outcome_is_unknown(error: Any, counted: int) -> None:
    held = Held()
    with pytest.raises(type(error)), held.admission.reserve("acme", A_DOCUMENT):
        raise error
    assert held.documents == counted


def test_an_interrupted_reservation_still_counts() -> None:
    held = Held()
    with pytest.raises(KeyboardInterrupt), held.admission.reserve("acme", A_DOCUMENT):
        raise KeyboardInterrupt
    assert held.documents == 1


def test_a_reservation_can_grow_up_to_the_quota_and_its_release_frees_all_amounts() -> None:
    held = Held(Quotas(stored_bytes_max=100))
    reservation = held.admission.reserve("acme", Amounts(stored_bytes=60))
    reservation.add(Amounts(stored_bytes=40))
    with pytest.raises(QuotaExceeded):
        reservation.add(Amounts(stored_bytes=1))
    with pytest.raises(QuotaExceeded):
        reservation.check(Amounts(stored_bytes=1))
    reservation.release()
    reservation.confirm()
    assert held.admission.usage("acme").amounts == Amounts()


def test_the_measurement_is_read_once_a_minute() -> None:
    held = Held()
    held.create(4)
    held.clock.sleep(USAGE_READ_SECONDS - 1)
    held.create()
    assert held.index.reads == 1
    held.clock.sleep(1)
    held.create(5)
    assert held.index.reads == 2


def test_without_quotas_nothing_is_read_or_remembered() -> None:
    index = CountedIndex()
    for admission in (
        Admission(index, ManualClock()),
        Admission(index, ManualClock(), lambda organisation: UNLIMITED),
    ):
        with admission.reserve("acme", A_DOCUMENT):
            pass
        assert (index.reads, list(admission.known())) == (0, [])


def test_admission_allows_writes_while_the_index_is_unavailable() -> None:
    held = Held()
    held.measure(documents=10)
    held.index.is_away = True
    held.create()
    held.index.is_away = False
    with pytest.raises(QuotaExceeded):
        held.create()


def test_organisations_have_quotas_of_their_own() -> None:
    clock, index = ManualClock(), MemoryIndex()
    admission = Admission(index, clock, lambda name: Quotas(records_max=0) if name == "small" else UNLIMITED)
    with pytest.raises(QuotaExceeded):
        admission.reserve("small", Amounts(records=1))
    admission.reserve("large", Amounts(records=1)).confirm()


def test_the_clients_of_one_document_have_a_quota_too() -> None:
    admission = Held(Quotas(document_clients_max=3)).admission
    admission.reserve("acme", Amounts(clients=1), document_clients=lambda: 2).confirm()
    with pytest.raises(QuotaExceeded) as refused:
        admission.reserve("acme", Amounts(clients=1), document_clients=lambda: 3)
    assert (refused.value.details["quota"], refused.value.details["scope"]) == ("document_clients_max", "document")


def test_the_usage_ratio_includes_the_largest_number_of_clients_of_a_document() -> None:
    held = Held(Quotas(document_clients_max=4, clients_max=100))
    amounts = Amounts(clients=5)
    save_measurement(held.index, "acme", Measurement(began_ms=1, ended_ms=2, amounts=amounts, document_clients=3))
    assert held.admission.usage("acme").ratio == 0.75


def test_concurrent_reservations_never_exceed_the_quota() -> None:
    held = Held(Quotas(documents_max=50))

    def create(number: int) -> bool:
        try:
            held.create()
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(200))) == 50


def test_concurrent_refusals_of_two_organisations_are_both_counted() -> None:
    """If the lock is free while the admission counts the first refusal, the test makes the second refusal then."""
    admission = Admission(MemoryIndex(), ManualClock(), lambda organisation: Quotas(documents_max=0))

    def refused(organisation: str) -> None:
        with pytest.raises(QuotaExceeded):
            admission.reserve(organisation, A_DOCUMENT)

    class Refusals(Counter[str]):
        def __missing__(self, quota: str) -> int:
            if others and not admission._lock.locked():
                refused(others.pop())
            return 0

    others = ["globex"]
    admission.refusals = Refusals()
    refused("acme")
    for other in others:
        refused(other)
    assert admission.refusals["documents_max"] == 2


def test_months_of_unmeasured_admissions_are_counted_in_bounded_memory() -> None:
    held = Held(Quotas(documents_max=10**6))
    for _ in range(3 * USAGE_SLICES_MAX):
        held.create()
        held.clock.sleep(3600)
    account = held.admission._account("acme")
    assert len(account._slices) <= USAGE_SLICES_MAX
    assert held.documents == 3 * USAGE_SLICES_MAX
    held.clock.sleep(3600)
    held.create(2)
    held.measure(held.clock.wall_ms() - 1800_000, documents=7)
    assert held.documents == 7 + 2


def test_reservations_for_made_up_organisations_do_not_evict_admitted_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stratalog.log.admission.USAGE_ORGANISATIONS_MAX", 3)
    held = Held()
    held.create(10)
    for number in range(20):
        held.admission.reserve(f"made-up-{number}", A_DOCUMENT).release()
    assert len(list(held.admission.known())) == 3
    with pytest.raises(QuotaExceeded):
        held.create()


def test_an_older_measurement_does_not_replace_a_newer_one() -> None:
    held = Held()
    held.measure(documents=2)
    held.measure(held.clock.wall_ms() - 1, documents=9)
    assert held.documents == 2


def test_an_undecodable_measurement_counts_as_missing_and_can_be_replaced() -> None:
    held = Held()
    for attributes in ({"f": 99}, {"f": 1, "c": "x"}, {"f": 1, "c": 1}):
        held.index.commit([Put(Item(usage_partition("acme"), MEASURED_SORT, attributes))])
        assert load_measurement(held.index, "acme") is None
        assert held.documents == 0
        held.measure(documents=1)
        assert load_measurement(held.index, "acme") is not None


@pytest.mark.parametrize("name", ["c", "e", "document_clients", "unreadable"])
def test_a_measurement_with_a_value_of_the_wrong_type_stops_no_write(name: str) -> None:
    held = Held(Quotas(documents_max=10, document_clients_max=10))
    held.measure(documents=9)
    item = held.index.get(usage_partition("acme"), MEASURED_SORT)
    assert item is not None
    held.index.commit([Put(Item(item.partition, item.sort, {**item.attributes, name: "x"}))])
    assert load_measurement(held.index, "acme") is None
    held.create(2)
    assert held.admission.usage("acme").ratio == 0.2
