"""Threads of a process share the counters of an environment."""

from __future__ import annotations

from collections import Counter

from stratalog.log import Environment
from tests.log.helpers import new_log
from tests.threads import CallThread, join_all, start_all


class Interleaved(Counter[str]):
    """Counters that let another thread count between the read and the write of a count, if the lock is free."""

    def __init__(self, environment: Environment) -> None:
        super().__init__()
        self.others: list[CallThread] = []
        self._environment = environment

    def __missing__(self, name: str) -> int:
        if not self.others:
            self.others = start_all([lambda: self._environment.count(name, 10)])
            if not self._environment._counters_lock.locked():
                join_all(self.others)
        return 0


def test_a_count_of_another_thread_is_not_lost() -> None:
    environment = new_log().environment
    environment.counters = counters = Interleaved(environment)
    environment.count("conflict")
    join_all(counters.others)
    assert counters["conflict"] == 11
