"""For an address that guesses tokens, the server delays refusals, and checks only tokens that were valid recently."""

from __future__ import annotations

import asyncio

import pytest

from stratalog.errors import Unavailable
from stratalog.server.application import ServerLimits
from stratalog.server.authentication import Authentication
from stratalog.server.errors import Refused
from stratalog.server.rates import Rates
from stratalog.server.security import Principal
from stratalog.server.thread_pool import Pool, PoolSettings
from stratalog.testing.clock import ManualClock

HOME, OTHER = "10.0.0.1", "10.0.0.2"


class Issuer:
    """An issuer that accepts two tokens, and records each token that it checks."""

    def __init__(self) -> None:
        self.valid = {"ada": Principal(id="u-ada"), "bob": Principal(id="u-bob")}
        self.asked: list[str] = []
        self.is_away = False

    def __call__(self, token: str) -> Principal | None:
        self.asked.append(token)
        if self.is_away:
            raise Unavailable("no keys")
        return self.valid.get(token)


class Door:
    def __init__(self) -> None:
        self.clock, self.issuer, self.signed_in = ManualClock(), Issuer(), list[tuple[str, str]]()
        self.slept: list[float] = []
        limits = ServerLimits(invalid_tokens_per_second=1, invalid_tokens_burst=3)
        pool = Pool("identity", PoolSettings(threads=1))
        self._authentication = Authentication(
            self.issuer,
            self.clock,
            limits,
            pool,
            lambda who, address: self.signed_in.append((who.id, address)),
            self._sleep,
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def delays(self, address: str = HOME) -> bool:
        """Return whether the authentication delays a refusal now."""
        asyncio.run(self._authentication.delay_refusal(address))
        return bool(self.slept and self.slept.pop())

    def status(self, token: str, address: str = HOME) -> int:
        try:
            asyncio.run(self._authentication.identify(token, address))
        except Refused as exc:
            return exc.status
        except Unavailable:
            return 503
        return 200


def test_tokens_of_an_address_that_guesses_are_not_checked_until_time_has_passed() -> None:
    door = Door()
    assert [door.status(f"guess {number}") for number in range(5)] == [401, 401, 401, 429, 429]
    assert len(door.issuer.asked) == 3
    door.clock.sleep(1)
    assert [door.status(f"later {number}") for number in range(2)] == [401, 429]


def test_a_recently_valid_token_is_checked_at_an_address_that_guesses() -> None:
    door = Door()
    assert door.status("ada") == 200
    for number in range(5):
        door.status(f"guess {number}")
    assert door.status("ada") == 200
    assert door.status("bob") == 429
    assert door.status("bob", OTHER) == 200


def test_a_revoked_token_counts_as_a_guess() -> None:
    door = Door()
    assert door.status("ada") == 200
    del door.issuer.valid["ada"]
    assert [door.status("ada") for _ in range(4)] == [401, 401, 401, 429]


def test_a_request_during_an_outage_of_the_issuer_does_not_count_as_a_guess() -> None:
    door = Door()
    door.issuer.is_away = True
    assert {door.status("ada") for _ in range(10)} == {503}
    door.issuer.is_away = False
    assert door.status("ada") == 200


def test_each_principal_s_sign_in_is_reported_once() -> None:
    door = Door()
    for token in ("ada", "guess", "ada", "bob"):
        door.status(token)
    assert door.signed_in == [("u-ada", HOME), ("u-bob", HOME)]


def test_no_token_is_stored_in_memory_in_plain_text() -> None:
    door = Door()
    # The test does not use the token "ada", because an object's address may contain "ada", as 0x7f8ef03adad0 does.
    for token in ("bob", "guess"):
        door.status(token)
        assert token not in repr(vars(door._authentication))


def test_a_principal_who_is_named_like_an_address_has_a_bucket_of_its_own() -> None:
    rates = Rates(ManualClock(), 1, 1)
    rates.take(("address", HOME))
    rates.take(("principal", HOME))
    with pytest.raises(Refused):
        rates.take(("address", HOME))


def test_the_refusals_of_an_address_that_guesses_are_delayed() -> None:
    door = Door()
    assert not door.delays()
    assert [(door.status(f"guess {number}"), door.delays()) for number in range(4)] == [
        (401, False),
        (401, False),
        (401, True),
        (429, True),
    ]
    assert not door.delays(OTHER)
    door.clock.sleep(1)
    assert not door.delays()
