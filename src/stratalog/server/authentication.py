"""Authentication: find the principal of a token, and limit the invalid tokens of each address.

Each invalid token counts against the address that sent it. When an address has sent too many invalid tokens, the server
refuses unknown tokens from this address without a check. The server checks unknown tokens again when the address's
bucket in `Rates` is no longer empty. The server delays the refusals, so that a caller that sends invalid tokens as fast
as possible costs little. The server still checks a token that was valid recently, so it serves other callers at that
address.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from stratalog.clock import Clock
from stratalog.codec import sha256
from stratalog.errors import StratalogError
from stratalog.limits import TOKENS_REMEMBERED_MAX
from stratalog.server.application import ServerLimits
from stratalog.server.errors import Refused
from stratalog.server.rates import Rates
from stratalog.server.security import ANONYMOUS, Authenticate, Principal, identify
from stratalog.server.shares import Holder
from stratalog.server.thread_pool import Pool

__all__ = ["Authentication"]


class Authentication:
    """Calls an application's ``authenticate``. Used from the event loop only.

    This object calls ``signed_in`` with the principal and the address for each valid token that it does not remember.
    This object remembers the `TOKENS_REMEMBERED_MAX` most recently used valid tokens.
    """

    def __init__(
        self,
        authenticate: Authenticate | None,
        clock: Clock,
        limits: ServerLimits,
        pool: Pool,
        signed_in: Callable[[Principal, str], None] = lambda principal, address: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._authenticate = authenticate
        self._pool = pool
        self._signed_in = signed_in
        self._sleep = sleep
        self._wait_seconds = limits.invalid_token_wait_seconds
        per_second, burst = limits.invalid_tokens_per_second, limits.invalid_tokens_burst
        self.invalid_tokens = Rates(clock, per_second, burst, "too many invalid tokens come from this address")
        """The rate of invalid tokens of each address."""

        # Digests of valid tokens, the most recently used last. The tokens themselves must not stay in memory.
        self._known: OrderedDict[bytes, None] = OrderedDict()

    @property
    def is_asked(self) -> bool:
        """Whether the application authenticates callers."""
        return self._authenticate is not None

    async def identify(self, token: str, address: str) -> Principal:
        """Return the principal of the token, or `ANONYMOUS` without authentication.

        Raises Refused: 401 for an invalid token, 429 or 503 if ``pool`` has no room. If the address has sent too many
        invalid tokens, raises Refused with 429 for every token that this object does not remember. Raises the errors of
        ``authenticate`` too. Only an invalid token counts against the address.
        """
        if self._authenticate is None:
            return ANONYMOUS
        digest = sha256(token.encode(errors="replace"))
        holder: Holder = ("address", address)
        is_known = digest in self._known
        if not is_known:
            self.invalid_tokens.check(holder)
        try:
            principal = await identify(self._authenticate, token, self._pool, holder)
        except StratalogError as exc:
            self._note_refusal(exc, digest, holder)
            raise
        self._known[digest] = None
        self._known.move_to_end(digest)
        if not is_known:
            if len(self._known) > TOKENS_REMEMBERED_MAX:
                self._known.popitem(last=False)
            self._signed_in(principal, address)
        return principal

    async def delay_refusal(self, address: str) -> None:
        """Delay the response to a refused token if the token's address has sent too many invalid tokens.

        The connection stays open during the wait. So before this call, the connection must count against the share of
        its address or principal (`connection_shares.py`).
        """
        if self.invalid_tokens.is_spent(("address", address)):
            await self._sleep(self._wait_seconds)

    def _note_refusal(self, error: StratalogError, digest: bytes, holder: Holder) -> None:
        if isinstance(error, Refused) and error.status == 401:
            # A known token may have expired or been revoked. From now on the server treats it as an unknown token.
            self._known.pop(digest, None)
            self.invalid_tokens.take(holder)
