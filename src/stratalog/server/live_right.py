"""Live right: what a live connection may hear, asked when it begins and again with each heartbeat."""

from __future__ import annotations

from stratalog.errors import Forbidden, StratalogError
from stratalog.server.errors import Refused, status_of
from stratalog.server.security import ANONYMOUS, Principal, is_expired
from stratalog.server.service import Service

__all__ = ["LiveRight"]


class LiveRight:
    """The right of one connection to hear of one document or log."""

    def __init__(self, service: Service, token: str, address: str, organisation: str, name: str) -> None:
        self.principal: Principal = ANONYMOUS
        self._service = service
        self._token = token
        self._address = address
        self._name = (organisation, name)
        self._clock = service.store.environment.clock
        self._asked_ms = 0
        self._interval_ms = service.application.limits.live_heartbeat_seconds * 1000

    async def ask(self) -> Principal:
        """The principal, who may read there. Raises Refused, Forbidden, and what the application's functions raise."""
        self._asked_ms = self._clock.boot_ms()
        self.principal = await self._service.authentication.identify(self._token, self._address)
        await self._service.permit(self.principal, "read", *self._name)
        return self.principal

    def due_seconds(self) -> float:
        """How long until it is to be asked again."""
        return max(0.0, self._interval_ms - (self._clock.boot_ms() - self._asked_ms)) / 1000

    async def ask_again(self) -> StratalogError | None:
        """Why the connection must end, where it must. It is asked for only when that is due.

        Where nobody can be asked, as when the issuer's keys are away, it goes on until the next heartbeat: what it
        hears are hints, and each pull asks by itself.
        """
        if is_expired(self.principal, self._clock.wall_ms()):
            return Refused(401, "unauthenticated", "the token has expired")
        if self.due_seconds() > 0:
            return None
        known = self.principal
        try:
            await self.ask()
        except (Refused, Forbidden) as exc:
            return exc if status_of(exc) in (401, 403) else None
        except StratalogError:
            return None
        if self.principal.id != known.id:
            return Refused(401, "unauthenticated", "the token is another principal's now")
        return None
