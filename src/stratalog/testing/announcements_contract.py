"""The contract suite of announcements: tests of the port's contract. Use it like `IndexContract`.

A hint may be lost. So the tests announce again until the hint is heard, at most `TRIES_MAX` times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue

from stratalog.ports.announcements import Announcements

__all__ = ["AnnouncementsContract"]

TRIES_MAX = 500
TRY_SECONDS = 0.1

Name = tuple[str, str]


class AnnouncementsContract(ABC):
    """Tests of announcements. A subclass implements ``make``."""

    @abstractmethod
    def make(self, processes: int) -> Sequence[Announcements]:
        """Return the announcements of several processes of one new store. Every test calls `make` once.

        These processes may be one process of the operating system. The tests may close some of the announcements, or
        none.
        """

    def test_a_hint_reaches_all_other_processes(self) -> None:
        sender, *others = self.make(3)
        heard = [_hints_of(other) for other in others]
        _announce_until_heard(sender, ("acme", "plan"), heard)

    def test_a_name_may_have_any_characters(self) -> None:
        sender, other = self.make(2)
        heard = _hints_of(other)
        for name in (("acme", 'é\0"\n\\'), ("Ω" * 60, "n" * 200)):
            _announce_until_heard(sender, name, [heard])

    def test_both_ends_hear_each_other(self) -> None:
        ends = self.make(2)
        heard = [_hints_of(end) for end in ends]
        _announce_until_heard(ends[0], ("acme", "there"), [heard[1]])
        _announce_until_heard(ends[1], ("acme", "back"), [heard[0]])

    def test_a_process_does_not_hear_its_own_hints(self) -> None:
        """After its own hint, the first process hears a later hint of the second process, but not its own hint."""
        ends = self.make(2)
        heard = [_hints_of(end) for end in ends]
        _announce_until_heard(ends[0], ("acme", "own"), [heard[1]])
        assert ("acme", "own") not in _announce_until_heard(ends[1], ("acme", "other"), [heard[0]])

    def test_a_process_that_does_not_listen_may_announce(self) -> None:
        sender, other = self.make(2)
        sender.announce("acme", "to nobody")
        _announce_until_heard(sender, ("acme", "plan"), [_hints_of(other)])

    def test_many_threads_may_announce(self) -> None:
        sender, other = self.make(2)
        heard = _hints_of(other)
        names = [("acme", f"{number}") for number in range(50)]

        def announce(name: Name) -> None:
            for _ in range(20):
                sender.announce(*name)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(announce, names))
        for name in names:
            _announce_until_heard(sender, name, [heard])

    def test_a_listener_hears_hint_after_hint(self) -> None:
        sender, other = self.make(2)
        heard = _hints_of(other)
        for number in range(5):
            _announce_until_heard(sender, ("acme", f"{number}"), [heard])

    def test_no_hint_is_heard_after_closing(self) -> None:
        sender, closed, other = self.make(3)
        heard, after = _hints_of(closed), _hints_of(other)
        _announce_until_heard(sender, ("acme", "before"), [heard, after])
        closed.close()
        while not heard.empty():
            heard.get()
        _announce_until_heard(sender, ("acme", "after"), [after])
        assert heard.empty()

    def test_announcing_after_closing_raises_nothing(self) -> None:
        sender, closed, other = self.make(3)
        closed.announce("acme", "plan")
        closed.close()
        closed.announce("acme", "plan")
        _announce_until_heard(sender, ("acme", "other"), [_hints_of(other)])

    def test_a_later_listener_replaces_the_earlier_one(self) -> None:
        sender, other = self.make(2)
        earlier, later = _hints_of(other), _hints_of(other)
        _announce_until_heard(sender, ("acme", "plan"), [later])
        assert earlier.empty()

    def test_closing_twice_is_harmless(self) -> None:
        used, unused = self.make(2)
        _hints_of(used)
        used.announce("acme", "plan")
        for announcements in (used, used, unused, unused):
            announcements.close()


def _hints_of(announcements: Announcements) -> SimpleQueue[Name]:
    """Listen, and return the queue of the hints."""
    heard: SimpleQueue[Name] = SimpleQueue()
    announcements.listen(lambda organisation, name: heard.put((organisation, name)))
    return heard


def _announce_until_heard(sender: Announcements, name: Name, listeners: Sequence[SimpleQueue[Name]]) -> list[Name]:
    """Announce until every listener has heard the name. Return all hints that they heard meanwhile."""
    waiting, heard = list(listeners), []
    for _ in range(TRIES_MAX):
        sender.announce(*name)
        try:
            while True:
                heard.append(waiting[0].get(timeout=TRY_SECONDS))
                if heard[-1] == name:
                    del waiting[0]
                if not waiting:
                    return heard
        except Empty:
            continue
    raise AssertionError(f"no hint was heard of {name}")
