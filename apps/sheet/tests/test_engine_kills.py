"""A short run of `engine_kills`, as a part of the tests."""

from __future__ import annotations

from apps.sheet.tests.engine_kills import play

SESSIONS = 6
KILLS = 2
SEED = 7


def test_clients_agree_and_the_server_lives_when_engines_are_killed() -> None:
    counts, killed = play(SESSIONS, KILLS, SEED)
    assert killed == KILLS
    assert counts["edits"] > SESSIONS
