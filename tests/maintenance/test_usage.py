"""A measurement of usage counts each item and blob of an organisation once, even after interruptions."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.backends.memory import MemoryBlobs, MemoryIndex, MemoryQueue
from stratalog.keys import NAME_SORT, deleted_partition, entries_partition, number, usage_partition
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX, USAGE_PROGRESS_SECONDS_MAX
from stratalog.log import Environment, Event, LogSettings, delete_log
from stratalog.log.entries import END
from stratalog.log.names import read_name
from stratalog.log.tasks import InlineTasks
from stratalog.log.usage import Amounts, Measurement, load_measurement
from stratalog.maintenance.policy import MaintenancePolicy
from stratalog.maintenance.store_pass import maintain
from stratalog.maintenance.usage import measure_usage
from stratalog.ports.index import Delete, Item, Put, item_bytes
from stratalog.store import Store, open_store
from stratalog.testing.clock import ManualClock

LONG = Random(0).randbytes(20_000).hex()
SMALL = LogSettings(segment_entries_target=4, snapshot_entries_interval=3, body_inline_bytes_max=500)
SHARED = ("!collecting", "!usage")


class Stored:
    """A store, a measurement of its usage, and a direct count of the same amounts."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.blobs = MemoryBlobs(self.clock)
        self.index = MemoryIndex(self.blobs)
        environment = Environment(self.index, self.blobs, self.clock, SMALL, background=InlineTasks())
        self.store = Store(environment, MemoryQueue(self.clock))

    def measure(self, stops: Iterator[bool] | None = None) -> Measurement:
        """Measure the usage. Resume the measurement each time that ``stops`` interrupts it."""
        stop = (lambda: next(stops, False)) if stops else (lambda: False)
        while (measured := measure_usage(self.store.environment, "acme", stop=stop)) is None:
            pass
        return measured

    def recount(self) -> Amounts:
        """Return the amounts of a measurement, counted directly from all stored items and blobs."""
        store, items = self.store, [item for item in self._items() if self._counts(item)]
        lines = list(store.list("acme"))
        documents = [store.document("acme", line.id) for line in lines if line.kind == "document"]
        size = sum(map(item_bytes, items)) + sum(stat.stored_bytes for stat in self.blobs.list("acme/"))
        return Amounts(
            stored_bytes=size,
            documents=len(lines),
            records=len(list(store.records("acme").list())),
            clients=sum(len(list(document.state().client_ids())) for document in documents),
        )

    def _items(self) -> Iterator[Item]:
        for partition in sorted(self.index._partitions):
            if partition.startswith("acme/"):
                yield from self.index.query(partition)

    def _counts(self, item: Item) -> bool:
        """Return whether the measurement counts an item.

        The measurement counts neither the progress of collections and measurements nor the name record of a deleted
        log. After the sweep of a deleted log, the measurement no longer counts the log's end marker. The library never
        deletes name records and end markers.
        """
        owner = item.partition.removeprefix("acme/").split("/")[0]
        if owner in SHARED:
            return False
        record = read_name(self.index, "acme", owner)
        lives = record is not None and not record.deleted_ms
        if item.sort == NAME_SORT:
            return lives
        is_end = item.attributes.get("k") == END
        return not is_end or self.index.get(deleted_partition("acme"), f"acme/{owner}") is not None


def act(stored: Stored, action: int, random: Random) -> None:
    """Do one operation that stores or frees something."""
    store, clock = stored.store, stored.clock
    names = [line.id for line in store.list("acme") if line.kind == "document"]
    document = store.document("acme", random.choice(names)) if names else store.create("acme", "first")
    value = LONG[: random.choice((10, 3000, 30_000))]
    match action:
        case 0:
            store.create("acme", f"d{random.randrange(10**6)}")
        case 1 | 2 | 3:
            document.mutate("put", {"key": f"k{random.randrange(3)}", "value": value}, client=f"c{random.randrange(9)}")
        case 4:
            document.fork(f"f{random.randrange(10**6)}")
        case 5:
            store.create_log("acme", f"l{random.randrange(10**6)}").append([Event("said", value)])
        case 6:
            store.records("acme").put(f"r{random.randrange(4)}", value.encode())
        case 7:
            store.records("acme").fail("bad", "no reason", body=value.encode())
        case 8:
            delete_log(document.log)
        case 9:
            document.snapshot()
            document.archive()
        case 10:
            if document.version > document.log.floor() + 2:
                document.forget_below(document.version - 1)
        case _:
            clock.sleep(OBSERVATION_SECONDS_MAX + GRACE_SECONDS + 1)
            maintain(store, MaintenancePolicy(collect_hours=0, scrub_days=None, retain_record_versions=1))


