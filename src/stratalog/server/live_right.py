"""Live right: the permission of a live connection, checked when it begins and then once in each heartbeat interval.

The wait before the second check is at most one interval, and differs between connections. After a restart of the
server, many connections begin in the same instant. Without this difference, all their checks would always coincide.
"""

from __future__ import annotations

from stratalog.errors import Forbidden, StratalogError
from stratalog.server.errors import Refused, status_of
from stratalog.server.security import ANONYMOUS, Principal, is_expired
from stratalog.server.service import Service

__all__ = ["LiveRight"]


class LiveRight:
    """The right of one connection to receive messages about one document or log."""

    def __init__(self, service: Service, token: str, address: str, organisation: str, name: str) -> None:
        self.principal: Principal = ANONYMOUS
        self._service = service
        self._token = token
        self._address = address
        self._name = (organisation, name)
        self._clock = service.store.environment.clock
        self._asked_ms = 0
        self._interval_ms = service.application.limits.live_heartbeat_seconds * 1000
        self._wait_ms = self._interval_ms * (1 - next(service.phases))

    async def ask(self) -> Principal:
        """Authenticate the token and check that its principal may read the document or log. Return the principal.

        Raises Refused, Forbidden, and every error of the application's functions.
        """
        # Set the time before the calls. So even a failed check is repeated only after a wait.
        self._asked_ms = self._clock.boot_ms()
        authentication = self._service.authentication
        try:
            principal = await authentication.identify(self._token, self._address)
        except StratalogError:
            await authentication.delay_refusal(self._address)
            raise
        await self._service.permit(principal, "read", *self._name)
        # Set the principal last. If `permit` fails, `ask_again` must still notice that the principal has changed.
        self.principal = principal
        return principal

    def due_seconds(self) -> float:
        """Return the seconds until the next check is due or the token expires, or 0 if a check is due now."""
        due_ms = self._wait_ms - (self._clock.boot_ms() - self._asked_ms)
        if self.principal.expires_ms is not None:
            due_ms = min(due_ms, self.principal.expires_ms - self._clock.wall_ms())
        return max(0.0, due_ms) / 1000

    async def ask_again(self) -> StratalogError | None:
        """Check the right again if a check is due. Return the error for which the connection must end, or else None.

        Only a refused or expired token, a token that now belongs to another principal, or a refused right ends the
        connection. If the check fails for another reason, for example because the issuer's keys cannot be fetched, the
        connection stays open, and the check is repeated after one interval. This is safe: a connection transfers only
        hints and presence, and each pull has its own authorisation. An expired token ends the connection at the next
        call, even if no check is due.
        """
        if is_expired(self.principal, self._clock.wall_ms()):
            return Refused(401, "unauthenticated", "the token has expired")
        if self.due_seconds() > 0:
            return None
        known = self.principal
        self._wait_ms = self._interval_ms
        try:
            await self.ask()
        except (Refused, Forbidden) as exc:
            return exc if status_of(exc) in (401, 403) else None
        except StratalogError:
            return None
        if self.principal.id != known.id:
            return Refused(401, "unauthenticated", "the token now belongs to another principal")
        return None
