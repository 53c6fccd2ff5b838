"""The blobs of one commit. The commit itself stores a blob if the index can. The batch puts other blobs beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from stratalog.clock import Observation
from stratalog.errors import OutcomeUnknown, StratalogError, Unavailable
from stratalog.limits import COMMIT_BLOB_BYTES_MAX, GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log.bodies import BodyRef, write_body
from stratalog.log.environment import Environment
from stratalog.ports.blobs import Blobs
from stratalog.ports.commit_blobs import TOGETHER_MIN, put_all
from stratalog.ports.index import NO_BLOBS

__all__ = ["HELD_BYTES_MAX", "BlobBatch", "BlobsDeferred"]

# The held blobs of one batch have at most half of the bytes that a commit can store. So other entries can join a commit
# until their blobs have the other half.
HELD_BYTES_MAX = COMMIT_BLOB_BYTES_MAX // 2

RENEWED_TOGETHER = 1024


class BlobsDeferred(Exception):
    """A commit is not sent, because some of its blobs are not put. Call `BlobBatch.put_deferred`, then try again."""


class BlobBatch:
    """Makes every blob durable no later than the item that names it.

    Create the batch before the first blob is written. Send the commit in a block of `sending`, or call `refresh` before
    the commit is sent and `renew` after the answer. Pass `blobs` to the commit.

    The commit itself stores the *held* blobs. So a collector sees the held blobs and the item, or sees neither of them.
    The batch puts all other blobs *ahead*, before the commit. The collector does not delete such a blob if the blob is
    younger than half the grace when the answer to the commit arrives. `renew` puts older blobs again
    (docs/concepts/collecting.md). The batch keeps the bytes of the blobs put ahead, as their source may be collected.
    """

    def __init__(
        self, environment: Environment, held_bytes_max: int = HELD_BYTES_MAX, blobs: Blobs | None = None
    ) -> None:
        """``held_bytes_max`` limits the held blobs: above it, the batch puts the held blobs ahead.

        With ``held_bytes_max`` 0 and without `defer`, each blob is durable once it is written. ``blobs`` replaces the
        environment's blobs.
        """
        self._environment = environment
        self._blobs = blobs or environment.blobs
        self._held_bytes_max = held_bytes_max
        self._looked: Observation | None = None
        self._ahead: dict[str, bytes] = {}
        self._held: dict[str, bytes] = {}
        self._deferred: dict[str, bytes] | None = None
        self.held_bytes: int = 0

    def defer(self) -> None:
        """From now on keep the blobs to put ahead in memory, until `put_deferred` puts them.

        A caller that holds a lock calls `defer`. If the caller put blobs under the lock, other threads would wait for
        the blob store.
        """
        self._deferred = {}

    def begin_try(self) -> None:
        """Begin a new try of the commit without held blobs. Blobs that were put ahead are not put again."""
        self._held, self.held_bytes = {}, 0

    def check_put(self) -> None:
        """Raise BlobsDeferred if the batch keeps deferred blobs that are not put."""
        if self._deferred:
            raise BlobsDeferred

    def put_deferred(self) -> None:
        """Put the deferred blobs and stop deferring. Raises Unavailable: no item names the blobs yet."""
        if self._deferred:
            self._put_now(self._deferred)
        self._deferred = None

    @property
    def blobs(self) -> Mapping[str, bytes]:
        """Return the blobs that the commit must store, for ``Index.commit``."""
        return self._held or NO_BLOBS

    def write(self, prefix: str, body: bytes) -> BodyRef:
        """Store ``body`` under ``prefix``, no later than with the commit. Raises the errors of `put`."""
        return write_body(self, prefix, body)

    def put(self, key: str, body: bytes) -> None:
        """Store one blob, no later than with the commit.

        Raises Unavailable: no item names the blob yet. Raises the other errors of ``Blobs.put``, except OutcomeUnknown.
        """
        size = len(body)
        limit = min(self._environment.index.blob_bytes_max, self._held_bytes_max)
        if not limit or size > limit:
            self._put_ahead({key: body})
            return
        if self.held_bytes + size > self._held_bytes_max:
            self._put_ahead(self._held)
            self._held, self.held_bytes = {}, 0
        self._held[key] = body
        self.held_bytes += size

    def put_all(self, bodies: Mapping[str, bytes]) -> None:
        """Store many blobs, no later than with the commit. Raises the errors of `put`.

        If the index stores no blobs, the batch puts all of them ahead together; see `put_together`.
        """
        if self._environment.index.blob_bytes_max:
            for key, body in bodies.items():
                self.put(key, body)
        else:
            self._put_ahead(bodies)

    def refresh(self) -> bool:
        """Before the commit is sent, put again the blobs that were put ahead, if they are old enough to be collected.

        Tries once. Returns whether the blobs were put. Raises Unavailable if a put fails: no item names the blobs yet.
        """
        if self._looked is None or self._looked.age_seconds() <= OBSERVATION_SECONDS_MAX:
            return False
        looked = Observation(self._environment.clock)
        self._put_unsent(self._ahead)
        self._looked = looked
        return True

    def renew(self) -> None:
        """After the answer, put again the blobs that were put ahead, if they are too old by now. Retries a failed put.

        Without `renew` a committed item could name missing blobs. Raises OutcomeUnknown if the retries fail.
        """
        if self._looked is None or self._looked.age_seconds() <= GRACE_SECONDS / 2:
            return
        bodies = list(self._ahead.items())
        size = 1 if len(bodies) < TOGETHER_MIN else RENEWED_TOGETHER
        for start in range(0, len(bodies), size):
            self._put_again(dict(bodies[start : start + size]))

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Run the block that sends the commit: `refresh` before it, and `renew` after it unless nothing was written."""
        self.refresh()
        is_refused = False
        try:
            yield
        except StratalogError as exc:
            # An error of Python, such as a lack of memory, and an interrupt may arrive after the commit was sent.
            is_refused = not isinstance(exc, OutcomeUnknown)
            raise
        finally:
            if not is_refused:
                self.renew()

    def _put_ahead(self, bodies: Mapping[str, bytes]) -> None:
        bodies = {key: body for key, body in bodies.items() if key not in self._ahead}
        if not bodies:
            return
        if self._deferred is not None:
            self._deferred.update(bodies)
            return
        self._put_now(bodies)

    def _put_now(self, bodies: Mapping[str, bytes]) -> None:
        # The blob that was put first is the oldest, so its age counts for all blobs.
        self._looked = self._looked or Observation(self._environment.clock)
        self._put_unsent(bodies)
        # Record the blobs only after the put: after a failed put, the next write of the same bytes must not be skipped.
        self._ahead.update(bodies)

    def _put_unsent(self, bodies: Mapping[str, bytes]) -> None:
        """Put blobs before the commit is sent. A put in doubt leaves no commit in doubt, so it is Unavailable too."""
        try:
            self._put(bodies)
        except OutcomeUnknown as exc:
            raise Unavailable("the blobs of an unsent commit could not be put") from exc

    def _put(self, bodies: Mapping[str, bytes]) -> None:
        put_all(self._environment.index, self._blobs, bodies)

    def _put_again(self, bodies: Mapping[str, bytes]) -> None:
        retry = self._environment.retry()
        while True:
            try:
                self._put(bodies)
                return
            except (Unavailable, OutcomeUnknown) as exc:
                if not retry.wait(exc):
                    raise OutcomeUnknown("the blobs of a commit in doubt could not be put again") from exc
