"""Upload: the blobs of one commit, put before it is sent, and once more where its answer was long in coming."""

from __future__ import annotations

from stratalog.clock import Observation
from stratalog.errors import OutcomeUnknown, Unavailable
from stratalog.limits import GRACE_SECONDS
from stratalog.log.bodies import BodyRef, write_body
from stratalog.log.patience import Patience
from stratalog.log.place import Place

__all__ = ["Upload"]


class Upload:
    """Blob first, index second: made before the first blob is put, and asked to renew once the commit was answered.

    A collector takes what is unreferenced and old. What a commit put is young while the commit may be under way, as
    long as it is not half the grace old when it is answered; then it is put again (DESIGN §5, “Collecting blobs”).
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._looked: Observation | None = None
        self._written: list[tuple[str, bytes]] = []

    def write(self, prefix: str, body: bytes) -> BodyRef:
        """Store ``body`` under ``prefix``. Raises what ``put`` raises."""
        self._looked = self._looked or Observation(self._place.clock)
        self._written.append((prefix, body))
        return write_body(self._place.blobs, prefix, body)

    def renew(self) -> None:
        """Put again what grew old meanwhile, with patience: a commit that stands, or may, would dangle without it.

        Raises OutcomeUnknown where that does not succeed.
        """
        if self._looked is None or self._looked.age_seconds() <= GRACE_SECONDS / 2:
            return
        for prefix, body in self._written:
            self._put_again(prefix, body)

    def _put_again(self, prefix: str, body: bytes) -> None:
        patience = Patience(self._place)
        while True:
            try:
                write_body(self._place.blobs, prefix, body)
                return
            except (Unavailable, OutcomeUnknown) as exc:
                if not patience.wait():
                    text = "the blobs of a commit that may stand could not be put again"
                    raise OutcomeUnknown(text, prefix=prefix) from exc
