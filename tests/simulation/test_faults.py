"""Each fault affects the backend and the caller as the table in the module `faults` says."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stratalog.codec import sha256
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.limits import OBSERVATION_SECONDS_MAX
from stratalog.ports.index import Item, Put
from stratalog.testing.faults import FAR_SKEW_MS_MAX, LATE_MS_LIMIT, Weather, draw_weather
from stratalog.testing.scheduler import Scheduler
from tests.simulation.clusters import Cluster, LaggingIndex, Process

ITEM = Item("p", "s", {"a": 1})


class Seen:
    """Runs one call in a process. Records the answer, and whether the item exists after the answer and at the end."""

    def __init__(self, weather: Weather, act: Callable[[Process], Any], seed: int = 7) -> None:
        self.scheduler = Scheduler(seed)
        self.cluster = Cluster(self.scheduler, weather)
        self.error: BaseException | None = None
        self.answer: Any = None
        self.answered_ms = -1
        self.written_then = False
        self.starts = 0
        self._act = act
        self.cluster.start("one", self._main)
        self.scheduler.run()
        self.written = self.cluster.index.get("p", "s") is not None

    def _main(self, process: Process) -> None:
        self.starts += 1
        if self.starts > 1:
            return
        try:
            self.answer = self._act(process)
        except (Unavailable, OutcomeUnknown) as exc:
            self.error = exc
        self.answered_ms = self.scheduler.now_ms
        self.written_then = self.cluster.index.get("p", "s") is not None


def commit(process: Process) -> None:
    process.index.commit([Put(ITEM)])


def test_unavailable_writes_nothing() -> None:
    seen = Seen(Weather(unavailable=1), commit)
    assert (type(seen.error), seen.written) == (Unavailable, False)


def test_a_lost_request_writes_nothing() -> None:
    seen = Seen(Weather(lost_request=1), commit)
    assert (type(seen.error), seen.written) == (OutcomeUnknown, False)


def test_a_lost_answer_hides_a_write() -> None:
    seen = Seen(Weather(lost_answer=1), commit)
    assert (type(seen.error), seen.written_then) == (OutcomeUnknown, True)


def test_a_late_effect_comes_after_its_caller_gave_up() -> None:
    seen = Seen(Weather(late=1), commit)
    assert (type(seen.error), seen.written_then, seen.written) == (OutcomeUnknown, False, True)


@pytest.mark.parametrize(
    ("weather", "written"),
    [(Weather(crash_before=1), False), (Weather(crash_after=1), True), (Weather(crash_late=1), True)],
)
def test_a_crash_ends_the_process_and_starts_another(weather: Weather, written: bool) -> None:
    seen = Seen(weather, commit)
    assert (seen.answered_ms, seen.starts, seen.written) == (-1, 2, written)


@pytest.mark.parametrize("weather", [Weather(freeze_before=1), Weather(freeze_after=1)])
def test_a_freeze_may_outlast_the_maximum_age_of_an_observation(weather: Weather) -> None:
    seen = [Seen(weather, commit, seed) for seed in range(30)]
    assert all(append.error is None and append.written for append in seen)
    assert max(append.answered_ms for append in seen) > OBSERVATION_SECONDS_MAX * 1000


def test_a_frozen_read_answers_what_was_true_before_the_freeze() -> None:
    scheduler = Scheduler(7)
    cluster = Cluster(scheduler, Weather(freeze_after=1))
    answers: list[Item | None] = []
    cluster.start("reader", lambda process: answers.append(process.index.get("p", "s")))
    scheduler.later(100, lambda: cluster.index.commit([Put(ITEM)]))
    scheduler.run()
    assert answers == [None]
    assert cluster.index.get("p", "s") == ITEM


def test_a_torn_send_sends_none_or_the_first_few_of_several_messages() -> None:
    bodies = [b"1", b"2", b"3", b"4", b"5"]
    counts = set()
    for seed in range(30):
        seen = Seen(Weather(torn=1), lambda process: process.queue.send("group", bodies), seed)
        sent = [message.body for message in seen.cluster.queue.receive()]
        assert isinstance(seen.error, OutcomeUnknown)
        assert sent == bodies[: len(sent)]
        counts.add(len(sent))
    assert counts == {0, 1, 2, 3, 4}


def test_a_receive_whose_answer_is_lost_is_unavailable_and_hides_the_messages() -> None:
    scheduler = Scheduler(7)
    cluster = Cluster(scheduler, Weather(lost_answer=1))
    cluster.queue.send("group", [b"1"])
    caught: list[type[BaseException]] = []
    cluster.start("worker", lambda process: caught.append(type(error_of(process.queue.receive))))
    scheduler.run()
    assert caught == [Unavailable]
    assert cluster.queue.receive() == []


def test_no_faults_occur_after_the_storm() -> None:
    seen = Seen(Weather(unavailable=1, storm_calls=0), commit)
    assert seen.error is None


def test_a_query_shows_a_commit_that_came_between_its_pages() -> None:
    scheduler = Scheduler(7)
    cluster = Cluster(scheduler, Weather(page_items_max=1))
    cluster.index.commit([Put(Item("p", sort, {})) for sort in "ac"])
    sorts: list[str] = []

    def read(process: Process) -> None:
        for item in process.index.query("p"):
            sorts.append(item.sort)
            if item.sort == "a":
                cluster.index.commit([Put(Item("p", "b", {})), Put(Item("p", "d", {}))])

    cluster.start("reader", read)
    scheduler.run()
    assert sorts == ["a", "b", "c", "d"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("limit", [None, 1, 4, 100])
def test_a_query_in_pages_finds_the_same_items_as_a_query_without_pages(reverse: bool, limit: int | None) -> None:
    scheduler = Scheduler(3)
    cluster = Cluster(scheduler, Weather(page_items_max=3))
    cluster.index.commit([Put(Item("p", f"{number:02d}", {})) for number in range(20)])
    items: list[Item] = []
    cluster.start("reader", lambda process: items.extend(process.index.query("p", reverse=reverse, limit=limit)))
    scheduler.run()
    assert items == list(cluster.index.query("p", reverse=reverse, limit=limit))


def test_an_eventually_consistent_read_is_stale_for_a_bounded_time() -> None:
    scheduler = Scheduler(5)
    cluster = Cluster(scheduler, Weather(stale_ms_max=1_000))
    for number in range(20):
        cluster.index.commit([Put(Item("p", "s", {"a": number}))])
    newest = cluster.index.get("p", "s")
    assert cluster.index.get("p", "s", consistent=False) != newest
    scheduler.now_ms += 1_001
    assert [cluster.index.get("p", "s", consistent=False) for _ in range(4)] == [newest] * 4


def test_a_list_of_blobs_in_pages_finds_all_blobs() -> None:
    scheduler = Scheduler(3)
    cluster = Cluster(scheduler, Weather(page_items_max=2))
    bodies = [bytes([number]) for number in range(9)]
    keys: list[str] = []

    def fill(process: Process) -> None:
        for body in bodies:
            process.blobs.put(f"owner/{sha256(body).hex()}", body)
        keys.extend(stat.key for stat in process.blobs.list("owner/"))

    cluster.start("writer", fill)
    scheduler.run()
    assert keys == sorted(f"owner/{sha256(body).hex()}" for body in bodies)


def test_all_actors_of_a_process_crash_together() -> None:
    scheduler = Scheduler(3)
    cluster = Cluster(scheduler, Weather())
    ended: list[str] = []

    def main(process: Process) -> None:
        process.spawn("second", lambda: work_until_dead(process, ended))
        process.index.get("p", "s")
        process.crash()

    cluster.start("process", main, restart=False)
    scheduler.run()
    assert ended == ["dead"]


def work_until_dead(process: Process, ended: list[str]) -> None:
    try:
        while True:
            process.index.get("p", "s")
    finally:
        ended.append("dead")


def error_of(function: Callable[[], Any]) -> Exception | None:
    try:
        function()
    except (Unavailable, OutcomeUnknown) as exc:
        return exc
    return None


def test_some_seeds_draw_late_effects_without_clock_skew_and_some_draw_far_clocks() -> None:
    drawn = [draw_weather(Random(seed)) for seed in range(500)]
    late = [weather for weather in drawn if weather.late_ms_max > 60_000]
    far = [weather for weather in drawn if weather.far_skew_ms_max]
    assert 20 < len(late) < 80
    assert 20 < len(far) < 80
    assert all(weather.late_ms_max == LATE_MS_LIMIT and not weather.skew_ms_max for weather in late)
    assert not any(weather.far_skew_ms_max for weather in late)


def test_only_a_process_that_asks_for_a_far_clock_has_a_clock_that_is_hours_off() -> None:
    cluster = Cluster(Scheduler(7), Weather(far_skew_ms_max=FAR_SKEW_MS_MAX))
    far = [abs(Process(cluster, "writer", far_clock=True).clock.wall_ms() - cluster.clock.wall_ms()) for _ in range(20)]
    near = [abs(Process(cluster, "collector").clock.wall_ms() - cluster.clock.wall_ms()) for _ in range(20)]
    behind = [Process(cluster, "laggard", is_behind=True).clock.wall_ms() - cluster.clock.wall_ms() for _ in range(20)]
    assert max(far) > 3_600_000
    assert max(near) == 0
    assert min(behind) < -3_600_000
    assert max(behind) <= 0


def test_an_index_is_restored_across_a_commit_of_blobs_alone() -> None:
    cluster = Cluster(Scheduler(1), Weather())
    index = LaggingIndex(cluster.scheduler, 0, cluster.blobs, joint_commits=True)
    index.commit((), {sha256(b"x").hex(): b"x"})
    index.commit([Put(ITEM)])
    assert index.restored(1).get("p", "s") is None
    assert index.restored(2).get("p", "s") == ITEM
