"""Upload: the blobs of one commit, put before it is sent, and once more where it, or its answer, is late."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stratalog.clock import Observation
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.limits import GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log.bodies import BodyRef, write_body
from stratalog.log.environment import Environment

__all__ = ["BlobBatch"]

T = TypeVar("T")


class BlobBatch:
    """Blob first, index second: made before the first blob is put, asked to refresh before the commit is sent, and to
    renew once it was answered.

    A collector takes what is unreferenced and old. What a commit put is young while the commit may be under way, as
    long as it is not half the grace old when it is answered; then it is put again (DESIGN §5, “Collecting blobs”).
    It holds what it put, since what that was made from may be collected as well.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._looked: Observation | None = None
        self._puts: list[Callable[[], object]] = []

    def write(self, prefix: str, body: bytes) -> BodyRef:
        """Store ``body`` under ``prefix``. Raises what ``Blobs.put`` raises."""
        return self.put(lambda: write_body(self._environment.blobs, prefix, body))

    def put(self, store: Callable[[], T]) -> T:
        """Call ``store``, which puts blobs, now and each time that they are put again."""
        self._looked = self._looked or Observation(self._environment.clock)
        self._puts.append(store)
        return store()

    def refresh(self) -> bool:
        """Before the commit is sent: put again, once, what may have been collected while the process slept.

        Answers whether it did. Raises Unavailable where that does not succeed: nothing names the blobs yet.
        """
        if self._looked is None or self._looked.age_seconds() <= OBSERVATION_SECONDS_MAX:
            return False
        looked = Observation(self._environment.clock)
        try:
            for store in self._puts:
                store()
        except OutcomeUnknown as exc:
            raise Unavailable("the blobs of a commit that was not sent could not be put again") from exc
        self._looked = looked
        return True

    def renew(self) -> None:
        """Put again the blobs that grew old meanwhile, with retries: without them a commit that may stand would dangle.

        Raises OutcomeUnknown where that does not succeed.
        """
        if self._looked is None or self._looked.age_seconds() <= GRACE_SECONDS / 2:
            return
        for store in self._puts:
            self._put_again(store)

    def _put_again(self, store: Callable[[], object]) -> None:
        retry = self._environment.retry()
        while True:
            try:
                store()
                return
            except (Unavailable, OutcomeUnknown) as exc:
                if not retry.wait(exc):
                    raise OutcomeUnknown("the blobs of a commit that may stand could not be put again") from exc
