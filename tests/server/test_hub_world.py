"""Hubs on one store bring every listener to the newest version. Hints alone are enough, and so is polling alone."""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter

import pytest

from stratalog.server import hub as hub_module
from stratalog.server.hub import Hub
from stratalog.testing.checkers import Violation
from tests.server.hub_world import run_hubs

SEEDS = 10
MUTANT_SEEDS = 200
JOINING_SEED = 190


def test_every_listener_learns_the_newest_version() -> None:
    counts = run_seeds(SEEDS)
    for what in ("hints", "lost", "_commit", "_commit_elsewhere", "_join", "_leave", "_make_again"):
        assert counts[what] > 0, what


def test_a_commit_while_the_first_listener_joins_is_reported_without_polling() -> None:
    """The hint arrives after the hub has read the head for the listener, and before the listener has joined."""
    run_hubs(JOINING_SEED)


RESET = "hinted, self._hinted, self._hint = self._hinted, set(), anyio.Event()"


@pytest.mark.mutants
@pytest.mark.parametrize(
    ("method", "edits"),
    [
        ("poke", {"if self._store.announcements is not None:": "if False:"}),
        ("_take_hint", {"self._hint.set()": "pass"}),
        ("_take_hint", {"self._hinted.add(name)": "self._hinted = {name}"}),
        ("_watch_heads", {RESET: "hinted = self._hinted", "await anyio.sleep(": f"{RESET}; await anyio.sleep("}),
        ("_watch_heads", {"self._poll(None if reads_all else hinted)": "self._poll(hinted)"}),
        ("_announce", {"and version > room.version": ""}),
    ],
    ids=["no hint is sent", "no wake", "one hint is kept", "a hint during a read is lost", "no polling", "no order"],
)
def test_a_planted_bug_is_noticed(method: str, edits: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    source = textwrap.dedent(inspect.getsource(getattr(Hub, method)))
    for code, planted in edits.items():
        assert code in source
        source = source.replace(code, planted)
    names = dict(vars(hub_module))
    exec(f"from __future__ import annotations\n{source}", names)
    monkeypatch.setattr(Hub, method, names[method])
    with pytest.raises(Violation):
        run_seeds(MUTANT_SEEDS)


def run_seeds(count: int) -> Counter[str]:
    return sum((run_hubs(seed) for seed in range(count)), Counter())