@settings(max_examples=12)
@given(st.lists(st.integers(0, 11), max_size=25), st.integers(0, 2**32), st.lists(st.booleans(), max_size=100))
def test_the_measured_usage_equals_a_direct_count_of_stored_objects(
    actions: list[int], seed: int, stops: list[bool]
) -> None:
    stored, random = Stored(), Random(seed)
    for action in actions:
        act(stored, action, random)
    stored.store.create("other", "plan").mutate("put", {"key": "k", "value": LONG})
    measured = stored.measure(iter(stops))
    assert measured.amounts == stored.recount()
    assert load_measurement(stored.index, "acme") == measured
    assert stored.measure().amounts == measured.amounts


def test_a_measurement_interrupted_for_a_day_starts_again() -> None:
    stored = Stored()
    stored.store.create("acme", "a")
    stored.store.create("acme", "b")
    assert measure_usage(stored.store.environment, "acme", stop=lambda: True) is None
    delete_log(stored.store.document("acme", "a").log)
    stored.clock.sleep(USAGE_PROGRESS_SECONDS_MAX + 1)
    measured = stored.measure()
    assert (measured.amounts.documents, measured.began_ms) == (1, stored.clock.wall_ms())
    assert [item.sort for item in stored.index.query(usage_partition("acme"))] == ["measured"]


def test_a_measurement_with_unreadable_progress_starts_again() -> None:
    stored = Stored()
    stored.store.create("acme", "a")
    stored.index.commit([Put(Item(usage_partition("acme"), "progress", {"f": 1, "b": b"\xc1"}))])
    assert stored.measure().amounts.documents == 1
    assert stored.index.get(usage_partition("acme"), "progress") is None


def test_damaged_documents_are_counted_and_the_rest_is_measured() -> None:
    stored = Stored()
    for name in ("a", "b"):
        document = stored.store.create("acme", name)
        for client in range(2):
            document.mutate("put", {"key": "k", "value": 1}, client=f"{name}{client}")
    log = stored.store.log("acme", "a")
    stored.index.commit([Delete(entries_partition(log.record.prefix, 1), number(1))])
    measured = stored.measure()
    assert (measured.unreadable, measured.amounts.documents, measured.amounts.clients) == (1, 2, 2)
    assert measured.document_clients == 2


def test_a_document_with_a_lost_chunk_is_counted_as_unreadable_and_the_rest_is_measured() -> None:
    stored = Stored()
    for name in ("a", "b"):
        document = stored.store.create("acme", name)
        for client in range(30):
            document.mutate("put", {"key": "k", "value": 1}, client=f"{name}{client}" + "c" * 90)
        document.snapshot()
    for stat in list(stored.blobs.list(f"{stored.store.log('acme', 'a').record.owner}/chunks/")):
        stored.blobs.delete(stat.key, stat.stamp)
    environment = stored.store.environment
    cold = Environment(environment.index, environment.blobs, environment.clock, SMALL)
    measured = measure_usage(cold, "acme")
    assert measured is not None
    assert (measured.unreadable, measured.amounts.documents, measured.amounts.clients) == (1, 2, 30)


@pytest.mark.parametrize("measures", [True, False])
def test_a_pass_of_maintenance_measures_each_organisation_that_is_due(measures: bool) -> None:
    clock = ManualClock()
    with open_store("memory:", clock=clock) as store:
        for organisation in ("acme", "zeta"):
            store.create(organisation, "plan")
        assert maintain(store, measures=measures).measured_organisations == 2 * measures
        assert maintain(store, measures=measures).measured_organisations == 0
        clock.sleep(24 * 3600)
        assert maintain(store, measures=measures, dry_run=True).measured_organisations == 0
        assert maintain(store, measures=measures).measured_organisations == 2 * measures
        assert maintain(store, MaintenancePolicy(measure_hours=None), measures=True).measured_organisations == 0
