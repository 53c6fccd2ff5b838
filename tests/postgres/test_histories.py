"""Several processes use one log in PostgreSQL. Checkers compare the processes' records with the log."""

from __future__ import annotations

import pytest

from tests.postgres.restarts import run


@pytest.mark.slow
def test_the_records_of_processes_agree_with_the_log_despite_kills_of_processes_and_server() -> None:
    met = run(records=700, processes=4, seed=2)
    for what in ("acknowledged", "entries read", "kills", "restarts"):
        assert met[what] > 0, what
