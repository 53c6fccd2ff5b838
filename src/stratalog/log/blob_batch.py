"""The blobs of one commit: held for it where the index takes them along, else put before it is sent."""

from __future__ import annotations

from collections.abc import Mapping

from stratalog.clock import Observation
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.limits import COMMIT_BLOB_BYTES_MAX, GRACE_SECONDS, OBSERVATION_SECONDS_MAX
from stratalog.log.bodies import BodyRef, write_body
from stratalog.log.environment import Environment
from stratalog.ports.blobs import Blobs
from stratalog.ports.commit_blobs import TOGETHER_MIN, put_all
from stratalog.ports.index import NO_BLOBS

__all__ = ["HELD_BYTES_MAX", "BlobBatch", "BlobsDeferred"]

# Entries that share a commit may bring as much again, and then one more of them.
HELD_BYTES_MAX = COMMIT_BLOB_BYTES_MAX // 2

RENEWED_TOGETHER = 1024


class BlobsDeferred(Exception):
    """A commit is not sent, since blobs of it are still to be put: `BlobBatch.put_deferred`, then try it again."""


class BlobBatch:
    """No blob later than the item that names it: made before the first blob is written, asked to refresh before the
    commit is sent, and to renew once it was answered. The commit takes `blobs` along.

    What is held becomes durable with the item, so no collector sees the one without the other. What was put ahead is
    young while the commit may be under way, as long as it is not half the grace old when the commit is answered; then
    it is put again (docs/concepts/collecting.md). The batch holds that as well, since what it was made from may be
    collected.
    """

    def __init__(
        self, environment: Environment, held_bytes_max: int = HELD_BYTES_MAX, blobs: Blobs | None = None
    ) -> None:
        """Above ``held_bytes_max`` what is held is put ahead after all. 0: every blob is durable once it is written.

        ``blobs`` take the place of the environment's.
        """
        self._environment = environment
        self._blobs = blobs or environment.blobs
        self._held_bytes_max = held_bytes_max
        self._looked: Observation | None = None
        self._ahead: dict[str, bytes] = {}
        self._held: dict[str, bytes] = {}
        self._deferred: dict[str, bytes] | None = None
        self.held_bytes = 0

    def defer(self) -> None:
        """From here on collect what would be put ahead, until `put_deferred`.

        For a caller who holds a lock: others would wait for the blob store with it.
        """
        self._deferred = {}

    def begin_try(self) -> None:
        """The commit is made anew: it holds nothing yet. What was put ahead is not put again."""
        self._held, self.held_bytes = {}, 0

    def check_put(self) -> None:
        """Raise BlobsDeferred where something was collected and not put."""
        if self._deferred:
            raise BlobsDeferred

    def put_deferred(self) -> None:
        """Put what was collected, and defer no more. Raises what ``Blobs.put`` raises."""
        deferred, self._deferred = self._deferred, None
        if deferred:
            self._put_ahead(deferred)

    @property
    def blobs(self) -> Mapping[str, bytes]:
        """What the commit must take along, for ``Index.commit``."""
        return self._held or NO_BLOBS

    def write(self, prefix: str, body: bytes) -> BodyRef:
        """Store ``body`` under ``prefix``, no later than with the commit. Raises what ``Blobs.put`` raises."""
        return write_body(self, prefix, body)

    def put(self, key: str, body: bytes) -> None:
        """Store one blob, no later than with the commit. Raises what ``Blobs.put`` raises."""
        size = len(body)
        limit = min(self._environment.index.blob_bytes_max, self._held_bytes_max)
        if not limit or size > limit:
            self._put_ahead({key: body})
            return
        if self.held_bytes + size > self._held_bytes_max:
            held, self._held, self.held_bytes = self._held, {}, 0
            self._put_ahead(held)
        self._held[key] = body
        self.held_bytes += size

    def put_all(self, bodies: Mapping[str, bytes]) -> None:
        """Store many blobs. Those that are put ahead wait together. Raises what ``Blobs.put`` raises."""
        if self._environment.index.blob_bytes_max:
            for key, body in bodies.items():
                self.put(key, body)
        else:
            self._put_ahead(bodies)

    def refresh(self) -> bool:
        """Before the commit is sent: put again, once, what may have been collected while the process slept.

        Answers whether it did. Raises Unavailable where that does not succeed: nothing names the blobs yet.
        """
        if self._looked is None or self._looked.age_seconds() <= OBSERVATION_SECONDS_MAX:
            return False
        looked = Observation(self._environment.clock)
        try:
            self._put(self._ahead)
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
        bodies = list(self._ahead.items())
        size = 1 if len(bodies) < TOGETHER_MIN else RENEWED_TOGETHER
        for start in range(0, len(bodies), size):
            self._put_again(dict(bodies[start : start + size]))

    def _put_ahead(self, bodies: Mapping[str, bytes]) -> None:
        bodies = {key: body for key, body in bodies.items() if key not in self._ahead}
        if not bodies:
            return
        if self._deferred is not None:
            self._deferred.update(bodies)
            return
        self._looked = self._looked or Observation(self._environment.clock)
        self._ahead.update(bodies)
        self._put(bodies)

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
                    raise OutcomeUnknown("the blobs of a commit that may stand could not be put again") from exc
