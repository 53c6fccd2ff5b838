"""Several processes use one log in PostgreSQL. Checkers compare the processes' records with the log."""

from __future__ import annotations

import pytest

from tests.postgres.restarts import run


@pytest.mark.slow
def test_what_processes_record_agrees_with_the_log_when_processes_and_the_server_are_killed() -> None:
    met = run(records=700, processes=4, seed=2)
    for what in ("acknowledged", "entries read", "kills", "restarts"):
        assert met[what] > 0, what
