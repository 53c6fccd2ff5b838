"""Presence: the server sends changes, encodes each message once, and limits the bytes per second."""

from __future__ import annotations

import pytest

from stratalog.errors import LimitExceeded
from stratalog.limits import (
    PRESENCE_CONNECTIONS_MAX,
    PRESENCE_PAUSE_SECONDS_MAX,
    PRESENCE_PAUSE_SECONDS_MIN,
    PRESENCE_PER_PRINCIPAL_MAX,
    PRESENCE_ROOM_BYTES_PER_SECOND,
)
from stratalog.protocol.live import Here, HereChanged, PresentPrincipal
from stratalog.server.presence import Frame, PresenceBoard
from stratalog.server.security import ANONYMOUS, Principal

ADA = Principal(id="u-ada", name="Ada")


class Listening:
    """A listener with room for one frame, which `read` takes out."""

    def __init__(self, *, takes_changes: bool = True, needs_all: bool = False) -> None:
        self.takes_changes = takes_changes
        self.needs_all = needs_all
        self.frame: Frame | None = None

    def offer(self, frame: Frame) -> bool:
        if self.frame is not None:
            return False
        self.frame = frame
        return True

    def read(self) -> object:
        frame, self.frame = self.frame, None
        return frame and frame.message


def test_an_up_to_date_listener_gets_the_changes_and_other_listeners_get_all_states() -> None:
    presence, new, old, known = PresenceBoard(), Listening(needs_all=True), Listening(takes_changes=False), Listening()
    presence.show("a", ADA, 1)
    presence.broadcast([known], 0)
    known.read()
    presence.show("b", ANONYMOUS, 2)
    presence.broadcast([new, old, known], 0)
    complete = Here({"a": 1, "b": 2}, {"a": PresentPrincipal("u-ada", "Ada")})
    assert (new.read(), old.read(), known.read()) == (complete, complete, HereChanged({"b": 2}))
    presence.show("a", ADA, None)
    presence.broadcast([new, old, known], 0)
    assert (new.read(), old.read(), known.read()) == (
        HereChanged({"a": None}),
        Here({"b": 2}),
        HereChanged({"a": None}),
    )


def test_a_slow_listener_has_a_single_waiting_message_and_then_gets_all_states() -> None:
    presence, slow = PresenceBoard(), Listening()
    for number in range(100):
        presence.show(f"c{number}", ANONYMOUS, number)
        presence.broadcast([slow], 0)
    assert slow.read() == HereChanged({"c0": 0})
    assert slow.needs_all
    presence.broadcast([slow], 0)
    assert slow.read() == Here({f"c{number}": number for number in range(100)})
    assert not slow.needs_all


def test_listeners_share_the_encoded_message() -> None:
    presence, listeners = PresenceBoard(), [Listening() for _ in range(200)]
    presence.show("a", ADA, "x" * 1000)
    presence.broadcast(listeners, 0)
    assert len({id(listener.frame.json) for listener in listeners if listener.frame}) == 1


def test_presence_of_two_hundred_listeners_stays_within_the_byte_rate() -> None:
    presence, listeners = PresenceBoard(), [Listening() for _ in range(200)]
    now_ms, sent, broadcasts = 0.0, 0, 0
    while now_ms < 600_000:
        for number in range(200):
            presence.show(f"c{number:03d}", ANONYMOUS, f"{broadcasts}-" + "x" * 1000)
        sent += presence.broadcast(listeners, now_ms)
        broadcasts += 1
        for listener in listeners:
            listener.read()
        now_ms = presence.due_ms
    assert broadcasts > 1
    assert sent / (now_ms / 1000) <= PRESENCE_ROOM_BYTES_PER_SECOND * 1.01


@pytest.mark.parametrize(
    ("listeners", "seconds"),
    [(0, PRESENCE_PAUSE_SECONDS_MIN), (1000, PRESENCE_PAUSE_SECONDS_MAX)],
)
def test_the_pause_grows_with_the_listeners(listeners: int, seconds: float) -> None:
    presence = PresenceBoard()
    presence.show("a", ADA, 1)
    presence.broadcast([Listening() for _ in range(listeners)], 0)
    assert presence.due_ms == pytest.approx(seconds * 1000)


def test_the_number_of_shown_connections_of_a_principal_is_limited() -> None:
    presence, listener = PresenceBoard(), Listening(needs_all=True)
    shown = [presence.show(f"a{number}", ADA, 1) for number in range(PRESENCE_CONNECTIONS_MAX)]
    assert shown == [True] * PRESENCE_PER_PRINCIPAL_MAX + [False] * (len(shown) - PRESENCE_PER_PRINCIPAL_MAX)
    assert presence.show("b", Principal(id="u-bob"), 1)
    assert presence.show("a0", ADA, None)
    assert presence.show("a199", ADA, 2)
    presence.broadcast([listener], 0)
    complete = listener.read()
    assert isinstance(complete, Here)
    assert len(complete.present) == PRESENCE_PER_PRINCIPAL_MAX + 1


def test_the_number_of_shown_connections_of_a_document_is_limited() -> None:
    presence, listener = PresenceBoard(), Listening(needs_all=True)
    everybody = [Principal(id=f"u-{number}") for number in range(PRESENCE_CONNECTIONS_MAX + 1)]
    shown = [presence.show(principal.id, principal, 1) for principal in everybody]
    assert shown == [True] * PRESENCE_CONNECTIONS_MAX + [False]
    presence.broadcast([listener], 0)
    complete = listener.read()
    assert isinstance(complete, Here)
    assert len(complete.present) == PRESENCE_CONNECTIONS_MAX
    assert presence.show("u-0", everybody[0], None)
    assert presence.show("u-late", everybody[-1], 1)


def test_a_state_that_is_too_large_changes_nothing() -> None:
    presence = PresenceBoard()
    with pytest.raises(LimitExceeded):
        presence.show("a", ADA, "x" * 2000)
    assert not presence
