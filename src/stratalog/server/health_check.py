"""The check whether the store can be read. The health route returns the result of this check."""

from __future__ import annotations

import asyncio
import math

from stratalog.clock import Observation
from stratalog.errors import StratalogError, Unavailable
from stratalog.limits import HEALTH_AGE_SECONDS_MAX, HEALTH_ANSWER_SECONDS_MAX, HEALTH_REPEATED_SECONDS_MAX
from stratalog.server.errors import status_of
from stratalog.server.thread_pool import Pool
from stratalog.store import Store

__all__ = ["HealthCheck"]


class HealthCheck:
    """A check whether the store can be read. All callers share one check at a time, which runs on a thread of its own.

    A result answers all callers for `HEALTH_REPEATED_SECONDS_MAX`, because anyone may request a check, and a check
    costs a read. A caller waits for the current check for `HEALTH_ANSWER_SECONDS_MAX`. The check may take longer, for
    example under load. Then the caller gets the previous result, if this result is younger than
    `HEALTH_AGE_SECONDS_MAX`. If the previous result is older, the caller waits for the current check, until
    `HEALTH_AGE_SECONDS_MAX` after the check began.
    """

    def __init__(self, store: Store, pool: Pool) -> None:
        self._store = store
        self._pool = pool
        self._look: asyncio.Task[None] | None = None
        self._began: Observation | None = None
        self._seen: Observation | None = None
        self._error: StratalogError | None = None

    async def ask(self) -> None:
        """Return if the store can be read. Else raise an error with the status 503."""
        age_seconds = math.inf if self._seen is None else self._seen.age_seconds()
        if age_seconds < HEALTH_REPEATED_SECONDS_MAX:
            return self._answer()
        if self._look is None or self._look.done():
            self._began = Observation(self._store.environment.clock)
            self._look = asyncio.get_running_loop().create_task(self._run())
        look, age_max = self._look, HEALTH_AGE_SECONDS_MAX
        is_recent = age_seconds < age_max
        assert self._began is not None
        left = HEALTH_ANSWER_SECONDS_MAX if is_recent else max(0.0, age_max - self._began.age_seconds())
        # `wait_for` would cancel the check when this caller stops waiting. Other callers share the check.
        await asyncio.wait([look], timeout=left)
        if look.done() or is_recent:
            # `result` raises the check's error if it is not a `StratalogError`.
            if look.done():
                look.result()
            return self._answer()
        raise Unavailable("the store does not respond", limit=age_max)

    def _answer(self) -> None:
        """Return if the last check succeeded, else raise its error."""
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        # The age of a result counts from the beginning of its read, not from the end.
        began = self._began
        try:
            await self._pool.run(lambda: next(iter(self._store.organisations()), None))
        except StratalogError as exc:
            # A damaged or a newer store cannot be read either. The status of its error is 500 or 501.
            is_503 = status_of(exc) == 503
            self._error = exc if is_503 else Unavailable(f"the store cannot be read: {exc.message}", code=exc.code)
        else:
            self._error = None
        self._seen = began
